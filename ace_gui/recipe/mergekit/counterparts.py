"""mergekit's methods in terms of this package's, parameter by parameter.

Definitions of mergekit 0.1.5. If they differ, a note says so. Settings without a counterpart are
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.schema import Model, Scalar, Setting
from ace_gui.recipe.mergekit.settings_at_depth import Chain, Choice, chain_of, constant, numbers

WEIGHT: Final = "weight"
_RESCALED: Final = (
    "mergekit draws other random numbers, and rescales what it keeps so that the sum of magnitudes "
    "of each tensor stays; here each entry is divided by its chance."
)


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A method here; ``weights``: one chain an expert; ``own``: of each, parameters of its own."""

    method: str
    parameters: Mapping[str, Chain] = field(default_factory=dict)
    weights: Sequence[Chain]
    own: Sequence[Mapping[str, Chain]] = ()


@dataclass(kw_only=True)
class Settings:
    """A mergekit file's settings. ``experts``: without the base, which ``base`` may hold.

    ``shared``: settings for all models, the nearest first. ``notes`` collects sentences,
    ``filled`` the numbers that the file leaves to mergekit's defaults.
    """

    method: str
    base: Model | None
    has_base: bool
    experts: Sequence[Model]
    shared: Sequence[Mapping[str, Setting]]
    blocks: int | None
    notes: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    filled: dict[str, float] = field(default_factory=dict)

    def chain(self, name: str, default: Scalar, model: Model | None = None) -> Chain:
        """A parameter for all tensors, of one model or of the merge."""
        self.used.add(name)
        scopes = [*([model.parameters] if model is not None else []), *self.shared]
        if not isinstance(default, bool | str) and not any(name in scope for scope in scopes):
            self.filled[name] = default
        return chain_of(name, scopes, default, self.blocks)

    def fixed(self, name: str, default: Scalar) -> Scalar:
        """A parameter that must be the same for all tensors."""
        value = constant(self.chain(name, default))
        if value is None:
            raise self.refusal(f"{name!r} changes along the model; write one value", name)
        return value

    def weights(self) -> list[Chain]:
        """One weight an expert."""
        return [self.weight(model) for model in self.experts]

    def weight(self, model: Model) -> Chain:
        """Of a model."""
        return numbers(self.chain(WEIGHT, 1.0, model), WEIGHT)

    def number(self, name: str, default: float) -> Chain:
        """A number for all tensors."""
        return numbers(self.chain(name, default), name)

    def of_each(self, *names: tuple[str, float]) -> tuple[dict[str, Chain], list[dict[str, Chain]]]:
        """Parameters that mergekit has for each model: those that are one, and each model's own."""
        shared: dict[str, Chain] = {}
        own: list[dict[str, Chain]] = [{} for _ in self.experts]
        for name, default in names:
            chains = [numbers(self.chain(name, default, m), name) for m in self.experts]
            shared[name] = chains[0] if len(set(chains)) == 1 else chains[0][:1]
            if len(set(chains)) > 1:
                for index, chain in enumerate(chains):
                    own[index][name] = chain
        return shared, own

    def flag(self, name: str, default: bool) -> bool:
        """Whether a switch is on, for all tensors."""
        value = self.fixed(name, default)
        if not isinstance(value, bool):
            raise self.refusal(f"{name!r} must be true or false", name)
        return value

    def refusal(self, sentence: str, key: str) -> RecipeError:
        """The error about a setting that cannot be translated."""
        return RecipeError(f"This {self.method} of mergekit's: {sentence}.", key=key)


def translated(settings: Settings) -> Translation:
    """The method equivalent to that of the file. Raises RecipeError if there is none."""
    method = METHODS.get(settings.method)
    if method is None:
        raise RecipeError(
            f"mergekit's method {settings.method!r} is not known here; known methods: "
            f"{', '.join(METHODS)}.",
            key="merge_method",
        )
    settings.used.add("int8_mask")  # saves memory, changes nothing
    found = method(settings)
    everything = [*settings.shared, *(model.parameters for model in settings.experts)]
    for name in dict.fromkeys(name for scope in everything for name in scope):
        if name not in settings.used:
            settings.notes.append(f"{name!r} has no effect on {settings.method}: left out.")
    return found


