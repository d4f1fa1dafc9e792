"""Checks for tokenizers with more tokens than the embedding has rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ace_gui.engine.contract.plan import Check, CheckVerdict
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.token_ids import Known, tokenizer_stamps, tokens_of
from ace_gui.engine.planning.vocabulary import vocabulary_tensors
from ace_gui.errors import CheckpointError
from ace_gui.formatting import counted, listing, plain
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import Vocabulary

VOCABULARY: Final = "Vocabulary"
"""The title of checks of tokens."""


def rowless_checks(
    recipe: Recipe, base: OpenedModel, experts: Sequence[OpenedModel]
) -> list[Check]:
    """A warning for each model whose tokenizer has tokens without a row in its embedding."""
    checks = []
    names = vocabulary_tensors(base)
    for model in (base, *experts):
        vocabulary = _vocabulary_of(model, names)
        if vocabulary is None or not vocabulary.rowless:
            continue
        if model is base:
            subject = "the base"
        else:
            subject = model.name
        if recipe.tokenizer:
            is_chosen = model.name == recipe.tokenizer
        else:
            is_chosen = model is base
        sentence = f"{_count(vocabulary)} {_outcome(recipe.vocabulary, is_chosen=is_chosen)}"
        checks.append(
            Check(
                VOCABULARY,
                sentence,
                CheckVerdict.WARNING,
                "\n".join(map(plain, vocabulary.rowless)),
                plain(subject),
            )
        )
    if base.joined is not None and base.joined.rowless:
        tokens = sorted(base.joined.rowless)
        sentence = (
            f"No model has a row for {listing(tokens)}: each gets the mean of all rows, as "
            "`resize_token_embeddings` of transformers gives it. It was never trained."
        )
        checks.append(
            Check(VOCABULARY, sentence, CheckVerdict.WARNING, "\n".join(map(plain, tokens)))
        )
    return checks


def _vocabulary_of(model: OpenedModel, names: Sequence[str]) -> Known | None:
    """The tokens of a model and its number of rows; None if one of the two is not known."""
    tables = [name for name in names if model.has(name)]
    try:
        stamps = tokenizer_stamps(model.checkpoint)
        if not tables or not stamps:
            return None
        tokens = tokens_of(stamps)
    except CheckpointError:  # another check says so
        return None
    return Known(name=model.name, tokens=tokens, rows=model.shape(tables[0])[0])


def _count(vocabulary: Known) -> str:
    rowless = counted(len(vocabulary.rowless), "token", "tokens")
    example = listing(vocabulary.rowless[:1])
    return (
        f"Its tokenizer has token ids up to {max(vocabulary.tokens)}, but its embedding has only "
        f"{vocabulary.rows} rows: {rowless} without a row, such as {example}. Texts with them fail."
    )


def _outcome(choice: Vocabulary, *, is_chosen: bool) -> str:
    """What becomes of the tokens, and what to do.

    ``is_chosen``: whether the merged model has this tokenizer.
    """
    resize = (
        "Add rows in transformers with `model.resize_token_embeddings(len(tokenizer))`, or take "
        "the tokens out of the tokenizer"
    )
    if choice is Vocabulary.UNION:
        return "With vocabulary: union they are in the merged model, and each has a row there."
    if is_chosen:
        return (
            "The merged model has the same tokenizer and as few rows. "
            f"{resize}; vocabulary: union gives each the mean of all rows."
        )
    return (
        "They are not in the merged model unless its tokenizer has them. "
        f"{resize}; vocabulary: union takes them in, each with the mean of all rows."
    )
