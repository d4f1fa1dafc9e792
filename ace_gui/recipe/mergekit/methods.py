"""Translates mergekit's methods and parameters to this package's, and back.

The definitions are those of mergekit 0.1.5. If methods differ, a note says so. Settings without a
counterpart are refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.counterparts import (
    WEIGHT,
    Counterpart,
    MergekitMethod,
    MergekitSettings,
    OnlyValue,
    Parameters,
    Translation,
)
from ace_gui.recipe.mergekit.schema import ConditionalValues, Model, Scalar, constant
from ace_gui.recipe.overrides import ParameterValue

WITHOUT_BASE: Final = frozenset({"linear", "nuslerp", "passthrough", "karcher", "multislerp"})
"""Methods that need no base model."""

_DRAWS_NOTE: Final = "mergekit draws other random numbers, so that other entries are kept."


def translated(settings: MergekitSettings) -> Translation:
    """The method equivalent to that of the file. Raises RecipeError if there is none."""
    counterpart = METHODS.get(settings.method)
    if counterpart is None:
        raise RecipeError(
            f"mergekit's method {settings.method!r} is not known here; known methods: "
            f"{', '.join(METHODS)}.",
            key="merge_method",
        )
    settings.used.add("int8_mask")  # saves memory, changes nothing
    if counterpart.reads:
        translation = counterpart.reads(settings)
    else:
        translation = _read(counterpart, settings)
    scopes = [*settings.common_scopes, *(model.parameters for model in settings.experts)]
    names = dict.fromkeys(itertools.chain.from_iterable(scopes))  # once each, in order
    for name in names:
        if name not in settings.used:
            settings.notes.append(f"{name!r} has no effect on {settings.method}: left out.")
    return translation


def as_mergekit_method(
    method: str, values: Parameters, weights: tuple[float, ...]
) -> MergekitMethod:
    """A method of this package as mergekit's. Raises RecipeError if mergekit cannot express it.

    ``values``: every parameter of the method.
    """
    if method not in _BY_OUR_NAMES:
        raise RecipeError(
            f"mergekit has no method {method!r} as it is defined here; it has: "
            f"{', '.join(sorted(_BY_OUR_NAMES))}.",
            key="merge_method",
        )
    their_name, counterpart = _BY_OUR_NAMES[method]
    for name, only in counterpart.only.items():
        if values[name] != only.value:
            raise RecipeError(f"mergekit's {their_name} {only.refusal}.", key=name)
    if not _can_have(counterpart, weights):
        raise RecipeError(f"mergekit's {their_name} has no weights.", key="weight")
    if counterpart.writes:
        return counterpart.writes(values, weights)
    parameters = {name: values[name] for name in (*counterpart.by_model, *counterpart.numbers)}
    for name in counterpart.flags:
        if values[name]:
            parameters[name] = True
    if counterpart.sums:
        parameters["lambda"] = values["scaling"]
        if counterpart.sums == "elected":
            parameters["normalize"] = values["combine"] != "sum"
        else:
            parameters["normalize"] = values["normalize"]
    if counterpart.rescales is not None and "rescale" in values:
        # mergekit only has "by norm", which is also what comes nearest to "by chance".
        parameters["rescale"] = values["rescale"] != "none"
    their_weights = None
    if counterpart.weights == "any":
        their_weights = weights
    return MergekitMethod(
        method=their_name,
        parameters=parameters,
        weights=their_weights,
        notes=tuple(_differences(counterpart, values)),
    )


def names_by_model(method: str) -> tuple[str, ...]:
    """The settings of a mergekit method that may differ by model; empty for an unknown method."""
    if method not in METHODS:
        return ()
    # Only ``passthrough`` has a scale, but on other methods it has no effect.
    return (WEIGHT, "scale", *METHODS[method].by_model)


def _can_have(counterpart: Counterpart, weights: tuple[float, ...]) -> bool:
    """Whether models of this method may have these weights."""
    if counterpart.weights == "none":
        return set(weights) == {1.0}
    if counterpart.weights == "equal":
        return len(set(weights)) <= 1
    return True


def _differences(counterpart: Counterpart, values: Parameters) -> Iterator[str]:
    """A sentence for each thing that mergekit does differently."""
    if counterpart.random:
        yield "mergekit draws other random numbers."
        if values["rescale"] == "by chance":
            yield "mergekit rescales what it keeps tensor by tensor, not by its chances."
    if counterpart.sums == "elected" and values["balanced"] != "positive":
        yield "If both signs of an entry weigh the same, mergekit takes the positive one."
    if values.get("trim") == "model" and values["density"] != 1:
        yield "mergekit keeps the largest entries of each tensor, not of the whole model."
    if values.get("alike_below", 1e-6) != 1e-6:
        yield "mergekit counts experts alike where mean squares sum to less than 1e-6."
    if counterpart.written_note:
        yield counterpart.written_note


def _read(counterpart: Counterpart, settings: MergekitSettings) -> Translation:
    """The translation of a method without a function of its own. Raises RecipeError."""
    if counterpart.pair and (len(settings.experts) != 1 or not settings.has_base):
        raise settings.refusal(
            "it takes the base and one other model; a recipe of this application, with schema: 1, "
            "may have others",
            "models",
        )
    common, by_expert = settings.of_models(counterpart.by_model)
    parameters: dict[str, ConditionalValues | Scalar] = {**common, **counterpart.implied}
    if counterpart.random:
        settings.notes.append(_DRAWS_NOTE)
    if counterpart.rescales is not None:
        if settings.flag("rescale", default=counterpart.rescales):
            parameters["rescale"] = "by norm"
        elif counterpart.rescales:
            # Our method also rescales by default, so the recipe must say that this one does not.
            parameters["rescale"] = "none"
    if counterpart.sums:
        parameters |= _sum_parameters(settings, counterpart)
    for name, default in counterpart.numbers.items():
        parameters[name] = settings.conditional_numbers(name, default)
    for name in counterpart.flags:
        if settings.flag(name, default=False):
            parameters[name] = True
    if counterpart.read_note:
        settings.notes.append(counterpart.read_note)
    weights: list[ConditionalValues] = []
    if counterpart.weights == "any":
        weights = settings.weights()
    return Translation(
        method=counterpart.our_name or settings.method,
        parameters=parameters,
        weights=weights,
        by_expert=by_expert,
    )


def _sum_parameters(
    settings: MergekitSettings, counterpart: Counterpart
) -> dict[str, ConditionalValues | Scalar]:
    """The parameters of a sum: ``lambda`` and ``normalize`` in this package's terms."""
    normalised = settings.flag("normalize", default=counterpart.normalised)
    parameters: dict[str, ConditionalValues | Scalar] = {
        "scaling": settings.conditional_numbers("lambda", 1.0)
    }
    if counterpart.sums == "all":
        return {**parameters, "normalize": normalised}
    weights = [float(item.value) for item in itertools.chain(*settings.weights())]
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
    all_have_weight = any(WEIGHT in scope for scope in settings.common_scopes)
    if base is None and settings.has_base and all_have_weight:
        # The base is no entry of the file, but it also has the weight that all models have. Only
        # the settings of this entry are read, and it has none of its own.
        base = Model.model_validate({"model": "base"})
    parameters: dict[str, ConditionalValues | Scalar] = {
        "base_weight": 0.0,
        "normalize": settings.flag("normalize", default=True),
    }
    if base is not None:
        parameters["base_weight"] = settings.conditional_numbers(WEIGHT, 1.0, base)
    return Translation(method="linear", parameters=parameters, weights=settings.weights())


