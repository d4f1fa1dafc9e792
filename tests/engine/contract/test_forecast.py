"""What is said of a merge before it is made, against the same figures by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.model_figures import forecast
from ace_gui.engine.contract.plan import (
    Disposition,
    ExpertSummary,
    Plan,
    PlanRow,
    RowAfter,
    RowOverride,
)
from ace_gui.recipe import ModelEntry, Recipe

NAMES = ("q0", "q1", "up0", "up1")


def row(name: str, **changes: object) -> PlanRow:
    values = {
        "role": name[:-1], "shape": (4, 4), "dtype": "F32", "disposition": Disposition.MERGED,
        "reason": "", "experts": (0, 1),
    }  # fmt: skip
    return PlanRow(name=name, **{**values, **changes})


ROWS = tuple(row(name) for name in NAMES)
SUMMARY = ExpertSummary(name="a", path="/a", bytes=1, dtype="F32", architecture="Toy")
RECIPE = Recipe(base_model=Path("/base"), models=(ModelEntry(model=Path("/a")),))


def plan(rows: tuple[PlanRow, ...] = ROWS, **parameters: object) -> Plan:
    return Plan(
        recipe=RECIPE, base=SUMMARY, experts=(SUMMARY, SUMMARY), rows=rows,
        parameters=parameters, parameter_notes={}, heterogeneity=True,
    )  # fmt: skip


def statistics(*scales: float) -> dict[str, LayerStatistics]:
    """Two experts of norm 3 and 4, times a scale a matrix, on a base of norm 100."""
    return {
        name: LayerStatistics(
            name=name, energies={"a": (3 * s) ** 2, "b": (4 * s) ** 2}, base_energy=1e4
        )
        for name, s in zip(NAMES, scales, strict=True)
    }


def reports(**lengths: float) -> dict[str, LayerReport]:
    return {name: LayerReport(name=name, delta_norm=length) for name, length in lengths.items()}


RMS = math.sqrt((9 + 16) / 2)
ALLOWED = math.sqrt(2) * RMS  # below δ · 100


def test_all_of_them_give_the_exact_figures():
    layer_reports = reports(q0=3.0, q1=4.0, up0=6.0, up1=ALLOWED)
    made = forecast(plan(), statistics(1, 1, 1, 1), layer_reports)
    square = 9 + 16 + 36 + ALLOWED**2
    assert made.relative_norm == pytest.approx(math.sqrt(square) / (2 * (3 + 4) / 2))
    assert (made.above, made.exact, made.total) == (1, True, 4)
    assert "Estimated" not in made.sentence
    assert "1 of 4 matrices above a cap of δ = 0.12" in made.sentence


def test_a_matrix_is_estimated_from_those_like_it():
    made = forecast(plan(), statistics(1, 2, 1, 2), reports(q0=10.0, up0=1.0))
    square = 100 + 20**2 + 1 + 2**2  # as long by the experts' as q0 and up0
    experts = math.sqrt(2 * (1 + 4)) * 3.5
    assert made.relative_norm == pytest.approx(math.sqrt(square) / experts)
    assert (made.above, made.known, made.total) == (2, 2, 4)
    assert "Estimated from 2 of 4 matrices." in made.sentence


def test_one_without_any_like_it_follows_all_others():
    made = forecast(plan(), statistics(1, 1, 1, 1), reports(q0=2.0))
    assert made.relative_norm == pytest.approx(2 * math.sqrt(4) / (2 * 3.5))


@pytest.mark.parametrize("of", ["recipe", "variant"])
def test_under_a_cap_lengths_are_as_it_leaves_them(of: str):
    rows = tuple(replace(r, after=RowAfter(cap=0.12)) for r in ROWS) if of == "recipe" else ROWS
    values = {} if of == "recipe" else {"variant": "automatic", "delta": 0.12}
    layer_reports = reports(q0=ALLOWED, up0=1.0)
    layer_reports["q0"] = replace(layer_reports["q0"], cap_factor=0.1)
    made = forecast(plan(rows, **values), statistics(1, 1, 1, 1), layer_reports)
    assert (made.capped, made.above) == (True, 2)
    square = 2 * ALLOWED**2 + 2 * 1.0
    assert made.relative_norm == pytest.approx(math.sqrt(square) / (2 * 3.5))
    assert "the cap scales down about 2 of 4" in made.sentence


def test_a_layer_of_the_automatic_variant_alone_makes_no_cap_of_all():
    override = RowOverride(
        method="ace", parameters={"variant": "automatic", "delta": 0.5}, weights=(1.0, 1.0),
        rules=(0,),
    )  # fmt: skip
    rows = (replace(ROWS[0], override=override), *ROWS[1:])
    of = plan(rows, variant="published")
    assert [of.delta_of(row) for row in rows] == [0.5, None, None, None]
    made = forecast(of, statistics(1, 1, 1, 1), reports(q0=1.0))
    assert not made.capped
    assert "above their cap" in made.sentence


def test_only_merged_matrices_count_and_all_tensors_are_long():
    rows = (
        *ROWS[:1],
        row("q1", shape=(4,)),
        row("up0", disposition=Disposition.AVERAGED),
        row("up1", tied_to="q0"),
    )
    made = forecast(plan(rows), statistics(1, 1, 1, 1), reports(q0=1.0, q1=9.0, up0=9.0, up1=9.0))
    assert made.total == 1
    three = math.sqrt(1 + 2 * 81) / (math.sqrt(3) * 3.5)
    assert made.relative_norm == pytest.approx(three), "the tied tensor counts once"


def test_nothing_is_said_where_nothing_is_known():
    assert forecast(plan(), statistics(1, 1, 1, 1), {}) is None
    assert forecast(plan(), {}, reports(q0=1.0)) is None
    assert forecast(plan(), statistics(0, 0, 0, 0), reports(q0=0.0)) is None
