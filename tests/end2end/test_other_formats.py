"""Experts that are pickles, through the command line."""

import subprocess
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.helpers.command import ace_gui
from tests.helpers.models import Family, gpt2_family


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return gpt2_family(tmp_path_factory.mktemp("gpt2"))


def run(cache: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return ace_gui(*arguments, XDG_CACHE_HOME=str(cache), HOME=str(cache))


def write_recipe(path: Path, base: Path, models: list[Path]) -> Path:
    entries = [{"model": str(model), "name": f"e{index}"} for index, model in enumerate(models)]
    path.write_text(yaml.safe_dump({"base_model": str(base), "models": entries}))
    return path


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
