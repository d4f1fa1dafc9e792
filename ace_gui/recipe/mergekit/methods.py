"""Translates mergekit's methods and parameters to this package's, and back.

The definitions are those of mergekit 0.1.5. If methods differ, a note says so. Settings without a
counterpart are refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.schema import (
    Chain,
    ConditionalValue,
    Model,
    Scalar,
    Setting,
    chain_of,
    constant,
    numbers,
)
from ace_gui.recipe.overrides import ParameterValue

WEIGHT: Final = "weight"
WITHOUT_BASE: Final = frozenset({"linear", "nuslerp", "passthrough", "karcher", "multislerp"})
"""Methods that need no base model."""

_DRAWN: Final = "mergekit draws other random numbers, so that other entries are kept."

Parameters = Mapping[str, ParameterValue]


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A method of this package. ``parameters``: a chain, or one value for all tensors.

    ``weights``: one chain per expert; empty: 1 each. ``by_expert``: what differs for each expert.
    """

    method: str
    parameters: Mapping[str, Chain | Scalar] = field(default_factory=dict)
    weights: Sequence[Chain] = ()
    by_expert: Sequence[Mapping[str, Chain]] = ()

    @property
    def chains(self) -> dict[str, Chain]:
        """The parameters as chains."""
        chains: dict[str, Chain] = {}
        for name, value in self.parameters.items():
            if isinstance(value, tuple):
                chains[name] = value
            else:
                chains[name] = (ConditionalValue(value=value),)
        return chains


@dataclass(frozen=True, kw_only=True)
class Foreign:
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
    """The base among the file's models; None if it is not one of them."""
    has_base: bool
    """Whether the file names a base model."""
    experts: Sequence[Model]
    """The other models."""
    shared: Sequence[Mapping[str, Setting]]
    """Settings for all models, the nearest first."""
    blocks: int | None
    """Number of the model's blocks; None if unknown."""
    notes: list[str] = field(default_factory=list)
    """Sentences are collected here."""
    used: set[str] = field(default_factory=set)
    """Names of the settings that were read."""
    filled: dict[str, float] = field(default_factory=dict)
    """The numbers that the file leaves to mergekit's defaults."""

    def chain(self, name: str, default: Scalar, model: Model | None = None) -> Chain:
        """A parameter for all tensors, of one model or of the merge."""
        self.used.add(name)
        scopes = list(self.shared)
        if model is not None:
            scopes = [model.parameters, *scopes]
        if not isinstance(default, bool | str) and not any(name in scope for scope in scopes):
            self.filled[name] = default
        return chain_of(name, scopes, default, self.blocks)

    def fixed(self, name: str, default: float) -> float:
        """A number that must be the same for all tensors."""
        value = constant(self.number(name, default))
        if value is None:
            raise self.refusal(f"{name!r} changes along the model; write one value", name)
        return float(value)

    def weights(self) -> list[Chain]:
        """One weight per expert."""
        return [self.number(WEIGHT, 1.0, model) for model in self.experts]

    def number(self, name: str, default: float, model: Model | None = None) -> Chain:
        """A number for all tensors."""
        return numbers(self.chain(name, default, model), name)

    def of_models(
        self, defaults: Mapping[str, float]
    ) -> tuple[dict[str, Chain], list[dict[str, Chain]]]:
        """Parameters that may differ by model: the common ones, and those of each model."""
        shared: dict[str, Chain] = {}
        by_model: list[dict[str, Chain]] = [{} for _ in self.experts]
        for name, default in defaults.items():
            chains = [self.number(name, default, model) for model in self.experts]
            if len(set(chains)) == 1:
                shared[name] = chains[0]
                continue
            shared[name] = chains[0][:1]  # the first model's value for all tensors
            for parameters, chain in zip(by_model, chains, strict=True):
                parameters[name] = chain
        return shared, by_model

    def flag(self, name: str, default: bool) -> bool:
        """Whether a switch is on, for all tensors."""
        value = constant(self.chain(name, default))
        if not isinstance(value, bool):
            raise self.refusal(f"{name!r} must be true or false, for all tensors", name)
        return value

    def refusal(self, sentence: str, key: str) -> RecipeError:
        """The error about a setting that cannot be translated."""
        return RecipeError(f"this {self.method} of mergekit's: {sentence}.", key=key)


