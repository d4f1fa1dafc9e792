"""Tiny dense language models of which a mixture of experts can be made, with a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import ReadChecksums
from ace_gui.engine.mixtures.mixture_plan import DenseModel
from ace_gui.engine.mixtures.routers import PromptRouters, TokenPrompts
from ace_gui.recipe.mixtures import GateMode

WORDS = ("the", "code", "sum", "loop", "story", "king", "sea", "of", "a", "and")

_SIZES: dict[str, Any] = {
    "num_hidden_layers": 3,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 24,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}

CLASSES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM"),
    "mistral": ("MistralConfig", "MistralForCausalLM"),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM"),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM"),
}


def dense_folder(folder: Path, kind: str, seed: int = 0, **settings: Any) -> Path:
    """A model of this type with random weights, saved as transformers saves it."""
    config_class, model_class = CLASSES[kind]
    sizes = {**_SIZES, **settings}
    if kind == "qwen3":
        sizes.setdefault("head_dim", 8)
    config = getattr(transformers, config_class)(**sizes)
    model = getattr(transformers, model_class)(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder)
    return folder


def with_tokenizer(folder: Path) -> Path:
    """Add a tokenizer of words to a model's folder; its token of a beginning is 1."""
    tokens = ("<pad>", "<s>", "</s>", "<unk>", *WORDS)
    words = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens(list(tokens[:4]))
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def dense_model(folder: Path) -> DenseModel:
    """The folder as a part of a mixture, called as the folder."""
    return DenseModel(name=folder.name, checkpoint=open_checkpoint(folder))


def routers_of(mode: GateMode, folder: Path, experts: Sequence[TokenPrompts]) -> PromptRouters:
    """The routers of prompts by the model in a folder, computed."""
    routers = PromptRouters(mode, open_checkpoint(folder), experts)
    for _ in routers.computed(folder / "kept-routers", ReadChecksums()):
        pass
    (folder / "kept-routers").unlink(missing_ok=True)
    return routers
