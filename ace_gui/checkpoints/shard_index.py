"""``model.safetensors.index.json``, or a pickled model's: which shard holds which tensor.

The index is not trusted. Its file names are joined to the folder only after they are
known to be plain names of files of weights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.input_files import read_json, refusal
from ace_gui.formatting import listing, plain

INDEX_LIMIT: Final = 50_000_000
"""Largest index in bytes."""

_RESERVED: Final = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\.|$)")
_NUMBERED: Final = re.compile(r"-(\d+)-of-(\d+)\.\w+$")


def read_shard_index(path: Path, suffix: str = ".safetensors") -> dict[str, str]:
    """Tensor name to base name of its shard, which ends in ``suffix``.

    Raises CheckpointError, before any shard is touched, if a name could lead out of the folder.
    """
    weight_map = read_json(path, limit=INDEX_LIMIT).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise refusal(path, "The index has no weight map. Download it again.")
    shards = {}
    for name, shard in weight_map.items():
        if not isinstance(shard, str):
            raise refusal(path, f"The index names no file for `{plain(name)}`.", tensor=name)
        if not is_plain_shard_name(shard, suffix):
            raise refusal(
                path,
                "The index points outside the model's folder. Refused: the model may be malicious.",
                tensor=name,
            )
        shards[name] = shard
    return shards


def is_plain_shard_name(name: str, suffix: str = ".safetensors") -> bool:
    """A base name ending in ``suffix`` that means the same file name on every system."""
    return (
        name.endswith(suffix)
        and name.isprintable()  # which also excludes lone surrogates
        and len(name.encode()) <= 255
        and not name.startswith((".", " ", "~"))
        and not set(name) & set('/\\:*?"<>|')
        and not _RESERVED.match(name)
    )


def shard_files(index: Path, shards: Iterable[str]) -> list[Path]:
    """The files of the named shards, sorted by name. Raises CheckpointError if one is missing."""
    names = sorted(set(shards))
    for position, name in enumerate(names, start=1):
        if not os.path.exists(index.parent / name):  # noqa: PTH110 - False also where not allowed
            which = _ordinal(name) or f"{position} of {len(names)}"
            raise refusal(
                index.parent,
                f"Shard {which} is missing. Download `{plain(name)}` into the folder.",
            )
    return [index.parent / name for name in names]


def check_against_index(
    index: Path, shards: Mapping[str, str], files: Mapping[str, Path]
) -> tuple[str, ...]:
    """Warnings about tensors the index does not list; ``files`` has the file of each tensor.

    Raises CheckpointError if a tensor is not in the shard that should hold it.
    """
    for name, shard in shards.items():
        if name not in files or files[name].name != shard:
            number = _ordinal(shard)
            where = f"shard {number.split()[0]}" if number else f"`{plain(shard)}`"
            sentence = f"`{plain(name)}` should be in {where} but is not. Download that file again."
            raise refusal(index.parent, sentence, tensor=name)
    unlisted = [name for name in files if name not in shards]
    if not unlisted:
        return ()
    return (f"The shards hold tensors that the index does not list: {listing(unlisted)}.",)


def _ordinal(shard: str) -> str | None:
    """``"3 of 7"`` out of ``model-00003-of-00007.safetensors``."""
    found = _NUMBERED.search(shard)
    return f"{int(found[1])} of {int(found[2])}" if found else None
