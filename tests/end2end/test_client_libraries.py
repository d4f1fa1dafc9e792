"""Merged folders in the hands of the libraries they are for; needs the extra ``clients``.

What is a matrix is asked of the library's modules by type, not of this program.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.helpers import client_models as clients
from tests.helpers.ace_oracle import ace_oracle
from tests.helpers.client_models import Client, family, linear_weights, states
from tests.helpers.merges import merged_folder
from tests.helpers.recipes import recipe_over

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

CLIENTS: dict[str, tuple[str, Callable[[Path], Client]]] = {
    "vit": (
        "timm",
        lambda _: clients.timm_client(
            "vit_tiny_patch16_224", img_size=32, depth=2, embed_dim=48, num_heads=3
        ),
    ),
    "resnet": ("timm", lambda _: clients.timm_client("resnet10t")),
    "convnext": ("timm", lambda _: clients.timm_client("convnext_atto", depths=(1, 1, 1, 1))),
    "open_clip": ("open_clip", lambda _: clients.open_clip_client()),
    "sentences": ("sentence_transformers", clients.sentence_client),
    "cross_encoder": ("sentence_transformers", clients.cross_encoder_client),
    "unet": ("diffusers", lambda _: clients.unet_client()),
    "dit": ("diffusers", lambda _: clients.transformer_2d_client()),
    "pipeline": ("diffusers", lambda _: clients.pipeline_client()),
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    library, made = CLIENTS[request.param]
    pytest.importorskip(library)
    return made(tmp_path / "work")


def merged(tmp_path: Path, base: Path, experts: list[Path], method: str) -> Path:
    return merged_folder(recipe_over(base, experts, merge_method=method), tmp_path / method)


def mean(tensors: list[Tensor]) -> Tensor:
    if not tensors[0].is_floating_point():
        return tensors[0]
    return torch.stack([tensor.double() for tensor in tensors]).mean(0).to(tensors[0].dtype)


def test_linear_is_the_mean_in_the_model_s_own_library(client: Client, tmp_path: Path) -> None:
    base, experts = family(client, tmp_path)
    out = merged(tmp_path, base, experts, "linear")
    merged_parts = states(client, out)
    owned = [states(client, folder) for folder in experts]
    expected = {
        part: {name: mean([weights[part][name] for weights in owned]) for name in tensors}
        for part, tensors in merged_parts.items()
    }
    for part, tensors in merged_parts.items():
        for name, tensor in tensors.items():
            torch.testing.assert_close(
                tensor, expected[part][name], msg=lambda m, n=name: f"{n}: {m}"
            )
    with torch.no_grad():
        output = client.call(client.load(out))
        reference = client.load(base)
        for part, module in client.parts(reference).items():
            module.load_state_dict(expected[part])
        assert torch.isfinite(output).all()
        torch.testing.assert_close(output, client.call(reference), rtol=1e-3, atol=1e-4)


def test_ace_is_the_oracle_in_the_model_s_own_library(client: Client, tmp_path: Path) -> None:
    base, experts = family(client, tmp_path)
    out = merged(tmp_path, base, experts, "ace")
    merged_parts = states(client, out)
    start = states(client, base)
    owned = [states(client, folder) for folder in experts]
    matrices = {(part, name): turned for part, name, turned in linear_weights(client, base)}
    assert matrices
    for part, tensors in merged_parts.items():
        for name, tensor in tensors.items():
            expert_tensors = [weights[part][name] for weights in owned]
            head = "head" in name or tensor.shape[:1] == (clients.CLASSES,)
            if (part, name) in matrices and min(tensor.shape) > 1 and not head:
                turned = matrices[part, name]
                found_error = error(
                    *(turn(t, turned) for t in (tensor, start[part][name], *expert_tensors))
                )
                assert found_error < 1e-4, name
            elif not head:
                torch.testing.assert_close(
                    tensor, mean(expert_tensors), msg=lambda m, n=name: f"{n}: {m}"
                )
    with torch.no_grad():
        assert torch.isfinite(client.call(client.load(out))).all()


def turn(tensor: Tensor, turned: bool) -> Tensor:
    return tensor.T if turned else tensor


def error(tensor: Tensor, start: Tensor, *experts: Tensor) -> float:
    """Distance to the oracle's change, of its size; float32 weights round it a little."""
    wide = start.double()
    deltas = np.stack([(expert.double() - wide).numpy() for expert in experts])
    expected = ace_oracle(deltas).merged
    return float(
        np.linalg.norm((tensor.double() - wide).numpy() - expected) / np.linalg.norm(expected)
    )


