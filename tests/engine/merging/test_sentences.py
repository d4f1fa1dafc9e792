"""What people read where a merge cannot be made: which tensor, which experts, what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.read_back import verify_shards
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import MethodError, OutputError, RecipeError, WorkbenchError
from ace_gui.methods import METHODS
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.merges import merged_tensors
from tests.helpers.method_cases import needs_data


def tensors(seed: int, size: float = 1.0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "layers.0.fc.weight": size * torch.randn(8, 6, generator=generator),
        "layers.0.one.weight": size * torch.randn(1, 1, generator=generator),
        "scale": size * torch.randn(1, generator=generator),
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Models base, a, b and c, and a recipe with these keys."""
    for seed, name in enumerate(("base", "a", "b", "c")):
        (tmp_path / name).mkdir()
        save_file(tensors(seed), tmp_path / name / "model.safetensors")

    def written(**keys: object) -> Path:
        document = {"base_model": "base", "models": [{"model": "a"}, {"model": "b"}], **keys}
        file = tmp_path / "recipe.yaml"
        file.write_text(yaml.safe_dump(document))
        return file

    return written


def sentence(action: Callable[[], object]) -> WorkbenchError:
    with pytest.raises(WorkbenchError) as caught:
        action()
    return caught.value


@pytest.mark.parametrize("method", ["ace", "wudi", "ties", "linear"])
def test_the_base_as_its_own_expert(write: Callable[..., Path], method: str) -> None:
    """Without a schema, a file that names the base among its models is mergekit's if it can be."""
    file = write(merge_method=method, models=[{"model": "base"}, {"model": "a"}])
    if method in {"ties", "linear"}:
        assert len(load_recipe(file).models) == 1
        return
    found = sentence(lambda: prepare(load_recipe(file)))
    assert "is the same model as the base" in found.sentence
    assert "mergekit" not in found.sentence


@pytest.mark.parametrize("weight", [1e300, -1e300, 1e30])
@pytest.mark.parametrize("method", ["ace", "linear", "ties", "task_arithmetic"])
def test_weights_beyond_reason(write: Callable[..., Path], method: str, weight: float) -> None:
    heavy = {"model": "a", "parameters": {"weight": weight}}
    file = write(merge_method=method, models=[heavy, {"model": "b"}], schema=1)
    found = sentence(lambda: prepare(load_recipe(file)))
    assert isinstance(found, RecipeError)
    assert found.sentence == f"The weight of a is {weight:g}; give one from -1e+09 to 1e+09."


def test_weights_of_an_override_too(write: Callable[..., Path]) -> None:
    rule = {"role": "other", "weights": {"b": 1e300}}
    file = write(overrides=[rule], schema=1)
    assert "weight of b is 1e+300" in sentence(lambda: prepare(load_recipe(file))).sentence


def test_numbers_of_thousands_of_digits(write: Callable[..., Path]) -> None:
    for value in ("9" * 6000, "0x" + "f" * 6000, "-" + "9" * 400, "1e300"):
        for key in ("seed: {}", "parameters: {{tau: {}}}", "scope: {}", "out_dtype: {}"):
            file = write(schema=1)
            file.write_text(f"{file.read_text()}{key.format(value)}\n")
            found = sentence(lambda file=file: prepare(load_recipe(file)))
            assert len(found.sentence) < 700


@pytest.mark.parametrize(
    "method", [n for n, m in METHODS.items() if (m.most or 9) > 1 and not needs_data(m)]
)
def test_a_tensor_that_a_method_cannot_merge_is_named(
    write: Callable[..., Path], tmp_path: Path, method: str
) -> None:
    """Values near the end of float32: some methods cope, the others say where they do not."""
    for name, sign in (("a", 1.0), ("b", -1.0)):
        save_file(tensors(1, sign * 3e37), tmp_path / name / "model.safetensors")
    prepared = prepare(load_recipe(write(merge_method=method, schema=1)))
    found = None
    try:
        merged_tensors(prepared, tmp_path / "store", device="cpu")
    except WorkbenchError as error:
        found = error
    if found is not None:
        assert f"`{found.tensor}`" in found.sentence
        assert "disk" not in found.sentence
        assert "files" not in found.sentence


def test_an_error_of_the_statistics_names_its_tensor(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(energies: object) -> None:
        raise MethodError("Cannot be.")

    monkeypatch.setattr("ace_gui.engine.inspecting.statistics.heterogeneity", refuse)
    prepared = prepare(load_recipe(write(schema=1)))
    found = sentence(lambda: list(analyse(prepared)))
    assert found.sentence == f"`{found.tensor}` of `a`, `b`: Cannot be."


def test_what_overflows_on_its_way_to_the_disk_is_no_fault_of_the_disk(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ace_gui.engine.merging.store import MODEL, checksums, planned_shards, read_finished

    monkeypatch.setattr(
        "ace_gui.engine.merging.one_tensor.tensor_merge.is_finite", lambda tensor: True
    )
    prepared = prepare(load_recipe(write(merge_method="linear", out_dtype="float16", schema=1)))
    for name in ("base", "a", "b"):
        save_file(tensors(1, 1e6), tmp_path / name / "model.safetensors")
    prepared = prepare(prepared.plan.recipe)
    store = tmp_path / "store"
    assert list(merge(prepared, store, device="cpu", as_output=True))
    manifest = read_finished(store)
    with pytest.raises(OutputError, match="left the range of F16") as caught:
        verify_shards(store / MODEL, planned_shards(manifest), checksums(store))
    assert "disk" not in caught.value.sentence


@given(st.lists(st.sampled_from(["x", "X", "x-1", "x-2", "X-1", "y"]), min_size=1, max_size=8))
def test_names_of_experts_are_distinct_whatever_was_given(names: list[str]) -> None:
    entries = tuple(ModelEntry(model=Path("m"), name=name) for name in names)
    found = Recipe(base_model=Path("b"), models=entries).expert_names
    assert len({name.casefold() for name in found}) == len(names)
    for name, given_name in zip(found, names, strict=True):
        alone = [other.casefold() for other in names].count(given_name.casefold()) == 1
        assert name == given_name if alone else name.startswith(f"{given_name}-")
