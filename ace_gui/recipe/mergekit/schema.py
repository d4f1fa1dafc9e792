"""The content of a mergekit YAML file, as far as this application supports it.

Its settings, gradients and filters become a value for all tensors and rules for some.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ace_gui.errors import RecipeError
from ace_gui.recipe.overrides import Override
from ace_gui.recipe.yaml_reader import switch_of, text_of

Scalar = bool | int | float | str

_FileScalar = Annotated[Scalar, BeforeValidator(switch_of)]
"""A scalar in a file, where yes, no, on and off are booleans."""

Text = Annotated[str, BeforeValidator(text_of)]
"""Text in a file; a number counts as it is written."""


class FilePart(BaseModel):
    """A part of a file, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Condition(FilePart):
    """A value for tensors whose name contains ``filter``; for all without one, or for "*"."""

    value: _FileScalar | list[_FileScalar]
    filter: Text | None = None

    @property
    def is_for_all(self) -> bool:
        """Whether it holds for all tensors."""
        return self.filter in (None, "", "*")


Setting = _FileScalar | list[_FileScalar] | Condition | list[Condition]
"""One value, a gradient over the blocks, or the first condition that holds."""


def _no_settings_for_none(value: object) -> object:
    if value is None:
        return {}
    return value


Settings = Annotated[dict[str, Setting], BeforeValidator(_no_settings_for_none)]
"""Settings by name; a heading with nothing under it has none."""


def _path_mapping_of(value: object) -> object:
    """``path@revision`` as the mapping of a ``ModelPath``; a mapping stays as it is."""
    value = text_of(value)
    if not isinstance(value, str):
        return value
    path, separator, revision = value.rpartition("@")
    if separator:
        return {"path": path, "revision": revision}
    return {"path": value}


def _reference_mapping_of(value: object) -> object:
    """``model+adapter`` as the mapping of a ``Reference``; a mapping stays as it is."""
    value = text_of(value)
    if not isinstance(value, str):
        return value
    model, *adapters = value.split("+")
    if len(adapters) > 1:
        raise ValueError("may have one adapter, as model+adapter")
    if adapters:
        return {"model": model, "lora": adapters[0]}
    return {"model": model}


class ModelPath(FilePart):
    """A folder, or a model of the local cache at a revision."""

    path: Annotated[Text, Field(min_length=1)]
    revision: Text | None = None

    def __str__(self) -> str:
        if self.revision is None:
            return self.path
        return f"{self.path}@{self.revision}"


_ModelPath = Annotated[ModelPath, BeforeValidator(_path_mapping_of)]
"""A path, which a file may also have as the text ``path@revision``."""


class Reference(FilePart):
    """A model, and an adapter on it."""

    model: _ModelPath
    lora: _ModelPath | None = None
    override_architecture: str | None = None

    def __str__(self) -> str:
        if self.lora is None:
            return str(self.model)
        return f"{self.model}+{self.lora}"


ReferenceInFile = Annotated[Reference, BeforeValidator(_reference_mapping_of)]
"""A reference, which a file may also have as the text ``model+adapter``."""


_Block = Annotated[int, Field(ge=0, le=100_000)]
"""The number of a block. A larger one would only take time."""


class Model(FilePart):
    """One input. ``layer_range`` only within a slice."""

    model: ReferenceInFile
    parameters: Settings = {}
    layer_range: tuple[_Block, _Block] | None = None


class MergekitSlice(FilePart):
    """A run of blocks of the output."""

    sources: Annotated[list[Model], Field(min_length=1)]
    base_model: ReferenceInFile | None = None
    parameters: Settings = {}
    residual_weight: float | None = None


class Module(FilePart):
    """A part of the output with blocks of its own."""

    models: list[Model] | None = None
    slices: list[MergekitSlice] | None = None
    parameters: Settings = {}


def is_template(written: str) -> bool:
    """Whether mergekit knows this value of ``chat_template``."""
    return written in TEMPLATES or "{" in written


def _template(written: str) -> str:
    """A chat template as mergekit has it. Raises ValueError."""
    if is_template(written):
        return written
    raise ValueError(f"must be {', '.join(TEMPLATES)} or Jinja text")


class TokenRow(FilePart):
    """A row for a token: that of another token, or zeros."""

    kind: Literal["model_token", "zero"]
    model: ReferenceInFile | None = None
    token: Text = ""
    token_id: Annotated[int, Field(ge=0)] | None = None


class Token(FilePart):
    """The row of a token for models that lack it; with ``force`` for all models."""

    source: TokenRow | ReferenceInFile | None = None
    force: bool = False


class TokenizerChoice(FilePart):
    """The tokenizer of the output."""

    source: Literal["base", "union"] | ReferenceInFile = "union"
    tokens: dict[str, Token] = {}
    pad_to_multiple_of: Annotated[int, Field(ge=1)] | None = None


