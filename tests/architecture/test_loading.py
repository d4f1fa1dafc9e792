"""Configs and folders as transformers writes them are read and loaded, or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ace_gui.architecture import transformers_library
from ace_gui.architecture.describe import describe
from ace_gui.architecture.transformers_library import LoadReport
from ace_gui.errors import ArchitectureError, CheckpointError
from tests.architecture.published import CONFIGS
from tests.helpers.models import load_folder

TINY = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16, "vocab_size": 32}


@pytest.fixture
def folder(tmp_path) -> Path:
    from transformers import GPT2Config, GPT2ForSequenceClassification

    config = GPT2Config(**TINY, num_labels=3, pad_token_id=0)
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def _change_config(folder: Path, **change: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}},
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
    ],
    ids=["plain", "with code, which is not run", "to be quantised, which is not done"],
)
def test_a_whole_model_loads_cleanly(folder: Path, capfd, change: dict[str, object]):
    canary = folder / "canary"
    (folder / "evil.py").write_text(f"open({str(canary)!r}, 'w')\nModel = Config = object\n")
    _change_config(folder, **change)
    capfd.readouterr()
    model, report = load_folder(folder)
    assert type(model).__name__ == "GPT2ForSequenceClassification"
    assert not model.training
    assert report == LoadReport()
    assert capfd.readouterr() == ("", "")
    stored = load_file(folder / "model.safetensors")
    assert all(tensor.equal(stored[name]) for name, tensor in model.state_dict().items())
    assert not canary.exists()


def test_what_does_not_fit_is_reported(folder: Path, capfd):
    capfd.readouterr()
    _change_config(folder, architectures=["GPT2ForTokenClassification"])
    _, report = load_folder(folder)
    assert report.missing == ("classifier.bias", "classifier.weight")
    assert report.unexpected == ("score.weight",)
    _change_config(folder, architectures=["GPT2ForSequenceClassification"], vocab_size=33)
    _, report = load_folder(folder)
    assert report.mismatched == ("transformer.wte.weight",)
    assert capfd.readouterr() == ("", "")


def test_pickled_weights_are_not_read(folder: Path):
    model, _ = load_folder(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="model cannot be loaded"):
        load_folder(folder)


def test_unknown_model_type(folder: Path):
    _change_config(folder, model_type="no-such-model", architectures=None)
    with pytest.raises(ArchitectureError, match="no-such-model"):
        load_folder(folder)


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
def test_what_a_config_may_say(model_type: str, key: str, value: object):
    architecture = describe(written(model_type, **{key: value}), NAMES)
    assert architecture.model_class is not None, architecture.note


def test_numbers_that_json_has_not_are_read():
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
    error: ImportError, monkeypatch, tmp_path
):
    def refuse(self: object, *_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(transformers_library.transformers().GPT2LMHeadModel, "__init__", refuse)
    needs = "GPT2LMHeadModel needs the Python package timm, which is not installed here."
    architecture = describe(CONFIGS["gpt2"], NAMES)
    assert architecture.note == f"{needs} Tensors are described by their names."
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["gpt2"]))
    save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="timm"):
        load_folder(tmp_path)


@pytest.mark.long
def test_no_default_has_a_count_that_is_refused():
    for config_class in transformers_library.transformers().CONFIG_MAPPING.values():
        transformers_library.check_counts(default(config_class))


def default(config_class: Any) -> Mapping[str, object]:
    """As a plain value; empty where the class has no default."""
    try:
        settings: Mapping[str, object] = config_class().to_dict()
    except Exception:  # of any type, and no matter here
        return {}
    return settings
