"""Small families with calibration data, and what is measured of them, the slow and plain way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from transformers.pytorch_utils import Conv1D

from ace_gui.engine.calibrating.calibrate import measure
from ace_gui.engine.calibrating.statistics_folder import Statistics
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.methods.shared.measured import Need
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.scored_models import (
    SIZE,
    SPECIAL,
    WORDS,
    save_bert,
    save_gpt2,
    save_tokenizer,
    sentence,
)

CPU = torch.device("cpu")


def bert_family(folder: Path) -> Path:
    """Two classifiers of texts of different lengths, one of two and one of three labels."""
    save_bert(folder / "base", "MaskedLM")
    for seed, (name, labels) in enumerate({"two": 2, "three": 3}.items(), 1):
        label_names = {str(label): f"label-{label}" for label in range(labels)}
        save_bert(folder / name, "SequenceClassification", seed=seed, id2label=label_names)
    return written(folder, ("two", "three"), "text,label", lambda text: f"{text},label-0")


def gpt2_family(folder: Path) -> Path:
    """Two language models, whose matrices are stored inputs × outputs."""
    for seed, name in enumerate(("base", "one", "other")):
        save_gpt2(folder / name, seed=seed)
    return written(folder, ("one", "other"), "text", str)


def mixture_family(folder: Path) -> Path:
    """Two language models with four experts in a layer, which files keep one by one."""
    for seed, name in enumerate(("base", "one", "other")):
        torch.manual_seed(seed)
        config = transformers.MixtralConfig(
            vocab_size=len(SPECIAL) + len(WORDS),
            intermediate_size=24,
            num_key_value_heads=1,
            num_local_experts=4,
            max_position_embeddings=24,
            initializer_range=0.5,
            **SIZE,
        )
        transformers.MixtralForCausalLM(config).save_pretrained(folder / name)
        save_tokenizer(folder / name, pairs=False)
    return written(folder, ("one", "other"), "text", str)


def written(
    folder: Path, experts: tuple[str, ...], header: str, line: Callable[[str], str]
) -> Path:
    """The recipe, and the data that it names."""
    for seed, name in enumerate(experts):
        generator = np.random.default_rng(seed)
        rows = [sentence(generator) for _ in range(12)]
        (folder / f"{name}.csv").write_text("\n".join([header, *map(line, rows)]) + "\n")
        rows = [sentence(generator) for _ in range(20)]
        (folder / f"{name}-inputs.csv").write_text("\n".join(["text", *rows]) + "\n")
    tasks = [{"data": f"{name}.csv", "calibration": f"{name}-inputs.csv"} for name in experts]
    recipe = {
        "schema": 1,
        "merge_method": "regmean",
        "base_model": "base",
        "models": [{"model": name} for name in experts],
        "tasks": tasks,
    }
    file = folder / "recipe.yaml"
    file.write_text(json.dumps(recipe))
    return file


def measured(file: Path, need: Need) -> tuple[Prepared, tuple[Statistics, ...]]:
    """The recipe, and what is measured of its experts."""
    prepared = prepare(load_recipe(file))
    list(measure(prepared, need, CPU))
    return prepared, prepared.groundwork.measurements[need]


def texts(folder: Path, name: str) -> list[str]:
    """The calibration inputs of an expert."""
    return (folder / f"{name}-inputs.csv").read_text().splitlines()[1:]


def one_by_one(folder: Path, name: str, kind: Any) -> tuple[Any, list[Any]]:
    """An expert as transformers loads it, and its inputs, a batch of one each."""
    model = kind.from_pretrained(folder / name).float().eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / name)
    return model, [tokenizer(text, return_tensors="pt") for text in texts(folder, name)]


def hooked_grams(model: Any, inputs: list[Any]) -> dict[str, tuple[Tensor, Tensor, int]]:
    """Σ x xᵀ, Σ x (float64) and the number of inputs of every Linear and Conv1D, by hooks."""
    sums: dict[str, tuple[Tensor, Tensor, int]] = {}

    def add(name: str) -> Callable[..., None]:
        def hook(_module: Any, arguments: Any) -> None:
            rows = arguments[0].detach().double().reshape(-1, arguments[0].shape[-1])
            gram, total, count = sums.get(name, (0.0, 0.0, 0))
            sums[name] = gram + rows.T @ rows, total + rows.sum(dim=0), count + len(rows)

        return hook

    handles = [
        module.register_forward_pre_hook(add(f"{name}.weight"))
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D)
    ]
    with torch.no_grad():
        for input_ in inputs:
            model(**input_)
    for handle in handles:
        handle.remove()
    return sums
