"""All errors shown to users, in one tree under ``WorkbenchError``.

Each has a sentence, and the known context as attributes: ``path`` of the checkpoint or recipe,
name of the ``tensor``, its ``shapes``, the recipe ``key``. Interfaces show the sentence and hide
``details``. They never parse the sentence.
Errors travel between processes, so every argument is a keyword with a plain value.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ace_gui.formatting import printable


class WorkbenchError(Exception):
    """An error with one sentence that states the problem and what to do.

    The sentence may contain names from files. Control characters for terminals are escaped.
    ``shapes`` maps a label (an expert's name, ``"base"``) to a tensor shape.
    """

    def __init__(
        self,
        sentence: str,
        *,
        path: Path | None = None,
        tensor: str | None = None,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        key: str | None = None,
        details: str = "",
    ) -> None:
        sentence = printable(" ".join(sentence.splitlines()))
        super().__init__(sentence)
        self.sentence = sentence
        self.path = path
        self.tensor = tensor
        self.shapes = dict(shapes or {})
        self.key = key
        self.details = details

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.sentence, self.__dict__.copy())

    def __str__(self) -> str:
        return self.sentence


def _rebuild(kind: type[WorkbenchError], sentence: str, state: dict[str, object]) -> WorkbenchError:
    error = kind(sentence)
    error.__dict__.update(state)
    return error


class CheckpointError(WorkbenchError):
    """A file or folder cannot be used as a model."""


class NonFiniteError(CheckpointError):
    """A tensor holds NaN or Inf."""


class FileChangedError(CheckpointError):
    """A file changed while it was being read."""


class PickleConsentError(CheckpointError):
    """``path`` holds a PyTorch pickle, which is converted only if the person agrees."""


class MismatchError(WorkbenchError):
    """An expert does not fit the base model."""


class ArchitectureError(WorkbenchError):
    """A config does not match the tensors of its model."""


class RecipeError(WorkbenchError):
    """A recipe has an unknown key, or a value of the wrong kind or out of range."""


class MethodError(WorkbenchError):
    """A merge method cannot be applied to these tensors."""


class TaskError(WorkbenchError):
    """The data of a task cannot be used, or a model cannot do the task.

    ``setting``: the setting of the task to be changed, or the role of a column; empty if it is the
    key, or none.
    """

    setting = ""


class OutputError(WorkbenchError):
    """The output folder cannot be written."""


class ResourceError(WorkbenchError):
    """Not enough disk or memory for the requested work."""


class ResumeError(WorkbenchError):
    """An unfinished merge does not belong to this recipe or these files."""


class ClusterError(WorkbenchError):
    """Workers on other processes or machines stopped, or cannot be used."""


class EngineError(WorkbenchError):
    """The engine process stopped or cannot be reached."""


_MEMORY_CODES: Final = frozenset({8, 14, 1455})
"""Windows' ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY and ERROR_COMMITMENT_LIMIT."""

_MEMORY_PHRASES: Final = (
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "out of memory",
    "can't start new thread",  # no memory for its stack
    "bad_alloc",
    "failed to map segment",  # of a library for which there is no room
    "cannot map zero-fill pages",
    "paging file is too small",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error or its cause means lack of memory.

    Some errors have a class or a system code for it. Those of torch, safetensors, threads and the
    loader of libraries have only a text.
    """
    if error.__cause__ is not None and is_out_of_memory(error.__cause__):
        return True
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError) and (
        error.errno == errno.ENOMEM or getattr(error, "winerror", None) in _MEMORY_CODES
    ):
        return True
    is_textual = isinstance(error, RuntimeError | OSError | ImportError)
    if not is_textual and type(error).__name__ != "SafetensorError":
        return False
    text = str(error).lower()
    return any(phrase in text for phrase in _MEMORY_PHRASES)


def lacks_room(error: BaseException) -> bool:
    """Whether an error means that a GPU has no memory left.

    Torch's allocator raises its own error. Libraries of matrix products and decompositions
    allocate memory outside of it. They fail with a status when they start, or when they request
    their workspace; torch reports the latter as a singular matrix. Pinned memory has errors of
    CUDA itself. ROCm uses the same words.
    """
    phrases = ("out of memory", "alloc_failed", "not_initialized", "cusolver error")
    text = str(error).lower()
    return isinstance(error, RuntimeError) and (
        type(error).__name__ == "OutOfMemoryError" or any(phrase in text for phrase in phrases)
    )


class Cancelled(Exception):  # noqa: N818 (not an error)
    """The user stopped the work."""
