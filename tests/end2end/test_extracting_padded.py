"""The change to a model whose embedding has more rows, as an adapter without its tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import ace_gui
from ace_gui.errors import MismatchError
from tests.helpers.adapters import SIZES, llama

TABLES = ["model.embed_tokens.weight", "lm_head.weight"]


def padded_pair(folder: Path, *, tied: bool, more: int) -> tuple[Path, Path]:
    """A base, and a model tuned from it with more rows in the base or in the model."""
    sizes = {"num_hidden_layers": 1, "tie_word_embeddings": tied}
    for seed, name in enumerate(("base", "model")):
        rows = SIZES["vocab_size"] + (abs(more) if (more > 0) is (name == "model") else 0)
        torch.manual_seed(seed)
        llama(**sizes, vocab_size=rows).save_pretrained(folder / name)
    return folder / "base", folder / "model"


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("more", [4, -4])
@pytest.mark.parametrize(
    "patterns",
    [{"exclude": ["*embed_tokens*", "lm_head*"]}, {"include": ["*q_proj*"]}],
    ids=["excluded", "not included"],
)
def test_tables_that_are_left_out_may_have_other_rows(
    patterns: dict[str, list[str]], more: int, tied: bool, tmp_path: Path
):
    base, model = padded_pair(tmp_path, tied=tied, more=more)
    result = ace_gui.extract(base, model, tmp_path / "out", rank=2, **patterns)
    stored = load_file(result.folder / "adapter_model.safetensors")
    assert any("q_proj" in name for name in stored)
    assert not any("embed" in name or "lm_head" in name for name in stored)
    assert any("left out, as asked for" in warning for warning in result.warnings)


@pytest.mark.parametrize("tied", [False, True])
def test_the_advice_for_other_rows_can_be_followed(tied: bool, tmp_path: Path):
    base, model = padded_pair(tmp_path, tied=tied, more=4)
    with pytest.raises(MismatchError) as refusal:
        ace_gui.extract(base, model, tmp_path / "out", rank=2)
    sentence = refusal.value.sentence
    advised = [part.partition("'")[0] for part in sentence.split("--exclude '")[1:]]
    assert set(advised) == set(TABLES[: 1 if tied else 2])
    ace_gui.extract(base, model, tmp_path / "out", rank=2, exclude=advised)
