"""GGUF files of 16 and 32 bits are the models that they were converted from."""

from __future__ import annotations

import random
import shutil
import struct

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.errors import CheckpointError
from tests.helpers.gguf_files import gguf_bytes, gguf_of, text
from tests.helpers.merges import merged_folder
from tests.helpers.recipes import recipe_over

SIZE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 64,
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FAMILIES = {
    "llama": {},
    "llama, tied, with biases": {"tie_word_embeddings": True, "attention_bias": True},
    "qwen2": {},
    "qwen3": {"head_dim": 8},
    "phi3": SPECIAL,
    "gemma2": {"head_dim": 8},
    "gemma3_text": {"head_dim": 8},
}
LLAMA = {"general.architecture": "llama", "llama.attention.head_count": 2}
NORM = {"output_norm.weight": torch.ones(4)}


def model_of(kind: str, seed: int = 0) -> PreTrainedModel:
    config = AutoConfig.for_model(kind.split(",")[0], **SIZE, **FAMILIES[kind])
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter)).copy_(parameter.half().float())
    return model


@pytest.mark.parametrize("kind", FAMILIES)
def test_each_tensor_is_that_of_the_model(kind: str, tmp_path):
    model = model_of(kind)
    checkpoint = open_checkpoint(gguf_of(model, tmp_path / "m.gguf"))
    state = model.state_dict()
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    assert set(checkpoint.tensors) == set(state) - tied
    with TensorReader(checkpoint) as reader:
        for name, info in checkpoint.tensors.items():
            tensor = reader.read(name)
            assert info.dtype == ("F16" if tensor.ndim > 1 else "F32")
            torch.testing.assert_close(tensor.float(), state[name], rtol=0, atol=1e-6)
            start = tensor.numel() // 3
            stop = tensor.numel() - 5
            part = reader.read_part(name, start, stop)
            assert torch.equal(part, tensor.flatten()[start:stop])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_merge_is_that_of_the_models_it_was_made_of(dtype: torch.dtype, tmp_path):
    models = [model_of("llama", seed).to(dtype) for seed in range(3)]
    folders = [tmp_path / f"m{index}" for index in range(3)]
    files = []
    for model, folder in zip(models, folders, strict=True):
        model.save_pretrained(folder)
        (tmp_path / "gguf" / folder.name).mkdir(parents=True)
        files.append(gguf_of(model, tmp_path / "gguf" / folder.name / "model.gguf", dtype))
    shutil.copy(folders[0] / "config.json", files[0].parent)
    expected_folder = merged_folder(
        recipe_over(folders[0], folders[1:], merge_method="ties"), tmp_path / "wanted"
    )
    for out, base, experts in (
        ("base", files[0], folders[1:]),
        ("experts", folders[0], files[1:]),
        ("all, from folders", files[0].parent, [file.parent for file in files[1:]]),
    ):
        recipe = recipe_over(base, experts, merge_method="ties", out_dtype="float32")
        merged_model = AutoModelForCausalLM.from_pretrained(merged_folder(recipe, tmp_path / out))
        expected = AutoModelForCausalLM.from_pretrained(expected_folder, dtype=torch.float32)
        for name, tensor in expected.state_dict().items():
            torch.testing.assert_close(
                merged_model.state_dict()[name], tensor, rtol=torch.finfo(dtype).eps, atol=1e-7
            )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gguf_bytes({**LLAMA, "general.architecture": "rwkv6"}, NORM), ("rwkv6", "llama")),
        (gguf_bytes(LLAMA, {"blk.0.ffn_gate_exps.weight": torch.ones(4)}), ("ffn_gate_exps",)),
        (gguf_bytes(LLAMA, {"blk.0.attn_q.weight": torch.ones(6, 4)}), ("heads", "attn_q")),
        (gguf_bytes(LLAMA, NORM)[:-32], ("Incomplete", "output_norm")),
        (
            gguf_bytes(LLAMA, NORM).replace(text("output_norm.weight"), text("blk.0/../x.weight ")),
            ("blk.0",),
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 1), ("malformed",)),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 2**20), ("malformed",)),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, 2**62), ("malformed",)),
        (b"GGUF" + struct.pack("<IQQ", 1, 1, 1), ("malformed",)),
        (b"ggml" + bytes(64), ("not a GGUF file",)),
        (b"", ("malformed",)),
    ],
)
def test_what_cannot_be_read_is_refused(content: bytes, words: tuple[str, ...], tmp_path):
    file = tmp_path / "m.gguf"
    file.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(file)
    assert caught.value.path == file
    assert all(word in caught.value.sentence for word in words)


