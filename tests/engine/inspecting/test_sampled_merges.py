"""Matrices merged beforehand: the reports of the merge itself, in good order and in good time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ace_gui.engine.contract.events import MethodCompared, Variant
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.contract.model_figures import forecast, matrices
from ace_gui.engine.inspecting import statistics
from ace_gui.engine.inspecting.compare_recipes import compare
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.inspecting.statistics import analyse, in_order, sampled
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.row_work import assumed_seconds
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import After, Cap
from tests.helpers.models import Family
from tests.helpers.recipes import recipe_of

CPU = torch.device("cpu")
ALL = After(rank=0.5, spectrum=0.5, depth=(0.5, 2.0), scale=-1.5, cap=Cap(delta=0.001))


@pytest.fixture(scope="module")
def recipe(roberta: Family) -> Recipe:
    return recipe_of(roberta)


@pytest.fixture(autouse=True)
def enough_time(monkeypatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(statistics, "TOTAL_SECONDS", 1e6)
    monkeypatch.setattr(statistics, "ONE_SECONDS", 1e6)


def all_sampled(prepared: Prepared, folder: Path) -> dict[str, LayerReport]:
    events = sampled(prepared, CPU, InspectionCache(folder))
    return {event.name: event for event in events if isinstance(event, LayerReport)}


@pytest.mark.parametrize(
    "changes",
    [{}, {"parameters": {"variant": "automatic"}}, {"after": ALL}]
    + [{"merge_method": name, "parameters": {}} for name in ("task_arithmetic", "dare_linear")],
)  # fmt: skip
def test_where_time_suffices_they_are_all_there_and_just_as_the_merge_reports_them(
    recipe: Recipe, changes: dict[str, Any], tmp_path
):
    prepared = prepare(replace(recipe, **changes))
    cache = InspectionCache(tmp_path / "cache")
    events = list(sampled(prepared, CPU, cache))
    sample_reports = {event.name: event for event in events if isinstance(event, LayerReport)}
    assert sample_reports.keys() == {row.name for row in matrices(prepared.plan)}
    variant = Variant(recipe=prepared.plan.recipe, store=tmp_path / "store")
    (merged,) = (event for event in compare([variant], "cpu") if isinstance(event, MethodCompared))
    reports = {report.name: report for report in merged.reports}
    for name, report in sample_reports.items():
        assert report.delta_norm == pytest.approx(reports[name].delta_norm, rel=1e-5)
        capped = reports[name].cap_factor
        assert report.cap_factor == (capped and pytest.approx(capped, rel=1e-5))
    statistics = {event.statistics.name: event.statistics for event in analyse(prepared)}
    before = forecast(prepared.plan, statistics, sample_reports)
    after = forecast(prepared.plan, statistics, reports)
    assert before.exact
    assert before.sentence == after.sentence


def test_no_time_no_samples_but_what_is_remembered_costs_none(
    recipe: Recipe, tmp_path, monkeypatch
):
    prepared = prepare(recipe)
    every = all_sampled(prepared, tmp_path)
    monkeypatch.setattr(statistics, "ONE_SECONDS", 0.0)
    assert all_sampled(prepared, tmp_path / "other") == {}
    assert all_sampled(prepared, tmp_path) == every
    monkeypatch.setattr(statistics, "TOTAL_SECONDS", -1.0)
    events = sampled(prepared, CPU, InspectionCache(tmp_path))
    assert [type(event) for event in events] == [LayerReport], "then it stops"


def test_one_of_each_role_and_shape_comes_first_and_the_least_work_before_more(recipe: Recipe):
    prepared = prepare(recipe)
    all_rows = list(matrices(prepared.plan))
    work = {row.tensor: assumed_seconds(row, prepared) for row in all_rows}
    rows = in_order(all_rows, work)
    kinds = {(row.role, row.shape) for row in rows}
    first = rows[: len(kinds)]
    assert {(row.role, row.shape) for row in first} == kinds
    seconds = [work[row.tensor] for row in first]
    assert seconds == sorted(seconds)
    assert len(rows) == len({row.tensor for row in rows}) == len(work)


def test_methods_that_look_at_the_whole_model_first_are_not_tried(recipe: Recipe, tmp_path):
    prepared = prepare(replace(recipe, merge_method="ties", parameters={"trim": "model"}))
    assert all_sampled(prepared, tmp_path) == {}
