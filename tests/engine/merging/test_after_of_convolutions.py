"""The steps after the method on convolutions: they are matrices of outputs × all else."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe.recipe_file import recipe_from
from tests.helpers.command import ace_gui as run

SHAPES = {
    "embedder.convolution.weight": (6, 3, 5, 5),
    "layers.0.convolution.weight": (8, 6, 3, 3),
    "layers.0.audio.conv.weight": (7, 8, 3),
    "layers.0.normalization.weight": (8,),
    "mlp.experts.gate_up_proj_bias": (4, 10),
    "layers.1.intermediate.dense.weight": (5, 8),
}


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A base and two experts of convolutions, whose changes are small."""
    generator = torch.Generator().manual_seed(0)
    base = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    paths = tmp_path / "base.safetensors", tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_file(base, paths[0])
    for path in paths[1:]:
        noise = {name: torch.randn(v.shape, generator=generator) for name, v in base.items()}
        save_file({name: value + 0.02 * noise[name] for name, value in base.items()}, path)
    return paths


def literal(base: Tensor, experts: list[Tensor], rank: float, spectrum: float) -> Tensor:
    """Mean change, fewer directions, powers of the singular values at the same norm (float64)."""
    base_OI = base.double().flatten(1)
    changes = [expert.double().flatten(1) - base_OI for expert in experts]
    mean = torch.stack(changes).mean(0)
    u, s, vh = torch.linalg.svd(mean, full_matrices=False)
    count = max(1, math.floor(rank * len(s)))
    powers = s[:count] ** spectrum
    powers *= s[:count].norm() / powers.norm()
    return (u[:, :count] * powers) @ vh[:count]


@pytest.mark.parametrize("rank", [1.0, 0.5])
@pytest.mark.parametrize("spectrum", [1.0, 0.5])
@pytest.mark.parametrize("scale", [1.0, 1.3])
def test_convolutions_are_matrices(
    models: tuple[Path, Path, Path], tmp_path: Path, rank: float, spectrum: float, scale: float
) -> None:
    settings = [f"after.rank={rank}", f"after.spectrum={spectrum}", f"after.scale={scale}"]
    options = [word for setting in settings for word in ("--set", setting)]
    out = tmp_path / "out"
    done = run("merge", *models, "--method", "linear", *options, "--out", out)
    assert done.returncode == 0, done.stderr
    base, first, second = (load_file(path) for path in models)
    merged = load_file(out / "model.safetensors")
    for name, shape in SHAPES.items():
        change = (merged[name].double() - base[name].double()).flatten(1 if len(shape) > 1 else 0)
        if len(shape) == 1 or name.endswith("_bias"):
            expected = ((first[name] + second[name]).double() / 2 - base[name].double()).view(
                change.shape
            )
        else:
            expected = scale * literal(base[name], [first[name], second[name]], rank, spectrum)
        assert (change - expected).norm() < 1e-4 * expected.norm(), name


def test_the_cap_of_a_convolution(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--set", "after.scale=10", "--set", "after.cap=0.001"]
    assert run("merge", *models, "--method", "linear", *options, "--out", out).returncode == 0
    base, first, second = (load_file(path) for path in models)
    merged = load_file(out / "model.safetensors")
    name = "layers.0.convolution.weight"
    centred = [(tensors[name] - base[name]).double().flatten(1) for tensors in (first, second)]
    squares = [(change - change.mean(0)).square().sum() for change in centred]
    rms = torch.stack(squares).mean().sqrt()
    change = (merged[name] - base[name]).double()
    assert change.norm() == pytest.approx(float(rms), rel=1e-4)


def test_a_method_that_averages_convolutions_says_so(
    models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    recipe = {
        "schema": 1,
        "merge_method": "ace",
        "base_model": models[0],
        "models": [{"model": path} for path in models[1:]],
        "after": {"scale": 1.3},
    }
    notes = [check.sentence for check in prepare(recipe_from(recipe)).plan.checks]
    (note,) = [note for note in notes if "`after`" in note]
    assert "3 convolutions are averaged" in note
    plain = {key: value for key, value in recipe.items() if key != "after"}
    notes = [check.sentence for check in prepare(recipe_from(plain)).plan.checks]
    assert not [note for note in notes if "`after`" in note]


def test_after_without_any_matrix_is_a_warning(tmp_path: Path) -> None:
    for name in ("base", "a", "b"):
        save_file({"conv.weight": torch.randn(4, 3, 3, 3)}, tmp_path / f"{name}.safetensors")
    recipe = {
        "schema": 1,
        "merge_method": "ace",
        "base_model": tmp_path / "base.safetensors",
        "models": [{"model": tmp_path / "a.safetensors"}, {"model": tmp_path / "b.safetensors"}],
        "after": {"spectrum": 0.5},
    }
    assert "`after` changes nothing" in " ".join(prepare(recipe_from(recipe)).plan.warnings)
