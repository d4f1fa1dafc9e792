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
    """One parameter of a method."""

    name: str = ""
    """In recipes."""
    kind: str = "float"
    """"float", "int", "bool" or "str"."""
    default: ParameterValue
    """Its value without a setting."""
    label: str
    """Its name for people."""
    help: str
    """What it does."""
    low: float | None = None
    """Its least value; None: no limit."""
    high: float | None = None
    """Its greatest value; None: no limit."""
    low_open: bool = False
    """Whether ``low`` itself is excluded."""
    logarithmic: bool = False
    """Whether values to try are spaced by factors."""
    choices: tuple[str, ...] = ()
    """The possible texts; empty if any value of its kind may be chosen."""
    presets: tuple[tuple[str, float], ...] = ()
    """Named values to offer."""
    applies_when: tuple[str, ...] | None = None
    """Another parameter and the values for which this one has an effect; None: always."""
    differs: str = ""
    """The end of the help, about sources with another default."""

    def applies(self, value_of: Callable[[str], ParameterValue | None]) -> bool:
        """Whether the parameter has an effect, given the values of the others."""
        return self.applies_when is None or value_of(self.applies_when[0]) in self.applies_when[1:]


@dataclass(frozen=True, kw_only=True)
class Option(FieldInfo):
    """An attribute of a frozen dataclass, as a field of a form."""

    kind: str = "str"
    """As in ``FieldInfo``; "digits" allows only digits, "text" has several lines."""
    default: ParameterValue = ""
    """Shown if the attribute is None."""
    help: str = ""
    """What it does."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The possible values by the texts to choose from. Without them the field is a number or a line
    of text.
    """
    empty: str = ""
    """The meaning of an empty text, or of 0."""
    read: Callable[[Any], Any] = lambda typed: typed or None
    """Converts the typed text to a value, or raises ValueError."""
    write: Callable[[Any], ParameterValue] = lambda value: value
    """Converts a value to the text."""

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
