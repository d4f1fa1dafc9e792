"""A mergekit file with gradients and filters merges to what mergekit's rules say, tensor by tensor.

The rules are transcribed here: of a parameter's conditions the first counts whose text the tensor's
name contains, and a list of values is interpolated over the blocks, its first value for the rest.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import RecipeError
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.mergekit_files import BLOCKS as MODEL_BLOCKS
from tests.helpers.mergekit_files import DEPARTS, EXAMPLES, REFUSED, SAME, make_models
from tests.helpers.merges import merged_tensors
from tests.helpers.models import Family, roberta_family

BLOCKS = 2
WEIGHTS: list[Any] = [
    [
        {"filter": "query", "value": 0.9},
        {"filter": "attention", "value": [0.1, 0.5]},
        {"value": 0.4},
    ],
    [0.2, 0.8],
    0.3,
]
DENSITY: Any = [{"filter": "intermediate", "value": 0.5}, {"value": 0.25}]


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return roberta_family(tmp_path_factory.mktemp("roberta"))


def value(setting: Any, name: str) -> float:
    """What a setting of mergekit's is for a tensor."""
    if isinstance(setting, list) and isinstance(setting[0], dict):
        setting = next(c["value"] for c in setting if c.get("filter", "") in name)
    if not isinstance(setting, list):
        return float(setting)
    block = re.search(r"layer\.(\d+)\.", name)
    index = (int(block[1]) / (BLOCKS - 1) if block else 0.0) * (len(setting) - 1)
    low = int(index)
    high = min(low + 1, len(setting) - 1)
    return float((1 - (index - low)) * setting[low] + (index - low) * setting[high])


def merged(folder: Path, family: Family, **document: Any) -> dict[str, Tensor]:
    entries = [
        {"model": str(path), "parameters": {"weight": weight}}
        for path, weight in zip(family.experts.values(), WEIGHTS, strict=True)
    ]
    path = folder / "mergekit.yaml"
    content = {"base_model": str(family.base), "models": entries, "dtype": "float32", **document}
    path.write_text(json.dumps(content))
    prepared = prepare(load_recipe(path))
    return merged_tensors(prepared, folder / "store", device="cpu", as_output=True)


def weighted(family: Family, name: str) -> list[tuple[float, Tensor]]:
    """Weight and change of every expert."""
    base = load_file(family.base / "model.safetensors")[name].double()
    experts = (load_file(path / "model.safetensors") for path in family.experts.values())
    return [
        (value(weight, name), expert[name].double() - base)
        for weight, expert in zip(WEIGHTS, experts, strict=True)
    ]


def test_task_arithmetic(family: Family, tmp_path: Path) -> None:
    result = merged(tmp_path, family, merge_method="task_arithmetic", parameters={"lambda": 0.7})
    base = load_file(family.base / "model.safetensors")
    names = [name for name in base if name.startswith("roberta.")]
    for name in names:
        change = sum(w * delta for w, delta in weighted(family, name))
        expected = base[name].double() + 0.7 * change
        assert torch.allclose(result[name].double(), expected, atol=1e-6), name
    assert len(names) > 30


def test_ties(family: Family, tmp_path: Path) -> None:
    result = merged(tmp_path, family, merge_method="ties", parameters={"density": DENSITY})
    base = load_file(family.base / "model.safetensors")
    for name in (name for name in base if name.startswith("roberta.")):
        trimmed = []
        for weight, delta in weighted(family, name):
            flat = torch.zeros(delta.numel(), dtype=torch.float64)
            count = max(1, int(value(DENSITY, name) * delta.numel()))
            largest = delta.flatten().abs().argsort(descending=True)[:count]
            flat[largest] = delta.flatten()[largest]
            trimmed.append((weight, flat.view_as(delta)))
        total = sum(w * delta for w, delta in trimmed)
        sign = torch.where(total >= 0, 1.0, -1.0)
        top = sum(w * delta * (delta.sign() == sign) for w, delta in trimmed)
        share = sum(w * (delta.sign() == sign).double() for w, delta in trimmed)
        expected = base[name].double() + top / torch.where(share == 0, 1.0, share)
        assert torch.allclose(result[name].double(), expected, atol=1e-6), name


@pytest.mark.parametrize("name", EXAMPLES)
def test_mergekits_own_examples_are_merged(name: str, tmp_path: Path) -> None:
    """In float16, as they say; transformers loads what comes out, with as many blocks."""
    make_models(tmp_path)
    path = tmp_path / name
    path.write_text(json.dumps(EXAMPLES[name]))
    for _ in merge_to_folder(load_recipe(path), tmp_path / "out", Options()):
        pass
    model, loading = AutoModelForCausalLM.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    stacked = name.startswith("orcamini")
    assert model.config.num_hidden_layers == (4 if stacked else MODEL_BLOCKS)
    if "dtype" in EXAMPLES[name]:
        assert model.dtype is torch.float16
    base = load_file(tmp_path / "base" / "model.safetensors")
    merged = load_file(tmp_path / "out" / "model.safetensors")
    assert any(not torch.equal(merged[key].float(), base[key]) for key in base if key in merged)


@pytest.mark.parametrize("name", [*SAME, *DEPARTS])
def test_every_documented_form_can_be_planned(name: str, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.getbasetemp() / "forms"
    if not folder.exists():
        folder.mkdir()
        make_models(folder)
    path = folder / "file.yaml"
    path.write_text(json.dumps({**(SAME | DEPARTS)[name], "dtype": "float32"}))
    assert prepare(load_recipe(path)).plan.rows


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_by_name(name: str, tmp_path: Path) -> None:
    make_models(tmp_path)
    path = tmp_path / "file.yaml"
    path.write_text(json.dumps({**REFUSED[name], "dtype": "float32"}))
    with pytest.raises(RecipeError) as caught:
        prepare(load_recipe(path))
    assert caught.value.key
