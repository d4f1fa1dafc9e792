"""The choice to align a merge with its own experts, on inputs without labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal

from ace_gui.errors import RecipeError
from ace_gui.recipe.overrides import about, require_limits

MOST_INPUTS = 100_000
MOST_STEPS = 1_000_000
FASTEST = 1.0


class Trained(StrEnum):
    """What is trained. The value is written in recipes.

    ``AUTO``: ``RANK_8``, or ``BIASES`` for a merge without a matrix. ``BIASES``: biases and the
    weights of norms. ``RANK_8``: an addition of rank 8 to each merged matrix. ``ALL``: the merged
    matrices.
    """

    AUTO = "auto"
    BIASES = "biases"
    RANK_8 = "rank-8"
    ALL = "all"


class How(StrEnum):
    """In which pieces the model is trained. The value is written in recipes.

    ``AUTO``: ``WHOLE``; ``BLOCKS`` if the memory is too small for that. ``WHOLE``: all at once, by
    answers. ``BLOCKS``: one block after another, by hidden states.
    """

    AUTO = "auto"
    WHOLE = "whole"
    BLOCKS = "blocks"


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """How a merge is aligned with the answers of its own experts. Raises RecipeError."""

    inputs: int = field(
        default=64, metadata=about(limits={"ge": 2, "le": MOST_INPUTS}, always=True)
    )
    """Inputs of each expert; an expert with fewer stops the merge."""

    steps: int = field(default=40, metadata=about(limits={"ge": 0, "le": MOST_STEPS}))
    """Training steps. 0 leaves the merge as it is."""

    batch: int = field(default=8, metadata=about(limits={"ge": 1, "le": MOST_INPUTS}))
    """Inputs of every task in a step."""

    train: Trained = Trained.AUTO
    """What is trained."""

    how: How = How.AUTO
    """Whether the whole model is trained at once, or one block after another."""

    learning_rate: float | None = field(
        default=None, metadata=about(limits={"gt": 0, "le": FASTEST})
    )
    """Highest learning rate of Adam; None: one that suits what is trained."""

    def __post_init__(self) -> None:
        require_limits(self, "distil")


def as_distillation(value: object) -> object:
    """``distil: true`` means the defaults."""
    if value is True:
        return {}
    return value


def distillation_of(
    wanted: bool | Mapping[str, Any] | Distillation,
) -> Distillation | Literal[False]:
    """The choice as the library takes it. Raises RecipeError for an unknown key or value."""
    if isinstance(wanted, Distillation):
        return wanted
    if isinstance(wanted, bool):
        if wanted:
            return Distillation()
        return False
    names = [item.name for item in fields(Distillation)]
    for key in wanted:
        if key not in names:
            raise RecipeError(f"distil has no {key!r}; there are {', '.join(names)}.", key="distil")
    values = dict(wanted)
    for key, kind in (("train", Trained), ("how", How)):
        words = [member.value for member in kind]
        value = values.get(key, kind("auto"))
        if value not in words:
            raise RecipeError(f"distil.{key} is {value!r}, not one of {', '.join(words)}.", key=key)
        values[key] = kind(value)
    return Distillation(**values)
