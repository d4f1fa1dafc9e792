"""LoRA files of diffusers and kohya's trainer: each kind's formula, and every form of names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ace_gui.checkpoints.adapters import is_adapter, open_adapter
from ace_gui.checkpoints.derived import expand
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import CheckpointError, MismatchError
from tests.helpers.checkpoints import save_model
from tests.helpers.merges import merged_tensors
from tests.helpers.recipes import recipe_over

O = 6  # noqa: E741 - outputs
I = 4  # noqa: E741 - inputs
R = 2  # rank
GENERATOR = torch.Generator().manual_seed(5)


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GENERATOR)


LINEAR = randn(O, I)
CONVOLUTION = randn(O, I, 3, 3)
A = randn(R, I)
B = randn(O, R)
MIDDLE = randn(R, R, 3, 3)
A_CONV = randn(R, I, 3, 3)
W1A = randn(O, R)
W1B = randn(R, I)
W2A = randn(O, R)
W2B = randn(R, I)
K1 = randn(2, 2)
K2 = randn(3, 2)
K2A = randn(3, R)
K2B = randn(R, 2)
K2_CONV = randn(3, 2, 3, 3)
MAGNITUDE = randn(O).abs()


def dora(weight: Tensor, change: Tensor) -> Tensor:
    """The change of DoRA (Liu et al. 2024, equation 5), whose output rows have trained norms."""
    changed = (weight + change).flatten(1).double()
    scaled = MAGNITUDE.double()[:, None] * changed / changed.norm(dim=1, keepdim=True)
    return scaled.reshape(weight.shape) - weight.double()


KINDS: dict[str, tuple[dict[str, Tensor], Tensor, Tensor]] = {
    "lora": ({"lora_down.weight": A, "lora_up.weight": B}, LINEAR, B @ A),
    "lora, alpha": (
        {"lora_down.weight": A, "lora_up.weight": B, "alpha": torch.tensor(3.0)},
        LINEAR,
        1.5 * B @ A,
    ),
    "lora of a kernel of one on a matrix": (
        {"lora_down.weight": A[..., None, None], "lora_up.weight": B[..., None, None]},
        LINEAR,
        B @ A,
    ),
    "locon": (
        {"lora_down.weight": A_CONV, "lora_up.weight": B[..., None, None]},
        CONVOLUTION,
        torch.einsum("or,rikl->oikl", B, A_CONV),
    ),
    "locon, three factors": (
        {
            "lora_down.weight": A[..., None, None],
            "lora_mid.weight": MIDDLE,
            "lora_up.weight": B[..., None, None],
        },
        CONVOLUTION,
        torch.einsum("op,prkl,ri->oikl", B, MIDDLE, A),
    ),
    "dora": (
        {"lora_A.weight": A, "lora_B.weight": B, "lora_magnitude_vector": MAGNITUDE},
        LINEAR,
        dora(LINEAR, B @ A),
    ),
    "dora of a convolution": (
        {
            **{"lora_A.weight": A_CONV, "lora_B.weight": B[..., None, None]},
            "lora_magnitude_vector": MAGNITUDE.reshape(1, O, 1, 1),
        },
        CONVOLUTION,
        dora(CONVOLUTION, torch.einsum("or,rikl->oikl", B, A_CONV)),
    ),
    "loha": (
        {
            **{"hada_w1_a": W1A, "hada_w1_b": W1B, "hada_w2_a": W2A, "hada_w2_b": W2B},
            "alpha": torch.tensor(4.0),
        },
        LINEAR,
        2 * (W1A @ W1B) * (W2A @ W2B),
    ),
    "lokr, whole": (
        {"lokr_w1": K1, "lokr_w2": K2, "alpha": torch.tensor(7.0)},
        LINEAR,
        torch.kron(K1, K2),
    ),
    "lokr, factored": (
        {"lokr_w1": K1, "lokr_w2_a": K2A, "lokr_w2_b": K2B, "alpha": torch.tensor(1.0)},
        LINEAR,
        0.5 * torch.kron(K1, K2A @ K2B),
    ),
    "lokr of a convolution": (
        {"lokr_w1": K1, "lokr_w2": K2_CONV},
        CONVOLUTION,
        torch.kron(K1[..., None, None], K2_CONV),
    ),
}


def lora(path: Path, tensors: Mapping[str, Tensor], **metadata: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    save_file({n: t.clone().contiguous() for n, t in tensors.items()}, path, metadata or None)
    return path


def changed(adapter: Path, base: Path) -> dict[str, Tensor]:
    """The tensors that the adapter changes, as they are read, whole and in parts."""
    checkpoint = open_checkpoint(base)
    opened = open_adapter(adapter, checkpoint.tensors)
    expanded = expand(opened, checkpoint, {name: name for name in opened.names}, ())
    reader = TensorReader(expanded)
    tensors = {name: reader.read(name) for name in opened.names}
    for name, tensor in tensors.items():
        part = reader.read_part(name, 3, tensor.numel() - 2)
        assert torch.allclose(part, tensor.flatten()[3:-2], rtol=1e-6, atol=1e-7)
    return tensors


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_its_formula(kind: str, tmp_path):
    pieces, weight, change = KINDS[kind]
    base = save_model(tmp_path / "base", {"down_blocks.0.to_q.weight": weight})
    file = lora(
        tmp_path / "x.safetensors",
        {f"lora_unet_down_blocks_0_to_q.{name}": tensor for name, tensor in pieces.items()},
    )
    assert is_adapter(file)
    actual = changed(file, base)["down_blocks.0.to_q.weight"].double()
    exact = weight.double() + change.double()
    assert (actual - exact).norm() <= 1e-6 * exact.norm()


def test_each_module_has_its_own_alpha_and_rank(tmp_path):
    """up·down·alpha/rank, also where most modules have another alpha or the part is another."""
    modules = {
        "unet/attn1.to_q": ("lora_unet_attn1_to_q", 2, 2.0),
        "unet/attn1.to_k": ("lora_unet_attn1_to_k", 2, 2.0),
        "unet/attn1.to_out.0": ("lora_unet_attn1_to_out_0", 2, 0.5),
        "unet/ff.proj": ("lora_unet_ff_proj", 3, 1.0),
        "text_encoder/self_attn.q_proj": ("lora_te_self_attn_q_proj", 1, 3.0),
        "text_encoder/self_attn.k_proj": ("lora_te_self_attn_k_proj", 3, None),
    }
    factors: dict[str, Tensor] = {}
    exact: dict[str, Tensor] = {}
    for name, (module, rank, alpha) in modules.items():
        down = randn(rank, I)
        up = randn(O, rank)
        factors |= {f"{module}.lora_down.weight": down, f"{module}.lora_up.weight": up}
        if alpha is not None:
            factors[f"{module}.alpha"] = torch.tensor(alpha)
        scale = 1.0 if alpha is None else alpha / rank
        exact[f"{name}.weight"] = LINEAR.double() + scale * up.double() @ down.double()
    folder = tmp_path / "pipeline"
    for part in ("unet", "text_encoder"):
        part_names = [name for name in exact if name.startswith(f"{part}/")]
        tensors = {name.removeprefix(f"{part}/"): LINEAR.clone() for name in part_names}
        save_model(folder / part, tensors)
    index = {part: ["transformers", "Model"] for part in ("unet", "text_encoder")}
    (folder / "model_index.json").write_text(json.dumps({"_class_name": "Pipeline", **index}))
    for name, tensor in changed(lora(tmp_path / "x.safetensors", factors), folder).items():
        torch.testing.assert_close(tensor.double(), exact[name], msg=lambda m, n=name: f"{n}: {m}")


LDM = "model.diffusion_model."
NAMES = {
    "unet.mid.attn1.to_q.lora.down.weight": "unet/mid.attn1.to_q",
    "unet.mid.attn1.processor.to_q_lora.down.weight": "unet/mid.attn1.to_q",
    "unet.mid.attn1.processor.to_out_lora.down.weight": "unet/mid.attn1.to_out.0",
    "unet.mid.attn1.to_q.lora_A.weight": "unet/mid.attn1.to_q",
    "text_encoder.layers.0.q.lora_linear_layer.down.weight": "text_encoder/layers.0.q",
    "text_encoder_2.layers.0.q.lora.down.weight": "text_encoder_2/layers.0.q",
    "transformer.blocks.0.to_k.lora_A.default.weight": "transformer/blocks.0.to_k",
    "lora_unet_mid_attn1_to_out_0.lora_down.weight": "unet/mid.attn1.to_out.0",
    "lora_te_layers_0_q.lora_down.weight": "text_encoder/layers.0.q",
    "lora_te1_layers_0_q.lora_down.weight": "text_encoder/layers.0.q",
    "lora_te2_layers_0_q.lora_down.weight": "text_encoder_2/layers.0.q",
    "lora_unet_input_blocks_4_1_to_q.lora_down.weight": f"{LDM}input_blocks.4.1.to_q",
    "lora_te1_text_model_q.lora_down.weight": "conditioner.embedders.0.transformer.text_model.q",
    "lora_te1_text_model_encoder_fc1.lora_down.weight": "text_encoder/encoder.fc1",
    "text_encoder.text_model.encoder.fc2.lora.down.weight": "text_encoder/encoder.fc2",
    "text_encoder.encoder.fc3.lora_A.weight": "text_encoder/text_model.encoder.fc3",
    "lora_te_encoder_fc4.lora_down.weight": ("cond_stage_model.transformer.text_model.encoder.fc4"),
    "diffusion_model.double_blocks.0.qkv.lora_A.weight": f"{LDM}double_blocks.0.qkv",
}


def partner(name: str) -> str:
    """The name of the other factor."""
    return name.replace("down.weight", "up.weight").replace("lora_A", "lora_B")


@pytest.mark.parametrize("name", NAMES)
def test_each_form_of_a_name_finds_its_module(name: str, tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    file = lora(folder / "pytorch_lora_weights.safetensors", {name: A, partner(name): B})
    everything = {f"{module}.weight" for module in NAMES.values()} | {"unet/other.weight"}
    for path in (file, folder):
        assert is_adapter(path)
        assert set(open_adapter(path, everything).deltas) == {f"{NAMES[name]}.weight"}


def test_a_file_is_an_expert_of_a_merge(tmp_path):
    base = save_model(tmp_path / "base", {"q.weight": LINEAR})
    file = lora(tmp_path / "x.safetensors", {"q.lora_down.weight": A, "q.lora_up.weight": B})
    prepared = prepare(recipe_over(base, [file], merge_method="linear"))
    tensors = merged_tensors(prepared, tmp_path / "store", as_output=True)
    torch.testing.assert_close(tensors["q.weight"], LINEAR + B @ A)


def test_modules_that_the_base_lacks_or_has_twice_are_named(tmp_path):
    names = ["lora_unet_a_b.lora_down.weight", "lora_unet_c.lora_down.weight"]
    factors = {form(name): t for name in names for form, t in ((str, A), (partner, B))}
    file = lora(tmp_path / "x.safetensors", factors)
    with pytest.raises(MismatchError, match=r"1 of the adapter's modules.*lora_unet_c") as caught:
        open_adapter(file, ["a.b.weight", "d.weight"])
    assert "a_b" not in caught.value.sentence
    with pytest.raises(MismatchError, match="a_b"):
        open_adapter(file, ["a.b.weight", "a_b.weight", "c.weight"])


@pytest.mark.parametrize("prefix", ["unet.", ""])
@pytest.mark.parametrize(
    ("config", "scale"),
    [({"lora_alpha": 3}, 1.5), ({"lora_alpha": 3, "use_rslora": True}, 3 / 2**0.5)],
)
def test_the_settings_in_the_metadata_give_the_scale(
    config: dict[str, object], scale: float, prefix: str, tmp_path
):
    text = json.dumps({f"{prefix}{key}": value for key, value in {"r": R, **config}.items()})
    name = f"{prefix}q.lora_A.weight"
    file = lora(tmp_path / "x.safetensors", {name: A, partner(name): B}, lora_adapter_metadata=text)
    (change,) = open_adapter(file, [f"{prefix.replace('.', '/')}q.weight"]).deltas.values()
    assert change.scale == pytest.approx(scale)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"lora_unet_q.dora_scale": torch.ones(O)}, "dora_scale"),
        ({"lora_unet_q.diff": torch.ones(O, I)}, "diff"),
        ({"lora_unet_q.alpha": torch.ones(2)}, "not one number"),
        ({"lora_unet_q.alpha": torch.tensor(torch.nan)}, "alpha"),
        ({"lora_unet_p.alpha": torch.tensor(1.0)}, "lora_unet_p"),
        ({"lora_unet_p.lora_down.weight": A}, "A but no B"),
        ({"lora_unet_q.lora_down.weight": torch.tensor(1.0)}, "A is a scalar"),
        ({"lora_unet_p.hada_w1_a": W1A}, "do not fit"),
        ({"lora_unet_p.lokr_w1": K1, "lora_unet_p.lokr_w2_a": K2A}, "do not fit"),
    ],
)
def test_what_is_not_read_is_refused_by_name(more: dict[str, Tensor], sentence: str, tmp_path):
    pair = {"lora_unet_q.lora_down.weight": A, "lora_unet_q.lora_up.weight": B}
    file = lora(tmp_path / "x.safetensors", {**pair, **more})
    with pytest.raises(CheckpointError, match=sentence):
        open_adapter(file)