Reads = Callable[[MergekitSettings], Translation]
Writes = Callable[[Parameters, tuple[float, ...]], Foreign]


@dataclass(frozen=True, kw_only=True)
class Counterpart:
    """A method of mergekit and its equivalent here. Parameters have the same names in both."""

    ours: str = ""
    """Its name here, if it differs."""
    by_model: Mapping[str, float] = field(default_factory=dict)
    """Numbers that may differ by model, with mergekit's defaults."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the whole merge, with mergekit's defaults."""
    flags: tuple[str, ...] = ()
    """Switches that are off by default."""
    sums: Literal["", "all", "elected"] = ""
    """What it adds: weighted changes, all or those of the elected sign, with ``lambda`` and
    ``normalize``; empty: it is no sum.
    """
    normalised: bool = False
    """mergekit's default of ``normalize``."""
    rescales: bool | None = None
    """mergekit's default of ``rescale``; None: no such switch."""
    random: bool = False
    """Whether entries are drawn."""
    weighted: bool | Literal["alike"] = True
    """Whether models have weights; "alike": they must be equal."""
    pair: bool = False
    """Whether it merges the base and one other model."""
    as_read: Mapping[str, Scalar] = field(default_factory=dict)
    """Parameters here that every file implies."""
    only: Mapping[str, tuple[ParameterValue, str]] = field(default_factory=dict)
    """By parameter here, the only value that mergekit can express, and what to say of others."""
    read_note: str = ""
    """A difference to report when a file is read."""
    written_note: str = ""
    """A difference to report when a file is written."""
    reads: Reads | None = None
    """Reads a method of another kind; None for this kind."""
    writes: Writes | None = None
    """Writes a method of another kind; None for this kind."""


def translated(settings: MergekitSettings) -> Translation:
    """The method equivalent to that of the file. Raises RecipeError if there is none."""
    method = METHODS.get(settings.method)
    if method is None:
        raise RecipeError(
            f"mergekit's method {settings.method!r} is not known here; known methods: "
            f"{', '.join(METHODS)}.",
            key="merge_method",
        )
    settings.used.add("int8_mask")  # saves memory, changes nothing
    if method.reads:
        translation = method.reads(settings)
    else:
        translation = _read(method, settings)
    everything = [*settings.shared, *(model.parameters for model in settings.experts)]
    for name in dict.fromkeys(itertools.chain.from_iterable(everything)):
        if name not in settings.used:
            settings.notes.append(f"{name!r} has no effect on {settings.method}: left out.")
    return translation


def written(method: str, values: Parameters, weights: tuple[float, ...]) -> Foreign:
    """A method of this package as mergekit's. Raises RecipeError if mergekit cannot express it.

    ``values``: every parameter of the method.
    """
    entry = _WRITTEN.get(method)
    if entry is None:
        raise RecipeError(
            f"mergekit has no method {method!r} as it is defined here; it has: "
            f"{', '.join(sorted(_WRITTEN))}.",
            key="merge_method",
        )
    theirs, counterpart = entry
    for name, (value, sentence) in counterpart.only.items():
        if values[name] != value:
            raise RecipeError(f"mergekit's {theirs} {sentence}.", key=name)
    has_weights = counterpart.weighted is False and set(weights) != {1.0}
    differ = counterpart.weighted == "alike" and len(set(weights)) > 1
    if has_weights or differ:
        raise RecipeError(f"mergekit's {theirs} has no weights.", key="weight")
    if counterpart.writes:
        return counterpart.writes(values, weights)
    parameters = {name: values[name] for name in (*counterpart.by_model, *counterpart.numbers)}
    parameters |= {name: True for name in counterpart.flags if values[name]}
    if counterpart.sums:
        parameters["lambda"] = values["scaling"]
        if counterpart.sums == "elected":
            parameters["normalize"] = values["combine"] != "sum"
        else:
            parameters["normalize"] = values["normalize"]
    if counterpart.rescales is not None and "rescale" in values:
        # mergekit only has "by norm", which is also what comes nearest to "by chance".
        parameters["rescale"] = values["rescale"] != "none"
    return Foreign(
        method=theirs,
        parameters=parameters,
        weights=weights if counterpart.weighted is True else None,
        notes=tuple(_differences(counterpart, values)),
    )


