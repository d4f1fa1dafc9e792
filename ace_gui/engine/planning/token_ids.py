"""The token ids in tokenizer files, and the vocabulary of a merged model with new tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from ace_gui.checkpoints.derived import NOWHERE
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import (
    JSON_LIMIT,
    FileStamp,
    content_digest,
    open_regular,
    read_at,
    read_json,
    refusal,
)
from ace_gui.checkpoints.side_files import find_side_files
from ace_gui.errors import CheckpointError, RecipeError
from ace_gui.formatting import listing, plain

MOST_TOKENS: Final = 2_000_000
"""Twice the size of the largest published vocabularies."""

_FAST: Final = "tokenizer.json"
_SLOW: Final = ("vocab.json", "vocab.txt", "added_tokens.json")
_LONGEST_NAMED: Final = 20
_ROWS: Final = 2**31
"""More than an embedding can have."""

Tokens = Mapping[int, str]
"""Token by id."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How an expert's token → id map differs from the base's.

    ``tokens``: number of ids with different tokens, or with a token in only one of the two;
    ``size``: number of ids in the larger one. ``examples``: the first such ids, a sentence each.
    """

    tokens: int
    size: int
    examples: tuple[str, ...]


def side_files_of(checkpoint: Checkpoint) -> Mapping[str, Path]:
    """The files next to a model's weights, or next to an adapter's."""
    if not checkpoint.side_files and checkpoint.folder is not None:
        return find_side_files(checkpoint.folder).files
    return checkpoint.side_files


def has_tokenizer(checkpoint: Checkpoint) -> bool:
    """Whether a model has files with token ids."""
    return not side_files_of(checkpoint).keys().isdisjoint((_FAST, *_SLOW))


def tokenizer_stamps(checkpoint: Checkpoint) -> tuple[FileStamp, ...]:
    """The files with token ids, with their current stamps; none for image or audio models.

    Raises CheckpointError.
    """
    files = side_files_of(checkpoint)
    stamps = []
    for name in (_FAST,) if _FAST in files else _SLOW:
        if name in files:
            with open_regular(files[name]) as (_, stamp):
                stamps.append(stamp)
    return tuple(stamps)


def token_of(checkpoint: Checkpoint, index: int) -> str | None:
    """The token of an id, None if unknown."""
    try:
        return tokens_of(tokenizer_stamps(checkpoint)).get(index)
    except CheckpointError:
        return None


@lru_cache(maxsize=256)
def compare(base: tuple[FileStamp, ...], expert: tuple[FileStamp, ...]) -> Difference:
    """Compare two vocabularies, id by id. Raises CheckpointError for unreadable files."""
    theirs = tokens_of(base)
    ours = tokens_of(expert)
    if theirs == ours:
        return Difference(tokens=0, size=len(theirs), examples=())
    indices = theirs.keys() | ours.keys()
    differing = sorted(index for index in indices if theirs.get(index) != ours.get(index))
    examples = []
    for index in differing[:_LONGEST_NAMED]:
        of_base = _quoted(theirs.get(index))
        of_expert = _quoted(ours.get(index))
        examples.append(f"id {index} is {of_base} in the base and {of_expert} in the expert")
    return Difference(
        tokens=len(differing), size=max(len(theirs), len(ours)), examples=tuple(examples)
    )


def _quoted(token: str | None) -> str:
    return "nothing" if token is None else repr(token)


MOST_KEPT: Final = 25 * 256_000
"""Tokens that stay in memory: those of 25 large vocabularies, or of three at the limit."""

_kept: dict[tuple[tuple[str, str], ...], Tokens] = {}
"""Tokens by the names and SHA-256 of their files, those that were used last at the end."""


def tokens_of(files: tuple[FileStamp, ...]) -> Tokens:
    """Token by id, from tokenizer files. Raises CheckpointError for unreadable files.

    Files of one content, as fine-tunes have those of their base, are read once.
    """
    key = tuple((stamp.path.name, content_digest(stamp.path)) for stamp in files)
    tokens = _kept.pop(key, None)
    if tokens is None:
        tokens = _read_tokens(files)
    _kept[key] = tokens
    while len(_kept) > 1 and sum(map(len, _kept.values())) > MOST_KEPT:
        del _kept[next(iter(_kept))]
    return tokens


def _read_tokens(files: tuple[FileStamp, ...]) -> Tokens:
    tokens: dict[int, str] = {}
    for stamp in files:
        if stamp.path.suffix == ".txt":
            tokens.update(enumerate(_lines(stamp)))
            continue
        content = read_json(stamp.path, limit=JSON_LIMIT)
        if stamp.path.name == _FAST:
            tokens.update(_fast_tokens(content))
        else:
            tokens.update(_by_id(content))
    return tokens


def _lines(stamp: FileStamp) -> list[str]:
    """The lines of a vocab.txt; the line number is the id."""
    if stamp.size > JSON_LIMIT:
        raise refusal(stamp.path, f"Too large for a vocabulary ({stamp.size} bytes).")
    with open_regular(stamp.path) as (descriptor, _):
        raw = bytearray(stamp.size)
        read_at(descriptor, memoryview(raw), 0)
    if raw.count(b"\n") > MOST_TOKENS:
        raise refusal(stamp.path, f"Too many lines for a vocabulary; the limit is {MOST_TOKENS}.")
    return raw.decode("utf-8", errors="replace").removesuffix("\n").split("\n")


def _fast_tokens(content: Mapping[str, object]) -> dict[int, str]:
    """The ids in a tokenizer.json: the model's (a map or a list of pairs) and added ones."""
    model = content.get("model")
    added = content.get("added_tokens")
    if isinstance(model, dict):
        vocabulary = model.get("vocab")
    else:
        vocabulary = None
    tokens: dict[int, str] = {}
    if isinstance(vocabulary, dict):
        tokens = _by_id(vocabulary)
    elif isinstance(vocabulary, list):
        pairs = [entry for entry in vocabulary if isinstance(entry, list) and entry]
        tokens = {index: str(entry[0]) for index, entry in enumerate(pairs)}
    for entry in added if isinstance(added, list) else []:
        if isinstance(entry, dict) and _is_id(entry.get("id")):
            tokens[entry["id"]] = str(entry.get("content"))
    return tokens


