"""What a mergekit YAML file may say, as far as this application can follow it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Scalar = bool | int | float | str


class Condition(BaseModel):
    """A value for tensors whose name contains ``filter``; for all without one, or for "*"."""

    model_config = ConfigDict(extra="forbid")

    value: Scalar | list[Scalar]
    filter: str | None = None


Setting = Scalar | list[Scalar] | Condition | list[Condition]
"""One value, a gradient over the blocks, or the first condition that holds."""


def _none_is_empty(value: object) -> object:
    return {} if value is None else value


Settings = Annotated[dict[str, Setting], BeforeValidator(_none_is_empty)]
"""A heading with nothing under it is no setting."""


class Reference(BaseModel):
    """A model written as a mapping."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: Annotated[str, Field(min_length=1)]
    lora: Annotated[str, Field(min_length=1)] | None = None


def _as_text(value: object) -> object:
    """``{model: …, lora: …}`` as mergekit also writes it, ``model+lora``."""
    if not isinstance(value, dict):
        return value
    reference = Reference.model_validate(value)
    return reference.model if reference.lora is None else f"{reference.model}+{reference.lora}"


ModelName = Annotated[str, Field(min_length=1), BeforeValidator(_as_text)]


class Model(BaseModel):
    """One input. ``layer_range`` only within a slice."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: ModelName
    parameters: Settings = {}
    layer_range: tuple[int, int] | None = None


class Slice(BaseModel):
    """A run of blocks of the output."""

    model_config = ConfigDict(extra="forbid")

    sources: Annotated[list[Model], Field(min_length=1)]
    base_model: ModelName | None = None
    parameters: Settings = {}


class Document(BaseModel):
    """A whole file."""

    model_config = ConfigDict(extra="forbid")

    merge_method: str
    base_model: ModelName | None = None
    models: list[Model] = []
    slices: list[Slice] = []
    parameters: Settings = {}
    dtype: str | None = None
    out_dtype: str | None = None
    tokenizer_source: ModelName | None = None
    tokenizer: dict[str, Any] | None = None
    chat_template: str | None = None
    modules: dict[str, Any] | None = None


_METHODS: Final = frozenset(
    [
        "arcee_fusion",
        "breadcrumbs",
        "breadcrumbs_ties",
        "dare_linear",
        "dare_ties",
        "della",
        "della_linear",
        "karcher",
        "linear",
        "model_stock",
        "multislerp",
        "nearswap",
        "nuslerp",
        "passthrough",
        "ram",
        "ramplus_tl",
        "sce",
        "slerp",
        "task_arithmetic",
        "ties",
    ]
)
"""Those of mergekit 0.1.5."""

_SHARED: Final = frozenset({"merge_method", "base_model", "models", "parameters", "out_dtype"})
"""Keys that an own recipe has, too."""

_KEYS: Final = frozenset(Document.model_fields) - _SHARED

_FOR_ONE_MODEL: Final = frozenset({"density", "gamma", "epsilon"})

_SHARED_PARAMETERS: Final = _FOR_ONE_MODEL | {"weight", "t", "select_topk"}

_PARAMETERS: Final = frozenset(
    [
        "normalize",
        "rescale",
        "lambda",
        "int8_mask",
        "filter_wise",
        "normalize_weights",
        "eps",
        "nuslerp_flatten",
        "nuslerp_row_wise",
        "max_iter",
        "tol",
        "r",
        "alpha",
        "scale",
    ]
)
"""Those that only mergekit has."""

READ_AS_MERGEKIT: Final = (
    "This file has no schema and says nothing that mergekit does not know, so it is read as "
    "mergekit's, with mergekit's defaults; write `schema: 1` in a recipe of this application."
)


def is_mergekit(content: Mapping[str, Any], own_keys: Collection[str]) -> bool:
    """Whether a file is mergekit's: it says something that only mergekit says, or nothing else.

    ``own_keys``: what an own recipe may have, mergekit's among them.

    What only an own recipe says makes it one: ``schema`` or another key of its own, a named expert,
    a method that mergekit has not, or none.
    """
    entries = _entries(content)
    if (set(own_keys) - Document.model_fields.keys()) & content.keys() or any(
        "name" in entry for entry in entries
    ):
        return False
    return _says_what_only_mergekit_says(content, entries) or _says_nothing_else(content, entries)


def _says_what_only_mergekit_says(
    content: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> bool:
    """A key or parameter, a gradient or filter, no base model, or the base among the models."""
    everything = _parameters(content, entries)
    base = content.get("base_model")
    return (
        bool(_KEYS & content.keys())
        or (base is None and "merge_method" in content)
        or (
            _names_a_method(content)
            and base is not None
            and any(entry.get("model") == base for entry in entries)
        )
        or any(_PARAMETERS & parameters.keys() for parameters in everything)
        or any(isinstance(v, list | dict) for p in everything for v in p.values())
    )


def _says_nothing_else(content: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> bool:
    return (
        _names_a_method(content)
        and content.keys() <= _SHARED
        and all(p.keys() <= _SHARED_PARAMETERS for p in _parameters(content, entries))
    )


def _names_a_method(content: Mapping[str, Any]) -> bool:
    """Whether mergekit has the method."""
    method = content.get("merge_method")
    return isinstance(method, str) and method in _METHODS


def _entries(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    models = content.get("models")
    return [m for m in models if isinstance(m, dict)] if isinstance(models, list) else []


def _parameters(
    content: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    found = [each.get("parameters") for each in (content, *entries)]
    return [parameters for parameters in found if isinstance(parameters, dict)]