def _differences(method: Counterpart, values: Parameters) -> Iterator[str]:
    """A sentence for each thing that mergekit does differently."""
    if method.random:
        yield "mergekit draws other random numbers."
        if values["rescale"] == "by chance":
            yield "mergekit rescales what it keeps tensor by tensor, not by its chances."
    if method.sums == "elected" and values["balanced"] != "positive":
        yield "If both signs of an entry weigh the same, mergekit takes the positive one."
    if values.get("trim") == "model" and values["density"] != 1:
        yield "mergekit keeps the largest entries of each tensor, not of the whole model."
    if values.get("alike_below", 1e-6) != 1e-6:
        yield "mergekit counts experts alike where mean squares sum to less than 1e-6."
    if method.written_note:
        yield method.written_note


def _read(method: Counterpart, settings: MergekitSettings) -> Translation:
    if method.pair and (len(settings.experts) != 1 or not settings.has_base):
        raise settings.refusal(
            "it takes the base and one other model; a recipe of this application, with schema: 1, "
            "may have others",
            "models",
        )
    shared, by_expert = settings.of_models(method.by_model)
    parameters: dict[str, Chain | Scalar] = {**shared, **method.as_read}
    if method.random:
        settings.notes.append(_DRAWN)
    if method.rescales is not None:
        if settings.flag("rescale", default=method.rescales):
            parameters["rescale"] = "by norm"
        elif method.rescales:
            parameters["rescale"] = "none"
    if method.sums:
        parameters |= _summing(settings, method)
    parameters |= {name: settings.number(name, value) for name, value in method.numbers.items()}
    parameters |= {name: True for name in method.flags if settings.flag(name, default=False)}
    if method.read_note:
        settings.notes.append(method.read_note)
    return Translation(
        method=method.ours or settings.method,
        parameters=parameters,
        weights=settings.weights() if method.weighted is True else (),
        by_expert=by_expert,
    )


def _summing(settings: MergekitSettings, method: Counterpart) -> dict[str, Chain | Scalar]:
    normalised = settings.flag("normalize", default=method.normalised)
    parameters: dict[str, Chain | Scalar] = {"scaling": settings.number("lambda", 1.0)}
    if method.sums == "all":
        return {**parameters, "normalize": normalised}
    weights = [float(choice.value) for chain in settings.weights() for choice in chain]
    if not normalised:
        combine = "sum"
    elif min(weights, default=0.0) < 0:
        combine = "signed mean"
    else:
        combine = "mean"
    return {**parameters, "combine": combine, "balanced": "positive"}


def _read_linear(settings: MergekitSettings) -> Translation:
    """An average of whole weights, which includes the base's if that has a weight."""
    base = settings.base
    if base is None and settings.has_base and any(WEIGHT in scope for scope in settings.shared):
        base = Model.model_validate({"model": "base"})  # the weight of all models is its, too
    parameters: dict[str, Chain | Scalar] = {
        "base_weight": 0.0,
        "normalize": settings.flag("normalize", default=True),
    }
    if base is not None:
        parameters["base_weight"] = settings.number(WEIGHT, 1.0, base)
    return Translation(method="linear", parameters=parameters, weights=settings.weights())