def _by_id(vocabulary: Mapping[str, object]) -> dict[int, str]:
    if set(map(type, vocabulary.values())) == {int}:
        ids = cast("Sequence[int]", vocabulary.values())
        if min(ids) >= 0 and max(ids) < _ROWS:  # the usual case, for which this takes a third
            return dict(zip(ids, vocabulary, strict=True))
    return {index: token for token, index in vocabulary.items() if _is_id(index)}


def _is_id(value: object) -> TypeGuard[int]:
    """Whether an id is a valid row of an embedding; negative ones would be counted from the end."""
    return type(value) is int and 0 <= value < _ROWS


@dataclass(frozen=True, kw_only=True)
class Known:
    """The tokens of a model by id, and the number of rows of its embedding."""

    name: str
    tokens: Tokens
    rows: int

    @property
    def held(self) -> set[str]:
        """The tokens that have a row."""
        return {token for index, token in self.tokens.items() if index < self.rows}

    @property
    def rowless(self) -> list[str]:
        """The tokens without a row, by their ids: the embedding has too few rows."""
        rowless = sorted(index for index in self.tokens if index >= self.rows)
        return [self.tokens[index] for index in rowless]


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The vocabulary of a merged model."""

    tokens: Tokens
    """By index."""
    rows: int
    """Number of rows of its embeddings."""
    added: tuple[str, ...]
    """The new tokens."""
    owner: int | None
    """The expert whose tokenizer has exactly these tokens; None if the base's is extended."""
    left_out: frozenset[str]
    """Tokens that some experts have and the merged model lacks."""
    padding: int = 0
    """Number of last rows, of no token, that are added."""
    rowless: frozenset[str] = frozenset()
    """Tokens for which no model has a row."""


