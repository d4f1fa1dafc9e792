"""Folders written by transformers, loaded again; and folders that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from ace_gui.architecture.loading import LoadReport, load_pretrained
from ace_gui.errors import ArchitectureError, CheckpointError

TINY = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16, "vocab_size": 32}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    from transformers import GPT2Config, GPT2ForSequenceClassification

    config = GPT2Config(**TINY, num_labels=3, pad_token_id=0)
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def _change_config(folder: Path, **change: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


def test_a_whole_model_loads_cleanly(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    model, report = load_pretrained(folder)
    assert type(model).__name__ == "GPT2ForSequenceClassification"
    assert not model.training
    assert report == LoadReport()
    assert report.clean
    assert capfd.readouterr() == ("", "")


def test_values_are_those_of_the_file(folder: Path) -> None:
    from safetensors import safe_open

    model, _ = load_pretrained(folder)
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        for name, tensor in model.state_dict().items():
            assert tensor.equal(file.get_tensor(name)), name


def test_what_does_not_fit_is_reported(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    _change_config(folder, architectures=["GPT2ForTokenClassification"])
    _, report = load_pretrained(folder)
    assert report.missing == ("classifier.bias", "classifier.weight")
    assert report.unexpected == ("score.weight",)
    assert not report.clean
    _change_config(folder, architectures=["GPT2ForSequenceClassification"], vocab_size=33)
    _, report = load_pretrained(folder)
    assert report.mismatched == ("transformer.wte.weight",)
    assert capfd.readouterr() == ("", "")


def test_code_in_the_folder_is_not_run(folder: Path) -> None:
    canary = folder / "canary"
    (folder / "evil.py").write_text(f"open({str(canary)!r}, 'w')\nModel = Config = object\n")
    _change_config(folder, auto_map={"AutoConfig": "evil.Config", "AutoModel": "evil.Model"})
    _, report = load_pretrained(folder)
    assert report.clean
    assert not canary.exists()


def test_quantisation_asked_for_in_the_config_is_not_done(folder: Path) -> None:
    _change_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    _, report = load_pretrained(folder)
    assert report.clean


def test_pickled_weights_are_not_read(folder: Path) -> None:
    model, _ = load_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="model cannot be loaded"):
        load_pretrained(folder)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "[" * 100_000])
def test_unusable_config(folder: Path, text: str | None) -> None:
    path = folder / "config.json"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.raises(CheckpointError) as caught:
        load_pretrained(folder)
    assert caught.value.path == path


def test_unknown_model_type(folder: Path) -> None:
    _change_config(folder, model_type="no-such-model", architectures=None)
    with pytest.raises(ArchitectureError, match="no-such-model"):
        load_pretrained(folder)
