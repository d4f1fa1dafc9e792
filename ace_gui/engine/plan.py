"""What will happen to each tensor, and why. Plain values; ``planning`` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ace_gui.engine.checks import Check
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import ParameterValue


class Disposition(StrEnum):
    """What becomes of a tensor; the value is what people read."""

    MERGED = "merged"
    AVERAGED = "averaged"
    BASE = "kept from base"
    PER_EXPERT = "kept per expert"
    COPIED = "copied"
    DROPPED = "dropped"


@dataclass(frozen=True, kw_only=True)
class PlanRow:
    """One tensor of the output, or of the experts' heads.

    ``name`` is the base's name. ``shape`` and ``dtype`` are the base's as stored, or the first
    owner's where the base has no such tensor. ``transposed``: stored inputs × outputs, merged as
    outputs × inputs. ``experts``: indices of the experts that have it.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    disposition: Disposition
    reason: str
    in_base: bool = True
    block: int | None = None
    transposed: bool = False
    tied_to: str | None = None
    experts: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExpertSummary:
    """One line of the experts' list."""

    name: str
    path: str
    bytes: int
    dtype: str
    architecture: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that is known before a tensor is read.

    ``parameters``: the method's parameters, every one resolved; ``parameter_notes`` says, by name,
    where a value that the recipe left open comes from. ``heterogeneity``: whether the method has a
    γ and regimes. ``peak_bytes`` is the estimated peak of the merge's own memory. ``checks``:
    what was looked at and how it came out, worst first.
    """

    recipe: Recipe
    base: ExpertSummary
    experts: tuple[ExpertSummary, ...]
    rows: tuple[PlanRow, ...]
    parameters: Mapping[str, ParameterValue]
    parameter_notes: Mapping[str, str]
    heterogeneity: bool
    warnings: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    bytes_to_read: int = 0
    bytes_to_write: int = 0
    peak_bytes: int = 0
