"""What a mergekit YAML file may say, as far as this application can follow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

Scalar = bool | int | float | str


class Condition(BaseModel):
    """A value for tensors whose name contains ``filter``; for all without one, or for "*"."""

    model_config = ConfigDict(extra="forbid")

    value: Scalar | list[Scalar]
    filter: str | None = None


Setting = Scalar | list[Scalar] | Condition | list[Condition]
"""One value, a gradient over the blocks, or the first condition that holds."""


class Model(BaseModel):
    """One input. ``layer_range`` only within a slice."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Setting] = {}
    layer_range: tuple[int, int] | None = None


class Slice(BaseModel):
    """A run of blocks of the output."""

    model_config = ConfigDict(extra="forbid")

    sources: Annotated[list[Model], Field(min_length=1)]
    base_model: str | None = None
    parameters: dict[str, Setting] = {}


class Document(BaseModel):
    """A whole file."""

    model_config = ConfigDict(extra="forbid")

    merge_method: str
    base_model: str | None = None
    models: list[Model] = []
    slices: list[Slice] = []
    parameters: dict[str, Setting] = {}
    dtype: str | None = None
    out_dtype: str | None = None
    tokenizer_source: str | None = None
    tokenizer: dict[str, Any] | None = None
    chat_template: str | None = None
    modules: dict[str, Any] | None = None


_KEYS: Final = frozenset(
    {"dtype", "slices", "modules", "tokenizer_source", "tokenizer", "chat_template"}
)
_PARAMETERS: Final = frozenset(
    {
        "normalize",
        "rescale",
        "lambda",
        "int8_mask",
        "filter_wise",
        "normalize_weights",
        "nuslerp_flatten",
        "nuslerp_row_wise",
        "max_iter",
        "tol",
    }
)


_FOR_ONE_MODEL: Final = frozenset({"density", "gamma", "epsilon"})


def is_mergekit(content: Mapping[str, Any]) -> bool:
    """Whether a file says something that only mergekit says.

    A key or a parameter of its own, a gradient or a filter, a density and the like for one model,
    no base model, or the base model among the models.
    """
    models = content.get("models")
    entries = [m for m in models if isinstance(m, dict)] if isinstance(models, list) else []
    own = [_mapping(entry.get("parameters")) for entry in entries]
    everything = [_mapping(content.get("parameters")), *own]
    base = content.get("base_model")
    return (
        bool(_KEYS & content.keys())
        or (base is None and "merge_method" in content)
        or any(entry.get("model") == base for entry in entries)
        or any(_FOR_ONE_MODEL & parameters.keys() for parameters in own)
        or any(_PARAMETERS & parameters.keys() for parameters in everything)
        or any(isinstance(v, list | dict) for p in everything for v in p.values())
    )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
