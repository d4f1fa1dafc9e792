"""What every kind of task is, without running one: its name, models, columns, metrics, settings.

The recipe, the window and the engine ask a kind for these. The class that runs it is in
``engine/evaluating/kinds.py``, ``language_kinds.py`` or ``generated_text.py``. Imports are light.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Final, Self

TEXT: Final = "text"
PAIR: Final = "pair"
LABEL: Final = "label"
IMAGE: Final = "image"
CHOICES: Final = "choices"
TOKENS: Final = "tokens"
"""Roles of columns."""

LANGUAGE_MODELS: Final = r"ForCausalLM|LMHeadModel|LMHead"
"""The classes of models that continue a text."""


@dataclass(frozen=True, kw_only=True)
class MetricTraits:
    """What its values mean."""

    less_is_better: bool = False
    """Whether a lower value is better."""

    is_centred: bool = False
    """Whether chance has the value 0, so that a ratio to a value near 0 is meaningless."""

    of_losses: bool = False
    """Whether each example has a loss, instead of being right or wrong."""

    is_bounded: bool = True
    """Whether no value is above 1."""


class Metric(StrEnum):
    """How answers are scored. The value is written in recipes."""

    traits: MetricTraits

    def __new__(cls, value: str, traits: MetricTraits = MetricTraits()) -> Self:
        """A metric of this name in recipes."""
        metric = str.__new__(cls, value)
        metric._value_ = value
        metric.traits = traits
        return metric

    ACCURACY = "accuracy"
    F1 = "f1"
    MATTHEWS = "matthews", MetricTraits(is_centred=True)
    PEARSON = "pearson", MetricTraits(is_centred=True, of_losses=True)
    SPEARMAN = "spearman", MetricTraits(is_centred=True, of_losses=True)
    PERPLEXITY = (
        "perplexity",
        MetricTraits(less_is_better=True, of_losses=True, is_bounded=False),
    )
    EXACT_MATCH = "exact-match"
    CONTAINS = "contains"
    LAST_NUMBER = "last-number"
    REGEX = "regex"
    CHOICE = "choice"
    ROUGE_L = "rouge-l", MetricTraits(of_losses=True)
    CHRF = "chrf", MetricTraits(of_losses=True)


OF_LABELS: Final = (Metric.ACCURACY, Metric.F1, Metric.MATTHEWS)
"""The metrics of answers that are labels."""


@dataclass(frozen=True, kw_only=True)
class KindTraits:
    """What is known of a kind of task without its class."""

    classes: str
    """Regular expression for the names of the model classes that do it."""

    roles: tuple[str, ...]
    """Roles of the columns that its data must have."""

    metrics: tuple[Metric, ...]
    """The metrics of its answers; the first is the default."""

    optional: tuple[str, ...] = ()
    """Roles of further columns that it can use."""

    form_fields: tuple[str, ...] = ()
    """Settings of a task that the window's form has for this kind, besides those of every kind."""

    unused: tuple[str, ...] = ("system", "chat", "max_new_tokens", "stop")
    """Settings of a task that are refused, because this kind would not use them."""

    placeholder: str = ""
    """What its prompt must contain."""

    writes: bool = False
    """Whether its models generate text, so that they can be tried with a temperature."""

    @property
    def every_role(self) -> tuple[str, ...]:
        """Roles of all columns, those that may be missing last."""
        return (*self.roles, *self.optional)


class TaskKind(StrEnum):
    """What a model does with an example. The value is written in recipes.

    Where a model can do several kinds, the first that suits the data is chosen.
    """

    traits: KindTraits

    def __new__(cls, value: str, traits: KindTraits) -> Self:
        """A kind of this name in recipes."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.traits = traits
        return kind

    def does(self, class_name: str) -> bool:
        """Whether models of a class do this kind of task."""
        return re.search(self.traits.classes, class_name) is not None

    @property
    def has_pictures(self) -> bool:
        """Whether its inputs are pictures instead of texts."""
        return IMAGE in self.traits.roles

    IMAGE_CLASSIFICATION = (
        "image-classification",
        KindTraits(
            classes=r"ForImageClassification(WithTeacher)?$",
            roles=(IMAGE, LABEL),
            metrics=OF_LABELS,
            form_fields=("labels",),
        ),
    )
    TEXT_CLASSIFICATION = (
        "text-classification",
        KindTraits(
            classes=r"ForSequenceClassification$",
            roles=(TEXT, LABEL),
            metrics=OF_LABELS,
            optional=(PAIR,),
            form_fields=("labels",),
        ),
    )
    REGRESSION = (
        "regression",
        KindTraits(
            classes=r"ForSequenceClassification$",
            roles=(TEXT, LABEL),
            metrics=(Metric.PEARSON, Metric.SPEARMAN),
            optional=(PAIR,),
        ),
    )
    CAUSAL_LM = (
        "causal-lm",
        KindTraits(
            classes=rf"({LANGUAGE_MODELS})$",
            roles=(TEXT,),
            metrics=(Metric.PERPLEXITY,),
            form_fields=("prompt", "system", "chat"),  # with these, it is another kind
            writes=True,
        ),
    )
    MULTIPLE_CHOICE = (
        "multiple-choice",
        KindTraits(
            classes=rf"(ForMultipleChoice|{LANGUAGE_MODELS})$",
            roles=(TEXT, CHOICES, LABEL),
            metrics=OF_LABELS,
            form_fields=("prompt", "system", "chat"),
            unused=("max_new_tokens", "stop"),
            placeholder="{text}",
            writes=True,
        ),
    )
    TEXT_TO_TEXT = (
        "text-to-text",
        KindTraits(
            classes=rf"(ForConditionalGeneration|{LANGUAGE_MODELS})$",
            roles=(TEXT, LABEL),
            metrics=(
                Metric.EXACT_MATCH,
                Metric.CONTAINS,
                Metric.LAST_NUMBER,
                Metric.REGEX,
                Metric.CHOICE,
                Metric.ROUGE_L,
                Metric.CHRF,
            ),
            optional=(CHOICES,),
            form_fields=("prompt", "system", "chat"),
            unused=(),
            placeholder="{text}",
            writes=True,
        ),
    )
    TOKEN_CLASSIFICATION = (
        "token-classification",
        KindTraits(
            classes=r"ForTokenClassification$",
            roles=(TOKENS, LABEL),
            metrics=(Metric.ACCURACY, Metric.F1),
        ),
    )
    CLIP_ZERO_SHOT = (
        "clip-zero-shot",
        KindTraits(
            classes=r"^(?!.*For)(Chinese|Alt)?(CLIP|SigLIP|Siglip)\w*Model$",
            roles=(IMAGE, LABEL),
            metrics=OF_LABELS,
            form_fields=("prompt",),
        ),
    )


def every_role() -> frozenset[str]:
    """All roles of columns, of every kind."""
    return frozenset(chain.from_iterable(kind.traits.every_role for kind in TaskKind))


def kind_of_class(class_name: str) -> TaskKind | None:
    """The first kind that models of a class do; None if they do none."""
    return next((kind for kind in TaskKind if kind.does(class_name)), None)
