"""The token ids in the tokenizer files of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeGuard

from ace_gui.checkpoints import Checkpoint, FileStamp, find_side_files
from ace_gui.checkpoints.input_files import JSON_LIMIT, open_regular, read_at, read_json, refusal
from ace_gui.errors import CheckpointError

MOST_TOKENS: Final = 2_000_000
"""Twice the size of the largest published vocabularies."""

_FAST: Final = "tokenizer.json"
_SLOW: Final = ("vocab.json", "vocab.txt", "added_tokens.json")
_LONGEST_NAMED: Final = 20


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
    files, stamps = side_files_of(checkpoint), []
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
    theirs, ours = tokens_of(base), tokens_of(expert)
    differing = sorted(
        index for index in theirs.keys() | ours.keys() if theirs.get(index) != ours.get(index)
    )
    named = [
        (index, *(f"{found[index]!r}" if index in found else "nothing" for found in (theirs, ours)))
        for index in differing[:_LONGEST_NAMED]
    ]
    return Difference(
        tokens=len(differing),
        size=max(len(theirs), len(ours)),
        examples=tuple(
            f"id {i} is {one} in the base and {two} in the expert" for i, one, two in named
        ),
    )


# One comparison needs two tokenizers; the base's is used for every expert.
@lru_cache(maxsize=2)
def tokens_of(files: tuple[FileStamp, ...]) -> Mapping[int, str]:
    """Token by id, from tokenizer files. Raises CheckpointError."""
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
    model, added = content.get("model"), content.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
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
    return {index: token for token, index in vocabulary.items() if _is_id(index)}


def _is_id(value: object) -> TypeGuard[int]:
    """Whether an id is a valid row of an embedding; negative ones would be counted from the end."""
    return type(value) is int and 0 <= value < 2**31
