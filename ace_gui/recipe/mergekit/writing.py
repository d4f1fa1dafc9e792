"""A recipe as a mergekit YAML file for the same merge, if mergekit has the method.

Remaining differences are listed in the file's head. Settings that cannot be expressed are refused
by name. The definitions are those of mergekit 0.1.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from ace_gui.errors import RecipeError
from ace_gui.recipe.base_config import base_config
from ace_gui.recipe.file_schema import placed
from ace_gui.recipe.overrides import After, Override
from ace_gui.recipe.values import (
    Choices,
    Heads,
    ModelEntry,
    Output,
    ParameterValue,
    Recipe,
    Vocabulary,
)

_CONTAINS: Final = re.compile(r"\*([^*?\[\]]+|\?)\*")

_EXPRESSED: Final = {
    *("adapter", "out_dtype", "overrides", "heads", "vocabulary", "seed", "non_finite", "tasks")
}
"""Choices that mergekit makes the same way, or none at all."""

_NOT_AFTER: Final = "mergekit cannot change a merged result; remove `after`."

Parameters = Mapping[str, ParameterValue]


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A mergekit method with its parameters.

    ``weights`` None: it has none. ``base_weight``: the base's own weight among the models; None if
    it is not one of them.
    """

    method: str
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    weights: tuple[float, ...] | None = None
    with_base: bool = True
    base_weight: float | None = None
    notes: tuple[str, ...] = ()


def dump_mergekit(recipe: Recipe, values: Parameters, folder: Path) -> str:
    """The recipe as mergekit's YAML, model paths relative to ``folder``.

    ``values``: every parameter of the method. Raises RecipeError for a method that mergekit has
    not, and for what it cannot express.
    """
    made = _METHODS.get(recipe.merge_method)
    if made is None:
        raise RecipeError(
            f"mergekit has no method {recipe.merge_method!r} as it is defined here; it has: "
            f"{', '.join(_METHODS)}.",
            key="merge_method",
        )
    _refuse_others(recipe)
    foreign = made(values, recipe.weights)
    document = _document(recipe, foreign, lambda path: placed(path, folder))
    filters = [_filter(rule, n, recipe, values) for n, rule in enumerate(recipe.overrides)]
    _apply(document, filters, recipe.expert_names)
    for rule in recipe.overrides:
        _apply_own(document, rule, recipe.expert_names)
    head = "".join(f"# {note}\n" for note in foreign.notes)
    return head + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _document(recipe: Recipe, foreign: Foreign, index: Callable[[Path], str]) -> dict[str, Any]:
    weights = foreign.weights or (None,) * len(recipe.models)
    models = [
        {"model": _reference(entry, recipe, index)}
        | ({} if w is None else {"parameters": {"weight": w}})
        for entry, w in zip(recipe.models, weights, strict=True)
    ]
    base = index(recipe.base_model)
    if recipe.adapter is not None:
        base = f"{base}+{index(recipe.adapter)}"
    if foreign.base_weight is not None:
        models.append({"model": base, "parameters": {"weight": foreign.base_weight}})
    document: dict[str, Any] = {"merge_method": foreign.method}
    if foreign.with_base:
        document["base_model"] = base
    document["models"] = models
    if foreign.parameters:
        document["parameters"] = dict(foreign.parameters)
    document["dtype"] = "float32"  # to compute in, as here
    out_dtype = recipe.out_dtype or _dtype_of(recipe.base_model)
    if out_dtype is not None:
        document["out_dtype"] = out_dtype
    if recipe.vocabulary is not Vocabulary.POSITION:
        document["tokenizer_source"] = "union" if recipe.vocabulary is Vocabulary.UNION else "base"
    return document


def _reference(entry: ModelEntry, recipe: Recipe, index: Callable[[Path], str]) -> str:
    """A model, or the model that an adapter is on and the adapter."""
    on = entry.on
    if on is None and (entry.model / "adapter_config.json").is_file():
        if recipe.adapter is not None:
            raise RecipeError(
                f"mergekit cannot put the adapter {entry.model.name} on a base that has one.",
                key="adapter",
            )
        on = recipe.base_model
    return index(entry.model) if on is None else f"{index(on)}+{index(entry.model)}"


def _refuse_others(recipe: Recipe) -> None:
    if recipe.scope != "default":
        raise RecipeError(
            f"mergekit merges every tensor; it cannot express the scope {recipe.scope!r}.",
            key="scope",
        )
    if recipe.split_fused:
        raise RecipeError("mergekit cannot split fused matrices.", key="split_fused")
    if recipe.after != After():
        raise RecipeError(_NOT_AFTER, key="after")
    if recipe.output != Output.MODEL or recipe.rank is not None or recipe.energy is not None:
        sentence = "mergekit's files give whole models; remove `output`, `rank` and `energy`."
        raise RecipeError(sentence, key="output")
    if recipe.vocabulary in (Vocabulary.TOKENS, Vocabulary.BASE):
        raise RecipeError(
            f"mergekit cannot express vocabulary: {recipe.vocabulary.value}; choose base_tokens or "
            "union.",
            key="vocabulary",
        )
    if recipe.heads is Heads.KEEP:
        raise RecipeError("mergekit cannot keep task heads of the experts.", key="heads")
    usual = {each.name: each.default for each in fields(Choices) if each.name not in _EXPRESSED}
    for name, value in recipe.choices().items():
        if value != usual.get(name, value):
            shown = f"{name}: {value}" if isinstance(value, str) else f"the key {name}"
            raise RecipeError(f"mergekit's file cannot express {shown}; remove it.", key=name)


