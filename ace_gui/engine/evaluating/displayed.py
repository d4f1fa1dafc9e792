"""Examples and answers as texts and pictures for display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.scored.shown_examples import ShownExample
from ace_gui.engine.evaluating.data.images import Picture
from ace_gui.engine.evaluating.kinds.every_kind import KINDS
from ace_gui.engine.evaluating.task_data import TOKENS, Example, TaskData

PIXELS: Final = 128
"""Largest width and height of a shown picture."""

CHARACTERS: Final = 2000
"""Most characters of a shown text."""


def answer_names(data: TaskData, config: Mapping[str, Any]) -> Sequence[str]:
    """The name of each possible answer of a task. ``config``: of the model with its head."""
    return KINDS[data.kind].names(data, config)


def answer_text(data: TaskData, example: Example, answer: Any, names: Sequence[str]) -> str:
    """An answer as text; the perplexity if the text itself is predicted."""
    return cut(KINDS[data.kind].text(example, answer, names))


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
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…"
