"""Fused matrices, stacked experts and other vocabularies, from folders to folders that load."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import RobertaConfig, RobertaForSequenceClassification

from ace_gui.architecture.transformers_library import LoadReport
from tests.helpers.command import ace_gui
from tests.helpers.models import (
    ROBERTA,
    Family,
    gpt2_family,
    gpt_oss_family,
    load_folder,
    roberta_family,
)
from tests.helpers.recipes import file_of

KEYS = {"name", "role", "shape", "disposition", "reason", "gamma", "regime", "energies"}


@pytest.mark.parametrize(
    ("make", "tensor", "parts"),
    [
        (gpt2_family, "transformer.h.0.attn.c_attn.weight", ["[query]", "[key]", "[value]"]),
        (
            gpt_oss_family,
            "model.layers.0.mlp.experts.gate_up_proj",
            [f"[{index}][{side}]" for index in range(3) for side in ("gate", "up")],
        ),
    ],
    ids=["gpt2", "gpt_oss"],
)
def test_split_tensors_come_out_whole(
    make: type[Family], tensor: str, parts: list[str], tmp_path: Path
) -> None:
    family = make(tmp_path)  # type: ignore[call-arg]
    recipe = file_of(tmp_path, family, split_fused=True)
    inspected = ace_gui("inspect", recipe, "--json", tmp_path / "i.json")
    assert inspected.returncode == 0, inspected.stderr
    layers = json.loads((tmp_path / "i.json").read_text())["layers"]
    assert all(layer.keys() == KEYS for layer in layers)
    layer_parts = [layer for layer in layers if layer["name"].startswith(f"{tensor}[")]
    assert [layer["name"] for layer in layer_parts] == [tensor + part for part in parts]
    assert all(layer["gamma"] is not None and layer["regime"] for layer in layer_parts)
    result = ace_gui("merge", recipe, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    _, report = load_folder(tmp_path / "out")
    assert report == LoadReport()
    before = load_file(family.base / "model.safetensors")
    after = load_file(tmp_path / "out" / "model.safetensors")
    assert {name: t.shape for name, t in after.items()} == {n: t.shape for n, t in before.items()}
    assert "split_fused: true" in (tmp_path / "out" / "merge_recipe.yaml").read_text()
    assert "tensors hold several matrices" in (tmp_path / "out" / "README.md").read_text()


def _give_tokens(folder: Path, tokens: list[str]) -> None:
    vocabulary = {token: index for index, token in enumerate(tokens)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))


def test_an_expert_with_more_tokens_keeps_its_own_rows_in_its_whole_model(tmp_path: Path) -> None:
    family = roberta_family(tmp_path, experts=2)
    tokens = [f"t{index}" for index in range(96)]
    longer = ["new", *tokens[:50], "newer", *tokens[50:]]
    _give_tokens(family.base, tokens)
    _give_tokens(family.experts["task0"], tokens)
    config = RobertaConfig(**{**ROBERTA, "vocab_size": 98}, num_labels=3)
    torch.manual_seed(0)
    RobertaForSequenceClassification(config).save_pretrained(family.experts["task1"])
    _give_tokens(family.experts["task1"], longer)
    recipe = file_of(tmp_path, family, vocabulary="tokens")
    result = ace_gui("merge", recipe, "--out", tmp_path / "out", "--complete-heads")
    assert result.returncode == 0, result.stderr
    name = "roberta.embeddings.word_embeddings.weight"
    base, merged, first, second = (
        load_file(folder / "model.safetensors")[name]
        for folder in (family.base, tmp_path / "out", *family.experts.values())
    )
    rows = [longer.index(token) for token in tokens]
    assert torch.allclose(merged, base + (first - base) / 2 + (second[rows] - base) / 2, atol=1e-6)
    assert "matched by token" in (tmp_path / "out" / "README.md").read_text()
    _, report = load_folder(tmp_path / "out")
    assert not report.mismatched
    task_folder = tmp_path / "out" / "heads" / "task1"
    _, report = load_folder(task_folder)
    assert report == LoadReport()
    written = load_file(task_folder / "model.safetensors")
    assert torch.equal(written[name], second)
    layer = "roberta.encoder.layer.0.attention.self.query.weight"
    assert torch.equal(written[layer], load_file(tmp_path / "out" / "model.safetensors")[layer])