def _filter(
    rule: Override, number: int, recipe: Recipe, values: Parameters
) -> tuple[str, dict[str, ParameterValue], dict[str, float]]:
    """A rule as the text that names contain, and what is set there. Raises RecipeError."""
    key = f"overrides[{number}]"
    text = _CONTAINS.fullmatch("*?*" if rule.pattern == "*" else rule.pattern or "")
    if text is None or rule.role or rule.blocks or rule.tensors:
        raise RecipeError(
            f"{key} is for tensors that a mergekit filter cannot name; it can only ask for a text "
            "within their names, as pattern *text* does.",
            key=key,
        )
    if rule.merge_method not in (None, recipe.merge_method) or rule.disposition is not None:
        raise RecipeError(
            f"{key}: mergekit has one method for the whole model.", key=f"{key}.merge_method"
        )
    if rule.after != After():
        raise RecipeError(f"{key}: {_NOT_AFTER}", key=f"{key}.after")
    made = _METHODS[recipe.merge_method]
    foreign = made(values, recipe.weights)
    if rule.weights and foreign.weights != recipe.weights:
        raise RecipeError(
            f"{key}: mergekit's {foreign.method} has no such weights.", key=f"{key}.weights"
        )
    changed = made({**values, **rule.parameters}, recipe.weights).parameters
    own = {n: v for n, v in changed.items() if v != foreign.parameters.get(n)}
    return text[1].replace("?", "*"), own, dict(rule.weights)


def _apply(
    document: dict[str, Any],
    filters: Sequence[tuple[str, dict[str, ParameterValue], dict[str, float]]],
    names: Sequence[str],
) -> None:
    """Put the filters in front of the values they replace; in mergekit the first counts."""
    for text, parameters, weights in filters:
        for name, value in parameters.items():
            _prepend(document["parameters"], name, text, value)
        for expert, weight in weights.items():
            own = document["models"][names.index(expert)]["parameters"]
            _prepend(own, "weight", text, weight)


def _apply_own(document: dict[str, Any], rule: Override, names: Sequence[str]) -> None:
    """Parameters of one expert, in front of those of all."""
    for expert, parameters in rule.experts.items():
        own = document["models"][names.index(expert)].setdefault("parameters", {})
        for name, value in parameters.items():
            if rule.pattern == "*":
                own[name] = value
            else:
                own.setdefault(name, document["parameters"][name])
                _prepend(own, name, str(rule.pattern).strip("*"), value)


def _prepend(settings: dict[str, Any], name: str, text: str, value: ParameterValue) -> None:
    known = settings.get(name)
    conditions = known if isinstance(known, list) else [{"value": known}]
    settings[name] = [{"filter": text, "value": value}, *conditions]


def _dtype_of(base: Path) -> str | None:
    """The number format in the base's config."""
    config = base_config(base)
    found = config.get("dtype") or config.get("torch_dtype")
    return found if isinstance(found, str) else None