def test_quantised_blocks_are_named_with_their_kind(tmp_path):
    content = gguf_bytes(LLAMA, NORM)
    entry = struct.pack("<IQIQ", 1, 4, 0, 0)
    assert content.count(entry) == 1
    (tmp_path / "m.gguf").write_bytes(content.replace(entry, struct.pack("<IQIQ", 1, 4, 12, 0)))
    with pytest.raises(CheckpointError, match="Q4_K") as caught:
        open_checkpoint(tmp_path / "m.gguf")
    assert caught.value.tensor == "output_norm.weight"


def test_changed_bytes_are_refused_or_read(tmp_path):
    metadata = {**LLAMA, "tokenizer.ggml.tokens": ["a", "b"]}
    tensors = {**NORM, "blk.0.attn_k.bias": torch.ones(4, dtype=torch.float16)}
    content = gguf_bytes(metadata, tensors)
    file = tmp_path / "m.gguf"
    draw = random.Random(0)
    opened = 0
    for at in [*range(len(content) - 64), *draw.choices(range(24, 200), k=200)]:
        changed = bytearray(content)
        changed[at] = draw.choice((0, 1, 9, 0x7F, 0x80, 0xFF))
        file.write_bytes(changed)
        try:
            checkpoint = open_checkpoint(file)
        except CheckpointError:
            continue
        opened += 1
        with TensorReader(checkpoint) as reader:
            for name in checkpoint.tensors:
                reader.read(name)
    assert opened


THREE = {
    "output_norm.weight": torch.ones(4),
    "blk.0.attn_k.bias": torch.full((4,), 2.0),
    "blk.0.attn_v.bias": torch.full((12,), 3.0),
}
"""Tensors at the bytes 0, 32 and 64 of the data."""


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("offset", [0, 1, 16, 31, 32, 33, 48, 64, 96, 2**31, 2**63])
def test_a_tensor_at_another_offset_is_refused(index: int, offset: int, tmp_path):
    content = gguf_bytes(LLAMA, THREE)
    name = list(THREE)[index]
    entry = text(name) + struct.pack("<IQIQ", 1, THREE[name].numel(), 0, 32 * index)
    assert content.count(entry) == 1
    changed = entry[:-8] + struct.pack("<Q", offset)
    file = tmp_path / "m.gguf"
    file.write_bytes(content.replace(entry, changed))
    if offset == 32 * index:
        assert set(open_checkpoint(file).tensors) >= {"model.norm.weight"}
        return
    with pytest.raises(CheckpointError, match="malformed") as caught:
        open_checkpoint(file)
    assert caught.value.tensor == name


def test_a_key_that_stands_twice_is_refused(tmp_path):
    content = gguf_bytes({**LLAMA, "general.name": "a", "general.nick": "b"}, NORM)
    file = tmp_path / "m.gguf"
    file.write_bytes(content.replace(b"general.nick", b"general.name"))
    with pytest.raises(CheckpointError, match=r"general\.name.*twice"):
        open_checkpoint(file)


@pytest.mark.parametrize("alignment", [0, 3, 24, 33])
def test_an_alignment_that_llama_cpp_refuses(alignment: int, tmp_path):
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf_bytes({**LLAMA, "general.alignment": alignment}, NORM))
    with pytest.raises(CheckpointError, match="malformed"):
        open_checkpoint(file)
