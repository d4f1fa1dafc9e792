"""A recipe as a mergekit YAML file for the same merge, if mergekit has the method.

Remaining differences are listed in the file's head. Settings that cannot be expressed are refused
by name. The definitions are those of mergekit 0.1.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import yaml

from ace_gui.errors import RecipeError
from ace_gui.recipe.file_schema import placed
from ace_gui.recipe.mergekit.methods import Foreign, Parameters, written
from ace_gui.recipe.mergekit.reading import base_config
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


def dump_mergekit(recipe: Recipe, values: Parameters, folder: Path) -> str:
    """The recipe as mergekit's YAML, model paths relative to ``folder``.

    ``values``: every parameter of the method. Raises RecipeError for a method that mergekit has
    not, and for what it cannot express.
    """
    foreign = written(recipe.merge_method, values, recipe.weights)
    _refuse_others(recipe)
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
    foreign = written(recipe.merge_method, values, recipe.weights)
    if rule.weights and foreign.weights != recipe.weights:
        raise RecipeError(
            f"{key}: mergekit's {foreign.method} has no such weights.", key=f"{key}.weights"
        )
    changes = {**values, **rule.parameters}
    changed = written(recipe.merge_method, changes, recipe.weights).parameters
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
