"""Vocabularies that differ: rows matched by token, kept from the base, or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui.checkpoints.derived import NOWHERE, runs
from ace_gui.engine.contract.plan import Check, CheckVerdict, Disposition
from ace_gui.engine.inspecting.layer_context import InspectionCache, InspectionContext
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import MismatchError, RecipeError, ResumeError, WorkbenchError
from ace_gui.methods.registry import METHODS
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import Vocabulary
from tests.helpers.merges import merged_tensors
from tests.helpers.method_cases import needs_data
from tests.helpers.recipes import recipe_over

WIDTH = 4
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
HEAD_BIAS = "lm_head.bias"


def folder_of(folder: Path, tokens: list[str] | None, *, padded: int = 0, seed: int = 0) -> Path:
    """A small model with a row for each token, and ``padded`` more."""
    rows = len(tokens or "abcd") + padded
    generator = torch.Generator().manual_seed(seed)
    shapes = {EMBEDDING: (rows, WIDTH), HEAD: (rows, WIDTH), HEAD_BIAS: (rows,), "norm": (WIDTH,)}
    folder.mkdir()
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if tokens is not None:
        vocabulary = {token: index for index, token in enumerate(tokens)}
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return folder


def prepared_of(base: Path, *experts: Path, vocabulary: str = "tokens") -> Prepared:
    return prepare(recipe_over(base, experts, vocabulary=Vocabulary(vocabulary)))


def check_of(prepared: Prepared) -> Check:
    return next(check for check in prepared.plan.checks if check.title == "Vocabulary")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@given(st.lists(st.integers(-1, 12), max_size=30))
@settings(max_examples=200)
def test_runs_cover_every_known_row_once(rows: list[int]):
    covered = np.full(len(rows), NOWHERE)
    for index, row, count in runs(np.array(rows, dtype=np.int64)):
        assert (covered[index : index + count] == NOWHERE).all()
        covered[index : index + count] = np.arange(row, row + count)
    assert covered.tolist() == rows


def expected_rows(
    base: torch.Tensor, experts: Mapping[str, torch.Tensor], orders: Mapping[str, list[str]]
) -> torch.Tensor:
    """The mean over the experts, token by token; one without the token changes nothing."""
    result = base.clone()
    for index, token in enumerate("abcd"):
        for name, tensor in experts.items():
            if token in orders[name]:
                result[index] += (tensor[orders[name].index(token)] - base[index]) / len(experts)
    return result


@pytest.mark.parametrize("padded", [0, 3])
def test_rows_are_averaged_by_token(tmp_path, padded: int):
    orders = {"moved": list("dbac"), "longer": list("abxcdyz"), "shorter": list("ca")}
    base = folder_of(tmp_path / "base", list("abcd"), padded=padded)
    folders = [
        folder_of(tmp_path / name, order, seed=seed)
        for seed, (name, order) in enumerate(orders.items(), start=1)
    ]
    prepared = prepared_of(base, *folders)
    result = merged_tensors(prepared, tmp_path / "store")
    for name in (EMBEDDING, HEAD, HEAD_BIAS):
        experts = {folder.name: weights(folder)[name] for folder in folders}
        expected = expected_rows(weights(base)[name], experts, orders)
        assert result[name].shape == expected.shape
        assert torch.allclose(result[name], expected, atol=1e-6)
        assert torch.equal(result[name][4:], weights(base)[name][4:])  # no token, no change
    norms = torch.stack([weights(folder)["norm"] for folder in folders])
    assert torch.allclose(result["norm"], norms.mean(dim=0), atol=1e-6)


ORDERS = {
    "swapped": {"one": list("bacd"), "two": list("abcd")},
    "longer, all with one token": {"one": list("abcdx"), "two": list("xdcba")},
    "longer, with other tokens": {"one": list("abxcd"), "two": list("ybacd")},
    "shorter": {"one": list("ca"), "two": list("abcd")},
}


def mergekit_file(folder: Path, base: Path, experts: list[Path], **said: object) -> Path:
    file = folder / "mergekit.yaml"
    models = [{"model": str(path), "parameters": {"weight": 0.5}} for path in experts]
    document = {"merge_method": "linear", "base_model": str(base), "models": models, **said}
    file.write_text(json.dumps({**document, "dtype": "float32"}))
    return file


@pytest.mark.parametrize("said", ["tokenizer_source", "tokenizer", "a path"])
@pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS)
def test_the_base_as_tokenizer_source_keeps_its_tokens_exactly(
    tmp_path, orders: dict[str, list[str]], said: str
):
    base = folder_of(tmp_path / "base", list("abcd"))
    folders = [
        folder_of(tmp_path / name, order, seed=seed)
        for seed, (name, order) in enumerate(orders.items(), start=1)
    ]
    keys = {
        "tokenizer_source": {"tokenizer_source": "base"},
        "tokenizer": {"tokenizer": {"source": "base"}},
        "a path": {"tokenizer_source": str(base)},
    }[said]
    recipe = load_recipe(mergekit_file(tmp_path, base, folders, **keys))
    result = merged_tensors(prepare(recipe), tmp_path / "store")
    for name in (EMBEDDING, HEAD, HEAD_BIAS):
        experts = {folder.name: weights(folder)[name].double() for folder in folders}
        expected = expected_rows(weights(base)[name].double(), experts, orders)
        assert result[name].shape == expected.shape
        assert torch.allclose(result[name].double(), expected, atol=1e-6)


@pytest.mark.parametrize("foreign", [True, False])
def test_advice_on_vocabularies_is_in_the_language_of_the_file(tmp_path, foreign: bool):
    base = folder_of(tmp_path / "base", list("abcd"))
    expert = folder_of(tmp_path / "longer", list("abcdx"), seed=1)
    third = folder_of(tmp_path / "other", list("abcdxy"), seed=2)
    ids = {"a": 0, "b": 1, "c": 2, "d": 3, "e": 7}
    gaps = folder_of(tmp_path / "gaps", list("abcd"))
    (gaps / "vocab.json").write_text(json.dumps(ids))
    recipes = [
        recipe_over(base, [expert]),
        recipe_over(gaps, [expert, third], vocabulary=Vocabulary.UNION),
    ]
    if foreign:
        recipes = [
            load_recipe(mergekit_file(tmp_path, base, [expert])),
            load_recipe(mergekit_file(tmp_path, gaps, [expert, third], tokenizer_source="union")),
        ]
    for recipe in recipes:
        with pytest.raises(WorkbenchError) as caught:
            prepare(recipe)
        assert ("tokenizer_source: base" in caught.value.sentence) is foreign
        assert ("vocabulary" in caught.value.sentence.replace("the vocabulary", "")) is not foreign


def test_what_was_matched_and_left_out_is_told(tmp_path):
    base = folder_of(tmp_path / "base", list("abcd"))
    expert = folder_of(tmp_path / "one", list("bxyza"), seed=1)
    second = folder_of(tmp_path / "two", list("abcdz"), seed=2)
    check = check_of(prepared_of(base, expert, second))
    assert check.verdict is CheckVerdict.NOTE
    assert "2 have other rows here, 2 of the base's tokens are missing" in check.sentence
    assert "1 new tokens (`z`) are added" in check.sentence
    assert "2 tokens that not every expert has are left out (`x`, `y`)" in check.sentence


def test_the_same_tokens_are_read_as_ever(tmp_path):
    base = folder_of(tmp_path / "base", list("abcd"), padded=2)
    experts = [folder_of(tmp_path / f"e{n}", list("abcd"), padded=2, seed=n) for n in (1, 2)]
    by_token, by_position = (
        merged_tensors(prepared_of(base, *experts, vocabulary=way), tmp_path / way)
        for way in ("tokens", "position")
    )
    assert all(torch.equal(tensor, by_position[name]) for name, tensor in by_token.items())


@pytest.mark.parametrize("tokens", [list("abcdxy"), list("dcba"), None])
def test_the_base_can_keep_its_rows(tmp_path, tokens: list[str] | None):
    base = folder_of(tmp_path / "base", list("abcd"))
    expert = folder_of(tmp_path / "one", tokens, seed=1)
    prepared = prepared_of(base, expert, vocabulary="base")
    of_base = {row.name for row in prepared.plan.rows if row.disposition is Disposition.BASE}
    assert of_base == {EMBEDDING, HEAD, HEAD_BIAS}
    result = merged_tensors(prepared, tmp_path / "store")
    assert all(torch.equal(result[name], weights(base)[name]) for name in of_base)
    assert torch.allclose(result["norm"], weights(expert)["norm"])
    assert check_of(prepared).verdict is not CheckVerdict.WARNING


def test_by_position_other_sizes_are_refused_and_other_orders_warned_of(tmp_path):
    base = folder_of(tmp_path / "base", list("abcd"))
    longer = folder_of(tmp_path / "longer", list("abcdx"), seed=1)
    moved = folder_of(tmp_path / "moved", list("abdc"), seed=2)
    with pytest.raises(MismatchError, match="matched by token") as caught:
        prepared_of(base, longer, vocabulary="position")
    assert "base's kept" in caught.value.sentence
    check = check_of(prepared_of(base, moved, vocabulary="position"))
    assert check.verdict is CheckVerdict.WARNING
    assert "match them by token" in check.sentence


def test_without_a_tokenizer_tokens_cannot_be_matched(tmp_path):
    base = folder_of(tmp_path / "base", list("abcd"))
    mute = folder_of(tmp_path / "mute", None, padded=1, seed=1)
    with pytest.raises(RecipeError, match="mute has no tokenizer file") as caught:
        prepared_of(base, mute)
    assert caught.value.key == "vocabulary"


@pytest.mark.parametrize("changed", ["base", "one"])
def test_a_merge_belongs_to_its_tokenizers(tmp_path, changed: str):
    base = folder_of(tmp_path / "base", list("abcd"))
    expert = folder_of(tmp_path / "one", list("badc"), seed=1)
    by_token, by_position = (
        prepared_of(base, expert, vocabulary=way) for way in ("tokens", "position")
    )
    events = merge(by_token, tmp_path / "store")
    next(iter(events))
    events.close()
    assert by_token.is_current()
    order = {token: index for index, token in enumerate("cabd")}
    (tmp_path / changed / "vocab.json").write_text(json.dumps(order, indent=1))
    assert not by_token.is_current()
    assert by_position.is_current()
    again = prepared_of(base, expert)
    with pytest.raises(ResumeError, match=r"vocab\.json \(changed since\)"):
        list(merge(again, tmp_path / "store", resume=True))
    (tmp_path / changed / "vocab.json").unlink()
    assert not again.is_current()


def test_another_width_is_refused_whatever_is_chosen(tmp_path):
    base = folder_of(tmp_path / "base", list("abcd"))
    expert = folder_of(tmp_path / "one", list("abcdx"), seed=1)
    tensors = weights(expert)
    save_file({**tensors, HEAD: tensors[HEAD][:, :2].clone()}, expert / "model.safetensors")
    with pytest.raises(MismatchError, match="5×2 in one but 4×4"):
        prepared_of(base, expert)


def test_a_close_look_is_not_remembered_for_another_order(tmp_path):
    base = folder_of(tmp_path / "base", list("abcd"))
    expert = folder_of(tmp_path / "one", list("badc"), seed=1)
    keys = set()
    for way in ("tokens", "position"):
        prepared = prepared_of(base, expert, vocabulary=way)
        (row,) = [row for row in prepared.plan.rows if row.name == EMBEDDING]
        context = InspectionContext(
            prepared, row, torch.device("cpu"), InspectionCache(tmp_path / "cache")
        )
        keys.add(context.key("distribution"))
    assert len(keys) == 2


BASE = list("abcd")


def tokens_beside(store: Path) -> dict[str, int]:
    """The token → id map of the merged model."""
    tokens: dict[str, int] = {}
    for name in ("vocab.json", "added_tokens.json"):
        if (store / "model" / name).exists():
            tokens |= json.loads((store / "model" / name).read_text())
    return tokens


def mean_rows(folders: Sequence[Path], name: str, token: str) -> Tensor:
    rows = []
    for folder in folders:
        ids = json.loads((folder / "vocab.json").read_text())
        if token in ids:
            rows.append(weights(folder)[name][ids[token]])
    return torch.stack(rows).mean(dim=0)


@given(
    st.permutations("abcdwx"),
    st.permutations("abcdwxy"),
    st.integers(0, 3),
    st.sampled_from(["tokens", "union"]),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_are_those_of_their_tokens_whatever_the_ids(
    tmp_path_factory, first: list[str], second: list[str], padded: int, vocabulary: str
):
    folder = tmp_path_factory.mktemp("tokens")
    base = folder_of(folder / "base", BASE, padded=padded)
    experts = [
        folder_of(folder / "one", first, seed=1, padded=padded),
        folder_of(folder / "two", second, seed=2),
    ]
    prepared = prepared_of(base, *experts, vocabulary=vocabulary)
    tensors = merged_tensors(prepared, folder / "store")
    ids = tokens_beside(folder / "store")
    assert set(ids) == set("abcdwx" if vocabulary == "tokens" else "abcdwxy")
    assert len(set(ids.values())) == len(ids)
    for name in (EMBEDDING, HEAD, HEAD_BIAS):
        assert len(tensors[name]) > max(ids.values())
        for token, index in ids.items():
            torch.testing.assert_close(tensors[name][index], mean_rows(experts, name, token))


@pytest.mark.parametrize("method", sorted(n for n, m in METHODS.items() if not needs_data(m)))
def test_a_new_row_is_the_weighted_mean_under_every_method(tmp_path, method: str):
    chosen = METHODS[method]
    base = folder_of(tmp_path / "base", BASE)
    count = chosen.most or 2
    folders = [
        folder_of(tmp_path / f"e{n}", list("abcdx"), seed=n + 1) for n in range(max(count, 1))
    ]
    factors = [3.0, 1.0][: len(folders)]
    recipe = Recipe(
        base_model=base,
        models=tuple(ModelEntry(model=f, weight=w) for f, w in zip(folders, factors, strict=True)),
        merge_method=method,
        vocabulary=Vocabulary.TOKENS,
    )
    tensors = merged_tensors(prepare(recipe), tmp_path / "store")
    for name in (EMBEDDING, HEAD, HEAD_BIAS):
        rows = [weights(folder)[name][4] for folder in folders]
        expected = sum(w * row for w, row in zip(factors, rows, strict=True)) / sum(factors)
        torch.testing.assert_close(tensors[name][4], expected)