@pytest.mark.parametrize("method", ["linear", "ace"])
def test_adapters_are_the_models_that_peft_makes_of_them(method: str, tmp_path: Path) -> None:
    import transformers

    base, adapters, merged_models = clients.adapters_of_peft(tmp_path)
    out = merged(tmp_path, base, adapters, method)

    def state(folder: Path) -> dict[str, Tensor]:
        model = transformers.LlamaForCausalLM.from_pretrained(folder)
        return {name: tensor.clone() for name, tensor in model.state_dict().items()}

    merged_state = state(out)
    start = state(base)
    owned = [state(folder) for folder in merged_models]
    for name, tensor in merged_state.items():
        expert_tensors = [weights[name] for weights in owned]
        changed = any(not torch.equal(expert, start[name]) for expert in expert_tensors)
        if method == "ace" and changed:
            assert error(tensor, start[name], *expert_tensors) < 1e-4, name
        else:
            torch.testing.assert_close(
                tensor, mean(expert_tensors), msg=lambda m, n=name: f"{n}: {m}"
            )


ATTENTION = ["to_q", "to_k", "to_v", "to_out.0"]
LORAS: dict[str, dict[str, Any]] = {
    "plain": {"targets": ATTENTION, "r": 4, "lora_alpha": 8},
    "convolutions": {"targets": ["conv1", "conv_shortcut", "proj_in"], "r": 2},
    "rslora": {"targets": ATTENTION, "r": 4, "use_rslora": True},
    "patterns": {
        "targets": ATTENTION,
        "r": 4,
        "rank_pattern": {"to_k": 2},
        "alpha_pattern": {"to_q": 3},
    },
}
OF_LYCORIS: dict[str, dict[str, Any]] = {
    "locon": {"algo": "lora"},
    "locon, three factors": {"algo": "lora", "use_tucker": True},
    "locon, scaled by the root of the rank": {"algo": "lora", "rs_lora": True},
    "loha": {"algo": "loha"},
    "loha, three factors": {"algo": "loha", "use_tucker": True},
    "lokr": {"algo": "lokr", "factor": 4},
    "lokr, both factored": {"algo": "lokr", "factor": 4, "decompose_both": True},
    "lokr, whole": {"algo": "lokr", "factor": 2, "full_matrix": True},
}


def assert_is(client: Client, files: tuple[Path, Path, Path], out: Path) -> None:
    """A merge of the adapter alone is the whole model that its own library makes."""
    base, adapter, expected_folder = files
    merged_parts = states(
        client, merged_folder(recipe_over(base, [adapter], merge_method="linear"), out)
    )
    for part, tensors in states(client, expected_folder).items():
        for name, tensor in tensors.items():
            torch.testing.assert_close(
                merged_parts[part][name], tensor, msg=lambda m, n=name: f"{n}: {m}"
            )


@pytest.mark.parametrize("kind", LORAS)
def test_lora_files_are_the_models_that_diffusers_makes_of_them(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    files = clients.lora_of_diffusers(tmp_path, **LORAS[kind])
    assert_is(clients.pipeline_client(), files, tmp_path / "out")


@pytest.mark.parametrize("kind", OF_LYCORIS)
def test_lycoris_files_are_the_models_that_lycoris_makes_of_them(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("lycoris")
    files = clients.lora_of_lycoris(tmp_path, **OF_LYCORIS[kind])
    assert_is(clients.unet_client(), files, tmp_path / "out")