def _write_linear(values: Parameters, weights: tuple[float, ...]) -> MergekitMethod:
    """An average of whole weights, in which the base is one of the models if it has a weight."""
    parameters: dict[str, ParameterValue] = {}
    if not values["normalize"]:
        parameters["normalize"] = False
    return MergekitMethod(
        method="linear",
        parameters=parameters,
        weights=weights,
        with_base=False,
        base_weight=_base_weight(values),
    )


def _base_weight(values: Parameters) -> float | None:
    """The base's own weight; None if it has none, because then it is not among the models."""
    weight = float(values["base_weight"])
    if weight == 0:
        return None
    return weight


def _read_passthrough(settings: MergekitSettings) -> Translation:
    """One model per slice, times its ``scale``: a sum of the base alone, with that weight."""
    scale = settings.conditional_numbers("scale", 1.0, settings.base)
    return Translation(method="linear", parameters={"base_weight": scale, "normalize": False})


def _write_slerp(values: Parameters, weights: tuple[float, ...]) -> MergekitMethod:
    """SLERP between two changes: mergekit's nuslerp, whose two weights say how far to go."""
    if set(weights) != {1.0}:
        raise RecipeError("mergekit cannot scale experts before SLERP.", key="weight")
    t = float(values["t"])
    return MergekitMethod(method="nuslerp", weights=(1 - t, t))