class Document(FilePart):
    """A whole file."""

    merge_method: str
    base_model: ReferenceInFile | None = None
    models: list[Model] | None = None
    slices: list[MergekitSlice] | None = None
    parameters: Settings = {}
    dtype: str | None = None
    out_dtype: str | None = None
    tokenizer_source: Literal["base", "union"] | ReferenceInFile | None = None
    tokenizer: TokenizerChoice | None = None
    chat_template: Annotated[str, AfterValidator(_template)] | None = None
    modules: dict[str, Module] | None = None


TEMPLATES: Final = ("auto", "chatml", "llama3", "mistral", "alpaca", "exaone")
"""Values of mergekit's ``chat_template`` besides Jinja text."""

KNOWN_KEYS: Final = {
    (): tuple(Document.model_fields),
    ("models",): tuple(Model.model_fields),
    ("slices",): tuple(MergekitSlice.model_fields),
    ("slices", "sources"): tuple(Model.model_fields),
}
"""The keys that a file may have, by section."""


class RuleTarget(NamedTuple):
    """The tensors that a rule of a recipe is for."""

    pattern: str | None
    """Pattern for their names; None: any name."""
    blocks: str | None
    """Their blocks, as a recipe names them; None: all tensors."""


@dataclass(frozen=True, kw_only=True)
class ConditionalValue:
    """A value of a parameter for some tensors."""

    value: Scalar
    """The value."""
    pattern: str | None = None
    """Pattern for the tensors' names; None: any name."""
    blocks: tuple[int, int] | None = None
    """The first and the last of the tensors' blocks; None: all tensors."""

    def rule_target(self, offset: int) -> RuleTarget:
        """The tensors, if the first block has the number ``offset``."""
        if self.blocks is None:  # a rule needs a pattern or blocks
            return RuleTarget(pattern=self.pattern or "*", blocks=None)
        first = offset + self.blocks[0]
        last = offset + self.blocks[1]
        if first == last:
            return RuleTarget(pattern=self.pattern, blocks=str(first))
        return RuleTarget(pattern=self.pattern, blocks=f"{first}-{last}")


ConditionalValues = tuple[ConditionalValue, ...]
"""The values of a parameter. The first one holds for all tensors, and of those that hold for a
tensor the last one counts.
"""


def conditional_values_of(
    name: str, scopes: Iterable[Mapping[str, Setting]], default: Scalar, blocks: int | None
) -> ConditionalValues:
    """The values of a parameter by tensor. ``scopes``: the sections that may set it, nearest first.

    ``default``: the value where none of them does. ``blocks``: their number, for gradients. Raises
    RecipeError if it is needed and unknown, or if a gradient has other values than numbers.
    """
    # First the conditions up to the one that holds for all tensors, the nearest first.
    nearest_first: list[ConditionalValues] = []
    has_value_for_all = False
    for condition in conditions_of(name, scopes):
        has_value_for_all = condition.is_for_all
        pattern = None
        if not has_value_for_all:
            pattern = f"*{_escaped(condition.filter or '')}*"
        nearest_first.append(_values_along_blocks(name, condition.value, pattern, blocks))
        if has_value_for_all:  # nothing after it counts
            break
    if not has_value_for_all:
        nearest_first.append((ConditionalValue(value=default),))
    # The last value counts, so the nearest one comes last. Of several values for the same tensors,
    # only the last one stays, at its place.
    by_tensors: dict[tuple[str | None, tuple[int, int] | None], ConditionalValue] = {}
    for conditional_value in itertools.chain.from_iterable(reversed(nearest_first)):
        tensors = (conditional_value.pattern, conditional_value.blocks)
        by_tensors.pop(tensors, None)  # a new item of a dictionary is its last one
        by_tensors[tensors] = conditional_value
    return tuple(by_tensors.values())


def _escaped(text: str) -> str:
    """The text as a pattern that matches only it."""
    return re.sub(r"[*?[]", r"[\g<0>]", text)


def as_numbers(values: ConditionalValues, name: str) -> ConditionalValues:
    """The values as numbers. Raises RecipeError if one is not a finite number."""
    return tuple(replace(item, value=_number(item.value, name)) for item in values)


def _number(value: Scalar, name: str) -> float:
    """The value as a number. Raises RecipeError if it is no finite one."""
    number = None
    if not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            number = float(value)
    if number is not None and math.isfinite(number):
        return number
    # An integer beyond floats, whose digits Python may refuse to write.
    text = "a huge number"
    if isinstance(value, str | float | bool):
        text = str(value)
    raise RecipeError(f"{name!r} must be a finite number, not {text[:60]}.", key=name)


