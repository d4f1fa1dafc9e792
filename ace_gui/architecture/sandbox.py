"""Describes checkpoints in a separate process, which is ended if it takes too much.

A few wrong numbers in a config can make building its model take hours or all memory: a count of
layers, a product of counts, a list of lists. No check of single numbers finds them all, so the
model is built where time and memory can be limited. The process that merges is spared the import
of transformers as well.

Descriptions are cached on disk. A description depends only on the config, the tensors' shapes,
transformers and this package, so its file is named by a digest of these. A file that cannot be
read, does not match its checksum, or does not fit, is made again.

The process is that of ``limited_process``.
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
from typing import Any, Final

from pydantic import TypeAdapter

from ace_gui.architecture import transformers_library
from ace_gui.architecture.describe import Shape, by_names, describe, names_model
from ace_gui.architecture.limited_process import (
    BeyondLimitsError,
    LimitedProcess,
    Limits,
    NotStartedError,
    answer_until_end,
    request_of,
)
from ace_gui.architecture.traits import Architecture
from ace_gui.errors import ArchitectureError
from ace_gui.formatting import plain
from ace_gui.output_files import replacing
from ace_gui.steps import Steps
from ace_gui.versions import code_digest

_ARCHITECTURE: Final = TypeAdapter(Architecture)


def serve() -> None:
    """Describe models until the input ends; see ``limited_process.answer_until_end``."""
    answer_until_end(_import_libraries, _described)


def _import_libraries() -> None:
    """Import what every description needs, so that its time is only that of the model."""
    transformers_library.transformers()
    import transformers.conversion_mapping
    import transformers.core_model_loading
    import transformers.modeling_utils  # noqa: F401


def _described(config: Mapping[str, Any], shapes: list[tuple[str, list[int]]]) -> dict[str, Any]:
    architecture = describe(config, {name: tuple(shape) for name, shape in shapes})
    return {"architecture": _ARCHITECTURE.dump_python(architecture, mode="json")}


_BUILDING: Final = "Building the model of config.json"
_CHECK: Final = "check the numbers in it."

USUAL: Final = Limits(seconds=8.0)
"""Limits of one description.

The largest published model with a module for every expert, 123 000 tensors, takes 27 s and 0.8 GB.
All others take less than a second.
"""

SECONDS_A_TENSOR: Final = 1e-3
"""Processor time that each tensor adds to the limit."""


class Describer:
    """Describes one checkpoint after the other. Its process is started when it is first needed.

    It is a context manager; work in progress is stopped at the end of the block.
    """

    def __init__(self, limits: Limits = USUAL, seconds_a_tensor: float = SECONDS_A_TENSOR) -> None:
        self._limits = limits
        self._seconds_a_tensor = seconds_a_tensor
        self._process = LimitedProcess("describe-models", __name__)

    def __enter__(self) -> Describer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()

    @property
    def pid(self) -> int | None:
        """The id of the process; None if there is none."""
        return self._process.pid

    def describe(
        self, config: Mapping[str, object] | None, shapes: Mapping[str, Shape]
    ) -> Steps[Architecture]:
        """As ``describe.describe``, but by names if the model cannot be built within limits.

        Raises ArchitectureError if the process cannot be started.
        """
        if not names_model(config):
            return describe(config, shapes)
        seconds = self._limits.seconds + self._seconds_a_tensor * len(shapes)
        limits = Limits(seconds=seconds, memory_bytes=self._limits.memory_bytes)
        try:
            request = request_of([config, list(shapes.items())], limits)
        except RecursionError:
            return by_names(config, shapes, transformers_library.TOO_DEEP)
        try:
            answer = yield from self._process.answer(request, limits)
        except BeyondLimitsError as error:
            return by_names(config, shapes, f"{_BUILDING} {error}; {_CHECK}")
        except NotStartedError as error:
            raise _no_process(error) from error
        if "error" in answer:
            reason = plain(answer["error"])
            return by_names(config, shapes, f"{_BUILDING} failed ({reason}); check config.json.")
        try:
            return _ARCHITECTURE.validate_python(answer.get("architecture"))
        except ValueError:
            return by_names(config, shapes, f"{_BUILDING} failed; check config.json.")


def _no_process(error: NotStartedError) -> ArchitectureError:
    sentence = (
        "The process that describes models cannot be started; check that transformers is installed "
        "and that memory is left."
    )
    if error.imports:
        sentence = (
            f"transformers cannot be imported: {plain(error.reason)}. Install versions of torch "
            "and transformers that fit together, or remove the package that is named here."
        )
    if error.memory:
        sentence = (
            "There was not enough memory to import transformers; close other programs and try "
            "again."
        )
    return ArchitectureError(sentence, details=error.reason)


LARGEST_NUMBER: Final = 64
"""Largest number of files in the folder; the oldest are removed first."""

Describe = Callable[[Mapping[str, object] | None, Mapping[str, Shape]], Steps[Architecture]]

_log = logging.getLogger(__name__)
_by_names: dict[str, Architecture] = {}


def remembered(
    config: Mapping[str, object] | None,
    shapes: Mapping[str, Shape],
    folder: Path,
    describe: Describe,
) -> Steps[Architecture]:
    """As ``describe``, but read from ``folder`` if the same was described before.

    A description by names is kept only for this process, because the reason may be lack of time or
    a missing package. ``folder`` need not be writable.
    """
    if config is None:
        key = None
    else:
        key = _key(config, shapes)
    if key is None:
        return (yield from describe(config, shapes))
    path = folder / f"{key}.json"
    architecture = _by_names.get(key) or _read(path, shapes)
    if architecture is None:
        architecture = yield from describe(config, shapes)
        if architecture.model_class is not None:
            with contextlib.suppress(OSError):
                _write(path, architecture)
        else:
            _keep(key, architecture)
    return architecture


def _keep(key: str, architecture: Architecture) -> None:
    _by_names[key] = architecture
    while len(_by_names) > LARGEST_NUMBER:
        del _by_names[next(iter(_by_names))]


def _key(config: Mapping[str, object], shapes: Mapping[str, Shape]) -> str | None:
    """The key of a description; None for a config that is nested too deeply for JSON."""
    try:
        text = json.dumps(
            [code_digest("architecture"), version("transformers"), config, list(shapes.items())]
        )
    except RecursionError:
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path, shapes: Mapping[str, Shape]) -> Architecture | None:
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises without permission
        return None
    try:
        if not path.is_file():
            raise OSError("not a regular file")
        digest, _, content = path.read_bytes().partition(b"\n")
        if digest != _digest(path, content):
            raise ValueError("does not match its checksum")
        architecture = _ARCHITECTURE.validate_json(content)
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be used and is made again: %s.", path, error)
        return None
    if architecture.traits.keys() == shapes.keys():
        return architecture
    return None


def _write(path: Path, architecture: Architecture) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = _ARCHITECTURE.dump_json(architecture)
    with replacing(path) as fresh:
        fresh.write_bytes(_digest(path, content) + b"\n" + content)
    stored = sorted(path.parent.glob("*.json"), key=lambda old: old.stat().st_mtime_ns)
    for old in stored[:-LARGEST_NUMBER]:
        old.unlink(missing_ok=True)


def _digest(path: Path, content: bytes) -> bytes:
    """Digest of a description and its file's name, so that no file is taken for another."""
    return hashlib.sha256(path.name.encode() + content).hexdigest().encode()
