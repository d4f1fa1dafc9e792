"""Tiny models of real architectures, with random fine-tunes, as folders on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from transformers import PreTrainedModel

from ace_gui.architecture.transformers_library import LoadReport, load_pretrained
from ace_gui.checkpoints.input_files import read_config

GPT2 = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 96, "n_positions": 24}
ROBERTA = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 96,
    "max_position_embeddings": 24,
}
LLAMA = {
    "num_hidden_layers": 1,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 96,
    "max_position_embeddings": 24,
}


@dataclass(frozen=True)
class Family:
    """A base folder and its experts' folders, each expert with a head of another size."""

    base: Path
    experts: Mapping[str, Path]


def gpt2_family(folder: Path, *, experts: int = 3, seed: int = 0) -> Family:
    """A GPT-2 with a tied language-model head, and sequence classifiers tuned from it."""
    base = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2, **_quiet()))
    classifier = transformers.GPT2ForSequenceClassification
    return _family(folder, base, classifier, experts, seed, pad_token_id=0)


def roberta_family(folder: Path, *, experts: int = 3, seed: int = 0) -> Family:
    """A masked-language-model RoBERTa, and sequence classifiers tuned from it."""
    base = transformers.RobertaForMaskedLM(transformers.RobertaConfig(**ROBERTA))
    return _family(folder, base, transformers.RobertaForSequenceClassification, experts, seed)


def neox_family(folder: Path, *, experts: int = 2, seed: int = 0) -> Family:
    """A GPT-NeoX, which stores query, key and value head by head, and models tuned from it."""
    config = transformers.GPTNeoXConfig(**LLAMA, **_quiet())
    return _same_class(folder, transformers.GPTNeoXForCausalLM(config), experts, seed)


def gpt_oss_family(folder: Path, *, experts: int = 2, seed: int = 0) -> Family:
    """A gpt-oss, whose MLP experts are stored as one tensor, inputs first, and its fine-tunes."""
    settings = {**LLAMA, "num_key_value_heads": 2, "num_local_experts": 3, "head_dim": 8}
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    config = transformers.GptOssConfig(
        **settings, **_quiet(), num_experts_per_tok=2, rope_parameters=rope, dtype="float32"
    )
    return _same_class(folder, transformers.GptOssForCausalLM(config), experts, seed)


def load_folder(folder: Path) -> tuple[PreTrainedModel, LoadReport]:
    """The model in a folder, by its own config."""
    return load_pretrained(folder, read_config(folder / "config.json"))


def _quiet() -> dict[str, int]:
    return {"bos_token_id": 0, "eos_token_id": 0}


def _same_class(folder: Path, base: PreTrainedModel, experts: int, seed: int) -> Family:
    """Experts with all tensors of the base, and no head of their own."""
    generator = torch.Generator().manual_seed(seed)
    _shake(base, generator, 0.05)
    base.save_pretrained(folder / "base")
    start = {name: tensor.clone() for name, tensor in base.state_dict().items()}
    folders = {}
    for index in range(experts):
        base.load_state_dict(start)
        _shake(base, generator, 0.02 * (1 + index))
        folders[f"task{index}"] = folder / f"task{index}"
        base.save_pretrained(folder / f"task{index}")
    return Family(base=folder / "base", experts=folders)


def _family(
    folder: Path,
    base: PreTrainedModel,
    classifier: type[PreTrainedModel],
    experts: int,
    seed: int,
    **config: int,
) -> Family:
    generator = torch.Generator().manual_seed(seed)
    _shake(base, generator, 0.05)
    base.save_pretrained(folder / "base")
    (folder / "base" / "tokenizer.json").write_text('{"version": "1.0"}')
    folders = {}
    for index in range(experts):
        settings = {**base.config.to_dict(), "num_labels": index + 2, **config}
        for key in ("architectures", "id2label", "label2id", "dtype"):
            settings.pop(key, None)
        expert = classifier(type(base.config)(**settings))
        tuned = {**base.base_model.state_dict()}
        expert.base_model.load_state_dict(tuned, strict=False)
        _shake(expert, generator, 0.02 * (1 + index))
        name = f"task{index}"
        expert.save_pretrained(folder / name)
        folders[name] = folder / name
    return Family(base=folder / "base", experts=folders)


def _shake(model: PreTrainedModel, generator: torch.Generator, scale: float) -> None:
    """Move every parameter a little, as a random fine-tune would."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))