def join(
    base: Known,
    experts: Sequence[Known],
    *,
    union: bool,
    also: Iterable[str] = (),
    advice: str = "",
) -> Joined | None:
    """The base's tokens and new ones that all experts have; with ``union`` those of any expert.

    With ``union``, tokens count that have no row in their model, and every token has a row in the
    merged one. ``also``: tokens that are added in any case. None if nothing is added. The tokenizer
    is that of an expert with exactly these tokens, preferably one with the base's tokens at their
    ids. Otherwise the base's is extended. Raises RecipeError, whose message ends with ``advice``,
    if the base's ids have gaps, because a tokenizer would put new tokens there.
    """
    ours = set(base.tokens.values())
    held = [expert.held for expert in experts]
    new = [tokens - ours for tokens in held]
    rowless = set[str]()
    if union:
        rowless.update(base.rowless, *(expert.rowless for expert in experts))
        new = [{*expert.tokens.values()} - ours for expert in experts]
    added_tokens = set[str]().union(*new) if union or not new else set[str].intersection(*new)
    more = [token for token in also if token not in ours]
    added_tokens = added_tokens | set(more)
    if not added_tokens and not (union and base.rowless):
        return None
    added = tuple(dict.fromkeys((*_in_order(added_tokens, experts), *more)))
    left_out = frozenset(set[str]().union(*new) - added_tokens)
    owner = _owner(base, experts, added_tokens, rowless) if added_tokens else None
    if owner is not None:
        return _as_of(experts[owner], added=added, owner=owner, left_out=left_out)
    _refuse_gaps(base, added or tuple(base.rowless), advice)
    tokens = {**base.tokens, **dict(enumerate(added, len(base.tokens)))}
    return Joined(
        tokens=tokens,
        rows=max(base.rows, len(tokens)),
        added=added,
        owner=None,
        left_out=left_out,
        rowless=frozenset(rowless.difference(base.held, *held)),
    )


def _as_of(
    expert: Known, *, added: tuple[str, ...], owner: int, left_out: frozenset[str]
) -> Joined:
    return Joined(
        tokens=expert.tokens,
        rows=expert.rows,
        added=added,
        owner=owner,
        left_out=left_out,
    )


def _refuse_gaps(base: Known, added: Sequence[str], advice: str) -> None:
    """Raise RecipeError if a tokenizer would put these tokens into gaps of the base's ids."""
    start = len(base.tokens)
    if start and max(base.tokens) != start - 1:
        raise RecipeError(
            f"The tokens {listing(added)} cannot be added to the vocabulary of "
            f"{plain(base.name)}, whose ids have gaps, and no expert's tokenizer adds exactly "
            f"these tokens; {advice}.",
            key="vocabulary",
        )


def _in_order(added: Collection[str], experts: Sequence[Known]) -> Iterator[str]:
    """The added tokens that experts have, expert by expert, by id."""
    for expert in experts:
        for _, token in sorted(expert.tokens.items()):
            if token in added:
                yield token


def _owner(
    base: Known, experts: Sequence[Known], tokens: set[str], rowless: set[str]
) -> int | None:
    """The expert whose tokenizer has exactly the base's tokens and these, with fewest moved.

    It has a row for each of them, and for each of ``rowless``.
    """
    everything = {*base.tokens.values(), *tokens}
    tokens = tokens | rowless
    fitting = []
    for t, expert in enumerate(experts):
        if set(expert.tokens.values()) == everything and tokens <= expert.held:
            fitting.append(t)

    def moved(t: int) -> int:
        return sum(experts[t].tokens.get(i) != token for i, token in base.tokens.items())

    return min(fitting, key=moved, default=None)


