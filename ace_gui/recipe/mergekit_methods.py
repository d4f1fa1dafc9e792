"""mergekit's methods in terms of those here, parameter by parameter.

Definitions of mergekit 0.1.5. Where they differ a note says so; what has no counterpart is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit_schema import Model, Scalar, Setting
from ace_gui.recipe.mergekit_settings import Chain, Choice, chain_of, constant

WEIGHT: Final = "weight"
_RESCALED: Final = (
    "mergekit draws other random numbers, and rescales what it keeps so that the sum of magnitudes "
    "of each tensor stays; here each entry is divided by its chance."
)


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A method here; ``weights``: one chain an expert."""

    method: str
    parameters: Mapping[str, Chain] = field(default_factory=dict)
    weights: Sequence[Chain]


@dataclass(kw_only=True)
class Settings:
    """What a file says of its method. ``experts``: without the base, which ``base`` may hold.

    ``shared``: settings for all models, the nearest first. ``notes`` collects sentences.
    """

    method: str
    base: Model | None
    has_base: bool
    experts: Sequence[Model]
    shared: Sequence[Mapping[str, Setting]]
    blocks: int | None
    notes: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def chain(self, name: str, default: Scalar, model: Model | None = None) -> Chain:
        """A parameter for all tensors, of one model or of the merge."""
        self.used.add(name)
        own = [model.parameters] if model is not None else []
        return chain_of(name, [*own, *self.shared], default, self.blocks)

    def fixed(self, name: str, default: Scalar) -> Scalar:
        """A parameter that must be the same for all tensors."""
        value = constant(self.chain(name, default))
        if value is None:
            raise self.refusal(f"{name!r} changes along the model; write one value", name)
        return value

    def alike(self, name: str, default: Scalar) -> Chain:
        """A parameter that mergekit has for each model and that is one here."""
        chains = {self.chain(name, default, model) for model in self.experts}
        if len(chains) > 1:
            raise self.refusal(f"{name!r} differs between the models; give all the same", name)
        return chains.pop()

    def weights(self) -> list[Chain]:
        """One weight an expert."""
        return [self.chain(WEIGHT, 1.0, model) for model in self.experts]

    def shares(self, models: Sequence[Model]) -> list[float]:
        """Weights that sum to one."""
        values = [constant(self.chain(WEIGHT, 1.0, model)) for model in models]
        if any(value is None for value in values):
            raise self.refusal("normalised weights change along the model; write one each", WEIGHT)
        numbers = [float(value or 0.0) for value in values]
        total = sum(numbers)
        if abs(total) < 1e-8:
            raise self.refusal("the weights sum to zero and cannot be normalised", WEIGHT)
        return [number / total for number in numbers]

    def refusal(self, sentence: str, key: str) -> RecipeError:
        """What cannot be translated."""
        return RecipeError(f"This {self.method} of mergekit's: {sentence}.", key=key)


def translated(settings: Settings) -> Translation:
    """The method here that does what the file says. Raises RecipeError where there is none."""
    method = METHODS.get(settings.method)
    if method is None:
        raise RecipeError(
            f"mergekit's method {settings.method!r} is not known here; those that are: "
            f"{', '.join(METHODS)}.",
            key="merge_method",
        )
    settings.used.add("int8_mask")  # saves memory, changes nothing
    found = method(settings)
    everything = [*settings.shared, *(model.parameters for model in settings.experts)]
    for name in dict.fromkeys(name for scope in everything for name in scope):
        if name not in settings.used:
            settings.notes.append(f"{name!r} means nothing to {settings.method}: left out.")
    return found


def _constants(values: Sequence[float]) -> list[Chain]:
    return [(Choice(value=value),) for value in values]


def _number(chain: Chain, name: str) -> dict[str, Chain]:
    return {name: tuple(replace(c, value=float(c.value)) for c in chain)}


