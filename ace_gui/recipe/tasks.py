"""Tasks: data with which the models of a recipe are tried, and what to do with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from ace_gui.recipe.fields import about


class TaskKind(StrEnum):
    """What a model does with an example; the value is a recipe's."""

    IMAGE_CLASSIFICATION = "image-classification"
    TEXT_CLASSIFICATION = "text-classification"
    REGRESSION = "regression"
    CAUSAL_LM = "causal-lm"
    MULTIPLE_CHOICE = "multiple-choice"
    TEXT_TO_TEXT = "text-to-text"
    TOKEN_CLASSIFICATION = "token-classification"
    CLIP_ZERO_SHOT = "clip-zero-shot"


class Metric(StrEnum):
    """How answers are scored; the value is a recipe's. Of perplexity less is better."""

    ACCURACY = "accuracy"
    F1 = "f1"
    MATTHEWS = "matthews"
    PEARSON = "pearson"
    SPEARMAN = "spearman"
    PERPLEXITY = "perplexity"
    EXACT_MATCH = "exact-match"
    CONTAINS = "contains"
    LAST_NUMBER = "last-number"
    REGEX = "regex"
    CHOICE = "choice"
    ROUGE_L = "rouge-l"
    CHRF = "chrf"


class Chat(StrEnum):
    """Whether a language model gets prompts in its chat template; the value is a recipe's.

    ``AUTO``: if the model has a template. ``ON``: always; a model without one cannot be scored.
    """

    AUTO = "auto"
    ON = "on"
    OFF = "off"


def _yaml_switch(value: object) -> object:
    """YAML 1.1 reads a bare ``on`` or ``off`` as true or false."""
    return {True: Chat.ON.value, False: Chat.OFF.value}[value] if isinstance(value, bool) else value


def _pattern(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"is not a regular expression ({error})") from None
    if not groups:
        raise ValueError("needs a group in parentheses, which is the answer")
    return pattern


_FILLED: Final = about(limits={"min_length": 1})


@dataclass(frozen=True, kw_only=True)
class Task:
    """Data and what to do with it.

    ``name`` None: the file's. ``expert``: the name of the task's expert; None: the expert with the
    task's name, if there is one. ``kind`` and ``columns`` (role → column; several for the choices
    of a question) are guessed from the model and the data if they are left out. ``labels``: those
    of the head's labels that can be answers; or, if they are as many as the head has, what the data
    calls these, in order. ``limit``: maximum number of examples, drawn at random. ``calibration``:
    inputs without labels, for methods that need them.

    ``prompt``: what the model is asked. For clip-zero-shot {} is the label; for language models
    {text} is the text and {choices} the lettered choices. None: the kind's default. ``system``: the
    system message. ``chat``: see ``Chat``. ``max_new_tokens``: most tokens of a generated answer;
    None: 256 in a chat, otherwise 8 more than the longest right answer. ``stop``: texts that end an
    answer. ``pattern``: the regular expression of the metric regex.
    """

    name: str | None = field(default=None, metadata=_FILLED)
    expert: str | None = field(default=None, metadata=_FILLED)
    kind: TaskKind | None = None
    data: Path
    columns: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict, hash=False)
    labels: tuple[str, ...] = ()
    prompt: str | None = field(default=None, metadata=_FILLED)
    system: str | None = field(default=None, metadata=_FILLED)
    chat: Chat = field(default=Chat.AUTO, metadata=about(tidied=_yaml_switch))
    max_new_tokens: int | None = field(default=None, metadata=about(limits={"ge": 1}))
    stop: tuple[str, ...] = ()
    metric: Metric | None = None
    pattern: str | None = field(default=None, metadata=about(checked=_pattern))
    limit: int | None = field(default=None, metadata=about(limits={"ge": 1}))
    calibration: Path | None = None

    def absolute(self) -> Self:
        """The same, as a process with another working directory must read it."""
        calibration = self.calibration and self.calibration.absolute()
        return replace(self, data=self.data.absolute(), calibration=calibration)

    @property
    def title(self) -> str:
        """What it is called."""
        return self.name or self.data.stem or self.data.name or "task"


def limited(tasks: Iterable[Task], limit: int | None) -> tuple[Task, ...]:
    """The tasks with at most ``limit`` examples of each, besides their own limits; None: as is."""
    if limit is None:
        return tuple(tasks)
    return tuple(replace(task, limit=min(limit, task.limit or limit)) for task in tasks)
