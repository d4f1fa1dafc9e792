"""Rows of embeddings and vocabulary heads, matched by token if the recipe says so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ace_gui.architecture.traits import Role
from ace_gui.checkpoints import NOWHERE, FileStamp
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.vocabulary.new_tokens import Known, token_indices
from ace_gui.engine.planning.vocabulary.tokenizers import tokenizer_stamps, tokens_of
from ace_gui.errors import RecipeError
from ace_gui.formatting import plain
from ace_gui.recipe.values import BY_TOKEN, Vocabulary


@dataclass(frozen=True, kw_only=True)
class TokenMatch:
    """The rows of the base's tokens in an expert.

    ``rows``: for each row of the base its row in the expert, or ``NOWHERE``. ``lacking``: number of
    the base's tokens that the expert lacks; ``extra``: number of the expert's tokens that the base
    lacks.
    """

    rows: NDArray[np.int64]
    lacking: int
    extra: frozenset[str]

    @property
    def moved(self) -> int:
        """The number of tokens with another row in the expert."""
        return int(np.sum((self.rows != NOWHERE) & (self.rows != np.arange(len(self.rows)))))


def vocabulary_tensors(model: OpenedModel) -> tuple[str, ...]:
    """The tensors with one row per token: the longest embedding, and tensors of the same length."""
    traits, tensors = model.architecture.traits, model.checkpoint.tensors
    lengths = [
        info.shape[0]
        for name, info in tensors.items()
        if traits[name].role is Role.EMBEDDING and len(info.shape) == 2
    ]
    roles = (Role.EMBEDDING, Role.VOCABULARY_HEAD)
    return tuple(
        name
        for name, info in tensors.items()
        if traits[name].role in roles and info.shape and info.shape[0] == max(lengths, default=0)
    )


def matched_by_token(
    base: OpenedModel, experts: Sequence[OpenedModel], choice: Vocabulary
) -> tuple[OpenedModel, ...]:
    """The experts, each with ``token_rows`` if its vocabulary differs from the base's.

    Only if the recipe matches rows by token. Raises RecipeError if a tokenizer needed for this is
    missing.
    """
    if choice not in BY_TOKEN:
        return tuple(experts)
    names = vocabulary_tensors(base)
    return tuple(replace(expert, token_rows=_token_rows(base, expert, names)) for expert in experts)


def deciding_tokenizers(models: Sequence[OpenedModel], choice: Vocabulary) -> tuple[FileStamp, ...]:
    """The tokenizer files that the merged rows depend on, with their current stamps.

    None unless the recipe matches rows by token. Raises CheckpointError.
    """
    if choice not in BY_TOKEN:
        return ()
    return tuple(stamp for model in models for stamp in tokenizer_stamps(model.checkpoint))


def _token_rows(
    base: OpenedModel, expert: OpenedModel, names: Sequence[str]
) -> Mapping[str, NDArray[np.int64]]:
    found = match(base, expert)
    if found is None:
        return {}
    shared = [name for name in names if expert.has(name)]
    length = expert.shape(shared[0])[0]
    return {name: found.rows for name in shared if expert.shape(name)[0] == length}


def differs(base: OpenedModel, expert: OpenedModel) -> bool:
    """Whether a row of the expert's vocabulary may belong to another token than in the base.

    Vocabularies of one size without a tokenizer on either side are assumed equal. Raises
    CheckpointError if a tokenizer cannot be read.
    """
    sizes = _sizes(base, expert)
    if sizes is None:
        return False
    before, after = (tokenizer_stamps(model.checkpoint) for model in (base, expert))
    known = bool(before and after)
    return sizes[0] != sizes[1] or (known and tokens_of(before) != tokens_of(after))


def match(base: OpenedModel, expert: OpenedModel) -> TokenMatch | None:
    """The rows of the base's tokens in the expert; None if every row has the same token.

    Raises RecipeError if a tokenizer needed for this is missing.
    """
    sizes = _sizes(base, expert)
    if sizes is None or not differs(base, expert):
        return None
    stamps = [tokenizer_stamps(model.checkpoint) for model in (base, expert)]
    for model, found in zip((base, expert), stamps, strict=True):
        if not found:
            raise RecipeError(
                f"Rows cannot be matched by token: {plain(model.name)} has no tokenizer file. Copy "
                "it into the folder.",
                key="vocabulary",
                path=model.checkpoint.path,
            )
    return _match(stamps[0], stamps[1], *sizes)


def _sizes(base: OpenedModel, expert: OpenedModel) -> tuple[int, int] | None:
    """Rows of the vocabulary in both models; None if they share no vocabulary tensor."""
    shared = [name for name in vocabulary_tensors(base) if expert.has(name)]
    return (base.shape(shared[0])[0], expert.shape(shared[0])[0]) if shared else None


@lru_cache(maxsize=64)
def _match(
    before: tuple[FileStamp, ...], after: tuple[FileStamp, ...], rows: int, expert_rows: int
) -> TokenMatch:
    theirs, expert = tokens_of(before), Known(name="", tokens=tokens_of(after), rows=expert_rows)
    wanted = {token for index, token in theirs.items() if index < rows}
    return TokenMatch(
        rows=token_indices(theirs, rows, expert, padding=False),
        lacking=len(wanted - expert.held),
        extra=frozenset(expert.held - wanted),
    )


def rows_digest(model: OpenedModel, name: str) -> str:
    """Digest of the row order of the base's tensor ``name``; "" for the base's own order."""
    rows = model.token_rows.get(name)
    return "" if rows is None else hashlib.sha256(rows.tobytes()).hexdigest()
