"""Examples and answers as texts and pictures for display."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.scored.shown_examples import ShownExample
from ace_gui.engine.evaluating.data.images import Picture
from ace_gui.engine.evaluating.examples import Example, TaskData
from ace_gui.engine.evaluating.kinds import CHOICES, TOKENS
from ace_gui.engine.evaluating.labels import head_labels, labels_of
from ace_gui.engine.evaluating.targets import zero_shot_labels
from ace_gui.formatting import number_text
from ace_gui.recipe.tasks import TaskKind

PIXELS: Final = 128
"""Largest width and height of a shown picture."""

FONT_SCALES: Final = 2000
"""Most characters of a shown text."""


def answer_names(data: TaskData, config: Mapping[str, Any]) -> Sequence[str]:
    """The name of each possible answer of a task.

    A prefix common to all labels is removed (``digits/7``: 7). ``config``: of the model with its
    head.
    """
    if data.kind is TaskKind.CLIP_ZERO_SHOT:
        return zero_shot_labels(data)
    if data.kind is TaskKind.MULTIPLE_CHOICE:
        return ()
    names = head_labels(config)
    if len(data.task.labels) == len(names):
        names = list(data.task.labels)  # as in the data
    allowed = labels_of(data.task, config).allowed
    beginnings = {names[index].rpartition("/")[0] for index in allowed}
    shared = f"{beginnings.pop()}/" if len(beginnings) == 1 else ""
    return [name.removeprefix(shared) for name in names]


def answer_text(data: TaskData, example: Example, answer: Any, names: Sequence[str]) -> str:
    """An answer as text.

    It is a label, a choice, the labels of words, a number, or a text; the perplexity if the text
    itself is predicted.
    """
    if answer is None:
        return ""
    if data.kind is TaskKind.CAUSAL_LM:
        loss, tokens = answer
        return f"perplexity {number_text(math.exp(min(loss / max(tokens, 1), 700)), 3)}"
    if data.kind is TaskKind.REGRESSION:
        return number_text(float(answer), 3)
    if data.kind is TaskKind.MULTIPLE_CHOICE:
        return cut(example.given[CHOICES][answer])
    if data.kind is TaskKind.TOKEN_CLASSIFICATION:
        pairs = zip(example.given[TOKENS], answer, strict=True)
        return cut(" ".join(f"{word}/{_label(index, names)}" for word, index in pairs))
    if data.kind is TaskKind.TEXT_TO_TEXT:
        return cut(str(answer))
    return _label(answer, names)


def shown_example(example: Example, label: str) -> ShownExample:
    """An example's inputs and right answer as texts and a small picture."""
    texts, picture = [], None
    for role, given in example.given.items():
        if isinstance(given, Picture):
            picture = small_picture(given)
        elif isinstance(given, str):
            texts.append((role, cut(given)))
        else:
            texts.append((role, cut((" " if role == TOKENS else " · ").join(given))))
    return ShownExample(row=example.row, texts=tuple(texts), picture=picture, label=label)


def small_picture(given: Picture) -> NDArray[np.uint8]:
    """A picture at most ``PIXELS`` wide and high, H × W × 3, uint8. Raises TaskError."""
    picture = given.opened()
    if max(picture.size) > PIXELS:
        picture.thumbnail((PIXELS, PIXELS))
    return np.asarray(picture.convert("RGB"), dtype=np.uint8)


def cut(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= FONT_SCALES else f"{text[: FONT_SCALES - 1]}…"


def _label(index: int, names: Sequence[str]) -> str:
    return names[index] if 0 <= index < len(names) else "–"
