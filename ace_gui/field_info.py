"""The description of one parameter, for checks of recipes, forms and help texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

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


@dataclass(frozen=True, kw_only=True)
class Option(FieldInfo):
    """An attribute of a frozen dataclass, as a field of a form.

    ``values``: the possible values by the texts to choose from. Without them the field is a number
    or a line of text. The kind ``digits`` allows only digits; the kind ``text`` has several lines.
    ``empty``: the meaning of an empty text, or of 0. ``read`` converts the typed text to a value,
    or raises ValueError; ``write`` does the reverse.
    """

    kind: str = "str"
    default: ParameterValue = ""
    help: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    empty: str = ""
    read: Callable[[Any], Any] = lambda typed: typed or None
    write: Callable[[Any], ParameterValue] = lambda value: value

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", tuple(self.values))
        if self.values and not self.default:
            object.__setattr__(self, "default", self.choices[0])

    def get(self, record: Any) -> Any:
        """The attribute of ``record``."""
        return getattr(record, self.name)

    def put(self, record: Any, value: Any) -> Any:
        """A copy of ``record`` with this value."""
        return replace(record, **{self.name: value})

    def shown(self, record: Any) -> ParameterValue:
        """The value of ``record`` as the field shows it."""
        value = self.get(record)
        if self.values:
            return next((text for text, label in self.values.items() if label == value), str(value))
        if value is None:
            return self.default
        return self.write(value)

    def edited(self, record: Any, value: ParameterValue | None, default: Any) -> Any:
        """A copy with the shown value, or if None the usual one. Invalid text changes nothing."""
        if value is None:
            return self.put(record, self.get(default))
        try:
            return self.put(record, self.values[str(value)] if self.values else self.read(value))
        except ValueError:
            return record


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