def _read_nuslerp(settings: MergekitSettings) -> Translation:
    """With a base, it is between the changes; without one, between whole weights."""
    flatten = settings.flag("nuslerp_flatten", default=True)
    if not settings.has_base:
        return _between_whole_weights(settings, flatten=flatten)
    if len(settings.experts) != 2:
        raise settings.refusal("it needs two models besides the base", "models")
    # What mergekit calls row-wise is along columns.
    is_column_wise = settings.flag("nuslerp_row_wise", default=False)
    if not flatten:
        settings.notes.append(
            "Rows and columns are those of outputs × inputs; mergekit's are those of the tensor as "
            "it is stored, which GPT-2 does the other way round."
        )
    directions = {"row_wise": False, "column_wise": False}
    if not flatten:
        directions = {"row_wise": not is_column_wise, "column_wise": is_column_wise}
    return Translation(method="nuslerp", parameters=directions, weights=settings.weights())


def _between_whole_weights(settings: MergekitSettings, *, flatten: bool) -> Translation:
    """The first model counts as the base; both weights determine how far to go from it."""
    settings.used.add("nuslerp_row_wise")
    if len(settings.experts) != 1 or settings.base is None:
        raise settings.refusal("it takes two models, or two and a base", "models")
    if not flatten:
        raise settings.refusal("rows of whole weights are not possible here", "nuslerp_flatten")
    first_weight = constant(settings.conditional_numbers(WEIGHT, 1.0, settings.base))
    second_weight = constant(settings.conditional_numbers(WEIGHT, 1.0, settings.experts[0]))
    if first_weight is None or second_weight is None:
        raise settings.refusal("weights that change along the model need a base_model", WEIGHT)
    first = float(first_weight)
    second = float(second_weight)
    if abs(first + second) < 1e-6:  # then mergekit goes half the way
        t = 0.5
    else:
        t = second / (first + second)
    return Translation(method="base_slerp", parameters={"t": t, "parallel": 1.0})


def _write_nuslerp(values: Parameters, weights: tuple[float, ...]) -> MergekitMethod:
    is_column_wise = values["column_wise"]
    is_flat = not values["row_wise"] and not is_column_wise
    # What mergekit calls row-wise is along columns.
    parameters = {"nuslerp_flatten": is_flat, "nuslerp_row_wise": is_column_wise}
    return MergekitMethod(method="nuslerp", parameters=parameters, weights=weights)


def _read_multislerp(settings: MergekitSettings) -> Translation:
    """With a base, it is between the changes; without one, between whole weights."""
    settings.used.add("eps")
    normalised = settings.flag("normalize_weights", default=True)
    parameters: dict[str, ConditionalValues | Scalar] = {"normalize": normalised}
    if not settings.has_base:
        parameters |= {"points": "weights", "base_weight": 0.0}
        if settings.base is not None:
            parameters["base_weight"] = settings.conditional_numbers(WEIGHT, 1.0, settings.base)
    return Translation(method="multislerp", parameters=parameters, weights=settings.weights())


def _write_multislerp(values: Parameters, weights: tuple[float, ...]) -> MergekitMethod:
    is_between_changes = values["points"] == "changes"
    base_weight = None
    if not is_between_changes:
        base_weight = _base_weight(values)
    return MergekitMethod(
        method="multislerp",
        parameters={"normalize_weights": values["normalize"]},
        weights=weights,
        with_base=is_between_changes,
        base_weight=base_weight,
    )


