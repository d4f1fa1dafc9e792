"""What people read where a merge cannot be made: which tensor, which experts, what to do."""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui.engine import streaming as parts
from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import reports, verify_shards
from ace_gui.engine.output.exporting import export
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import MethodError, NonFiniteError, OutputError, RecipeError, WorkbenchError
from ace_gui.methods import METHODS
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import NonFinite
from tests.helpers.adapters import save_adapter
from tests.helpers.merges import merged_tensors
from tests.helpers.method_cases import needs_data
from tests.helpers.models import Family
from tests.helpers.recipes import recipe_over


def tensors(seed: int, size: float = 1.0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "layers.0.fc.weight": size * torch.randn(8, 6, generator=generator),
        "layers.0.one.weight": size * torch.randn(1, 1, generator=generator),
        "scale": size * torch.randn(1, generator=generator),
    }


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
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
def test_the_base_as_its_own_expert(write: Callable[..., Path], method: str):
    """Without a schema, a file that names the base among its models is mergekit's if it can be."""
    file = write(merge_method=method, models=[{"model": "base"}, {"model": "a"}])
    if method in {"ties", "linear"}:
        assert len(load_recipe(file).models) == 1
        return
    error = sentence(lambda: prepare(load_recipe(file)))
    assert "is the same model as the base" in error.sentence
    assert "mergekit" not in error.sentence


@pytest.mark.parametrize("weight", [1e300, -1e300, 1e30])
@pytest.mark.parametrize("method", ["ace", "linear", "ties", "task_arithmetic"])
def test_weights_beyond_reason(write: Callable[..., Path], method: str, weight: float):
    heavy = {"model": "a", "parameters": {"weight": weight}}
    file = write(merge_method=method, models=[heavy, {"model": "b"}], schema=1)
    error = sentence(lambda: prepare(load_recipe(file)))
    assert isinstance(error, RecipeError)
    assert error.sentence == f"The weight of a is {weight:g}; give one from -1e+09 to 1e+09."


def test_weights_of_an_override_too(write: Callable[..., Path]):
    rule = {"role": "other", "weights": {"b": 1e300}}
    file = write(overrides=[rule], schema=1)
    assert "weight of b is 1e+300" in sentence(lambda: prepare(load_recipe(file))).sentence


def test_numbers_of_thousands_of_digits(write: Callable[..., Path]):
    for value in ("9" * 6000, "0x" + "f" * 6000, "-" + "9" * 400, "1e300"):
        for key in ("seed: {}", "parameters: {{tau: {}}}", "scope: {}", "out_dtype: {}"):
            file = write(schema=1)
            file.write_text(f"{file.read_text()}{key.format(value)}\n")
            error = sentence(lambda file=file: prepare(load_recipe(file)))
            assert len(error.sentence) < 700


@pytest.mark.parametrize(
    "method", [n for n, m in METHODS.items() if (m.most or 9) > 1 and not needs_data(m)]
)
def test_a_tensor_that_a_method_cannot_merge_is_named(
    write: Callable[..., Path], tmp_path, method: str
):
    """Values near the end of float32: some methods cope, the others say where they do not."""
    for name, sign in (("a", 1.0), ("b", -1.0)):
        save_file(tensors(1, sign * 3e37), tmp_path / name / "model.safetensors")
    prepared = prepare(load_recipe(write(merge_method=method, schema=1)))
    problem = None
    try:
        merged_tensors(prepared, tmp_path / "store", device="cpu")
    except WorkbenchError as error:
        problem = error
    if problem is not None:
        assert f"`{problem.tensor}`" in problem.sentence
        assert "disk" not in problem.sentence
        assert "files" not in problem.sentence


def test_an_error_of_the_statistics_names_its_tensor(write: Callable[..., Path], monkeypatch):
    def refuse(energies: object) -> None:
        raise MethodError("Cannot be.")

    monkeypatch.setattr("ace_gui.engine.inspecting.statistics.heterogeneity", refuse)
    prepared = prepare(load_recipe(write(schema=1)))
    error = sentence(lambda: list(analyse(prepared)))
    assert error.sentence == f"`{error.tensor}` of `a`, `b`: Cannot be."


