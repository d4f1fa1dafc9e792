"""Descriptions kept on disk: importing transformers can take longer than a merge.

A description depends on nothing but the config, the tensors' shapes, transformers and this package,
so that a digest of these names its file. The files are JSON, checked when read; one that cannot be
read, does not match its checksum, or does not fit, is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from ace_gui.architecture.builder import ARCHITECTURE
from ace_gui.architecture.describe import Shape
from ace_gui.architecture.traits import Architecture
from ace_gui.output_files import replacing
from ace_gui.steps import Steps
from ace_gui.versions import code_digest

LARGEST_NUMBER: Final = 64
"""Most files in the folder; the oldest is removed first."""

Describe = Callable[[Mapping[str, object] | None, Mapping[str, Shape]], Steps[Architecture]]

_log = logging.getLogger(__name__)
_by_names: dict[str, Architecture] = {}


def remembered(
    config: Mapping[str, object] | None,
    shapes: Mapping[str, Shape],
    folder: Path,
    describe: Describe,
) -> Steps[Architecture]:
    """As ``describe``, but read from ``folder`` where the same was described before.

    What had to be described by names alone is kept for this process only: it may have been for
    lack of time, or of a package. It does not matter whether ``folder`` can be written.
    """
    key = None if config is None else _key(config, shapes)
    if key is None:
        return (yield from describe(config, shapes))
    path = folder / f"{key}.json"
    found = _by_names.get(key) or _read(path, shapes)
    if found is None:
        found = yield from describe(config, shapes)
        if found.model_class is not None:
            with contextlib.suppress(OSError):
                _write(path, found)
        else:
            _keep(key, found)
    return found


def _keep(key: str, found: Architecture) -> None:
    _by_names[key] = found
    while len(_by_names) > LARGEST_NUMBER:
        del _by_names[next(iter(_by_names))]


def _key(config: Mapping[str, object], shapes: Mapping[str, Shape]) -> str | None:
    """None for a config that is nested too deeply to be written down."""
    try:
        text = json.dumps(
            [code_digest("architecture"), version("transformers"), config, list(shapes.items())]
        )
    except RecursionError:
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path, shapes: Mapping[str, Shape]) -> Architecture | None:
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists fails where it may not look
        return None
    try:
        if not path.is_file():
            raise OSError("not a regular file")
        digest, _, content = path.read_bytes().partition(b"\n")
        if digest != _digest(path, content):
            raise ValueError("does not match its checksum")
        found = ARCHITECTURE.validate_json(content)
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be used and is made anew: %s.", path, error)
        return None
    return found if found.traits.keys() == shapes.keys() else None


def _write(path: Path, architecture: Architecture) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = ARCHITECTURE.dump_json(architecture)
    with replacing(path) as fresh:
        fresh.write_bytes(_digest(path, content) + b"\n" + content)
    kept = sorted(path.parent.glob("*.json"), key=lambda old: old.stat().st_mtime_ns)
    for old in kept[:-LARGEST_NUMBER]:
        old.unlink(missing_ok=True)


def _digest(path: Path, content: bytes) -> bytes:
    """Of a description and its name, so that no other one is taken for it."""
    return hashlib.sha256(path.name.encode() + content).hexdigest().encode()
