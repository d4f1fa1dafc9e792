"""Which matrices a GPU merges together."""

from dataclasses import replace

import pytest
import torch

from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.merging import units as module
from ace_gui.engine.merging.units import Unit, whole_units
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.recipe import Override
from tests.helpers.models import gpt2_family, roberta_family
from tests.helpers.recipes import recipe_of

SQUARE = 32 * 32


@pytest.fixture
def rows(prepared: Prepared) -> list[PlanRow]:
    return [row for row in prepared.plan.rows if row.in_base]


def matrices(rows: list[PlanRow]) -> list[PlanRow]:
    return [row for row in rows if row.disposition == Disposition.MERGED]


def batches(rows: list[PlanRow], prepared: Prepared) -> list[Unit]:
    return whole_units(rows, prepared, torch.device("cuda"))


def of_square_ones(units: list[Unit]) -> list[int]:
    return [len(batch) for batch in units if batch[0].shape == (32, 32)]


def test_every_matrix_is_in_one_batch_and_nothing_else_is(rows: list[PlanRow], prepared: Prepared):
    for units in (batches(rows, prepared), whole_units(rows, prepared, torch.device("cpu"))):
        assert sorted(row.name for batch in units for row in batch) == sorted(
            row.name for row in matrices(rows)
        )
    assert {len(batch) for batch in whole_units(rows, prepared, torch.device("cpu"))} == {1}


def test_a_batch_has_one_shape_and_the_plans_order(rows: list[PlanRow], prepared: Prepared):
    indices = {row.name: index for index, row in enumerate(rows)}
    positions = [[indices[row.name] for row in batch] for batch in batches(rows, prepared)]
    assert all(batch == sorted(batch) for batch in positions)
    assert [batch[0] for batch in positions] == sorted(batch[0] for batch in positions)
    for batch in batches(rows, prepared):
        assert len({row.shape for row in batch}) == 1
    assert max(of_square_ones(batches(rows, prepared))) >= 8


@pytest.mark.parametrize(
    ("full", "sizes"), [(3, [2, 3, 3]), (4, [4, 4]), (1, [1] * 8), (0, [1] * 8)]
)
def test_a_batch_is_no_larger_than_what_fills_a_gpu(
    full: int, sizes: list[int], rows: list[PlanRow], prepared: Prepared, monkeypatch
):
    monkeypatch.setattr(module, "FULL", full * SQUARE)
    layers = [row for row in rows if row.block is not None]
    assert of_square_ones(batches(layers, prepared)) == sizes


def test_what_waits_for_the_first_of_its_shape_is_bounded(
    rows: list[PlanRow], prepared: Prepared, monkeypatch
):
    """Two matrices of a feed-forward network are twice as large: a block is a window."""
    monkeypatch.setattr(module, "AHEAD", 8 * SQUARE)
    layers = [row for row in rows if row.block is not None]
    units = batches(layers, prepared)
    assert of_square_ones(units) == [4, 4]
    assert all(len({row.block for row in batch}) == 1 for batch in units)
    monkeypatch.setattr(module, "AHEAD", 0)
    assert batches(rows, prepared) == whole_units(rows, prepared, torch.device("cpu"))


def test_what_is_done_to_them_must_be_the_same(rows: list[PlanRow], prepared: Prepared):
    layers = [row for row in rows if row.block is not None and row.shape == (32, 32)]
    layers[0] = replace(layers[0], experts=(0, 2))
    layers[1] = replace(layers[1], dtype="F64")
    layers[2] = replace(layers[2], transposed=True)
    names = [[row.name for row in batch] for batch in batches(layers, prepared)]
    assert names == [[row.name] for row in layers[:3]] + [[row.name for row in layers[3:]]]


def test_overridden_matrices_go_with_those_of_the_same_method_and_parameters(tmp_path):
    overrides = (
        Override(pattern="*.key.weight", parameters={"tau": 0.1}),
        Override(pattern="*.value.weight", merge_method="tsv_m"),
        Override(pattern="*.query.weight", weights={"task1": 0.5}),
    )
    prepared = prepare(recipe_of(roberta_family(tmp_path), overrides=overrides))
    layers = [row for row in prepared.plan.rows if row.block is not None]
    roles = [
        {row.name.split(".")[-2] for row in batch}
        for batch in batches(layers, prepared)
        if batch[0].shape == (32, 32)
    ]
    assert roles == [{"query", "dense"}, {"key"}, {"value"}, {"value"}]


def test_methods_without_a_batch_are_merged_one_by_one(tmp_path):
    prepared = prepare(recipe_of(gpt2_family(tmp_path), merge_method="tsv_m"))
    rows = [row for row in prepared.plan.rows if row.in_base]
    assert batches(rows, prepared) == whole_units(rows, prepared, torch.device("cpu"))
