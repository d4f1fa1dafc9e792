"""How far two models, or two merges of one base, are from each other."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

import ace_gui
from ace_gui.engine.contract.findings import LayerDifference
from ace_gui.engine.contract.jobs import DiffJob
from ace_gui.engine.contract.plan import COMBINED
from ace_gui.engine.inspecting.model_diff import difference
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import (
    CheckpointError,
    MismatchError,
    OutputError,
    PickleConsentError,
    RecipeError,
)
from tests.helpers.checkpoints import save_model, small_tensors
from tests.helpers.merges import row_named, singular_values, tensor
from tests.helpers.models import Family, gpt2_family, roberta_family
from tests.helpers.recipes import recipe_of


def oracle(first: torch.Tensor, second: torch.Tensor) -> tuple[float, float]:
    """‖A‖ and ‖B − A‖ of whole tensors in float64."""
    a = first.double().numpy()
    b = second.double().numpy()
    return float(np.linalg.norm(a)), float(np.linalg.norm(b - a))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_tensor_block_and_role(tmp_path, dtype: torch.dtype):
    family = roberta_family(tmp_path, experts=1)
    [expert] = family.experts.values()
    second = load_file(expert / "model.safetensors")
    second = {name: value.to(dtype).contiguous() for name, value in second.items()}
    save_model(tmp_path / "second", second, shards=2)
    first = load_file(family.base / "model.safetensors")
    diff = ace_gui.diff(family.base, tmp_path / "second")
    *_, last = steps_of(DiffJob(first=family.base, second=tmp_path / "second"), None)
    assert last == diff
    assert {tensor.name for tensor in diff.tensors} <= set(first)
    assert len(diff.tensors) > 10
    squares: dict[tuple[str, object], list[tuple[float, float]]] = {}
    for row in diff.tensors:
        norm, change = oracle(first[row.name], second[row.second_name])
        assert (row.norm, row.change) == pytest.approx((norm, change), rel=1e-12)
        for key in (("role", row.role), ("block", str(row.block))):
            squares.setdefault(key, []).append((norm, change))
    for kind, groups in (("role", diff.by_role), ("block", diff.by_block)):
        for group in groups:
            pairs = squares[kind, "None" if group.name == "outside" else group.name]
            assert group.change == pytest.approx(
                math.hypot(*(pair[1] for pair in pairs)), rel=1e-12
            )
            assert group.tensors == len(pairs)


def test_parts_add_up(tmp_path):
    torch.manual_seed(0)
    # more than one part
    first = torch.randn(1100, 1000)
    second = torch.randn(1100, 1000)
    for name, value in (("a", first), ("b", second)):
        save_model(tmp_path / name, {"layer.0.weight": value})
    [row] = ace_gui.diff(tmp_path / "a", tmp_path / "b").tensors
    assert (row.norm, row.change) == pytest.approx(oracle(first, second), rel=1e-12)


def test_what_only_one_has_is_named(tmp_path):
    names = ("same", "reshaped", "gone", "zero", "broken")
    first = {f"{name}.weight": torch.ones(2, 3) for name in names}
    second = dict(first)
    first["zero.weight"] = torch.zeros(2, 3)
    second["broken.weight"] = torch.full((2, 3), math.nan)
    second["new.weight"] = second.pop("gone.weight")[:1]
    second["reshaped.weight"] = torch.ones(3, 2)
    for name, tensors in (("a", first), ("b", second)):
        save_model(tmp_path / name, tensors)
    diff = ace_gui.diff(tmp_path / "a", tmp_path / "b")
    relative = {tensor.name: tensor.relative for tensor in diff.tensors}
    assert relative == {"same.weight": 0.0, "zero.weight": None, "broken.weight": None}
    assert diff.missing == ("gone.weight",)
    assert diff.extra == ("new.weight",)
    assert diff.other_shape == (("reshaped.weight", (2, 3), (3, 2)),)


def test_a_tied_head_is_compared_with_the_embedding(tmp_path):
    torch.manual_seed(0)
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 11, "n_positions": 5}
    for name, tied in (("tied", True), ("untied", False)):
        config = GPT2Config(**sizes, tie_word_embeddings=tied)
        GPT2LMHeadModel(config).save_pretrained(tmp_path / name)
    embedding = load_file(tmp_path / "tied" / "model.safetensors")["transformer.wte.weight"]
    head = load_file(tmp_path / "untied" / "model.safetensors")["lm_head.weight"]
    for first, second in (("tied", "untied"), ("untied", "tied")):
        diff = ace_gui.diff(tmp_path / first, tmp_path / second)
        assert not diff.missing
        assert not diff.extra
        [row] = [tensor for tensor in diff.tensors if tensor.name == "lm_head.weight"]
        assert row.change == pytest.approx(oracle(embedding, head)[1], rel=1e-12)


def test_pickles_need_consent_and_models_must_be_there(own_cache):
    tensors = small_tensors(2)
    save_model(own_cache / "a", tensors)
    save_model(own_cache / "b", tensors)
    (own_cache / "b" / "model.safetensors").unlink()
    torch.save(tensors, own_cache / "b" / "pytorch_model.bin")
    with pytest.raises(PickleConsentError):
        ace_gui.diff(own_cache / "a", own_cache / "b")
    assert ace_gui.diff(own_cache / "a", own_cache / "b", convert=True).total.change == 0
    with pytest.raises(RecipeError, match="nothing-here"):
        ace_gui.diff(own_cache / "a", own_cache / "nothing-here")
    (own_cache / "a" / "model.safetensors").write_bytes(b"{}")
    with pytest.raises(CheckpointError):
        ace_gui.diff(own_cache / "a", own_cache / "b")


def test_a_frame_has_one_line_per_tensor(tmp_path):
    pytest.importorskip("pandas")
    save_model(tmp_path / "a", small_tensors(3))
    diff = ace_gui.diff(tmp_path / "a", tmp_path / "a")
    assert diff.to_frame()["relative"].tolist() == [0.0] * 3
    assert repr(diff) == "<ModelDiff: 0 of 3 tensors changed, 0 of the first's norm>"


UP = "layer.1.intermediate.dense.weight"


@pytest.fixture(scope="module")
def stores(prepared: Prepared, tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("stores")
    linear = prepare(dataclasses.replace(prepared.plan.recipe, merge_method="linear"))
    return merged(prepared, folder / "ace"), merged(linear, folder / "linear")


def merged(prepared: Prepared, store: Path) -> Path:
    list(merge(prepared, store, device="cpu"))
    return store


def answers(first: Path, second: Path, row: object = None) -> list[LayerDifference]:
    steps = difference(first, second, row)
    return [step for step in steps if step is not None]


def test_one_matrix_with_its_spectra(
    roberta: Family, prepared: Prepared, stores: tuple[Path, Path]
):
    row = row_named(prepared, UP)
    (comparison,) = answers(*stores, row)
    base, *ours = (
        tensor(folder, row.name).astype(np.float64)
        for folder in (roberta.base, *(store / MODEL for store in stores))
    )
    first, second = (weight - base for weight in ours)
    norms = [np.linalg.norm(matrix) for matrix in (first, second, first - second)]
    assert comparison.name == row.name
    assert (
        comparison.first_norm,
        comparison.second_norm,
        comparison.difference_norm,
    ) == pytest.approx(norms)
    assert comparison.cosine == pytest.approx((first * second).sum() / norms[0] / norms[1])
    for values, change in ((comparison.first, first), (comparison.second, second)):
        np.testing.assert_allclose(values, singular_values(change), rtol=1e-4, atol=1e-9)


def test_every_tensor_that_is_combined(prepared: Prepared, stores: tuple[Path, Path]):
    comparisons = answers(*stores)
    combined = [row.name for row in prepared.plan.rows if row.disposition in COMBINED]
    assert [comparison.name for comparison in comparisons] == combined
    assert all(comparison.first is None for comparison in comparisons)
    by_name = {comparison.name: comparison for comparison in comparisons}
    for row in prepared.plan.rows:
        if row.name in by_name and len(row.shape) == 1:
            assert by_name[row.name].difference_norm == 0, "both average vectors"
            assert by_name[row.name].cosine == pytest.approx(1)
        elif row.name.endswith(UP):
            assert by_name[row.name].difference_norm > 0


def test_a_part_of_a_fused_tensor_is_compared_alone(tmp_path):
    family = gpt2_family(tmp_path / "models", experts=2)
    recipe = recipe_of(family, split_fused=True)
    split = prepare(recipe)
    row = row_named(split, "h.1.attn.c_attn.weight[key]")
    first = merged(split, tmp_path / "ace")
    second = merged(prepare(dataclasses.replace(recipe, merge_method="linear")), tmp_path / "mean")
    (comparison,) = answers(first, second, row)
    key = slice(row.shape[0], 2 * row.shape[0])
    base, ours = (tensor(folder, row.tensor)[:, key] for folder in (family.base, first / MODEL))
    change = (ours - base).astype(np.float64)
    assert comparison.first_norm == pytest.approx(np.linalg.norm(change))
    assert comparison.first is not None
    np.testing.assert_allclose(comparison.first, singular_values(change), rtol=1e-4, atol=1e-6)
    names = {answer.name for answer in answers(first, second)}
    assert {f"{row.tensor}[{part}]" for part in ("query", "key", "value")} <= names


def test_a_tensor_that_one_merge_left_alone_has_no_cosine(
    prepared: Prepared, stores: tuple[Path, Path], tmp_path
):
    recipe = dataclasses.replace(prepared.plan.recipe, scope="authors-roberta")
    untouched = merged(prepare(recipe), tmp_path / "kept")
    vectors = [
        answer for answer in answers(stores[0], untouched) if answer.name.endswith("dense.bias")
    ]
    assert vectors
    assert all(vector.second_norm == 0 and math.isnan(vector.cosine) for vector in vectors)


def test_merges_of_different_bases_are_not_compared(stores: tuple[Path, Path], tmp_path):
    other_family = roberta_family(tmp_path / "other", experts=2, seed=1)
    theirs = merged(prepare(recipe_of(other_family)), tmp_path / "theirs")
    with pytest.raises(MismatchError, match="compare merges of one base"):
        answers(stores[0], theirs)


def test_what_is_not_there_is_said(prepared: Prepared, stores: tuple[Path, Path], tmp_path):
    with pytest.raises(OutputError, match="not complete"):
        answers(stores[0], tmp_path)
    head = dataclasses.replace(row_named(prepared, UP), name="classifier.weight")
    with pytest.raises(MismatchError, match=r"classifier\.weight"):
        answers(*stores, head)
