"""Tokenizer files are read once, however many models have them and checks need them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ace_gui.checkpoints.input_files import read_json
from ace_gui.engine.planning import token_ids
from ace_gui.engine.planning.prepare import prepare
from tests.helpers.recipes import recipe_over

MODELS = 5
ROWS = 12


def model(folder: Path, words: str) -> Path:
    folder.mkdir()
    torch.manual_seed(len(folder.name))
    table = {"model.embed_tokens.weight": torch.randn(ROWS, 4)}
    save_file(table, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"vocab_size": ROWS}))
    vocabulary = {f"{words if index > 8 else ''}{index}": index for index in range(ROWS)}
    content = {"version": "1.0", "model": {"type": "WordLevel", "vocab": vocabulary}}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders whose tokenizer.json is read."""
    folders: list[str] = []

    def noted(path: Path, **limits: Any) -> dict[str, object]:
        folders.append(path.parent.name)
        return read_json(path, **limits)

    monkeypatch.setattr(token_ids, "read_json", noted)
    monkeypatch.setattr(token_ids, "_kept", {})
    return folders


@pytest.mark.parametrize("vocabulary", ["position", "tokens", "union", "base"])
@pytest.mark.parametrize("alike", [True, False])
def test_each_tokenizer_is_read_once_for_a_plan(
    tmp_path: Path, read: list[str], alike: bool, vocabulary: str
) -> None:
    words = ["a" if alike else "abcde"[number] for number in range(MODELS)]
    base, *experts = (model(tmp_path / f"m{n}", word) for n, word in enumerate(words))
    prepare(recipe_over(base, experts, vocabulary=vocabulary, merge_method="linear"))
    assert len(read) == len(set(words))


def test_vocabularies_in_memory_are_limited(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_ids, "MOST_KEPT", 2 * ROWS)
    base, *experts = (model(tmp_path / f"m{n}", "abcde"[n]) for n in range(MODELS))
    prepare(recipe_over(base, experts, vocabulary="tokens", merge_method="linear"))
    assert len(read) > MODELS
    assert len(token_ids._kept) == 2


def test_a_tokenizer_that_is_written_again_is_read_again(tmp_path: Path, read: list[str]) -> None:
    file = model(tmp_path / "m", "a") / "tokenizer.json"
    stamps = (token_ids.FileStamp.of(file, file.stat()),)
    before = token_ids.tokens_of(stamps)
    file.write_text(file.read_text().replace("a11", "b11"))
    after = token_ids.tokens_of((token_ids.FileStamp.of(file, file.stat()),))
    assert (before[11], after[11]) == ("a11", "b11")


@pytest.mark.parametrize("index", [True, "1", 1.0, None, -1, 2**31])
def test_only_rows_are_ids(index: object) -> None:
    assert token_ids._by_id({"a": 0, "b": index, "c": 2}) == {0: "a", 2: "c"}
