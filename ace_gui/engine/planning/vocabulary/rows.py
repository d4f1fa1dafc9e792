"""Rows of embeddings and vocabulary heads, matched by token if the recipe says so."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
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
    the base's tokens that the expert lacks; ``extra``: the expert's tokens that the base lacks.
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
    names, found = vocabulary_tensors(base), []
    for expert in experts:
        shared, known = [name for name in names if expert.has(name)], match(base, expert)
        same = [n for n in shared if known and expert.shape(n)[0] == expert.shape(shared[0])[0]]
        rows = {} if known is None else dict.fromkeys(same, known.rows)
        found.append(replace(expert, token_rows=rows))
    return tuple(found)


def deciding_tokenizers(models: Sequence[OpenedModel], choice: Vocabulary) -> tuple[FileStamp, ...]:
    """The tokenizer files that the merged rows depend on, with their current stamps.

    None unless the recipe matches rows by token. Raises CheckpointError.
    """
    if choice not in BY_TOKEN:
        return ()
    return tuple(stamp for model in models for stamp in tokenizer_stamps(model.checkpoint))


def differs(base: OpenedModel, expert: OpenedModel) -> bool:
    """Whether a row of the expert's vocabulary may belong to another token than in the base.

    Vocabularies of one size without a tokenizer on either side are assumed equal. Raises
    CheckpointError if a tokenizer cannot be read.
    """
    shared = [name for name in vocabulary_tensors(base) if expert.has(name)]
    if not shared:
        return False
    before, after = (tokenizer_stamps(model.checkpoint) for model in (base, expert))
    other_tokens = bool(before and after) and tokens_of(before) != tokens_of(after)
    return other_tokens or base.shape(shared[0])[0] != expert.shape(shared[0])[0]


def match(base: OpenedModel, expert: OpenedModel) -> TokenMatch | None:
    """The rows of the base's tokens in the expert; None if every row has the same token.

    Raises RecipeError if a tokenizer needed for this is missing.
    """
    if not differs(base, expert):
        return None
    before, after = (tokenizer_stamps(model.checkpoint) for model in (base, expert))
    for model, found in ((base, before), (expert, after)):
        if not found:
            raise RecipeError(
                f"Rows cannot be matched by token: {plain(model.name)} has no tokenizer file. Copy "
                "it into the folder.",
                key="vocabulary",
                path=model.checkpoint.path,
            )
    first = next(name for name in vocabulary_tensors(base) if expert.has(name))
    return _match(before, after, base.shape(first)[0], expert.shape(first)[0])


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
