"""The description of one parameter, for checks of recipes, forms and help texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

ParameterValue = float | int | bool | str

SWITCHES: Final[Mapping[str, bool]] = {"yes": True, "on": True, "no": False, "off": False}
"""What these words mean where a boolean is needed; a file or a command has them as text."""


@dataclass(frozen=True, kw_only=True)
class FieldInfo:
    """One parameter of a method. ``kind``: float, int, bool or str.

    ``low_open`` excludes ``low`` itself. ``presets`` are named values to offer. ``applies_when``:
    another parameter and the values for which this one has an effect. ``differs``: the end of the
    help, about sources with another default.
    """

    name: str = ""
    kind: str = "float"
    default: ParameterValue
    label: str
    help: str
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    logarithmic: bool = False
    choices: tuple[str, ...] = ()
    presets: tuple[tuple[str, float], ...] = ()
    applies_when: tuple[str, ...] | None = None
    differs: str = ""

    def applies(self, value_of: Callable[[str], ParameterValue | None]) -> bool:
        """Whether the parameter has an effect, given the values of the others."""
        return self.applies_when is None or value_of(self.applies_when[0]) in self.applies_when[1:]


def applying(
    fields: Iterable[FieldInfo], values: Mapping[str, ParameterValue]
) -> dict[str, ParameterValue]:
    """The values without those that have no effect, given the others."""
    idle = {field.name for field in fields if not field.applies(values.get)}
    return {name: value for name, value in values.items() if name not in idle}


_WIDE: Final = 100.0


def is_wide(low: float, high: float) -> bool:
    """Whether values from ``low`` to ``high`` are searched and drawn on a logarithmic scale: all
    are positive, and they span a factor of 100."""
    return low > 0 and high >= _WIDE * low
