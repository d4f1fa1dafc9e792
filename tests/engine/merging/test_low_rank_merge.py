"""Merges of adapters in coordinates of few outputs: what is written is the same."""

from pathlib import Path
from typing import Any

import peft
import pytest
from safetensors.torch import load_file
from torch import Tensor

import ace_gui
from ace_gui.engine.merging import low_rank_merge
from ace_gui.engine.merging.task_vectors import TaskVectors
from ace_gui.engine.planning.prepare import prepare
from ace_gui.methods.shared.low_rank import output_basis
from ace_gui.recipe import Recipe
from ace_gui.recipe.new_recipes import recommended_keys
from ace_gui.recipe.recipe_file import recipe_from
from tests.helpers.adapters import gpt2, llama
from tests.helpers.merges import merged_tensors
from tests.helpers.peft_adapters import save_base_and_adapters

LARGEST_ERROR = 1e-5

pytestmark = pytest.mark.filterwarnings("ignore")


def adapters(folder: Path, make: Any, settings: list[dict[str, Any]]) -> tuple[Path, list[Path]]:
    return save_base_and_adapters(folder, make, [peft.LoraConfig(**config) for config in settings])


@pytest.fixture
def bases_made(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The bases of outputs in which matrices are merged."""
    bases: list[Tensor] = []

    def noted(lefts: list[Tensor]) -> Tensor:
        bases.append(output_basis(lefts))
        return bases[-1]

    monkeypatch.setattr(low_rank_merge, "output_basis", noted)
    return bases


def recipe_over(base: Path, adapter_folders: list[Path], **keys: Any) -> Recipe:
    """The recommended merge, with other keys."""
    models = [{"model": str(folder)} for folder in adapter_folders]
    recipe = {"schema": 1, "base_model": str(base), "models": models}
    return recipe_from({**recipe, **recommended_keys(), **keys})


def merged(base: Path, adapter_folders: list[Path], store: Path, **keys: Any) -> dict[str, Tensor]:
    return merged_tensors(prepare(recipe_over(base, adapter_folders, **keys)), store)


def written_products(recipe: Recipe, out: Path) -> dict[str, Tensor]:
    """The changes B·A of an adapter that is written, by the name of A."""
    ace_gui.merge(recipe, out, device="cpu")
    tensors = load_file(out / "adapter_model.safetensors")
    products = {}
    for name, a_RI in tensors.items():
        if "lora_A" in name:
            products[name] = tensors[name.replace("lora_A", "lora_B")].double() @ a_RI.double()
    return products


CASES: dict[str, tuple[Any, list[dict[str, Any]], int]] = {
    "linear layers": (
        lambda: llama(hidden_size=64, intermediate_size=96),
        [{"r": 3, "target_modules": ["q_proj", "down_proj"]}, {"r": 4, "lora_alpha": 5}],
        6,
    ),
    "Conv1D": (
        gpt2,
        [{"r": 1, "target_modules": ["c_attn"], "fan_in_fan_out": True}] * 2,
        2,
    ),
    "DoRA is no product": (
        lambda: llama(hidden_size=64, intermediate_size=96),
        [{"r": 3, "target_modules": ["q_proj"], "use_dora": True}, {"r": 3}],
        2,
    ),
}
"""A model, its adapters, and how many matrices are merged in coordinates."""


@pytest.mark.parametrize("case", CASES)
def test_merge_is_that_of_whole_matrices(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bases_made: list[Tensor]
) -> None:
    make, configs, count = CASES[case]
    base, adapter_folders = adapters(tmp_path, make, configs)
    tensors = merged(base, adapter_folders, tmp_path / "store")
    assert len(bases_made) == count
    monkeypatch.setattr(TaskVectors, "low_rank", lambda _deltas: None)
    expected = merged(base, adapter_folders, tmp_path / "whole")
    base_tensors = make().from_pretrained(base).state_dict()
    for name, tensor in expected.items():
        change = (tensor - base_tensors[name]).double()
        error = (tensors[name] - tensor).double().norm()
        assert error <= LARGEST_ERROR * max(float(change.norm()), 1e-3), name


@pytest.mark.parametrize("size", [{}, {"rank": 4}, {"energy": 0.9}], ids=str)
@pytest.mark.parametrize("case", ["linear layers", "Conv1D"])
def test_adapter_is_that_of_whole_matrices(
    case: str,
    size: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bases_made: list[Tensor],
) -> None:
    make, configs, _ = CASES[case]
    base, adapter_folders = adapters(tmp_path, make, configs)
    recipe = recipe_over(base, adapter_folders, output="adapter", **size)
    products = written_products(recipe, tmp_path / "out")
    assert bases_made
    monkeypatch.setattr(TaskVectors, "low_rank", lambda _deltas: None)
    expected = written_products(recipe, tmp_path / "whole")
    assert products.keys() == expected.keys()
    for name, product_OI in expected.items():
        error = (products[name] - product_OI).norm()
        assert error <= LARGEST_ERROR * product_OI.norm(), name


@pytest.mark.parametrize(
    "keys",
    [
        {"merge_method": "iso_c", "parameters": {}},
        {"after": {"rank": 0.5, "spectrum": 0.5}},
    ],
    ids=["another method", "keeps a share of the directions"],
)
def test_whole_matrices_are_merged_where_their_size_counts(
    keys: dict[str, Any], tmp_path: Path, bases_made: list[Tensor]
) -> None:
    make, configs, _ = CASES["linear layers"]
    base, adapter_folders = adapters(tmp_path, make, configs)
    merged(base, adapter_folders, tmp_path / "store", **keys)
    assert not bases_made
