"""Tokenizers with more tokens than the embedding has rows: said, and given rows by a union."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ace_gui.engine.contract.plan import EVERYTHING, Check, CheckVerdict
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe.values import Vocabulary
from tests.helpers.adapters import SIZES, llama
from tests.helpers.merges import merged_folder
from tests.helpers.recipes import recipe_over

ROWS = SIZES["vocab_size"]
TABLES = ("model.embed_tokens.weight", "lm_head.weight")


def model(folder: Path, seed: int, tokens: int, rows: int = ROWS, *, tied: bool = False) -> Path:
    """A model with this many rows, and a tokenizer with this many tokens."""
    torch.manual_seed(seed)
    llama(num_hidden_layers=1, vocab_size=rows, tie_word_embeddings=tied).save_pretrained(folder)
    vocabulary = {f"t{index}": index for index in range(tokens)}
    content = {"version": "1.0", "model": {"type": "WordLevel", "vocab": vocabulary}}
    (folder / "tokenizer.json").write_text(json.dumps({**content, "added_tokens": []}))
    return folder


def warnings(checks: tuple[Check, ...]) -> dict[str, str]:
    """The sentences about tokens without a row, by the model."""
    return {
        check.subject: check.sentence
        for check in checks
        if check.title == "Vocabulary"
        and check.verdict is CheckVerdict.WARNING
        and "row" in check.sentence
    }


@pytest.mark.parametrize("choice", list(Vocabulary))
@pytest.mark.parametrize("base_tokens", [ROWS, ROWS + 2])
@pytest.mark.parametrize("expert_tokens", [ROWS, ROWS + 2])
@pytest.mark.parametrize("tied", [False, True])
def test_tokens_without_a_row(
    tied: bool, expert_tokens: int, base_tokens: int, choice: Vocabulary, tmp_path
):
    base = model(tmp_path / "base", 0, base_tokens, tied=tied)
    expert = model(tmp_path / "expert", 1, expert_tokens, tied=tied)
    recipe = recipe_over(base, [expert], merge_method="linear", vocabulary=choice)
    sentences = warnings(prepare(recipe).plan.checks)
    is_union = choice is Vocabulary.UNION
    if base_tokens > ROWS and not is_union:
        assert f"{ROWS} rows: 2 tokens without a row, such as `t{ROWS}`" in sentences["the base"]
        assert "resize_token_embeddings" in sentences["the base"]
    assert ("the base" in sentences) is (base_tokens > ROWS and not is_union)
    assert any("2 tokens" in sentence for sentence in (sentences.get("expert", ""),)) is (
        expert_tokens > ROWS
    )
    out = merged_folder(recipe, tmp_path / "out")
    stored = load_file(out / "model.safetensors")
    ids = json.loads((out / "tokenizer.json").read_text())
    ids = {*ids["model"]["vocab"].values(), *(entry["id"] for entry in ids["added_tokens"])}
    if is_union:
        assert max(ids) < len(stored[TABLES[0]])
        assert json.loads((out / "config.json").read_text())["vocab_size"] == max(ids) + 1
    for name in TABLES[: 1 if tied else 2]:
        source = base if choice is Vocabulary.BASE else expert
        source_rows = load_file(source / "model.safetensors")[name]
        torch.testing.assert_close(stored[name][:ROWS], source_rows)
        if is_union and len(stored[name]) > ROWS:
            mean = load_file(base / "model.safetensors")[name].double().mean(dim=0)
            torch.testing.assert_close(stored[name][ROWS:].double(), mean.expand(2, -1))
            assert "never trained" in sentences[EVERYTHING]


def test_a_row_that_another_expert_has_is_taken(tmp_path):
    base = model(tmp_path / "base", 0, ROWS + 2)
    short = model(tmp_path / "short", 1, ROWS + 2)
    long = model(tmp_path / "whole", 2, ROWS + 2, ROWS + 2)
    recipe = recipe_over(base, [short, long], merge_method="linear", vocabulary=Vocabulary.UNION)
    out = merged_folder(recipe, tmp_path / "out")
    for name in TABLES:
        source_rows = load_file(long / "model.safetensors")[name]
        torch.testing.assert_close(
            load_file(out / "model.safetensors")[name][ROWS:], source_rows[ROWS:]
        )
    assert EVERYTHING not in warnings(prepare(recipe).plan.checks)