def _read_karcher(settings: MergekitSettings) -> Translation:
    """The mean of whole weights on the sphere, the base's among them."""
    parameters: dict[str, ConditionalValues | Scalar] = {
        "iterations": int(settings.fixed("max_iter", 10)),
        "tolerance": settings.fixed("tol", 1e-5),
        "points": "weights",
        "base_weight": 1.0,
    }
    return Translation(method="karcher", parameters=parameters)


def _write_karcher(values: Parameters, _weights: tuple[float, ...]) -> MergekitMethod:
    if values["points"] == "changes" or values["base_weight"] not in (0, 1):
        raise RecipeError("mergekit's karcher is of whole weights that count alike.", key="points")
    return MergekitMethod(
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
        "passthrough": Counterpart(our_name="linear", reads=_read_passthrough),
        "task_arithmetic": Counterpart(sums="all"),
        "ties": Counterpart(
            by_model=_DENSITY,
            sums="elected",
            normalised=True,
            rescales=False,
            implied={"trim": "tensor"},
        ),
        "dare_linear": Counterpart(by_model=_DENSITY, sums="all", rescales=True, random=True),
        "dare_ties": Counterpart(
            by_model=_DENSITY,
            sums="elected",
            rescales=True,
            random=True,
            only={"trim_density": OnlyValue(1, "does not trim afterwards")},
        ),
        "della": Counterpart(
            by_model=_EPSILON, sums="elected", normalised=True, rescales=True, random=True
        ),
        "della_linear": Counterpart(by_model=_EPSILON, sums="all", rescales=True, random=True),
        "breadcrumbs": Counterpart(by_model=_GAMMA, sums="all", rescales=False),
        "breadcrumbs_ties": Counterpart(by_model=_GAMMA, sums="elected", rescales=False),
        "slerp": Counterpart(
            our_name="base_slerp",
            numbers={"t": 0.5},
            weights="none",
            pair=True,
            only={"parallel": OnlyValue(0.9995, "is straight above 0.9995")},
        ),
        "nuslerp": Counterpart(reads=_read_nuslerp, writes=_write_nuslerp),
        "multislerp": Counterpart(reads=_read_multislerp, writes=_write_multislerp),
        "karcher": Counterpart(weights="none", reads=_read_karcher, writes=_write_karcher),
        "model_stock": Counterpart(
            flags=("filter_wise",),
            weights="equal",
            written_note="mergekit moves away from experts with opposite changes, and counts "
            "experts that do not change a tensor; here the base is kept, and these experts are "
            "left out.",
        ),
        "sce": Counterpart(
            numbers={"select_topk": 1.0},
            weights="none",
            only={"scaling": OnlyValue(1, "has no scaling")},
        ),
        "ram": Counterpart(numbers=_RAM, weights="none"),
        "ramplus_tl": Counterpart(numbers={**_RAM, "r": 0.1, "alpha": 0.2}, weights="none"),
        "nearswap": Counterpart(numbers={"t": 1e-4}, weights="none", pair=True),
        "arcee_fusion": Counterpart(
            weights="none",
            pair=True,
            only={"spread": OnlyValue(1.5, "has no other threshold")},
            read_note="mergekit rounds the importance of entries in the file's number format, and "
            "takes its quantiles from a random million of them; here all count, in float64.",
        ),
    }
)
"""Counterparts by mergekit's names."""


def _by_our_names() -> dict[str, tuple[str, Counterpart]]:
    """mergekit's name and the counterpart by our names; of two with one name, the first."""
    by_our_names: dict[str, tuple[str, Counterpart]] = {}
    for name, counterpart in METHODS.items():
        by_our_names.setdefault(counterpart.our_name or name, (name, counterpart))
    # mergekit's slerp is ``base_slerp`` here; our SLERP between two changes is its nuslerp.
    by_our_names["slerp"] = ("nuslerp", Counterpart(writes=_write_slerp))
    return by_our_names


_BY_OUR_NAMES: Final = _by_our_names()
