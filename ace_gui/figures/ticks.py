"""Where ticks stand. Both ends of an axis have one, so that its range can be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ace_gui.figures.charts import Axis
from ace_gui.formatting import power_of_ten, value_text

_INTERVALS: Final = 5
"""About so many intervals between ticks."""

_MOST_POWERS: Final = 6
"""Most powers of ten with a tick each."""

_SMALLEST: Final = 1e-3
_LARGEST: Final = 1e5
"""Values outside are written as powers of ten."""


def ticks_of(axis: Axis, values: Sequence[float]) -> list[float]:
    """The ticks of an axis that shows all these values, from its beginning to its end."""
    finite = [value for value in values if math.isfinite(value) and (value > 0 or not axis.log)]
    if axis.low is not None:
        low = axis.low
    else:
        low = min(finite, default=1.0 if axis.log else 0.0)
    if axis.high is not None:
        high = axis.high
    else:
        high = max(finite, default=10.0 if axis.log else 1.0)
    if axis.log:
        return _logarithmic(low, high)
    if axis.counts:
        least_step = 1.0
    else:
        least_step = 0.0
    if axis.low is None or axis.high is None:
        return _linear(low, high, least_step)
    return _between(low, high, least_step)


def _between(low: float, high: float, least_step: float) -> list[float]:
    """Both ends, and the round values that are not too near to them."""
    if high <= low:
        return [low, low + 1]
    inner = _linear(low, high, least_step)
    step = inner[1] - inner[0]
    return [low, *(tick for tick in inner if low + step / 2 < tick < high - step / 2), high]


def _linear(low: float, high: float, least_step: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten around the range."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = max((high - low) / _INTERVALS, least_step)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _logarithmic(low: float, high: float) -> list[float]:
    """Powers of ten around the range, or for a short one 1, 2 and 5 times these."""
    if high <= low:
        low = low / 2
        high = high * 2
    first = math.floor(math.log10(low) + 1e-9)
    last = math.ceil(math.log10(high) - 1e-9)
    if last - first > 2:
        step = math.ceil((last - first) / _MOST_POWERS)
        first = last - step * math.ceil((last - first) / step)
        return [10.0**power for power in range(first, last + 1, step)]
    ladder: list[float] = []
    for power in range(first, last + 1):
        ladder += [10.0**power, 2 * 10.0**power, 5 * 10.0**power]
    below = [value for value in ladder if value <= low * (1 + 1e-9)]
    above = [value for value in ladder if value >= high * (1 - 1e-9)]
    return [value for value in ladder if below[-1] <= value <= above[0]]


def labels_of(axis: Axis, ticks: Sequence[float]) -> list[str]:
    """The text of each tick."""
    if axis.log and any(not _SMALLEST <= tick < _LARGEST for tick in ticks):
        return [_power(tick) for tick in ticks]
    return [value_text(tick) for tick in ticks]


def _power(value: float) -> str:
    digits, exponent = f"{value:.0e}".split("e")
    power = power_of_ten(int(exponent))
    if digits == "1":
        return power
    return f"{digits}×{power}"