def _linear(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    own = float(values["base_weight"])
    return Foreign(
        method="linear",
        parameters={} if values["normalize"] else {"normalize": False},
        weights=weights,
        with_base=False,
        base_weight=own or None,
    )


def _sums(values: Parameters) -> dict[str, ParameterValue]:
    return {"lambda": values["scaling"], "normalize": values["normalize"], **_rescale(values)}


def _rescale(values: Parameters) -> dict[str, ParameterValue]:
    """``rescale``, where a method here has it; by chance is nearest to by norm."""
    found = values.get("rescale")
    return {} if found is None else {"rescale": found != "none"}


def _elects(values: Parameters) -> dict[str, ParameterValue]:
    return {
        "density": values["density"],
        "lambda": values["scaling"],
        "normalize": values["combine"] != "sum",
        **_rescale(values),
    }


def _task_arithmetic(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    return Foreign(method="task_arithmetic", parameters=_sums(values), weights=weights)


def _ties(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    notes = _balance(values)
    if values["trim"] == "model" and values["density"] != 1:
        notes += ("mergekit keeps the largest entries of each tensor, not of the whole model.",)
    return Foreign(method="ties", parameters=_elects(values), weights=weights, notes=notes)


def _balance(values: Parameters) -> tuple[str, ...]:
    if values["balanced"] == "positive":
        return ()
    return ("If both signs of an entry weigh the same, mergekit takes the positive one.",)


def _drawn(values: Parameters) -> tuple[str, ...]:
    notes = ["mergekit draws other random numbers."]
    if values["rescale"] == "by chance":
        notes.append("mergekit rescales what it keeps tensor by tensor, not by its chances.")
    return tuple(notes)


def _dare_linear(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    parameters = {"density": values["density"], **_sums(values)}
    return Foreign(
        method="dare_linear", parameters=parameters, weights=weights, notes=_drawn(values)
    )


def _dare_ties(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    if values["trim_density"] != 1:
        raise RecipeError("mergekit's dare_ties does not trim afterwards.", key="trim_density")
    return Foreign(
        method="dare_ties",
        parameters=_elects(values),
        weights=weights,
        notes=(*_drawn(values), *_balance(values)),
    )


def _della(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    parameters = {**_elects(values), "epsilon": values["epsilon"]}
    notes = (*_drawn(values), *_balance(values))
    return Foreign(method="della", parameters=parameters, weights=weights, notes=notes)


def _breadcrumbs(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    parameters = {"density": values["density"], "gamma": values["gamma"], **_sums(values)}
    return Foreign(method="breadcrumbs", parameters=parameters, weights=weights)


def _della_linear(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    own = {"density": values["density"], "epsilon": values["epsilon"]}
    parameters = {**own, **_sums(values)}
    return Foreign(
        method="della_linear", parameters=parameters, weights=weights, notes=_drawn(values)
    )


def _breadcrumbs_ties(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    return Foreign(
        method="breadcrumbs_ties",
        parameters={**_elects(values), "gamma": values["gamma"]},
        weights=weights,
        notes=_balance(values),
    )


def _unweighted(method: str, *names: str) -> Callable[[Parameters, tuple[float, ...]], Foreign]:
    """A method of the same name and parameters, which in mergekit has no weights."""

    def made(values: Parameters, weights: tuple[float, ...]) -> Foreign:
        if set(weights) != {1.0}:
            raise RecipeError(f"mergekit's {method} has no weights.", key="weight")
        return Foreign(method=method, parameters={name: values[name] for name in names})

    return made


def _arcee_fusion(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    if values["spread"] != 1.5:
        raise RecipeError("mergekit's arcee_fusion has no other threshold.", key="spread")
    return _unweighted("arcee_fusion")(values, weights)


def _base_slerp(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    if values["parallel"] != 0.9995:
        raise RecipeError("mergekit's slerp is straight above 0.9995.", key="parallel")
    return _unweighted("slerp", "t")(values, weights)


def _slerp(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    if set(weights) != {1.0}:
        raise RecipeError("mergekit cannot scale experts before SLERP.", key="weight")
    t = float(values["t"])
    return Foreign(method="nuslerp", weights=(1 - t, t))


def _nuslerp(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    columns = values["column_wise"]
    flat = {
        "nuslerp_flatten": not (values["row_wise"] or columns),
        "nuslerp_row_wise": columns,
    }
    return Foreign(method="nuslerp", parameters=flat, weights=weights)


def _multislerp(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    parameters = {"normalize_weights": values["normalize"]}
    if values["points"] == "changes":
        return Foreign(method="multislerp", parameters=parameters, weights=weights)
    return Foreign(
        method="multislerp",
        parameters=parameters,
        weights=weights,
        with_base=False,
        base_weight=float(values["base_weight"]) or None,
    )


def _karcher(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    if set(weights) != {1.0}:
        raise RecipeError("mergekit's karcher has no weights.", key="weight")
    if values["points"] == "changes" or values["base_weight"] not in (0, 1):
        raise RecipeError("mergekit's karcher is of whole weights that count alike.", key="points")
    return Foreign(
        method="karcher",
        parameters={"max_iter": values["iterations"], "tol": values["tolerance"]},
        with_base=values["base_weight"] == 1,
    )


def _model_stock(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    if len(set(weights)) != 1:
        raise RecipeError("mergekit's model_stock counts every expert alike.", key="weight")
    note = (
        "mergekit moves away from experts with opposite changes, and counts experts that do not "
        "change a tensor; here the base is kept, and these experts are left out."
    )
    rows: dict[str, ParameterValue] = {"filter_wise": True} if values["filter_wise"] else {}
    return Foreign(method="model_stock", parameters=rows, notes=(note,))


def _sce(values: Parameters, weights: tuple[float, ...]) -> Foreign:
    if set(weights) != {1.0} or values["scaling"] != 1.0:
        raise RecipeError("mergekit's sce has neither weights nor a scaling.", key="weight")
    notes: tuple[str, ...] = ()
    if values["alike_below"] != 1e-6:
        notes = ("mergekit counts experts alike where mean squares sum to less than 1e-6.",)
    return Foreign(method="sce", parameters={"select_topk": values["select_topk"]}, notes=notes)


_METHODS: Final[Mapping[str, Callable[[Parameters, tuple[float, ...]], Foreign]]] = (
    MappingProxyType(
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
            "della_linear": _della_linear,
            "breadcrumbs_ties": _breadcrumbs_ties,
            "ram": _unweighted("ram", "epsilon"),
            "ramplus_tl": _unweighted("ramplus_tl", "epsilon", "r", "alpha"),
            "nearswap": _unweighted("nearswap", "t"),
            "arcee_fusion": _arcee_fusion,
            "base_slerp": _base_slerp,
        }
    )
)