def token_indices(tokens: Tokens, rows: int, model: Known, *, padding: bool) -> NDArray[np.int64]:
    """For each of ``rows`` rows of the tokens ``tokens`` its row in a model, or ``NOWHERE``.

    With ``padding``, a row without a token takes the model's row of the same number, if that one
    has no token either.
    """
    ids = {token: index for index, token in model.tokens.items() if index < model.rows}
    indices = np.full(rows, NOWHERE, dtype=np.int64)
    for index, token in tokens.items():
        if index < rows:
            same = index < model.rows and model.tokens.get(index) == token
            indices[index] = index if same else ids.get(token, NOWHERE)
    if padding:
        for index in range(min(rows, model.rows)):
            if index not in tokens and index not in model.tokens:
                indices[index] = index
    return indices


_DEFAULT: Final = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": True,
    "special": False,
}


def extended(
    files: Mapping[str, Mapping[str, object]],
    contents: Sequence[Mapping[str, object]],
    added: Mapping[str, int],
) -> dict[str, dict[str, object]]:
    """The changes to the base's tokenizer ``files`` for the tokens ``added``, by file and key.

    ``contents``: the experts' tokenizer.json, which define how tokens match. ``files``: the base's.
    """
    entries_by_content: dict[object, Mapping[str, object]] = {}
    for content in contents:
        for entry in _entries(content):
            entries_by_content.setdefault(entry.get("content"), entry)
    entries = {}
    for token, index in added.items():
        entry = entries_by_content.get(token, {})
        entries[token] = {**_DEFAULT, **entry, "id": index, "content": token}
    changes: dict[str, dict[str, object]] = {}
    if "tokenizer.json" in files:
        before = _entries(files["tokenizer.json"])
        changes["tokenizer.json"] = {"added_tokens": [*before, *entries.values()]}
    decoder = files.get("tokenizer_config.json", {}).get("added_tokens_decoder")
    if isinstance(decoder, dict):
        described = {}
        for entry in entries.values():
            settings = dict(entry)
            described[str(settings.pop("id"))] = settings
        changes["tokenizer_config.json"] = {"added_tokens_decoder": {**decoder, **described}}
    if "tokenizer.json" not in files or "added_tokens.json" in files:
        changes["added_tokens.json"] = dict(added)
    return changes


def _entries(content: Mapping[str, object]) -> list[Mapping[str, object]]:
    entries = content.get("added_tokens")
    if isinstance(entries, list):
        return [entry for entry in entries if isinstance(entry, dict)]
    return []


def resized(config: Mapping[str, object], before: int, after: int) -> dict[str, object]:
    """The changes to a config for another vocabulary size, at every key that has the size."""

    def new(key: str, value: object) -> object:
        if "vocab" in key and key.endswith("size") and value == before:
            return after
        return value

    if changes := _changes(config, new):
        return changes
    inner = config.get("text_config")
    if isinstance(inner, dict) and "vocab_size" not in config:
        return {"text_config": {**inner, "vocab_size": after}}
    return {"vocab_size": after}


def renumbered(config: Mapping[str, object], moved: Mapping[int, int]) -> dict[str, object]:
    """The changes to a config that refers to tokens whose ids have moved."""

    def new(key: str, value: object) -> object:
        if not key.endswith("_token_id"):
            return value
        if isinstance(value, list):
            return [new(key, token) for token in value]
        if type(value) is int:
            return moved.get(value, value)
        return value

    return _changes(config, new)


def _changes(
    config: Mapping[str, object], new: Callable[[str, object], object]
) -> dict[str, object]:
    """The changes to a config, nested ones included, by a function of key and value."""
    changes: dict[str, object] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            if inner := _changes(value, new):
                changes[key] = {**value, **inner}
        elif (changed := new(key, value)) != value:
            changes[key] = changed
    return changes
