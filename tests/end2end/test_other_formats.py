"""Experts that are adapters or pickles, through the command line."""

import json
import subprocess
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from tests.helpers.command import ace_gui
from tests.helpers.models import Family, gpt2_family

RANK, ALPHA = 4, 8


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return gpt2_family(tmp_path_factory.mktemp("gpt2"))


def run(cache: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return ace_gui(*arguments, XDG_CACHE_HOME=str(cache), HOME=str(cache))


def write_recipe(path: Path, base: Path, models: list[Path]) -> Path:
    entries = [{"model": str(model), "name": f"e{index}"} for index, model in enumerate(models)]
    path.write_text(yaml.safe_dump({"base_model": str(base), "models": entries}))
    return path


def adapter(folder: Path, base: dict[str, torch.Tensor], seed: int) -> dict[str, torch.Tensor]:
    """Write a LoRA adapter of the attention projections; the change it makes, as stored."""
    generator = torch.Generator().manual_seed(seed)
    folder.mkdir()
    factors, changes = {}, {}
    for name in [name for name in base if name.endswith("attn.c_attn.weight")]:
        inputs, outputs = base[name].shape  # Conv1D
        a = torch.randn(RANK, inputs, generator=generator) * 0.1
        b = torch.randn(outputs, RANK, generator=generator) * 0.1
        module = f"base_model.model.{name.removesuffix('.weight')}"
        factors |= {f"{module}.lora_A.weight": a, f"{module}.lora_B.weight": b}
        changes[name] = (ALPHA / RANK * (b.double() @ a.double())).T
    save_file(factors, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": ALPHA,
        "target_modules": ["c_attn"],
        "fan_in_fan_out": True,
        "base_model_name_or_path": "somewhere/else",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return changes


def test_adapters_merge_like_the_models_they_stand_for(family: Family, tmp_path: Path) -> None:
    base = load_file(family.base / "model.safetensors")
    adapters, expanded = [], []
    for seed in (1, 2):
        changes = adapter(tmp_path / f"adapter{seed}", base, seed)
        adapters.append(tmp_path / f"adapter{seed}")
        whole = {
            name: (tensor.double() + changes[name]) if name in changes else tensor.double()
            for name, tensor in base.items()
        }
        folder = tmp_path / f"whole{seed}"
        folder.mkdir()
        save_file(
            {name: tensor.contiguous() for name, tensor in whole.items()},
            folder / "model.safetensors",
        )
        (folder / "config.json").write_bytes((family.base / "config.json").read_bytes())
        expanded.append(folder)
    for name, models in (("a", adapters), ("w", expanded)):
        recipe = write_recipe(tmp_path / f"{name}.yaml", family.base, models)
        result = run(tmp_path, "merge", recipe, "--out", tmp_path / name)
        assert result.returncode == 0, result.stderr
    ours = load_file(tmp_path / "a" / "model.safetensors")
    theirs = load_file(tmp_path / "w" / "model.safetensors")
    assert ours.keys() == theirs.keys() == base.keys()
    changed = 0
    for name, tensor in ours.items():
        error = torch.linalg.vector_norm(tensor - theirs[name])
        delta = torch.linalg.vector_norm(theirs[name] - base[name])
        changed += bool(delta > 0)
        assert error <= 1e-5 * delta + 2e-7 * torch.linalg.vector_norm(base[name])
    assert changed == 2


def test_a_pickle_is_converted_only_when_asked_for(family: Family, tmp_path: Path) -> None:
    name, source = next(iter(family.experts.items()))
    folder = tmp_path / name
    folder.mkdir()
    torch.save(load_file(source / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "config.json").write_bytes((source / "config.json").read_bytes())
    recipe = write_recipe(tmp_path / "r.yaml", family.base, [folder])
    refused = run(tmp_path, "merge", recipe, "--out", tmp_path / "out")
    assert refused.returncode == 1
    assert "--convert" in refused.stderr
    assert not (tmp_path / "out").exists()
    done = run(tmp_path, "merge", recipe, "--out", tmp_path / "out", "--convert")
    assert done.returncode == 0, done.stderr
    plain = write_recipe(tmp_path / "p.yaml", family.base, [source])
    assert run(tmp_path, "merge", plain, "--out", tmp_path / "plain").returncode == 0
    ours = load_file(tmp_path / "out" / "model.safetensors")
    theirs = load_file(tmp_path / "plain" / "model.safetensors")
    assert all(torch.equal(tensor, theirs[key]) for key, tensor in ours.items())
    assert run(tmp_path, "inspect", recipe).returncode == 0  # converted once is enough
