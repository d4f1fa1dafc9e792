"""Configs as transformers writes them: none is refused for what is right in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ace_gui.architecture import transformers_library
from ace_gui.architecture.describe import describe
from ace_gui.architecture.loading import load_pretrained
from ace_gui.errors import CheckpointError
from tests.architecture.published import CONFIGS

NAMES = {"model.layers.0.mlp.up_proj.weight": (8, 8)}


def written(model_type: str, **changes: object) -> dict[str, Any]:
    """The default config of a type, through the text of a file."""
    config = transformers_library.transformers().CONFIG_MAPPING[model_type]()
    plain: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    return plain | changes


@pytest.mark.parametrize(
    ("model_type", "key", "value"),
    [
        ("mamba2", "time_step_limit", [0.0, {"__float__": "Infinity"}]),
        ("mamba2", "time_step_limit", [{"__float__": "-Infinity"}, {"__float__": "NaN"}]),
        ("gemma3n_text", "vocab_size_per_layer_input", 262144),
        ("gemma4_text", "vocab_size_per_layer_input", 262144),
        ("vit", "label2id", {"bricklayer": 9836, "road block": 20000, "skinhead": 150000}),
        ("bert", "max_block_length", 1_000_000),
    ],
)
def test_what_a_config_may_say(model_type: str, key: str, value: object) -> None:
    found = describe(written(model_type, **{key: value}), NAMES)
    assert found.model_class is not None, found.note


def test_numbers_that_json_has_not_are_read() -> None:
    _, config = transformers_library.model_and_config(
        written("mamba2", time_step_limit=[0.0, {"__float__": "Infinity"}])
    )
    assert list(config.time_step_limit) == [0.0, float("inf")]


@pytest.mark.parametrize(
    "error",
    [
        ImportError("A requires the timm library but it was not found in your environment. Try"),
        ModuleNotFoundError("No module named 'timm'", name="timm"),
    ],
)
def test_a_package_that_is_not_installed_is_no_fault_of_the_config(
    error: ImportError, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(self: object, *_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(transformers_library.transformers().GPT2LMHeadModel, "__init__", refuse)
    needs = "GPT2LMHeadModel needs the Python package timm, which is not installed here."
    found = describe(CONFIGS["gpt2"], NAMES)
    assert found.note == f"{needs} Tensors are described by their names."
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["gpt2"]))
    save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="timm"):
        load_pretrained(tmp_path)


@pytest.mark.long
def test_no_default_has_a_count_that_is_refused() -> None:
    for config_class in transformers_library.transformers().CONFIG_MAPPING.values():
        transformers_library.check_counts(default(config_class))


def default(config_class: Any) -> Mapping[str, object]:
    """As a plain value; empty where the class has no default."""
    try:
        found: Mapping[str, object] = config_class().to_dict()
    except Exception:  # of any type, and no matter here
        return {}
    return found
