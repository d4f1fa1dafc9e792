"""What the translations of methods consist of: a file's settings, and a method on either side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.schema import (
    ConditionalValue,
    ConditionalValues,
    Model,
    Scalar,
    Setting,
    as_numbers,
    conditional_values_of,
    constant,
)
from ace_gui.recipe.overrides import ParameterValue

WEIGHT: Final = "weight"

Parameters = Mapping[str, ParameterValue]
"""Every parameter of a method of this package, by name."""


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A method of this package with its settings."""

    method: str
    """Its name."""
    parameters: Mapping[str, ConditionalValues | Scalar] = field(default_factory=dict)
    """By name, the values with their conditions, or one value for all tensors."""
    weights: Sequence[ConditionalValues] = ()
    """The weight of each expert, which may differ by tensor; empty: 1 each."""
    by_expert: Sequence[Mapping[str, ConditionalValues]] = ()
    """The parameters that differ for each expert."""

    @property
    def conditional_parameters(self) -> dict[str, ConditionalValues]:
        """The parameters, in which one value for all tensors is a condition that always holds."""
        parameters: dict[str, ConditionalValues] = {}
        for name, value in self.parameters.items():
            if isinstance(value, tuple):
                parameters[name] = value
            else:
                parameters[name] = (ConditionalValue(value=value),)
        return parameters


@dataclass(frozen=True, kw_only=True)
class MergekitMethod:
    """A mergekit method with its parameters."""

    method: str
    """Its name in mergekit."""
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    """Of the whole merge."""
    weights: tuple[float, ...] | None = None
    """By model; None: the method has none."""
    with_base: bool = True
    """Whether the file names a base model."""
    base_weight: float | None = None
    """The base's own weight among the models; None if it is not one of them."""
    notes: tuple[str, ...] = ()
    """Differences to report, one sentence each."""


@dataclass(kw_only=True)
class MergekitSettings:
    """A mergekit file's settings."""

    method: str
    """Its name in mergekit."""
    base: Model | None
    """The base's own entry among the file's models; None if it is not one of them. If the file
    names no base, its first model counts as the base.
    """
    has_base: bool
    """Whether the file names a base model, which may or may not have an entry."""
    experts: Sequence[Model]
    """The other models."""
    common_scopes: Sequence[Mapping[str, Setting]]
    """Settings for all models, the nearest first."""
    blocks: int | None
    """Number of the model's blocks; None if unknown."""
    notes: list[str] = field(default_factory=list)
    """Sentences are collected here."""
    used: set[str] = field(default_factory=set)
    """Names of the settings that were read."""
    default_numbers: dict[str, float] = field(default_factory=dict)
    """The numbers that the file leaves to mergekit's defaults."""

    def conditional_values(
        self, name: str, default: Scalar, model: Model | None = None
    ) -> ConditionalValues:
        """The values of a parameter, of one model or of the merge."""
        self.used.add(name)
        scopes = list(self.common_scopes)
        if model is not None:
            scopes = [model.parameters, *scopes]
        is_left_open = not any(name in scope for scope in scopes)
        if is_left_open and not isinstance(default, bool | str):
            self.default_numbers[name] = default
        return conditional_values_of(name, scopes, default, self.blocks)

    def fixed(self, name: str, default: float) -> float:
        """A number that must be the same for all tensors."""
        value = constant(self.conditional_numbers(name, default))
        if value is None:
            raise self.refusal(f"{name!r} changes along the model; write one value", name)
        return float(value)

    def weights(self) -> list[ConditionalValues]:
        """The weight of each expert."""
        return [self.conditional_numbers(WEIGHT, 1.0, model) for model in self.experts]

    def conditional_numbers(
        self, name: str, default: float, model: Model | None = None
    ) -> ConditionalValues:
        """The values of a parameter, which must be numbers."""
        return as_numbers(self.conditional_values(name, default, model), name)

    def of_models(
        self, defaults: Mapping[str, float]
    ) -> tuple[dict[str, ConditionalValues], list[dict[str, ConditionalValues]]]:
        """Parameters that may differ by model: the common ones, and those of each model."""
        common: dict[str, ConditionalValues] = {}
        by_model: list[dict[str, ConditionalValues]] = [{} for _ in self.experts]
        for name, default in defaults.items():
            of_experts = [self.conditional_numbers(name, default, model) for model in self.experts]
            if len(set(of_experts)) == 1:
                common[name] = of_experts[0]
                continue
            # The recipe must have some common value, but each expert's own one replaces it.
            value_for_all = of_experts[0][0]
            common[name] = (value_for_all,)
            for parameters, values in zip(by_model, of_experts, strict=True):
                parameters[name] = values
        return common, by_model

    def flag(self, name: str, default: bool) -> bool:
        """Whether a switch is on, for all tensors."""
        value = constant(self.conditional_values(name, default))
        if not isinstance(value, bool):
            raise self.refusal(f"{name!r} must be true or false, for all tensors", name)
        return value

    def refusal(self, sentence: str, key: str) -> RecipeError:
        """The error about a setting that cannot be translated."""
        return RecipeError(f"this {self.method} of mergekit's: {sentence}.", key=key)


ReadFunction = Callable[[MergekitSettings], Translation]
"""Translates a file's settings to a method of this package."""

WriteFunction = Callable[[Parameters, tuple[float, ...]], MergekitMethod]
"""Translates the parameters and weights of a method of this package."""


class OnlyValue(NamedTuple):
    """The only value of a parameter here that mergekit can express."""

    value: ParameterValue
    refusal: str
    """What to say of others, after the name of mergekit's method."""


@dataclass(frozen=True, kw_only=True)
class Counterpart:
    """A method of mergekit and its equivalent here. Parameters have the same names in both."""

    our_name: str = ""
    """Its name here, if it differs."""
    by_model: Mapping[str, float] = field(default_factory=dict)
    """Numbers that may differ by model, with mergekit's defaults."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the whole merge, with mergekit's defaults."""
    flags: tuple[str, ...] = ()
    """Switches that are off by default."""
    sums: Literal["", "all", "elected"] = ""
    """What it adds: all weighted changes, or those of the elected sign; empty: it is no sum. Sums
    have ``lambda`` and ``normalize``.
    """
    normalised: bool = False
    """mergekit's default of ``normalize``."""
    rescales: bool | None = None
    """mergekit's default of ``rescale``; None: no such switch."""
    random: bool = False
    """Whether entries are drawn."""
    weights: Literal["any", "equal", "none"] = "any"
    """Which weights models may have; "none": 1 each."""
    pair: bool = False
    """Whether it merges the base and one other model."""
    implied: Mapping[str, Scalar] = field(default_factory=dict)
    """Values of parameters here that every file has without saying so."""
    only: Mapping[str, OnlyValue] = field(default_factory=dict)
    """By parameter here, the only value that mergekit can express."""
    read_note: str = ""
    """A difference to report when a file is read."""
    written_note: str = ""
    """A difference to report when a file is written."""
    reads: ReadFunction | None = None
    """Reads a method that the fields above cannot describe; None if they can."""
    writes: WriteFunction | None = None
    """Writes a method that the fields above cannot describe; None if they can."""
