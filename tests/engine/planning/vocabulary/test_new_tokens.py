"""Tokens that experts added: in the merged model, with the mean of their rows."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from ace_gui.engine.planning.prepare import prepare
from ace_gui.methods.registry import METHODS
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.values import Vocabulary
from tests.engine.planning.vocabulary.test_rows import (
    EMBEDDING,
    HEAD,
    HEAD_BIAS,
    check_of,
    folder_of,
    prepared_of,
    weights,
)
from tests.helpers.merges import merged_tensors
from tests.helpers.method_cases import needs_data

BASE = list("abcd")


def tokens_beside(store: Path) -> dict[str, int]:
    """The token → id map of the merged model."""
    found: dict[str, int] = {}
    for name in ("vocab.json", "added_tokens.json"):
        if (store / "model" / name).exists():
            found |= json.loads((store / "model" / name).read_text())
    return found


def mean_rows(folders: Sequence[Path], name: str, token: str) -> Tensor:
    rows = []
    for folder in folders:
        ids = json.loads((folder / "vocab.json").read_text())
        if token in ids:
            rows.append(weights(folder)[name][ids[token]])
    return torch.stack(rows).mean(dim=0)


def test_tokens_of_all_experts_are_added_and_those_of_some_left_out(tmp_path: Path) -> None:
    base = folder_of(tmp_path / "base", BASE)
    one = folder_of(tmp_path / "one", list("abcdxy"), seed=1)
    two = folder_of(tmp_path / "two", list("abcdyz"), seed=2)
    prepared = prepared_of(base, one, two)
    found = merged_tensors(prepared, tmp_path / "store")
    assert tokens_beside(tmp_path / "store") == {**{t: i for i, t in enumerate(BASE)}, "y": 4}
    for name in (EMBEDDING, HEAD, HEAD_BIAS):
        assert found[name].shape[0] == 5
        torch.testing.assert_close(found[name][4], mean_rows([one, two], name, "y"))
    assert "1 tokens that not every expert has are left out (`x`)" in check_of(prepared).sentence


@given(
    st.permutations("abcdwx"),
    st.permutations("abcdwxy"),
    st.integers(0, 3),
    st.sampled_from(["tokens", "union"]),
)
@settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_rows_are_those_of_their_tokens_whatever_the_ids(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[str],
    second: list[str],
    padded: int,
    vocabulary: str,
) -> None:
    folder = tmp_path_factory.mktemp("tokens")
    base = folder_of(folder / "base", BASE, padded=padded)
    experts = [
        folder_of(folder / "one", first, seed=1, padded=padded),
        folder_of(folder / "two", second, seed=2),
    ]
    prepared = prepared_of(base, *experts, vocabulary=vocabulary)
    found = merged_tensors(prepared, folder / "store")
    ids = tokens_beside(folder / "store")
    assert set(ids) == set("abcdwx" if vocabulary == "tokens" else "abcdwxy")
    assert len(set(ids.values())) == len(ids)
    for name in (EMBEDDING, HEAD, HEAD_BIAS):
        assert len(found[name]) > max(ids.values())
        for token, index in ids.items():
            torch.testing.assert_close(found[name][index], mean_rows(experts, name, token))


@pytest.mark.parametrize("method", sorted(n for n, m in METHODS.items() if not needs_data(m)))
def test_a_new_row_is_the_weighted_mean_under_every_method(tmp_path: Path, method: str) -> None:
    chosen = METHODS[method]
    base = folder_of(tmp_path / "base", BASE)
    count = chosen.most or 2
    folders = [
        folder_of(tmp_path / f"e{n}", list("abcdx"), seed=n + 1) for n in range(max(count, 1))
    ]
    given = [3.0, 1.0][: len(folders)]
    recipe = Recipe(
        base_model=base,
        models=tuple(ModelEntry(model=f, weight=w) for f, w in zip(folders, given, strict=True)),
        merge_method=method,
        vocabulary=Vocabulary.TOKENS,
    )
    found = merged_tensors(prepare(recipe), tmp_path / "store")
    for name in (EMBEDDING, HEAD, HEAD_BIAS):
        rows = [weights(folder)[name][4] for folder in folders]
        wanted = sum(w * row for w, row in zip(given, rows, strict=True)) / sum(given)
        torch.testing.assert_close(found[name][4], wanted)