def constant(values: ConditionalValues) -> Scalar | None:
    """The value, if it is the same for all tensors."""
    if len(values) == 1:
        return values[0].value
    return None


def rules_of(
    parameters: Mapping[str, ConditionalValues],
    weights: Mapping[str, ConditionalValues],
    by_expert: Mapping[str, Mapping[str, ConditionalValues]],
    offset: int = 0,
) -> tuple[Override, ...]:
    """The rules of a recipe (its ``overrides``) for the values that are not for all tensors.

    ``weights``: by expert's name. ``by_expert``: by expert's name, the expert's own parameters.
    ``offset``: number of the first block in the output. A value joins an earlier rule for the same
    tensors if the order of its parameter's values allows it.
    """
    # By the path of the values in a rule. The recipe has the first value of a common parameter, so
    # only the others need rules.
    values_by_path: dict[tuple[str, ...], ConditionalValues] = {}
    for name, values in parameters.items():
        values_by_path["parameters", name] = values[1:]
    for name, values in weights.items():
        values_by_path["weights", name] = values[1:]
    for expert, expert_parameters in by_expert.items():
        for name, values in expert_parameters.items():
            values_by_path["experts", expert, name] = values
    targets: list[RuleTarget] = []
    settings_of_rules: list[dict[str, Any]] = []
    for path, values in values_by_path.items():
        # In a recipe the last rule for a tensor counts, so a later value of a parameter must stand
        # in a later rule than the values before it.
        first_index = 0
        for conditional_value in values:
            target = conditional_value.rule_target(offset)
            if target in targets[first_index:]:
                index = targets.index(target, first_index)
            else:
                index = len(targets)
                targets.append(target)
                settings_of_rules.append({})
            _set_at(settings_of_rules[index], path, conditional_value.value)
            first_index = index + 1
    rules = []
    for target, settings in zip(targets, settings_of_rules, strict=True):
        rules.append(Override(pattern=target.pattern, blocks=target.blocks, **settings))
    return tuple(rules)


def _set_at(settings: dict[str, Any], path: tuple[str, ...], value: Scalar) -> None:
    """Set the value of the last key of a path, and make the sections before it."""
    *headings, key = path
    section = settings
    for heading in headings:
        section = section.setdefault(heading, {})
    section[key] = value


def conditions_of(name: str, scopes: Iterable[Mapping[str, Setting]]) -> Iterable[Condition]:
    """All values of a parameter, the nearest first; of those that hold, the first one counts."""
    for scope in scopes:
        setting = scope.get(name)
        if isinstance(setting, Condition):
            yield setting
        elif isinstance(setting, list) and setting and isinstance(setting[0], Condition):
            yield from setting  # a list has conditions only, or none
        elif setting is not None:
            yield Condition(value=setting)  # type: ignore[arg-type]


def _values_along_blocks(
    name: str, value: Scalar | list[Scalar], pattern: str | None, blocks: int | None
) -> ConditionalValues:
    """One value, or a gradient's values by block; tensors outside of blocks have the first one."""
    if not isinstance(value, list):
        return (ConditionalValue(value=value, pattern=pattern),)
    if not value:
        raise RecipeError(
            f"The gradient of {name!r} is empty; write numbers or one value.", key=name
        )
    if any(isinstance(point, bool) for point in value):
        raise RecipeError(
            f"{name!r} is a gradient of true and false, between which there is nothing; write one "
            "value, or numbers.",
            key=name,
        )
    points = [_number(point, name) for point in value]
    if len(set(points)) == 1:
        return (ConditionalValue(value=points[0], pattern=pattern),)
    if blocks is None:
        raise RecipeError(
            f"{name!r} is a gradient over the blocks, but the base model's config.json does not "
            "have the number of blocks; write one value.",
            key=name,
        )
    if blocks > 1:
        values = [interpolated(points, block / (blocks - 1)) for block in range(blocks)]
    else:
        values = [interpolated(points, 1.0)] * blocks  # as in mergekit: a single block has the last
    conditional_values = [
        ConditionalValue(value=points[0], pattern=pattern)
    ]  # also outside of blocks
    start = 0
    for end in range(1, blocks + 1):
        if end < blocks and values[end] == values[start]:
            continue
        # The blocks from ``start`` to before ``end`` have the same value.
        if values[start] != points[0]:
            stretch = (start, end - 1)
            conditional_values.append(
                ConditionalValue(value=values[start], pattern=pattern, blocks=stretch)
            )
        start = end
    return tuple(conditional_values)


def interpolated(values: Sequence[float], t: float) -> float:
    """The value at ``t`` from 0 to 1 along equally distant ``values``."""
    position = t * (len(values) - 1)
    before = int(position)
    after = min(len(values) - 1, before + 1)
    fraction = position - before
    return (1 - fraction) * values[before] + fraction * values[after]
