"""The change between two models is that of whole tensors in float64, whatever their files hold."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

import ace_gui
from ace_gui.errors import CheckpointError, PickleConsentError, RecipeError
from tests.helpers.checkpoints import save_model, small_tensors
from tests.helpers.models import roberta_family


def oracle(first: torch.Tensor, second: torch.Tensor) -> tuple[float, float]:
    """‖A‖ and ‖B − A‖ of whole tensors in float64."""
    a, b = first.double().numpy(), second.double().numpy()
    return float(np.linalg.norm(a)), float(np.linalg.norm(b - a))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_tensor_block_and_role(tmp_path: Path, dtype: torch.dtype) -> None:
    family = roberta_family(tmp_path, experts=1)
    [expert] = family.experts.values()
    second = load_file(expert / "model.safetensors")
    second = {name: value.to(dtype).contiguous() for name, value in second.items()}
    save_model(tmp_path / "second", second, shards=2)
    first = load_file(family.base / "model.safetensors")
    found = ace_gui.diff(family.base, tmp_path / "second")
    assert {each.name for each in found.tensors} <= set(first)
    assert len(found.tensors) > 10
    squares: dict[tuple[str, object], list[tuple[float, float]]] = {}
    for each in found.tensors:
        norm, change = oracle(first[each.name], second[each.second_name])
        assert (each.norm, each.change) == pytest.approx((norm, change), rel=1e-12)
        for key in (("role", each.role), ("block", str(each.block))):
            squares.setdefault(key, []).append((norm, change))
    for kind, groups in (("role", found.by_role), ("block", found.by_block)):
        for group in groups:
            own = squares[kind, "None" if group.name == "outside" else group.name]
            assert group.change == pytest.approx(math.hypot(*(one[1] for one in own)), rel=1e-12)
            assert group.tensors == len(own)


def test_parts_add_up(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, second = torch.randn(1100, 1000), torch.randn(1100, 1000)  # more than one part
    for name, value in (("a", first), ("b", second)):
        save_model(tmp_path / name, {"layer.0.weight": value})
    [each] = ace_gui.diff(tmp_path / "a", tmp_path / "b").tensors
    assert (each.norm, each.change) == pytest.approx(oracle(first, second), rel=1e-12)


def test_what_only_one_has_is_named(tmp_path: Path) -> None:
    names = ("same", "reshaped", "gone", "zero", "broken")
    first = {f"{name}.weight": torch.ones(2, 3) for name in names}
    second = dict(first)
    first["zero.weight"] = torch.zeros(2, 3)
    second["broken.weight"] = torch.full((2, 3), math.nan)
    second["new.weight"] = second.pop("gone.weight")[:1]
    second["reshaped.weight"] = torch.ones(3, 2)
    for name, tensors in (("a", first), ("b", second)):
        save_model(tmp_path / name, tensors)
    found = ace_gui.diff(tmp_path / "a", tmp_path / "b")
    relative = {each.name: each.relative for each in found.tensors}
    assert relative == {"same.weight": 0.0, "zero.weight": None, "broken.weight": None}
    assert found.missing == ("gone.weight",)
    assert found.extra == ("new.weight",)
    assert found.other_shape == (("reshaped.weight", (2, 3), (3, 2)),)


def test_a_tied_head_is_compared_with_the_embedding(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 11, "n_positions": 5}
    for name, tied in (("tied", True), ("untied", False)):
        config = GPT2Config(**sizes, tie_word_embeddings=tied)
        GPT2LMHeadModel(config).save_pretrained(tmp_path / name)
    embedding = load_file(tmp_path / "tied" / "model.safetensors")["transformer.wte.weight"]
    head = load_file(tmp_path / "untied" / "model.safetensors")["lm_head.weight"]
    for first, second in (("tied", "untied"), ("untied", "tied")):
        found = ace_gui.diff(tmp_path / first, tmp_path / second)
        assert not found.missing
        assert not found.extra
        [own] = [each for each in found.tensors if each.name == "lm_head.weight"]
        assert own.change == pytest.approx(oracle(embedding, head)[1], rel=1e-12)


def test_pickles_need_consent_and_models_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tensors = small_tensors(2)
    save_model(tmp_path / "a", tensors)
    save_model(tmp_path / "b", tensors)
    (tmp_path / "b" / "model.safetensors").unlink()
    torch.save(tensors, tmp_path / "b" / "pytorch_model.bin")
    with pytest.raises(PickleConsentError):
        ace_gui.diff(tmp_path / "a", tmp_path / "b")
    assert ace_gui.diff(tmp_path / "a", tmp_path / "b", convert=True).total.change == 0
    with pytest.raises(RecipeError, match="nothing-here"):
        ace_gui.diff(tmp_path / "a", tmp_path / "nothing-here")
    (tmp_path / "a" / "model.safetensors").write_bytes(b"{}")
    with pytest.raises(CheckpointError):
        ace_gui.diff(tmp_path / "a", tmp_path / "b")


def test_a_frame_has_one_line_per_tensor(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    save_model(tmp_path / "a", small_tensors(3))
    found = ace_gui.diff(tmp_path / "a", tmp_path / "a")
    assert found.to_frame()["relative"].tolist() == [0.0] * 3
    assert repr(found) == "<ModelDiff: 0 of 3 tensors changed, 0 of the first's norm>"
