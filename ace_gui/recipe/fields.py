"""Metadata of a recipe's fields, besides type and default."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

from ace_gui.errors import RecipeError

_TRAITS: Final = "recipe"


@dataclass(frozen=True, kw_only=True)
class Traits:
    """How a field is written in a recipe file, and what it affects.

    ``limits``: of its value, in pydantic's terms. ``under``: its heading in the file. ``always``:
    written even if it is the default. ``tidied``: converts a shorthand of the file to the value.
    ``checked``: returns the value; raises ValueError. ``task_vectors``: whether another value
    changes the task vectors, or only their merge. ``written``: whether it appears in a file at all.
    """

    limits: Mapping[str, Any] = field(default_factory=dict)
    under: str = ""
    always: bool = False
    tidied: Callable[[Any], Any] | None = None
    checked: Callable[[Any], Any] | None = None
    task_vectors: bool = True
    written: bool = True


def about(**traits: Any) -> Mapping[str, Traits]:
    """The metadata of a field with these traits."""
    return MappingProxyType({_TRAITS: Traits(**traits)})


def traits_of(described: Field[Any]) -> Traits:
    """The traits of a field."""
    found: Traits = described.metadata.get(_TRAITS, Traits())
    return found


def require_limits(part: Any, heading: str) -> None:
    """Raise RecipeError for a value of a dataclass that is out of its field's limits."""
    for each in fields(part):
        value, traits, key = getattr(part, each.name), traits_of(each), f"{heading}.{each.name}"
        if value is None:
            continue
        for limit, bound in traits.limits.items():
            if not getattr(operator, limit)(value, bound):
                raise RecipeError(f"{key} is {value}, which is out of its range.", key=key)
        if traits.checked is not None:
            try:
                traits.checked(value)
            except ValueError as error:
                raise RecipeError(f"{key} {error}.", key=key) from None
