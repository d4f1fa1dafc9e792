"""Tasks: data with which the models of a recipe are tried, and what to do with it."""

from __future__ import annotations

from collections.abc import Mapping
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


_FILLED: Final = about(limits={"min_length": 1})


@dataclass(frozen=True, kw_only=True)
class Task:
    """Data and what to do with it.

    ``name`` None: the file's. ``expert``: by its name, whose task it is; None: the expert that is
    called as the task is, if any. ``kind`` and ``columns`` (role → column; several for the choices
    of a question) are guessed from the model and the data where they are left out. ``labels``:
    those of the head's labels that can be answers; or, where they are as many as the head has, what
    the data calls these, in order. ``prompt``: of clip-zero-shot, with {} for a label. ``limit``:
    so many examples at most, drawn by chance. ``calibration``: inputs without labels, for methods
    that want them.
    """

    name: str | None = field(default=None, metadata=_FILLED)
    expert: str | None = field(default=None, metadata=_FILLED)
    kind: TaskKind | None = None
    data: Path
    columns: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict, hash=False)
    labels: tuple[str, ...] = ()
    prompt: str = "a photo of a {}."
    metric: Metric | None = None
    limit: int | None = field(default=None, metadata=about(limits={"ge": 1}))
    calibration: Path | None = None

    def absolute(self) -> Self:
        """The same, as a process with another working directory must read it."""
        calibration = None if self.calibration is None else self.calibration.absolute()
        return replace(self, data=self.data.absolute(), calibration=calibration)

    @property
    def title(self) -> str:
        """What it is called."""
        return self.name or self.data.stem or self.data.name or "task"