def _ones(settings: Settings) -> list[Chain]:
    return [_one(1.0)] * len(settings.experts)


def _electing(settings: Settings, *, normalize: bool) -> dict[str, Chain]:
    if any(float(c.value) < 0 for chain in settings.weights() for c in chain):
        raise settings.refusal("negative weights count differently here", WEIGHT)
    mean = settings.flag("normalize", default=normalize)
    return {
        **_scaling(settings),
        "combine": _one("mean" if mean else "sum"),
        "balanced": _one("positive"),
    }


def _scaling(settings: Settings) -> dict[str, Chain]:
    return {"scaling": settings.number("lambda", 1.0)}


def _one(value: Scalar) -> Chain:
    return (Choice(value=value),)


def _summing(settings: Settings) -> dict[str, Chain]:
    return {**_scaling(settings), "normalize": _one(settings.flag("normalize", default=False))}


def _refuse_rescale(settings: Settings, wanted: bool) -> None:
    if settings.flag("rescale", default=wanted) is not wanted:
        what = "not rescaling" if wanted else "rescaling"
        raise settings.refusal(f"{what} is not possible here; leave out rescale", "rescale")


def _linear(settings: Settings) -> Translation:
    """Of whole weights, the base's included if it has a weight."""
    counted = settings.base is not None or any(WEIGHT in scope for scope in settings.shared)
    base = settings.weight(settings.base or Model(model="base")) if counted else _one(0.0)
    return Translation(
        method="linear",
        parameters={
            "base_weight": base,
            "normalize": _one(settings.flag("normalize", default=True)),
        },
        weights=settings.weights(),
    )


def _task_arithmetic(settings: Settings) -> Translation:
    return Translation(
        method="task_arithmetic", parameters=_summing(settings), weights=settings.weights()
    )


def _ties(settings: Settings) -> Translation:
    _refuse_rescale(settings, wanted=False)
    return _sparse(settings, {"trim": _one("tensor"), **_electing(settings, normalize=True)})


def _dare_linear(settings: Settings) -> Translation:
    _random(settings)
    return _sparse(settings, _summing(settings))


def _dare_ties(settings: Settings) -> Translation:
    _random(settings)
    return _sparse(settings, _electing(settings, normalize=False))


def _della(settings: Settings) -> Translation:
    _random(settings)
    return _sparse(settings, _electing(settings, normalize=True), ("epsilon", 0.15))


def _della_linear(settings: Settings) -> Translation:
    _random(settings)
    return _sparse(settings, _summing(settings), ("epsilon", 0.15))


def _breadcrumbs(settings: Settings) -> Translation:
    _refuse_rescale(settings, wanted=False)
    return _sparse(settings, _summing(settings), ("gamma", 0.01))


def _breadcrumbs_ties(settings: Settings) -> Translation:
    _refuse_rescale(settings, wanted=False)
    return _sparse(settings, _electing(settings, normalize=False), ("gamma", 0.01))


def _sparse(
    settings: Settings, parameters: Mapping[str, Chain], *names: tuple[str, float]
) -> Translation:
    """A method of the same name, with a density and the like of each model."""
    shared, own = settings.of_each(("density", 1.0), *names)
    return Translation(
        method=settings.method,
        parameters={**shared, **parameters},
        weights=settings.weights(),
        own=own,
    )


def _random(settings: Settings) -> None:
    _refuse_rescale(settings, wanted=True)
    settings.notes.append(_RESCALED)


def _with_base_and_one(settings: Settings) -> None:
    if len(settings.experts) != 1 or not settings.has_base:
        raise settings.refusal(
            "it takes the base and one other model; a recipe of this application, with schema: 1, "
            "may have others",
            "models",
        )


def _slerp(settings: Settings) -> Translation:
    """Between the whole weights of the base and of one other model."""
    _with_base_and_one(settings)
    return Translation(
        method="base_slerp",
        parameters={"t": settings.number("t", 0.5)},
        weights=[_one(1.0)],
    )


def _nearswap(settings: Settings) -> Translation:
    _with_base_and_one(settings)
    return Translation(
        method="nearswap", parameters={"t": settings.number("t", 1e-4)}, weights=[_one(1.0)]
    )


