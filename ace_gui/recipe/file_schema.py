"""The schema of a recipe file, made from the fields of ``Recipe``; how values are written."""

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
from ace_gui.recipe.yaml_reader import plain_number, switch_of, text_of

SCHEMA: Final = 1
"""The schema number of the files written here."""

_CONFIG: Final = ConfigDict(extra="forbid", strict=True)

known_keys: Final[dict[tuple[str, ...], tuple[str, ...]]] = {}
"""The keys that a recipe may have, by section: the top, ``models``, ``overrides``, …"""


def written_fields(kind: type) -> list[Field[Any]]:
    """The fields of a class that are written in a file: its own, then the inherited ones."""
    annotations = inspect.get_annotations(kind)
    written = (field for field in fields(kind) if traits_of(field).written)
    return sorted(written, key=lambda f: f.name not in annotations)


def values_of(part: BaseModel) -> dict[str, Any]:
    """The values of a validated part of a file, by field name."""
    values: dict[str, Any] = {}
    for key, value in part:
        values |= values_of(value) if isinstance(value, BaseModel) else {key: value}
    return values


def in_file(value: Any, folder: Path | None) -> Any:
    """A value as it is written in a recipe file in ``folder``, without fields at their default."""
    if isinstance(value, Path):
        return placed(value, folder)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: in_file(item, folder) for key, item in value.items()}
    if isinstance(value, tuple):
        return [in_file(item, folder) for item in value]
    if is_dataclass(value):
        return _part_in_file(value, folder)
    return value


def placed(path: Path, folder: Path | None) -> str:
    """A path relative to ``folder``; without a folder the name on the hub, or the last part."""
    if folder is None:
        return hub_name(path) or path.name
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return str(path)


def _part_in_file(part: Any, folder: Path | None) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for item in written_fields(type(part)):
        value = getattr(part, item.name)
        traits = traits_of(item)
        if value != _default(item) or traits.always:
            if traits.under:
                heading = written.setdefault(traits.under, {})
            else:
                heading = written
            heading[item.name] = in_file(value, folder)
    return written


def _default(item: Field[Any]) -> Any:
    if item.default_factory is MISSING:
        return item.default
    return item.default_factory()


def _schema(kind: type, at: tuple[str, ...], **extra: Any) -> type[BaseModel]:
    """A pydantic model with the fields of a dataclass, which validates to their values."""
    hints = get_type_hints(kind)
    entries = dict(extra)
    headings = dict[str, dict[str, Any]]()
    for item in written_fields(kind):
        under = traits_of(item).under
        if under:
            index = (*at, under, item.name)
        else:
            index = (*at, item.name)
        entry = _with_traits(item, hints[item.name], index), _pydantic_default(item)
        (headings.setdefault(under, {}) if under else entries)[item.name] = entry
    for heading, inner in headings.items():
        model = pydantic.create_model(heading, __config__=_CONFIG, **inner)
        known_keys[*at, heading] = tuple(inner)
        entries[heading] = model, pydantic.Field(default_factory=model)
    known_keys[at] = tuple(name.rstrip("_") for name in entries)
    schema: type[BaseModel] = pydantic.create_model(kind.__name__, __config__=_CONFIG, **entries)
    return schema


def _pydantic_default(item: Field[Any]) -> Any:
    if item.default_factory is not MISSING:
        return pydantic.Field(default_factory=item.default_factory)
    if item.default is MISSING:
        return ...
    return item.default


def _with_traits(item: Field[Any], kind: Any, at: tuple[str, ...]) -> Any:
    """The type of a field in the file; every value but None is checked."""
    traits = traits_of(item)
    members = [member for member in _members(kind) if member is not NoneType]
    value_type = _union(members)
    checked_type = _in_schema(value_type, at, traits.limits)
    if traits.checked is not None:
        checked_type = Annotated[checked_type, AfterValidator(traits.checked)]
    if traits.tidied is not None:
        checked_type = Annotated[checked_type, BeforeValidator(traits.tidied)]
    if value_type == kind:
        return checked_type
    return checked_type | None


def _members(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) in {Union, UnionType}:
        return get_args(kind)
    return (kind,)


def _union(members: Iterable[Any]) -> Any:
    return reduce(or_, members)


def _in_schema(kind: Any, at: tuple[str, ...], limits: Mapping[str, Any]) -> Any:
    """The type that the file has for a field's type; validation converts to the field's."""
    inner = get_args(kind)
    origin = get_origin(kind)
    if kind == ParameterValue:
        return Annotated[kind, BeforeValidator(plain_number)]
    if origin in {Union, UnionType}:
        return _union(_in_schema(inner_kind, at, limits) for inner_kind in inner)
    if origin is tuple:
        item = _in_schema(inner[0], at, {})
        return Annotated[GenericAlias(list, item), pydantic.Field(**limits), AfterValidator(tuple)]
    if origin is Mapping:
        return GenericAlias(dict, (str, _in_schema(inner[1], at, {})))
    return _simple(kind, at, limits)


def _member(kind: type[StrEnum], word: str) -> StrEnum:
    """The member with a word; pydantic cannot read the signature of an enum since Python 3.12."""
    return kind(word)


def _simple(kind: Any, at: tuple[str, ...], limits: Mapping[str, Any]) -> Any:
    if kind is Path:
        text = Annotated[str, pydantic.Field(min_length=1), AfterValidator(_place)]
        return Annotated[text, BeforeValidator(text_of)]
    if kind is str:
        return Annotated[str, pydantic.Field(**limits), BeforeValidator(text_of)]
    if kind is bool:
        return Annotated[bool, BeforeValidator(switch_of)]
    if kind is float:
        return Annotated[float, pydantic.Field(allow_inf_nan=False, **limits)]
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        words = tuple(member.value for member in kind)
        member = partial(_member, kind)
        return Annotated[Literal[words], BeforeValidator(text_of), AfterValidator(member)]
    if is_dataclass(kind):
        make = partial(_made, kind)
        return Annotated[_schema(kind, at), AfterValidator(make)]  # type: ignore[arg-type]
    if limits:
        return Annotated[kind, pydantic.Field(**limits)]
    return kind


def _made(kind: Any, written: BaseModel) -> Any:
    return kind(**values_of(written))


def _place(written: str, info: ValidationInfo) -> Path:
    paths = cast(ModelPaths, info.context)
    return paths(written)


def _known_schema(schema: int) -> int:
    if schema != SCHEMA:
        raise ValueError(f"must be {SCHEMA}; a newer version of this application may read it")
    return schema


_NUMBER: Final = Annotated[int, AfterValidator(_known_schema), pydantic.Field(alias="schema")]

Document: Final = _schema(Recipe, (), schema_=(_NUMBER, SCHEMA))
"""Schema of a recipe file; validate it with the ``ModelPaths`` of its folder as context."""

_TASKS: Final[Any] = Document.model_fields["tasks"].annotation

TasksDocument: Final = pydantic.create_model("Tasks", __config__=_CONFIG, tasks=(_TASKS, ...))
"""Schema of a file with only the tasks of a recipe; validate it in the same way."""