def _sum_weights(settings: Settings, *, normalize: bool) -> Sequence[Chain]:
    """Weights of a method that adds up; normalised ones add up to one."""
    if settings.fixed("normalize", normalize):
        return _constants(settings.shares(settings.experts))
    return settings.weights()


def _combine(settings: Settings, *, normalize: bool) -> dict[str, Chain]:
    if any(float(c.value) < 0 for chain in settings.weights() for c in chain):
        raise settings.refusal("negative weights are counted otherwise here", WEIGHT)
    mean = settings.fixed("normalize", normalize)
    return {
        "combine": (Choice(value="mean" if mean else "sum"),),
        "balanced": (Choice(value="positive"),),
    }


def _scaling(settings: Settings) -> dict[str, Chain]:
    return _number(settings.chain("lambda", 1.0), "scaling")


def _density(settings: Settings) -> dict[str, Chain]:
    return _number(settings.alike("density", 1.0), "density")


def _refuse_rescale(settings: Settings, wanted: bool) -> None:
    if settings.fixed("rescale", wanted) is not wanted:
        what = "not rescaling" if wanted else "rescaling"
        raise settings.refusal(f"{what} is not possible here; leave out rescale", "rescale")


def _linear(settings: Settings) -> Translation:
    """Of whole weights, the base's included if it has one: a sum of task vectors all the same."""
    if settings.has_base and (settings.base is None and not _weight_for_all(settings)):
        if not settings.fixed("normalize", True):
            raise settings.refusal("weights that are not normalised need one for the base", WEIGHT)
        return Translation(method="linear", weights=settings.weights())
    base = settings.base or Model(model="base")
    shares = settings.shares([base, *settings.experts])
    if not settings.fixed("normalize", True):
        total = sum(float(c.value) for m in (base, *settings.experts) for c in _weight(settings, m))
        if abs(total - 1) > 1e-6:
            raise settings.refusal("weights that do not sum to 1 scale the base, too", "normalize")
    return Translation(
        method="task_arithmetic",
        parameters={"scaling": (Choice(value=1.0),)},
        weights=_constants(shares[1:]),
    )


def _weight(settings: Settings, model: Model) -> Chain:
    return settings.chain(WEIGHT, 1.0, model)


def _weight_for_all(settings: Settings) -> bool:
    return any(WEIGHT in scope for scope in settings.shared)


def _task_arithmetic(settings: Settings) -> Translation:
    weights = _sum_weights(settings, normalize=False)
    return Translation(method="task_arithmetic", parameters=_scaling(settings), weights=weights)


def _ties(settings: Settings) -> Translation:
    _refuse_rescale(settings, wanted=False)
    return Translation(
        method="ties",
        parameters={
            **_density(settings),
            "trim": (Choice(value="tensor"),),
            **_scaling(settings),
            **_combine(settings, normalize=True),
        },
        weights=settings.weights(),
    )


def _dare_linear(settings: Settings) -> Translation:
    _refuse_rescale(settings, wanted=True)
    settings.notes.append(_RESCALED)
    weights = _sum_weights(settings, normalize=False)
    parameters = {**_density(settings), **_scaling(settings)}
    return Translation(method="dare_linear", parameters=parameters, weights=weights)


def _dare_ties(settings: Settings) -> Translation:
    _refuse_rescale(settings, wanted=True)
    settings.notes.append(_RESCALED)
    return Translation(
        method="dare_ties",
        parameters={
            **_density(settings),
            **_scaling(settings),
            **_combine(settings, normalize=False),
        },
        weights=settings.weights(),
    )


def _della(settings: Settings) -> Translation:
    _refuse_rescale(settings, wanted=True)
    settings.notes.append(_RESCALED)
    return Translation(
        method="della",
        parameters={
            **_density(settings),
            **_number(settings.alike("epsilon", 0.15), "epsilon"),
            **_scaling(settings),
            **_combine(settings, normalize=True),
        },
        weights=settings.weights(),
    )


