"""Tiny random models with tokenizers and image processors, as folders on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

WORDS = ("the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "good", "bad", "of")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
SIZE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


def sentence(generator: np.random.Generator, least: int = 2, most: int = 9) -> str:
    """Some words in no order."""
    return " ".join(generator.choice(WORDS, int(generator.integers(least, most))))


def save_tokenizer(folder: Path, *, pairs: bool = True, longest: int = 24) -> Any:
    """A tokenizer of whole words; with pairs, [CLS] first [SEP] second [SEP]."""
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if pairs:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"} if pairs else {}
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", model_max_length=longest, **special
    )
    if pairs:
        made.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    else:
        made.model_input_names = ["input_ids", "attention_mask"]
    made.save_pretrained(folder)
    return made


def save_bert(folder: Path, head: str, *, seed: int = 0, **config: Any) -> Any:
    """``BertFor…`` with weights large enough for answers that differ."""
    torch.manual_seed(seed)
    made = transformers.BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        intermediate_size=32,
        max_position_embeddings=24,
        initializer_range=0.6,
        **SIZE,
        **config,
    )
    model = getattr(transformers, f"BertFor{head}")(made).eval()
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return model


def save_gpt2(folder: Path, *, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    made = transformers.GPT2Config(
        vocab_size=len(SPECIAL) + len(WORDS),
        n_positions=12,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=2,
        eos_token_id=3,
        initializer_range=0.4,
    )
    model = transformers.GPT2LMHeadModel(made).eval()
    model.save_pretrained(folder)
    save_tokenizer(folder, pairs=False, longest=12)
    return model


def save_vit(folder: Path, labels: Sequence[str], *, seed: int = 0, channels: int = 3) -> Any:
    torch.manual_seed(seed)
    made = transformers.ViTConfig(
        image_size=8,
        patch_size=4,
        intermediate_size=32,
        num_channels=channels,
        initializer_range=0.5,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
        **SIZE,
    )
    model = transformers.ViTForImageClassification(made).eval()
    model.save_pretrained(folder)
    transformers.ViTImageProcessorPil(
        size={"height": 8, "width": 8}, image_mean=[0.5] * channels, image_std=[0.25] * channels
    ).save_pretrained(folder)
    return model


def save_pictures(folder: Path, labels: Sequence[str], count: int, *, seed: int = 0) -> list[Path]:
    """A folder of PNG files for each label, of different sizes."""
    generator = np.random.default_rng(seed)
    files = []
    for label in labels:
        (folder / label).mkdir(parents=True)
        for number in range(count):
            height, width = generator.integers(6, 20, 2)
            pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
            files.append(folder / label / f"{number:03}.png")
            Image.fromarray(pixels).save(files[-1])
    return files


def save_scored_family(folder: Path, examples: int) -> Path:
    """A recipe with a base, two classifiers of texts, and so many random examples for each."""
    for seed, name in enumerate(("base", "one", "two")):
        names = {0: "bad", 1: "good"}
        save_bert(folder / name, "SequenceClassification", seed=seed, id2label=names)
    generator = np.random.default_rng(0)
    for name in ("one", "two"):
        rows = [f"{sentence(generator)},{generator.integers(2)}" for _ in range(examples)]
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    said = {
        "merge_method": "task_arithmetic",
        "base_model": "base",
        "models": [{"model": "one"}, {"model": "two"}],
        "tasks": [{"data": "one.csv"}, {"data": "two.csv"}],
        "heads": "merge",
        "schema": 1,
    }
    (folder / "recipe.yaml").write_text(json.dumps(said))
    return folder / "recipe.yaml"


TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }} [END] {% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
"""A chat template of whole words."""

CHAT_SPECIAL = (*SPECIAL, "[system]", "[user]", "[assistant]", "[END]")


def save_chat_model(
    folder: Path,
    *,
    seed: int = 0,
    template: str | None = TEMPLATE,
    ends: int | list[int] = 7,
    config: Any = None,
) -> Any:
    """A small instruct model; ``ends``: its end tokens in generation_config.json, [END] is 7."""
    torch.manual_seed(seed)
    vocabulary = {word: number for number, word in enumerate((*CHAT_SPECIAL, *WORDS))}
    config = config or transformers.LlamaConfig(
        vocab_size=len(vocabulary),
        intermediate_size=32,
        max_position_embeddings=600,
        initializer_range=0.5,
        **SIZE,
    )
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=ends, pad_token_id=0, do_sample=True, temperature=0.7, top_p=0.9
    )
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", eos_token="[END]"
    )
    made.chat_template = template
    made.save_pretrained(folder)
    return model
