"""The schema of a recipe file, made from the fields of ``Recipe``; values as a file has them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum, StrEnum
from functools import partial, reduce
from operator import or_
from pathlib import Path
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationInfo

from ace_gui.recipe.model_paths import ModelPaths
from ace_gui.recipe.overrides import ParameterValue, traits_of
from ace_gui.recipe.values import Recipe, hub_name

SCHEMA: Final = 1
"""The schema number of the files written here."""

_CONFIG: Final = ConfigDict(extra="forbid", strict=True)

known_keys: Final[dict[tuple[str, ...], tuple[str, ...]]] = {}
"""The keys that a recipe may have, by section: at the top, in ``models``, in ``overrides``, …"""


def written_fields(kind: type) -> list[Field[Any]]:
    """The fields of a class that a file has: its own, then those that it inherits."""
    own = inspect.get_annotations(kind)
    written = (each for each in fields(kind) if traits_of(each).written)
    return sorted(written, key=lambda f: f.name not in own)


def values_of(made: BaseModel) -> dict[str, Any]:
    """The values of a validated part of a file, by field."""
    found: dict[str, Any] = {}
    for key, value in made:
        found |= values_of(value) if isinstance(value, BaseModel) else {key: value}
    return found


def in_file(value: Any, folder: Path | None) -> Any:
    """A value as a recipe file in ``folder`` has it: only what is not the default."""
    if isinstance(value, Path):
        return placed(value, folder)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: in_file(each, folder) for key, each in value.items()}
    if isinstance(value, tuple):
        return [in_file(each, folder) for each in value]
    return _part_in_file(value, folder) if is_dataclass(value) else value


def placed(path: Path, folder: Path | None) -> str:
    """A path as a file in ``folder`` names it; without one the name on the hub, or the bare one."""
    if folder is None:
        return hub_name(path) or path.name
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return str(path)


def _part_in_file(part: Any, folder: Path | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in written_fields(type(part)):
        value, traits = getattr(part, each.name), traits_of(each)
        if value != _default(each) or traits.always:
            heading = found.setdefault(traits.under, {}) if traits.under else found
            heading[each.name] = in_file(value, folder)
    return found


def _default(of: Field[Any]) -> Any:
    return of.default if of.default_factory is MISSING else of.default_factory()


def _schema(kind: type, at: tuple[str, ...], **more: Any) -> type[BaseModel]:
    """A model with the fields of a dataclass; its values are those of the dataclass."""
    hints, made, headings = get_type_hints(kind), dict(more), dict[str, dict[str, Any]]()
    for each in written_fields(kind):
        under = traits_of(each).under
        index = (*at, under, each.name) if under else (*at, each.name)
        entry = _with_traits(each, hints[each.name], index), _pydantic_default(each)
        (headings.setdefault(under, {}) if under else made)[each.name] = entry
    for heading, inner in headings.items():
        model = pydantic.create_model(heading, __config__=_CONFIG, **inner)
        known_keys[*at, heading] = tuple(inner)
        made[heading] = model, pydantic.Field(default_factory=model)
    known_keys[at] = tuple(name.rstrip("_") for name in made)
    schema: type[BaseModel] = pydantic.create_model(kind.__name__, __config__=_CONFIG, **made)
    return schema


def _pydantic_default(of: Field[Any]) -> Any:
    if of.default_factory is not MISSING:
        return pydantic.Field(default_factory=of.default_factory)
    return ... if of.default is MISSING else of.default


def _with_traits(each: Field[Any], kind: Any, at: tuple[str, ...]) -> Any:
    """The type of a field in the file; what it may be besides None is checked."""
    traits = traits_of(each)
    members = [member for member in _members(kind) if member is not NoneType]
    given = _union(members)
    made = _in_schema(given, at, traits.limits)
    if traits.checked is not None:
        made = Annotated[made, AfterValidator(traits.checked)]
    if traits.tidied is not None:
        made = Annotated[made, BeforeValidator(traits.tidied)]
    return made if given == kind else made | None


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)


def _union(members: Iterable[Any]) -> Any:
    return reduce(or_, members)


def _in_schema(kind: Any, at: tuple[str, ...], limits: Mapping[str, Any]) -> Any:
    """The type in the file of a type of a field; validation gives the field's."""
    inner, origin = get_args(kind), get_origin(kind)
    if kind == ParameterValue:
        return kind
    if origin in {Union, UnionType}:
        return _union(_in_schema(each, at, limits) for each in inner)
    if origin is tuple:
        item = _in_schema(inner[0], at, {})
        return Annotated[GenericAlias(list, item), pydantic.Field(**limits), AfterValidator(tuple)]
    if origin is Mapping:
        return GenericAlias(dict, (str, _in_schema(inner[1], at, {})))
    return _simple(kind, at, limits)


def _simple(kind: Any, at: tuple[str, ...], limits: Mapping[str, Any]) -> Any:
    if kind is Path:
        return Annotated[str, pydantic.Field(min_length=1), AfterValidator(_place)]
    if kind is float:
        return Annotated[float, pydantic.Field(allow_inf_nan=False, **limits)]
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return Annotated[Literal[tuple(each.value for each in kind)], AfterValidator(kind)]
    if is_dataclass(kind):
        make = partial(_made, kind)
        return Annotated[_schema(kind, at), AfterValidator(make)]  # type: ignore[arg-type]
    return Annotated[kind, pydantic.Field(**limits)] if limits else kind


def _made(kind: Any, written: BaseModel) -> Any:
    return kind(**values_of(written))


def _place(written: str, info: ValidationInfo) -> Path:
    index = cast(ModelPaths, info.context)
    return index(written)


def _known_schema(schema: int) -> int:
    if schema != SCHEMA:
        raise ValueError(f"must be {SCHEMA}; a newer version of this application may read it")
    return schema


_NUMBER: Final = Annotated[int, AfterValidator(_known_schema), pydantic.Field(alias="schema")]

Document: Final = _schema(Recipe, (), schema_=(_NUMBER, SCHEMA))
"""A recipe file; validate it with the ``ModelPaths`` of its folder as context."""

_TASKS: Final[Any] = Document.model_fields["tasks"].annotation

TasksDocument: Final = pydantic.create_model("Tasks", __config__=_CONFIG, tasks=(_TASKS, ...))
"""The tasks of a recipe file alone; validated as a whole one is."""
