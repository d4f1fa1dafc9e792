"""The content of a mergekit YAML file, as far as this application supports it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Scalar = bool | int | float | str


class _Part(BaseModel):
    """A part of a file, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Condition(_Part):
    """A value for tensors whose name contains ``filter``; for all without one, or for "*"."""

    value: Scalar | list[Scalar]
    filter: str | None = None


Setting = Scalar | list[Scalar] | Condition | list[Condition]
"""One value, a gradient over the blocks, or the first condition that holds."""


Settings = Annotated[dict[str, Setting], BeforeValidator(lambda x: {} if x is None else x)]
"""A heading with nothing under it is no setting."""


def _path_of(value: object) -> object:
    """``path@revision`` as a mapping."""
    if not isinstance(value, str):
        return value
    path, at, revision = value.rpartition("@")
    return {"path": path, "revision": revision} if at else {"path": value}


def _reference_of(value: object) -> object:
    """``model+adapter`` as a mapping."""
    if not isinstance(value, str):
        return value
    model, *adapters = value.split("+")
    if len(adapters) > 1:
        raise ValueError("may have one adapter, as model+adapter")
    return {"model": model} | ({"lora": adapters[0]} if adapters else {})


class ModelPath(_Part):
    """A folder, or a model of the local cache at a revision."""

    path: Annotated[str, Field(min_length=1)]
    revision: str | None = None

    def __str__(self) -> str:
        return self.path if self.revision is None else f"{self.path}@{self.revision}"


_ModelPath = Annotated[ModelPath, BeforeValidator(_path_of)]


class Reference(_Part):
    """A model, and an adapter on it."""

    model: _ModelPath
    lora: _ModelPath | None = None
    override_architecture: str | None = None

    def __str__(self) -> str:
        return str(self.model) if self.lora is None else f"{self.model}+{self.lora}"


ModelName = Annotated[Reference, BeforeValidator(_reference_of)]


_Block = Annotated[int, Field(ge=0, le=100_000)]  # more would only take time


class Model(_Part):
    """One input. ``layer_range`` only within a slice."""

    model: ModelName
    parameters: Settings = {}
    layer_range: tuple[_Block, _Block] | None = None


class Slice(_Part):
    """A run of blocks of the output."""

    sources: Annotated[list[Model], Field(min_length=1)]
    base_model: ModelName | None = None
    parameters: Settings = {}
    residual_weight: float | None = None


class Module(_Part):
    """A part of the output with blocks of its own."""

    models: list[Model] | None = None
    slices: list[Slice] | None = None
    parameters: Settings = {}


def _template(written: str) -> str:
    """A chat template as mergekit has it. Raises ValueError."""
    if written in TEMPLATES or "{" in written:
        return written
    raise ValueError(f"must be {', '.join(TEMPLATES)} or Jinja text")


class TokenRow(_Part):
    """A row for a token: that of another token, or zeros."""

    kind: Literal["model_token", "zero"]
    model: ModelName | None = None
    token: str = ""
    token_id: Annotated[int, Field(ge=0)] | None = None


class Token(_Part):
    """What a token's row is where a model lacks it; with ``force`` everywhere."""

    source: TokenRow | ModelName | None = None
    force: bool = False


class TokenizerChoice(_Part):
    """The tokenizer of the output."""

    source: Literal["base", "union"] | ModelName = "union"
    tokens: dict[str, Token] = {}
    pad_to_multiple_of: Annotated[int, Field(ge=1)] | None = None


class Document(_Part):
    """A whole file."""

    merge_method: str
    base_model: ModelName | None = None
    models: list[Model] | None = None
    slices: list[Slice] | None = None
    parameters: Settings = {}
    dtype: str | None = None
    out_dtype: str | None = None
    tokenizer_source: Literal["base", "union"] | ModelName | None = None
    tokenizer: TokenizerChoice | None = None
    chat_template: Annotated[str, AfterValidator(_template)] | None = None
    modules: dict[str, Module] | None = None


TEMPLATES: Final = ("auto", "chatml", "llama3", "mistral", "alpaca", "exaone")
"""What mergekit has as ``chat_template`` besides Jinja text."""

KNOWN_KEYS: Final = {
    (): tuple(Document.model_fields),
    ("models",): tuple(Model.model_fields),
    ("slices",): tuple(Slice.model_fields),
    ("slices", "sources"): tuple(Model.model_fields),
}
"""The keys that a file may have, by section."""
