"""What a merge method is: a pure function on task vectors, its parameters, its papers.

T experts, O outputs, I inputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from torch import Tensor

Parameters = TypeVar("Parameters")


def parameter(
    default: float | int | bool | str,
    *,
    label: str,
    help: str,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    logarithmic: bool = False,
    choices: tuple[str, ...] = (),
    presets: tuple[tuple[str, float], ...] = (),
) -> Any:
    """A documented field of a parameter dataclass.

    The form in the window, the command-line help and the checks of a recipe are made from what is
    said here. ``low_open`` excludes ``low`` itself; ``presets`` are named values worth offering.
    """
    return field(
        default=default,
        metadata={
            "label": label,
            "help": help,
            "low": low,
            "high": high,
            "low_open": low_open,
            "logarithmic": logarithmic,
            "choices": choices,
            "presets": presets,
        },
    )


@dataclass(frozen=True, kw_only=True)
class Merged:
    """A merged task vector, and what the method found out on the way.

    ``delta``: to be added to the base, same shape as the task vectors, float32 or float64.
    ``diagnostics``: a frozen dataclass of the method's own with plain numbers (tensors only where
    asked for), or None.
    """

    delta: Tensor
    diagnostics: Any = None


@dataclass(frozen=True, kw_only=True)
class MergeMethod(Generic[Parameters]):
    """One entry of the registry.

    ``merge(deltas, weights, parameters)`` takes one task vector an expert, all of one shape, and one
    weight an expert. ``deltas`` may be any sequence, also one that reads an expert's tensor from
    disk each time it is indexed; a method therefore never keeps more of them than it needs, and
    a method that can, walks over them instead of stacking.

    ``elementwise`` methods apply to every float tensor; the others to matrices, oriented outputs ×
    inputs, while everything else is averaged.
    """

    name: str
    title: str
    summary: str
    formula: str
    citation: str
    parameters: type[Parameters]
    elementwise: bool
    merge: Callable[[Sequence[Tensor], Sequence[float], Parameters], Merged]

    def with_values(self, values: dict[str, Any]) -> Parameters:
        """The parameters with these values set; see ``methods.checked`` for untrusted values."""
        return dataclasses.replace(self.parameters(), **values)  # type: ignore[type-var]
