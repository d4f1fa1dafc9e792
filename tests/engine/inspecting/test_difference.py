"""Two finished merges of one base, compared tensor by tensor, against their files."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from ace_gui.engine.contract.figures.findings import LayerDifference
from ace_gui.engine.contract.plan import COMBINED
from ace_gui.engine.inspecting.model_diff import difference
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import MismatchError, OutputError
from tests.helpers.inspected import row_named, singular_values, tensor
from tests.helpers.models import Family, gpt2_family, roberta_family
from tests.helpers.recipes import recipe_of

UP = "layer.1.intermediate.dense.weight"


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return roberta_family(tmp_path_factory.mktemp("roberta"), experts=2)


@pytest.fixture(scope="module")
def prepared(family: Family) -> Prepared:
    return prepare(recipe_of(family))


@pytest.fixture(scope="module")
def stores(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("stores")
    linear = prepare(dataclasses.replace(prepared.plan.recipe, merge_method="linear"))
    return merged(prepared, folder / "ace"), merged(linear, folder / "linear")


def merged(prepared: Prepared, store: Path) -> Path:
    for _ in merge(prepared, store, device="cpu"):
        pass
    return store


def answers(first: Path, second: Path, row: object = None) -> list[LayerDifference]:
    steps = difference(first, second, row)  # type: ignore[arg-type]
    return [step for step in steps if step is not None]


def test_one_matrix_with_its_spectra(
    family: Family, prepared: Prepared, stores: tuple[Path, Path]
) -> None:
    row = row_named(prepared, UP)
    (found,) = answers(*stores, row)
    base, *ours = (
        tensor(folder, row.name).astype(np.float64)
        for folder in (family.base, *(store / MODEL for store in stores))
    )
    first, second = (weight - base for weight in ours)
    assert found.name == row.name
    assert found.first_norm == pytest.approx(np.linalg.norm(first))
    assert found.second_norm == pytest.approx(np.linalg.norm(second))
    assert found.difference_norm == pytest.approx(np.linalg.norm(first - second))
    product = (first * second).sum() / np.linalg.norm(first) / np.linalg.norm(second)
    assert found.cosine == pytest.approx(product)
    for shown, change in ((found.first, first), (found.second, second)):
        assert shown is not None
        np.testing.assert_allclose(shown, singular_values(change), rtol=1e-4, atol=1e-9)


def test_every_tensor_that_is_combined(prepared: Prepared, stores: tuple[Path, Path]) -> None:
    found = answers(*stores)
    combined = [row.name for row in prepared.plan.rows if row.disposition in COMBINED]
    assert [each.name for each in found] == combined
    assert all(each.first is None for each in found)
    by_name = {each.name: each for each in found}
    for row in prepared.plan.rows:
        if row.name in by_name and len(row.shape) == 1:
            assert by_name[row.name].difference_norm == 0, "both average vectors"
            assert by_name[row.name].cosine == pytest.approx(1)
        elif row.name.endswith(UP):
            assert by_name[row.name].difference_norm > 0


def test_a_part_of_a_fused_tensor_is_compared_alone(tmp_path: Path) -> None:
    family = gpt2_family(tmp_path / "models", experts=2)
    recipe = recipe_of(family, split_fused=True)
    split = prepare(recipe)
    row = row_named(split, "h.1.attn.c_attn.weight[key]")
    first = merged(split, tmp_path / "ace")
    second = merged(prepare(dataclasses.replace(recipe, merge_method="linear")), tmp_path / "mean")
    (found,) = answers(first, second, row)
    key = slice(row.shape[0], 2 * row.shape[0])
    base, ours = (tensor(folder, row.tensor)[:, key] for folder in (family.base, first / MODEL))
    change = (ours - base).astype(np.float64)
    assert found.first_norm == pytest.approx(np.linalg.norm(change))
    assert found.first is not None
    np.testing.assert_allclose(found.first, singular_values(change), rtol=1e-4, atol=1e-6)
    names = {each.name for each in answers(first, second)}
    assert {f"{row.tensor}[{part}]" for part in ("query", "key", "value")} <= names


def test_a_tensor_that_one_merge_left_alone_has_no_cosine(
    prepared: Prepared, stores: tuple[Path, Path], tmp_path: Path
) -> None:
    recipe = dataclasses.replace(prepared.plan.recipe, scope="authors-roberta")
    kept = merged(prepare(recipe), tmp_path / "kept")
    vectors = [each for each in answers(stores[0], kept) if each.name.endswith("dense.bias")]
    assert vectors
    assert all(each.second_norm == 0 and math.isnan(each.cosine) for each in vectors)


def test_merges_of_different_bases_are_not_compared(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    other = roberta_family(tmp_path / "other", experts=2, seed=1)
    theirs = merged(prepare(recipe_of(other)), tmp_path / "theirs")
    with pytest.raises(MismatchError, match="compare merges of one base"):
        answers(stores[0], theirs)


def test_what_is_not_there_is_said(
    prepared: Prepared, stores: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(OutputError, match="not complete"):
        answers(stores[0], tmp_path)
    head = dataclasses.replace(row_named(prepared, UP), name="classifier.weight")
    with pytest.raises(MismatchError, match=r"classifier\.weight"):
        answers(*stores, head)