def test_what_overflows_on_its_way_to_the_disk_is_no_fault_of_the_disk(
    write: Callable[..., Path], tmp_path, monkeypatch
):
    from ace_gui.engine.merging.store import MODEL, checksums, planned_shards, read_finished

    monkeypatch.setattr("ace_gui.engine.merging.tensor_merge.is_finite", lambda tensor: True)
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
def test_names_of_experts_are_distinct_whatever_was_given(names: list[str]):
    entries = tuple(ModelEntry(model=Path("m"), name=name) for name in names)
    expert_names = Recipe(base_model=Path("b"), models=entries).expert_names
    assert len({name.casefold() for name in expert_names}) == len(names)
    for name, given_name in zip(expert_names, names, strict=True):
        alone = [candidate.casefold() for candidate in names].count(given_name.casefold()) == 1
        assert name == given_name if alone else name.startswith(f"{given_name}-")


MATRIX = "roberta.encoder.layer.1.output.dense.weight"
EMBEDDING = "roberta.embeddings.word_embeddings.weight"
BROKEN = (MATRIX, EMBEDDING)


@pytest.fixture(scope="module")
def broken(roberta: Family, tmp_path_factory) -> Path:
    """The first expert, with Inf in a matrix and NaN at the end of an embedding."""
    return damaged(roberta.experts["task0"], tmp_path_factory.mktemp("broken") / "task0")


def damaged(source: Path, folder: Path, extra: Mapping[str, Tensor] | None = None) -> Path:
    shutil.copytree(source, folder)
    held = load_file(source / "model.safetensors")
    held[MATRIX][3, 5] = -math.inf
    held[EMBEDDING][-1, -2:] = math.nan
    save_file({**held, **(extra or {})}, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def recipe(base: Path, *experts: Path, choice: NonFinite = NonFinite.STOP) -> Recipe:
    return recipe_over(base, experts, non_finite=choice)


def merged(of: Recipe, store: Path) -> dict[str, Tensor]:
    return merged_tensors(prepare(of), store, device="cpu")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch) -> None:
    """So that some parts are written before the one with NaN is met."""
    monkeypatch.setattr(parts, "PART_ELEMENTS", 100)


def test_a_merge_stops_unless_told_otherwise(roberta: Family, broken: Path, tmp_path):
    healthy_experts = (roberta.experts["task1"], roberta.experts["task2"])
    before = threading.enumerate()
    with pytest.raises(NonFiniteError) as caught:
        merged(recipe(roberta.base, broken, *healthy_experts), tmp_path / "store")
    error = caught.value
    assert set(threading.enumerate()) <= set(before)  # its traceback keeps none alive
    rows = load_file(roberta.base / "model.safetensors")[EMBEDDING].shape[0]
    assert f"of `task0` has 2 NaN values (first at [{rows - 1}, 30])" in error.sentence
    assert "`non_finite` in a recipe" in error.sentence
    assert (error.path, error.tensor) == (broken, EMBEDDING)


def test_leaving_the_expert_out_is_a_merge_of_the_others_there(
    roberta: Family, broken: Path, tmp_path
):
    healthy_expert = roberta.experts["task0"]
    healthy_experts = (roberta.experts["task1"], roberta.experts["task2"])
    skipping = recipe(roberta.base, broken, *healthy_experts, choice=NonFinite.SKIP_EXPERT)
    outputs = merged(skipping, tmp_path / "found")
    without = merged(recipe(roberta.base, *healthy_experts), tmp_path / "without")
    healthy = merged(recipe(roberta.base, healthy_expert, *healthy_experts), tmp_path / "healthy")
    for name, tensor in outputs.items():
        assert torch.equal(tensor, (without if name in BROKEN else healthy)[name]), name
    assert not torch.equal(outputs[MATRIX], healthy[MATRIX])
    reported = reports(tmp_path / "found")
    assert {name for name, report in reported.items() if report.non_finite} == set(BROKEN)
    assert set(reported[MATRIX].energies or ()) == {"task1", "task2"}
    (note,) = [note for note in reported[MATRIX].notes if "left out of this tensor" in note]
    assert note == "`task0` has 1 infinite value (first at [3, 5]) here: left out of this tensor."


