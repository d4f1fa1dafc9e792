"""One question to several models: what is asked, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ace_gui.recipe.values import Task


@dataclass(frozen=True, kw_only=True)
class TryInput:
    """One text or picture for models to answer."""

    task: Task
    """It determines the head and the kind of answer. Its data are read only for ``row``."""

    row: str = ""
    """The name of one of its examples; empty: ``text`` or ``picture`` is given."""

    text: str = ""
    """The text; for a chat, the last question."""
    pair: str = ""
    """The second of two texts."""

    picture: Path | None = None
    """The picture's file; None for a text."""

    seed: int = 0
    """The same for all models."""

    temperature: float = 0.0
    """0: always the likeliest token."""

    most_tokens: int = 120
    """Of an answer."""

    questions: tuple[str, ...] = ()
    """The earlier ones of a conversation. Only models with a chat template see them."""

    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By model, its answers to these questions."""

    experts: tuple[str, ...] | None = None
    """Names of the experts that are asked; None: the one of the task."""

    with_base: bool = True
    """Whether the base is asked."""


class Ending(StrEnum):
    """Why a model wrote no more. The value is displayed."""

    END_TOKEN = "stopped by its end token"
    LENGTH = "cut at the maximum length"


@dataclass(frozen=True, kw_only=True)
class TriedBegun:
    """``model`` is being loaded: ``base``, an expert's name, or the path of a merge's store."""

    model: str


@dataclass(frozen=True, kw_only=True)
class TriedText:
    """The next piece of text that ``model`` writes."""

    model: str
    piece: str


@dataclass(frozen=True, kw_only=True)
class Tried:
    """``model`` has answered."""

    model: str
    """"base", an expert's name, or a folder."""

    shares: tuple[tuple[str, float], ...] = ()
    """By label, largest first; they add up to 1."""

    words: str = ""
    """An answer that is no label."""

    error: str = ""
    """Why it could not answer."""

    chat: bool = False
    """Whether it wrote in its chat template."""

    tokens: int = 0
    """How many it wrote."""

    seconds: float = 0.0
    """For writing, without loading the model."""

    ending: Ending | None = None
    """None if it wrote nothing."""
