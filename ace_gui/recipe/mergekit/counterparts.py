"""mergekit's methods in terms of this package's, parameter by parameter.

Definitions of mergekit 0.1.5. If they differ, a note says so. Settings without a counterpart are
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.schema import Model, Scalar, Setting
from ace_gui.recipe.mergekit.settings_at_depth import (
    Chain,
    Choice,
    at_offset,
    chain_of,
    constant,
    numbers,
)

WEIGHT: Final = "weight"
WITHOUT_BASE: Final = frozenset({"linear", "nuslerp", "passthrough", "karcher", "multislerp"})
"""Methods that need no base model."""

_DRAWN: Final = "mergekit draws other random numbers, so that other entries are kept."


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


def shifted(found: Translation, offset: int) -> Translation:
    """The translation of a slice whose first block has the number ``offset`` in the output."""
    return replace(
        found,
        parameters={name: at_offset(chain, offset) for name, chain in found.parameters.items()},
        weights=[at_offset(chain, offset) for chain in found.weights],
        own=[{n: at_offset(c, offset) for n, c in each.items()} for each in found.own],
    )


def _ones(settings: Settings) -> list[Chain]:
    return [_one(1.0)] * len(settings.experts)


def _electing(settings: Settings, *, normalize: bool) -> dict[str, Chain]:
    negative = any(float(c.value) < 0 for chain in settings.weights() for c in chain)
    mean = settings.flag("normalize", default=normalize)
    return {
        **_scaling(settings),
        "combine": _one(("signed mean" if negative else "mean") if mean else "sum"),
        "balanced": _one("positive"),
    }


def _scaling(settings: Settings) -> dict[str, Chain]:
    return {"scaling": settings.number("lambda", 1.0)}


def _one(value: Scalar) -> Chain:
    return (Choice(value=value),)


def _summing(settings: Settings) -> dict[str, Chain]:
    return {**_scaling(settings), "normalize": _one(settings.flag("normalize", default=False))}


def _rescaling(settings: Settings, default: bool) -> dict[str, Chain]:
    on = settings.flag("rescale", default=default)
    return {"rescale": _one("by norm")} if on else {"rescale": _one("none")} if default else {}


def _linear(settings: Settings) -> Translation:
    """Of whole weights, the base's included if it has a weight."""
    named = settings.has_base and any(WEIGHT in scope for scope in settings.shared)
    own = settings.base or (Model.model_validate({"model": "base"}) if named else None)
    base = _one(0.0) if own is None else settings.weight(own)
    return Translation(
        method="linear",
        parameters={
            "base_weight": base,
            "normalize": _one(settings.flag("normalize", default=True)),
        },
        weights=settings.weights(),
    )


def _passthrough(settings: Settings) -> Translation:
    """One model a slice, times its ``scale``: a sum in which it alone has a weight."""
    scale = numbers(settings.chain("scale", 1.0, settings.base), "scale")
    return Translation(
        method="linear",
        parameters={"base_weight": scale, "normalize": _one(False)},
        weights=[],
    )


def _task_arithmetic(settings: Settings) -> Translation:
    return Translation(
        method="task_arithmetic", parameters=_summing(settings), weights=settings.weights()
    )


def _ties(settings: Settings) -> Translation:
    trim = {"trim": _one("tensor"), **_rescaling(settings, default=False)}
    return _sparse(settings, {**trim, **_electing(settings, normalize=True)})


def _dare_linear(settings: Settings) -> Translation:
    return _sparse(settings, {**_random(settings), **_summing(settings)})


def _dare_ties(settings: Settings) -> Translation:
    return _sparse(settings, {**_random(settings), **_electing(settings, normalize=False)})


def _della(settings: Settings) -> Translation:
    own = {**_random(settings), **_electing(settings, normalize=True)}
    return _sparse(settings, own, ("epsilon", 0.15))


def _della_linear(settings: Settings) -> Translation:
    own = {**_random(settings), **_summing(settings)}
    return _sparse(settings, own, ("epsilon", 0.15))


def _breadcrumbs(settings: Settings) -> Translation:
    own = {**_rescaling(settings, default=False), **_summing(settings)}
    return _sparse(settings, own, ("gamma", 0.01))


def _breadcrumbs_ties(settings: Settings) -> Translation:
    own = {**_rescaling(settings, default=False), **_electing(settings, normalize=False)}
    return _sparse(settings, own, ("gamma", 0.01))


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


def _random(settings: Settings) -> dict[str, Chain]:
    settings.notes.append(_DRAWN)
    return _rescaling(settings, default=True)


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


def _points(settings: Settings, *, whole: bool) -> dict[str, Chain]:
    """Whether a mean is of whole weights, in which the base has its own weight."""
    if not whole:
        return {}
    own = _one(0.0) if settings.base is None else settings.weight(settings.base)
    return {"points": _one("weights"), "base_weight": own}


def _multislerp(settings: Settings) -> Translation:
    settings.used.add("eps")
    normalize = settings.flag("normalize_weights", default=True)
    return Translation(
        method="multislerp",
        parameters={
            "normalize": _one(normalize),
            **_points(settings, whole=not settings.has_base),
        },
        weights=settings.weights(),
    )


def _karcher(settings: Settings) -> Translation:
    (iterations,) = numbers(_one(settings.fixed("max_iter", 10)), "max_iter")
    (tolerance,) = numbers(_one(settings.fixed("tol", 1e-5)), "tol")
    return Translation(
        method="karcher",
        parameters={
            "iterations": _one(int(iterations.value)),
            "tolerance": (tolerance,),
            "points": _one("weights"),
            "base_weight": _one(1.0),
        },
        weights=_ones(settings),
    )


def _model_stock(settings: Settings) -> Translation:
    rows = settings.flag("filter_wise", default=False)
    parameters = {"filter_wise": _one(True)} if rows else {}
    return Translation(method="model_stock", parameters=parameters, weights=_ones(settings))


def _sce(settings: Settings) -> Translation:
    return Translation(
        method="sce",
        parameters={"select_topk": settings.number("select_topk", 1.0)},
        weights=_ones(settings),
    )


METHODS: Final[Mapping[str, Callable[[Settings], Translation]]] = MappingProxyType(
    {
        "linear": _linear,
        "passthrough": _passthrough,
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