def test_keeping_the_bases_tensor(roberta: Family, broken: Path, tmp_path):
    experts = (broken, roberta.experts["task1"])
    outputs = merged(recipe(roberta.base, *experts, choice=NonFinite.KEEP_BASE), tmp_path / "store")
    base = load_file(roberta.base / "model.safetensors")
    assert all(torch.equal(outputs[name], base[name]) for name in BROKEN)
    report = reports(tmp_path / "store")[EMBEDDING]
    assert report.non_finite == ("task0",)
    assert report.notes[0].startswith("The base's tensor is kept: `task0` has 2 NaN values")


def test_without_any_finite_expert_the_bases_tensor_is_kept(
    roberta: Family, broken: Path, tmp_path
):
    outputs = merged(recipe(roberta.base, broken, choice=NonFinite.SKIP_EXPERT), tmp_path / "store")
    assert torch.equal(outputs[MATRIX], load_file(roberta.base / "model.safetensors")[MATRIX])


@pytest.mark.parametrize("choice", NonFinite)
def test_nothing_can_stand_in_for_the_base_or_for_a_head(
    choice: NonFinite, roberta: Family, broken: Path, tmp_path
):
    with pytest.raises(NonFiniteError, match=r"of `task0` has .*Download it again\.$") as caught:
        merged(recipe(broken, roberta.experts["task1"], choice=choice), tmp_path / "base")
    assert caught.value.path == broken
    head = {"classifier.out_proj.bias": torch.tensor([math.nan, 0.0])}
    damaged_expert = damaged(roberta.experts["task0"], tmp_path / "task0", head)
    with pytest.raises(NonFiniteError, match=r"classifier.out_proj.bias.*first at \[0\]"):
        merged(recipe(roberta.base, damaged_expert, choice=choice), tmp_path / "head")
    assert not (tmp_path / "head").exists()


def test_factors_of_an_adapter(roberta: Family, tmp_path):
    module = "roberta.encoder.layer.0.attention.self.query"
    prefix = f"base_model.model.{module}.lora_"
    pair = {f"{prefix}A.weight": torch.ones(2, 32), f"{prefix}B.weight": torch.ones(32, 2)}
    pair[f"{prefix}A.weight"][0, 0] = math.inf
    adapter = save_adapter(tmp_path / "adapter", pair)
    experts = (adapter, roberta.experts["task1"])
    merged(recipe(roberta.base, *experts, choice=NonFinite.SKIP_EXPERT), tmp_path / "store")
    report = reports(tmp_path / "store")[f"{module}.weight"]
    assert report.non_finite == ("adapter",)
    assert "lora_A" in report.notes[0]


def test_the_comparison_of_the_experts_follows_the_choice(roberta: Family, broken: Path):
    experts = (broken, roberta.experts["task1"], roberta.experts["task2"])
    stopping = recipe(roberta.base, *experts)
    with pytest.raises(NonFiniteError):
        list(analyse(prepare(stopping)))
    for choice, there in (
        (NonFinite.SKIP_EXPERT, {"task1", "task2"}),
        (NonFinite.KEEP_BASE, set()),
    ):
        events = analyse(prepare(replace(stopping, non_finite=choice)))
        statistics = {event.statistics.name: event.statistics for event in events}
        assert set(statistics[MATRIX].energies) == there
        assert set(statistics[MATRIX.replace("1", "0")].energies) == {"task0", "task1", "task2"}


def test_the_card_names_every_such_tensor(roberta: Family, broken: Path, tmp_path):
    experts = (broken, roberta.experts["task1"])
    skipping = recipe(roberta.base, *experts, choice=NonFinite.SKIP_EXPERT)
    merged(skipping, tmp_path / "store")
    exporting = export(tmp_path / "store", tmp_path / "out")
    assert list(exporting)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "- 2 with NaN or Inf in an expert, where these experts were left out:" in card
    assert "roberta.encoder.layer.1.output.dense.weight: task0" in card
    assert "non_finite: skip_expert" in card