def _write_linear(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    parameters: dict[str, ParameterValue] = {}
    if not values["normalize"]:
        parameters["normalize"] = False
    return Foreign(
        method="linear",
        parameters=parameters,
        weights=weights,
        with_base=False,
        base_weight=float(values["base_weight"]) or None,
    )


def _read_passthrough(settings: MergekitSettings) -> Translation:
    """One model per slice, times its ``scale``: a sum in which only this model has a weight."""
    scale = settings.number("scale", 1.0, settings.base)
    return Translation(method="linear", parameters={"base_weight": scale, "normalize": False})


def _write_slerp(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    if set(weights) != {1.0}:
        raise RecipeError("mergekit cannot scale experts before SLERP.", key="weight")
    t = float(values["t"])
    return Foreign(method="nuslerp", weights=(1 - t, t))


def _read_nuslerp(settings: MergekitSettings) -> Translation:
    flatten = settings.flag("nuslerp_flatten", default=True)
    if not settings.has_base:
        return _between_whole_weights(settings, flatten=flatten)
    if len(settings.experts) != 2:
        raise settings.refusal("it needs two models besides the base", "models")
    columns = settings.flag("nuslerp_row_wise", default=False)  # its row-wise is along columns
    if not flatten:
        settings.notes.append(
            "Rows and columns are those of outputs × inputs; mergekit's are those of the tensor as "
            "it is stored, which GPT-2 does the other way round."
        )
    directions = {"row_wise": not flatten and not columns, "column_wise": not flatten and columns}
    return Translation(method="nuslerp", parameters=directions, weights=settings.weights())


def _between_whole_weights(settings: MergekitSettings, *, flatten: bool) -> Translation:
    """The first model is the base; both weights determine how far to go from it."""
    settings.used.add("nuslerp_row_wise")
    if len(settings.experts) != 1 or settings.base is None:
        raise settings.refusal("it takes two models, or two and a base", "models")
    if not flatten:
        raise settings.refusal("rows of whole weights are not possible here", "nuslerp_flatten")
    pair_of_models = (settings.base, *settings.experts)
    pair = [constant(settings.number(WEIGHT, 1.0, model)) for model in pair_of_models]
    if any(value is None for value in pair):
        raise settings.refusal("weights that change along the model need a base_model", WEIGHT)
    first, second = (float(value or 0.0) for value in pair)
    if abs(first + second) < 1e-6:
        t = 0.5
    else:
        t = second / (first + second)
    return Translation(method="base_slerp", parameters={"t": t, "parallel": 1.0})


def _write_nuslerp(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    columns = values["column_wise"]
    is_flat = not (values["row_wise"] or columns)
    parameters = {"nuslerp_flatten": is_flat, "nuslerp_row_wise": columns}
    return Foreign(method="nuslerp", parameters=parameters, weights=weights)


def _read_multislerp(settings: MergekitSettings) -> Translation:
    """With a base, it is between the changes; without one, between whole weights."""
    settings.used.add("eps")
    normalised = settings.flag("normalize_weights", default=True)
    parameters: dict[str, Chain | Scalar] = {"normalize": normalised}
    if not settings.has_base:
        parameters |= {"points": "weights", "base_weight": 0.0}
        if settings.base is not None:
            parameters["base_weight"] = settings.number(WEIGHT, 1.0, settings.base)
    return Translation(method="multislerp", parameters=parameters, weights=settings.weights())


def _write_multislerp(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    of_changes = values["points"] == "changes"
    base_weight = None
    if not of_changes:
        base_weight = float(values["base_weight"]) or None
    return Foreign(
        method="multislerp",
        parameters={"normalize_weights": values["normalize"]},
        weights=weights,
        with_base=of_changes,
        base_weight=base_weight,
    )


def _read_karcher(settings: MergekitSettings) -> Translation:
    parameters: dict[str, Chain | Scalar] = {
        "iterations": int(settings.fixed("max_iter", 10)),
        "tolerance": settings.fixed("tol", 1e-5),
        "points": "weights",
        "base_weight": 1.0,
    }
    return Translation(method="karcher", parameters=parameters)


def _write_karcher(values: Parameters, _weights: tuple[float, ...]) -> Foreign:
    if values["points"] == "changes" or values["base_weight"] not in (0, 1):
        raise RecipeError("mergekit's karcher is of whole weights that count alike.", key="points")
    return Foreign(
        method="karcher",
        parameters={"max_iter": values["iterations"], "tol": values["tolerance"]},
        with_base=values["base_weight"] == 1,
    )


_DENSITY: Final = {"density": 1.0}
_EPSILON: Final = {**_DENSITY, "epsilon": 0.15}
_GAMMA: Final = {**_DENSITY, "gamma": 0.01}
_RAM: Final = {"epsilon": 1e-5}

METHODS: Final[Mapping[str, Counterpart]] = MappingProxyType(
    {
        "linear": Counterpart(reads=_read_linear, writes=_write_linear),
        "passthrough": Counterpart(ours="linear", reads=_read_passthrough),
        "task_arithmetic": Counterpart(sums="all"),
        "ties": Counterpart(
            by_model=_DENSITY,
            sums="elected",
            normalised=True,
            rescales=False,
            as_read={"trim": "tensor"},
        ),
        "dare_linear": Counterpart(by_model=_DENSITY, sums="all", rescales=True, random=True),
        "dare_ties": Counterpart(
            by_model=_DENSITY,
            sums="elected",
            rescales=True,
            random=True,
            only={"trim_density": (1, "does not trim afterwards")},
        ),
        "della": Counterpart(
            by_model=_EPSILON, sums="elected", normalised=True, rescales=True, random=True
        ),
        "della_linear": Counterpart(by_model=_EPSILON, sums="all", rescales=True, random=True),
        "breadcrumbs": Counterpart(by_model=_GAMMA, sums="all", rescales=False),
        "breadcrumbs_ties": Counterpart(by_model=_GAMMA, sums="elected", rescales=False),
        "slerp": Counterpart(
            ours="base_slerp",
            numbers={"t": 0.5},
            weighted=False,
            pair=True,
            only={"parallel": (0.9995, "is straight above 0.9995")},
        ),
        "nuslerp": Counterpart(reads=_read_nuslerp, writes=_write_nuslerp),
        "multislerp": Counterpart(reads=_read_multislerp, writes=_write_multislerp),
        "karcher": Counterpart(weighted=False, reads=_read_karcher, writes=_write_karcher),
        "model_stock": Counterpart(
            flags=("filter_wise",),
            weighted="alike",
            written_note="mergekit moves away from experts with opposite changes, and counts "
            "experts that do not change a tensor; here the base is kept, and these experts are "
            "left out.",
        ),
        "sce": Counterpart(
            numbers={"select_topk": 1.0}, weighted=False, only={"scaling": (1, "has no scaling")}
        ),
        "ram": Counterpart(numbers=_RAM, weighted=False),
        "ramplus_tl": Counterpart(numbers={**_RAM, "r": 0.1, "alpha": 0.2}, weighted=False),
        "nearswap": Counterpart(numbers={"t": 1e-4}, weighted=False, pair=True),
        "arcee_fusion": Counterpart(
            weighted=False,
            pair=True,
            only={"spread": (1.5, "has no other threshold")},
            read_note="mergekit rounds the importance of entries in the file's number format, and "
            "takes its quantiles from a random million of them; here all count, in float64.",
        ),
    }
)
"""Counterparts by mergekit's names."""

_WRITTEN: Final[Mapping[str, tuple[str, Counterpart]]] = {
    # Reversed, so that the first of two with one name replaces the second.
    **{entry.ours or name: (name, entry) for name, entry in reversed([*METHODS.items()])},
    "slerp": ("nuslerp", Counterpart(writes=_write_slerp)),
}
"""mergekit's name and the counterpart, by our names."""