def _arcee_fusion(settings: Settings) -> Translation:
    _with_base_and_one(settings)
    settings.notes.append(
        "mergekit rounds the importance of entries in the file's number format, and takes its "
        "quantiles from a random million of them; here all count, in float64."
    )
    return Translation(method="arcee_fusion", weights=[_one(1.0)])


def _ram(settings: Settings) -> Translation:
    return Translation(
        method="ram",
        parameters={"epsilon": settings.number("epsilon", 1e-5)},
        weights=_ones(settings),
    )


def _ramplus_tl(settings: Settings) -> Translation:
    named = {"epsilon": 1e-5, "r": 0.1, "alpha": 0.2}
    return Translation(
        method="ramplus_tl",
        parameters={name: settings.number(name, default) for name, default in named.items()},
        weights=_ones(settings),
    )


def _nuslerp(settings: Settings) -> Translation:
    whole = settings.flag("nuslerp_flatten", default=True)
    if not settings.has_base:
        return _between_whole_weights(settings, whole=whole)
    if len(settings.experts) != 2:
        raise settings.refusal("it needs two models besides the base", "models")
    columns = settings.flag("nuslerp_row_wise", default=False)
    if not whole:
        settings.notes.append(
            "Rows and columns are those of outputs × inputs; mergekit's are those of the tensor as "
            "it is stored, which GPT-2 does the other way round."
        )
    return Translation(
        method="nuslerp",
        parameters={
            "row_wise": _one(not whole and not columns),
            "column_wise": _one(not whole and columns),
        },
        weights=settings.weights(),
    )


def _between_whole_weights(settings: Settings, *, whole: bool) -> Translation:
    """The first model is the base; how far to go from it follows from both weights."""
    settings.used.add("nuslerp_row_wise")
    if len(settings.experts) != 1 or settings.base is None:
        raise settings.refusal("it takes two models, or two and a base", "models")
    if not whole:
        raise settings.refusal("rows of whole weights are not possible here", "nuslerp_flatten")
    pair = [constant(settings.weight(m)) for m in (settings.base, *settings.experts)]
    if any(value is None for value in pair):
        raise settings.refusal("weights that change along the model need a base_model", WEIGHT)
    first, second = (float(value or 0.0) for value in pair)
    t = 0.5 if abs(first + second) < 1e-6 else second / (first + second)
    return Translation(
        method="base_slerp",
        parameters={"t": _one(t), "parallel": _one(1.0)},
        weights=[_one(1.0)],
    )


def _multislerp(settings: Settings) -> Translation:
    _need_base(settings)
    settings.used.add("eps")
    normalize = settings.flag("normalize_weights", default=True)
    return Translation(
        method="multislerp",
        parameters={"normalize": _one(normalize)},
        weights=settings.weights(),
    )


def _karcher(settings: Settings) -> Translation:
    _need_base(settings)
    settings.notes.append(
        "mergekit takes the mean on the sphere of whole weights, the base's among them; here of "
        "the experts' changes to the base."
    )
    (iterations,) = numbers(_one(settings.fixed("max_iter", 10)), "max_iter")
    (tolerance,) = numbers(_one(settings.fixed("tol", 1e-5)), "tol")
    return Translation(
        method="karcher",
        parameters={"iterations": _one(int(iterations.value)), "tolerance": (tolerance,)},
        weights=_ones(settings),
    )


def _model_stock(settings: Settings) -> Translation:
    if settings.flag("filter_wise", default=False):
        raise settings.refusal("it cannot go filter by filter here", "filter_wise")
    return Translation(method="model_stock", weights=_ones(settings))


def _sce(settings: Settings) -> Translation:
    return Translation(
        method="sce",
        parameters={"select_topk": settings.number("select_topk", 1.0)},
        weights=_ones(settings),
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
        "della_linear": _della_linear,
        "breadcrumbs": _breadcrumbs,
        "breadcrumbs_ties": _breadcrumbs_ties,
        "slerp": _slerp,
        "nuslerp": _nuslerp,
        "multislerp": _multislerp,
        "karcher": _karcher,
        "model_stock": _model_stock,
        "sce": _sce,
        "ram": _ram,
        "ramplus_tl": _ramplus_tl,
        "nearswap": _nearswap,
        "arcee_fusion": _arcee_fusion,
    }
)
