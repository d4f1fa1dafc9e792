"""A density of 0, as in gradients of posted recipes: the expert takes no part, as in mergekit."""

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.helpers.command import ace_gui as run
from tests.helpers.mergekit_files import make_models


@pytest.mark.parametrize("method", ["dare_linear", "dare_ties"])
@pytest.mark.parametrize("rescale", [True, False])
def test_an_expert_of_density_0_takes_no_part(tmp_path, method: str, rescale: bool):
    make_models(tmp_path)
    second = {"model": "b", "parameters": {"weight": 1.0, "density": [0, 0, 0]}}
    file = {
        "merge_method": method,
        "base_model": "base",
        "parameters": {"rescale": rescale, "normalize": False},
        "models": [{"model": "a", "parameters": {"weight": 1.0, "density": 1.0}}, second],
        "dtype": "float32",
    }
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(file))
    done = run("merge", tmp_path / "r.yaml", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    merged = load_file(tmp_path / "out" / "model.safetensors")
    expected = load_file(tmp_path / "a" / "model.safetensors")
    for name, tensor in expected.items():
        assert torch.allclose(merged[name], tensor, atol=1e-6), name