def _breadcrumbs(settings: Settings) -> Translation:
    _refuse_rescale(settings, wanted=False)
    settings.notes.append(
        "Of a tensor so small that mergekit would keep no entry, the largest is kept here."
    )
    weights = _sum_weights(settings, normalize=False)
    return Translation(
        method="breadcrumbs",
        parameters={
            **_density(settings),
            **_number(settings.alike("gamma", 0.01), "gamma"),
            **_scaling(settings),
        },
        weights=weights,
    )


def _slerp(settings: Settings) -> Translation:
    """Between the whole weights of the base and of one other model."""
    if len(settings.experts) != 1 or not settings.has_base:
        raise settings.refusal("it takes the base and one other model", "models")
    settings.notes.append(
        "mergekit goes along the arc between the whole weights of base and model; here along the "
        "straight line, as mergekit does where their cosine is over 0.9995, which fine-tunes reach."
    )
    return Translation(
        method="task_arithmetic",
        parameters={"scaling": (Choice(value=1.0),)},
        weights=[settings.chain("t", 0.5)],
    )


def _nuslerp(settings: Settings) -> Translation:
    _need_base(settings)
    whole = settings.fixed("nuslerp_flatten", True)
    columns = bool(settings.fixed("nuslerp_row_wise", False))
    if not whole:
        settings.notes.append(
            "Rows and columns are those of outputs × inputs; mergekit's are those of the tensor as "
            "it is stored, which GPT-2 does the other way round."
        )
    return Translation(
        method="nuslerp",
        parameters={
            "row_wise": (Choice(value=not whole and not columns),),
            "column_wise": (Choice(value=not whole and columns),),
        },
        weights=settings.weights(),
    )


def _multislerp(settings: Settings) -> Translation:
    _need_base(settings)
    settings.used.add("eps")
    normalize = bool(settings.fixed("normalize_weights", True))
    return Translation(
        method="multislerp",
        parameters={"normalize": (Choice(value=normalize),)},
        weights=settings.weights(),
    )


def _karcher(settings: Settings) -> Translation:
    _need_base(settings)
    settings.notes.append(
        "mergekit takes the mean on the sphere of whole weights, the base's among them; here of "
        "the experts' changes to the base."
    )
    iterations = int(settings.fixed("max_iter", 10))
    tolerance = float(settings.fixed("tol", 1e-5))
    return Translation(
        method="karcher",
        parameters={
            "iterations": (Choice(value=iterations),),
            "tolerance": (Choice(value=tolerance),),
        },
        weights=_constants([1.0] * len(settings.experts)),
    )


def _model_stock(settings: Settings) -> Translation:
    if settings.fixed("filter_wise", False):
        raise settings.refusal("it cannot go filter by filter here", "filter_wise")
    settings.notes.append(
        "Where the experts' changes to a tensor point apart on average, mergekit goes away from "
        "them, and here the base is kept; an expert that does not change a tensor is left out of "
        "it, where mergekit counts its cosines as 0."
    )
    return Translation(method="model_stock", weights=_constants([1.0] * len(settings.experts)))


def _sce(settings: Settings) -> Translation:
    chain = settings.chain("select_topk", 1.0)
    return Translation(
        method="sce",
        parameters=_number(chain, "select_topk"),
        weights=_constants([1.0] * len(settings.experts)),
    )


def _need_base(settings: Settings) -> None:
    if not settings.has_base:
        raise settings.refusal("here it goes from a base; add base_model", "base_model")


METHODS: Final[Mapping[str, Callable[[Settings], Translation]]] = MappingProxyType(
    {
        "linear": _linear,
        "task_arithmetic": _task_arithmetic,
        "ties": _ties,
        "dare_linear": _dare_linear,
        "dare_ties": _dare_ties,
        "della": _della,
        "breadcrumbs": _breadcrumbs,
        "slerp": _slerp,
        "nuslerp": _nuslerp,
        "multislerp": _multislerp,
        "karcher": _karcher,
        "model_stock": _model_stock,
        "sce": _sce,
    }
)
