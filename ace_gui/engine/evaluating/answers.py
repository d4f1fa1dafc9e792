"""Converts the answers of a model to arrays for the cache, and back.

N examples, M values of all of them; answers of several values each are concatenated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.recipe.tasks import TaskKind

VALUES: Final = "answers"
ENDS: Final = "answer_ends"
"""Name of the array with the end of each answer, for answers of several values."""

_WHOLE: Final = (
    TaskKind.IMAGE_CLASSIFICATION,
    TaskKind.TEXT_CLASSIFICATION,
    TaskKind.MULTIPLE_CHOICE,
    TaskKind.CLIP_ZERO_SHOT,
)


def packed(answers: Sequence[Any], kind: TaskKind) -> dict[str, NDArray[Any]]:
    """Answers as arrays.

    Indices are int32, numbers float64, (loss, tokens) two columns. Indices of words and texts
    (UTF-8) are concatenated, with the end of each.
    """
    if kind in _WHOLE:
        return {VALUES: np.array(answers, dtype=np.int32)}
    if kind is TaskKind.TEXT_TO_TEXT:
        texts = [answer.encode("utf-8", "surrogatepass") for answer in answers]
        return _ragged(np.frombuffer(b"".join(texts), np.uint8), texts)
    if kind is TaskKind.TOKEN_CLASSIFICATION:
        flat = [index for answer in answers for index in answer]
        return _ragged(np.array(flat, dtype=np.int32), answers)
    return {VALUES: np.array(answers, dtype=np.float64)}


def unpacked(arrays: Mapping[str, NDArray[Any]], kind: TaskKind, count: int) -> list[Any] | None:
    """This many answers for a kind of task; None if the arrays are invalid."""
    values, ends = arrays.get(VALUES), arrays.get(ENDS)
    if values is None:
        return None
    if kind in _WHOLE:
        return values.tolist() if _is(values, np.int32, (count,)) else None
    if kind is TaskKind.REGRESSION:
        return values.tolist() if _is(values, np.float64, (count,)) else None
    if kind is TaskKind.CAUSAL_LM:
        known = _is(values, np.float64, (count, 2))
        return [(loss, int(tokens)) for loss, tokens in values.tolist()] if known else None
    if ends is None or not _is(ends, np.int64, (count,)) or values.ndim != 1:
        return None
    indices = [0, *ends.tolist()]
    if any(low > high for low, high in pairwise(indices)) or indices[-1] != len(values):
        return None
    parts = [values[low:high] for low, high in pairwise(indices)]
    if kind is TaskKind.TOKEN_CLASSIFICATION:
        return [tuple(part.tolist()) for part in parts] if values.dtype == np.int32 else None
    if values.dtype != np.uint8:
        return None
    return [part.tobytes().decode("utf-8", "replace") for part in parts]


def _ragged(values_M: NDArray[Any], answers: Sequence[Any]) -> dict[str, NDArray[Any]]:
    ends_N = np.cumsum([len(answer) for answer in answers], dtype=np.int64)
    return {VALUES: values_M, ENDS: ends_N}


def _is(array: NDArray[Any], kind: type, shape: tuple[int, ...]) -> bool:
    return array.dtype == kind and array.shape == shape
