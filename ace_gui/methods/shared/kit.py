"""Helpers to declare a method: its parameters, its working memory and its number of operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

from ace_gui.field_info import FieldInfo
from ace_gui.linalg.singular import shaping_flops

INFO: Final = "info"
"""Key of a parameter's FieldInfo in the metadata of its dataclass field."""


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
    applies_when: tuple[str, ...] | None = None,
    differs: str = "",
) -> Any:
    """A documented field of a parameter dataclass.

    The form in the window, the command-line help and the checks of a recipe are generated from
    these arguments. ``low_open`` excludes ``low`` itself. ``presets`` are named values to offer.
    ``applies_when``: the name of another parameter, then its values for which this one has an
    effect: ``("variant", "published", "measured")``.
    ``differs``: how and why this default departs from the sources; it is appended to the help.
    """
    info = FieldInfo(
        default=default,
        label=label,
        help=f"{help} {differs}".strip(),
        low=low,
        high=high,
        low_open=low_open,
        logarithmic=logarithmic,
        choices=choices,
        presets=presets,
        applies_when=applies_when,
        differs=differs,
    )
    return field(default=default, metadata={INFO: info})


def share_parameter(default: float, *, above_zero: bool = True, **arguments: Any) -> Any:
    """The field of a share, from 0 to 1. ``arguments``: the others of ``parameter``."""
    return parameter(default, low=0.0, low_open=above_zero, high=1.0, **arguments)


def scaling_parameter(
    default: float = 1.0,
    *,
    symbol: str = "",
    help: str = "Factor on the merged task vector.",
    presets: tuple[tuple[str, float], ...] = (),
    differs: str = "",
) -> Any:
    """The field of a factor on the change added to the base. A negative factor subtracts it."""
    return parameter(
        default,
        label=f"Scaling {symbol}".strip(),
        help=help,
        low=-10.0,
        high=10.0,
        presets=presets,
        differs=differs,
    )


def steps_parameter(
    default: int,
    *,
    help: str,
    high: int = 100_000,
    presets: tuple[tuple[str, int], ...] = (),
    differs: str = "",
) -> Any:
    """The field of an optimiser's number of steps."""
    return parameter(
        default, label="Steps", help=help, low=0, high=high, presets=presets, differs=differs
    )


def learning_rate_parameter(
    default: float, *, help: str, high: float, presets: tuple[tuple[str, float], ...] = ()
) -> Any:
    """The field of an optimiser's learning rate, which is above 0."""
    return parameter(
        default,
        label="Learning rate",
        help=help,
        low=0.0,
        low_open=True,
        high=high,
        logarithmic=True,
        presets=presets,
    )


def patience_parameter() -> Any:
    """The field of the stopping criterion of an unsupervised optimiser."""
    return parameter(
        200,
        label="Patience",
        help=(
            "Stop after this many steps without answers coming nearer to the experts' own, and "
            "restore the nearest values. 0 takes all steps."
        ),
        low=0,
        high=100_000,
        presets=(("published", 0),),
        differs=(
            "The papers take all steps over thousands of inputs. With the few inputs of a "
            "calibration set, the loss keeps falling while answers get worse."
        ),
    )


WorkingMemory = Callable[[tuple[int, ...], int], float]
"""Maps a tensor's shape (O × I for a matrix) and the number of experts T to the largest number of
float64 numbers that the method holds at once, the current expert included.
"""


Flops = Callable[[tuple[int, ...], int, Any], float]
"""Maps a matrix's shape (O × I), T and the parameters to the number of arithmetic operations."""


def self_product_flops(shape: tuple[int, ...], experts: int, _parameters: Any = None) -> float:
    """Operations of XᵀX for T matrices X, or of X Xᵀ: the larger of these two products."""
    return 2.0 * experts * math.prod(shape) * max(shape)


def per_decomposition(*, per_expert: float = 0.0, once: float = 0.0) -> Flops:
    """The operations of ``per_expert`` decompositions for each expert, and of ``once`` more in all.

    A decomposition is that of a Gram matrix, with the products before and after it.
    """

    def flops(shape: tuple[int, ...], experts: int, _parameters: Any) -> float:
        outputs, inputs = shape
        return (per_expert * experts + once) * shaping_flops((outputs, inputs))

    return flops


def per_entry(numbers: float) -> WorkingMemory:
    """Working memory of this many float64 numbers per entry, whatever the number of experts."""
    return lambda shape, _experts: numbers * math.prod(shape)


def per_matrix(
    *,
    entries: float,
    smaller: float = 0.0,
    outputs: float = 0.0,
    inputs: float = 0.0,
    smaller_per_expert: float = 0.0,
) -> WorkingMemory:
    """Working memory as a sum of multiples of matrix sizes, in float64 numbers.

    ``entries``: multiple of O·I. ``smaller``: of min(O, I)². ``smaller_per_expert``: of the same,
    once for each expert. ``outputs``: of O². ``inputs``: of I².
    """

    def numbers(shape: tuple[int, ...], experts: int) -> float:
        rows, columns = shape
        squares = (smaller + smaller_per_expert * experts) * min(shape) ** 2
        return entries * rows * columns + squares + outputs * rows**2 + inputs * columns**2

    return numbers
