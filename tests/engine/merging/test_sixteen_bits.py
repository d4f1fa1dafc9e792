"""16-bit models merged part by part: as the whole tensor would be, and as float64 rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui.engine import streaming
from ace_gui.engine.merging import surveying
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.tensor_merge import TensorMerge
from ace_gui.engine.planning import requirements
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.streaming import single_threads
from ace_gui.methods import METHODS, checked_parameters
from ace_gui.recipe import Recipe
from tests.helpers import method_oracles as oracle
from tests.helpers.merges import merged_tensors
from tests.helpers.method_cases import surveyed_model
from tests.helpers.recipes import recipe_over

SHAPES = {"a.weight": (37, 29), "b.weight": (64, 48), "b.bias": (64,), "number": ()}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch) -> None:
    monkeypatch.setattr(streaming, "PART_ELEMENTS", 160)
    monkeypatch.setattr(surveying, "PASS_ELEMENTS", 160)


def save(folder: Path, tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors")
    return folder


def models(folder: Path, dtype: torch.dtype, *, opposed: bool = False) -> list[Path]:
    """A base and three experts; ``opposed``: two of them move every entry to and fro, more fro."""
    generator = torch.Generator().manual_seed(0)

    def noise(size: float) -> dict[str, Tensor]:
        drawn = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
        return {name: tensor * size for name, tensor in drawn.items()}

    base = {name: tensor.to(dtype).float() for name, tensor in noise(0.02).items()}
    changes = [noise(0.002) for _ in range(3)]
    if opposed:
        step = 2**-6
        base = {name: torch.round(tensor / 2**-4) * 2**-4 for name, tensor in base.items()}
        signs = {name: (change > 0.001) * 2.0 - 1.0 for name, change in changes[0].items()}
        changes = [{name: sign * way * step for name, sign in signs.items()} for way in (1, -1)]
        changes.append({name: -step * (change > 0.003) for name, change in noise(0.002).items()})
    everything = [base] + [{name: base[name] + change[name] for name in base} for change in changes]
    return [
        save(folder / f"model{n}", {name: tensor.to(dtype) for name, tensor in tensors.items()})
        for n, tensors in enumerate(everything)
    ]


def deltas_of(recipe: Recipe, name: str) -> tuple[Tensor, list[Tensor]]:
    base, *experts = (
        load_file(folder / "model.safetensors")[name].float()
        for folder in (recipe.base_model, *(entry.model for entry in recipe.models))
    )
    return base, [expert - base for expert in experts]


CASES: list[tuple[str, dict[str, Any]]] = [
    ("ties", {"trim": "tensor"}),
    ("ties", {"trim": "tensor", "density": 0.9, "combine": "sum"}),
    ("ties", {"trim": "tensor", "density": 1.0, "balanced": "positive"}),
    ("ties", {"trim": "model"}),
    ("breadcrumbs_ties", {}),
    ("linear", {}),
    ("task_arithmetic", {}),
    ("emr", {}),
    ("consensus_ta", {}),
]


@pytest.mark.parametrize("in_memory", [True, False], ids=["kept", "read again"])
@pytest.mark.parametrize("opposed", [False, True], ids=["noise", "balanced signs"])
@pytest.mark.parametrize(("method", "parameters"), CASES, ids=str)
def test_parts_give_the_bits_of_the_whole(
    method: str, parameters: dict[str, Any], opposed: bool, in_memory: bool, tmp_path, monkeypatch
):
    if not in_memory:
        monkeypatch.setattr(requirements, "KEPT_BYTES", 0)
    base, *experts = models(tmp_path, torch.bfloat16, opposed=opposed)
    recipe = recipe_over(base, experts, merge_method=method, parameters=parameters)
    outputs = merged_tensors(prepare(recipe), tmp_path / "store", device="cpu")
    of = METHODS[method]
    checked = checked_parameters(METHODS[method], parameters)
    tensors = {name: deltas_of(recipe, name) for name in outputs}
    findings = surveyed_model(of, checked, [deltas for _, deltas in tensors.values()])
    for name, (start, deltas) in tensors.items():
        expected = of.merge(deltas, [1.0] * 3, checked, findings=findings, base=start).delta
        assert torch.equal(outputs[name], start + expected), name


def test_the_cases_hold_balanced_signs(tmp_path):
    base, *experts = models(tmp_path, torch.bfloat16, opposed=True)
    outcomes = {}
    for balanced in ("majority", "positive"):
        parameters = {"trim": "tensor", "density": 1.0, "balanced": balanced}
        recipe = recipe_over(base, experts, merge_method="ties", parameters=parameters)
        store = tmp_path / balanced
        outcomes[balanced] = merged_tensors(prepare(recipe), store, device="cpu")
    name = "b.weight"
    assert not torch.equal(outcomes["majority"][name], outcomes["positive"][name])


def test_what_was_taken_for_granted_is_merged_again(tmp_path):
    """Pieces come once more where their votes come out against it, and their norms count once."""
    base, *experts = models(tmp_path, torch.bfloat16, opposed=True)
    for balanced, times in (("positive", 1), ("majority", 2)):
        parameters = {"trim": "tensor", "density": 1.0, "balanced": balanced}
        prepared = prepare(recipe_over(base, experts, merge_method="ties", parameters=parameters))
        (row,) = (row for row in prepared.plan.rows if row.name == "b.weight")
        work = TensorMerge(row, Readers(prepared), torch.device("cpu"))
        with single_threads(2) as pool:
            starts = [piece.start for piece in work.pieces(pool)]
        once = sorted(set(starts))
        assert len(once) > 2
        assert starts == once * times
        start, deltas = deltas_of(prepared.plan.recipe, row.name)
        checked = checked_parameters(METHODS["ties"], parameters)
        expected = METHODS["ties"].merge(deltas, [1.0] * 3, checked, base=start).delta
        assert work.report.delta_norm == pytest.approx(float(expected.norm()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("method", "parameters", "formula"),
    [
        ("linear", {}, lambda d: d.mean(axis=0)),
        ("task_arithmetic", {"scaling": 0.3}, lambda d: 0.3 * d.sum(axis=0)),
        ("ties", {"trim": "tensor"}, lambda d: oracle.ties(d, 0.2)),
    ],
    ids=["linear", "task arithmetic", "ties"],
)
def test_the_output_is_the_rounding_of_the_formula_in_float64(
    method: str, parameters: dict[str, Any], formula: Any, dtype: torch.dtype, tmp_path
):
    """float32 may decide a tie of two neighbours otherwise: in one of a thousand entries."""
    base, *experts = models(tmp_path, dtype)
    recipe = recipe_over(base, experts, merge_method=method, parameters=parameters)
    outputs = merged_tensors(prepare(recipe), tmp_path / "store", device="cpu", as_output=True)
    differ = entries = 0
    for name, values in outputs.items():
        start, deltas = deltas_of(recipe, name)
        merged = torch.tensor(formula(torch.stack(deltas).double().numpy()))
        exact = (start.double() + merged.reshape(start.shape)).to(dtype)
        steps = (values.view(torch.int16).int() - exact.view(torch.int16).int()).abs()
        assert int(steps.max()) <= 1
        differ = differ + int(steps.sum())
        entries = entries + values.numel()
    assert differ <= entries / 1000
