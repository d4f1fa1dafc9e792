"""The names of runs: the first by its method, the others by what differs from the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.formatting import counted, symbol_of
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.text import value_text
from ace_gui.recipe import Recipe
from ace_gui.recipe.recommended import TITLE, is_recommended
from ace_gui.recipe.values import Choices, ParameterValue

MOST: Final = 3
"""Differences in a name; of more, the number is named."""


def run_titles(runs: Sequence[MergeRun], methods: Sequence[MethodInfo]) -> tuple[str, ...]:
    """A distinct title for each run. ``runs``: oldest first."""
    titles = [_title(run, runs[0], methods) for run in runs]
    repeated = Counter(titles)
    counts: Counter[str] = Counter()
    distinct = []
    for title in titles:
        counts[title] += 1
        distinct.append(f"{title} ({counts[title]})" if repeated[title] > 1 else title)
    return tuple(distinct)


def _title(run: MergeRun, first: MergeRun, methods: Sequence[MethodInfo]) -> str:
    if run.name or run is first:
        return run_title(run, methods)
    if run.recipe.merge_method != first.recipe.merge_method:
        return run_title(run, methods)
    if is_recommended(run.recipe) and not is_recommended(first.recipe):
        return TITLE
    if _values(run).get("variant") != _values(first).get("variant"):
        return run_title(run, methods)
    return _named(list(_differences(run, first, methods))) or run_title(run, methods)


def _named(differences: Sequence[str]) -> str:
    more = len(differences) - MOST
    listed = ", ".join(differences[:MOST])
    if more > 0:
        return f"{listed} and {more} more"
    return listed


def run_title(run: MergeRun, methods: Sequence[MethodInfo]) -> str:
    """A run's own name, or its method with the user's parameters."""
    return run.name or ", ".join(title_parts(run, methods))


def title_parts(run: MergeRun, methods: Sequence[MethodInfo]) -> list[str]:
    """The parts of a run's title: the method, then what the user has set."""
    recipe = run.recipe
    method = _method(recipe, methods)
    labels = _labels(method)
    variant = _values(run).get("variant")
    if is_recommended(recipe):
        parts = [TITLE]
    else:
        parts = [recipe.merge_method if method is None else method.label(variant)]
        for name, value in recipe.parameters.items():
            if name != "variant":
                parts.append(f"{labels.get(name, name)} {value_text(value)}")
    if recipe.overrides:
        count = len(recipe.overrides)
        parts.append(counted(count, "override", "overrides"))
    if recipe.scope != "default":
        parts.append(recipe.scope)
    return parts


def _method(recipe: Recipe, methods: Sequence[MethodInfo]) -> MethodInfo | None:
    return next((method for method in methods if method.name == recipe.merge_method), None)


def _labels(method: MethodInfo | None) -> dict[str, str]:
    """The symbols of a method's parameters, or else their labels as within a sentence."""
    labels = {}
    for field in () if method is None else method.fields:
        labels[field.name] = symbol_of(field.label) or field.label[:1].lower() + field.label[1:]
    return labels


# What differs


def _differences(run: MergeRun, first: MergeRun, methods: Sequence[MethodInfo]) -> Iterator[str]:
    """What a run of the same method has set otherwise than the first."""
    labels = _labels(_method(run.recipe, methods))
    values = _values(run)
    earlier = _values(first)
    for name in dict.fromkeys((*values, *earlier)):
        if values.get(name) != earlier.get(name) and name in values:
            yield f"{labels.get(name, name)} {value_text(values[name])}"
    yield from _of_models(run.recipe, first.recipe)
    for field in fields(Choices):
        if field.name not in ("tasks", "overrides"):
            value = getattr(run.recipe, field.name)
            yield from _of_choice(field.name, value, getattr(first.recipe, field.name))
    if run.recipe.overrides != first.recipe.overrides:
        count = len(run.recipe.overrides)
        yield counted(count, "override", "overrides") if count else "no overrides"


def _values(run: MergeRun) -> Mapping[str, ParameterValue]:
    """The resolved parameters of a run; those of its recipe if no others are recorded."""
    return {**run.parameters, **run.recipe.parameters}


def _of_models(recipe: Recipe, first: Recipe) -> Iterator[str]:
    weights = dict(zip(recipe.expert_names, recipe.weights, strict=True))
    earlier = dict(zip(first.expert_names, first.weights, strict=True))
    for name in weights.keys() - earlier.keys():
        yield f"with {name}"
    for name in earlier.keys() - weights.keys():
        yield f"without {name}"
    for name, weight in weights.items():
        if name in earlier and weight != earlier[name]:
            yield f"{name} weighs {value_text(weight)}"


def _of_choice(name: str, value: Any, earlier: Any) -> Iterator[str]:
    """The difference of one choice, part by part if it has parts."""
    if value == earlier:
        return
    title = name.replace("_", " ")
    if value is None or value is False or value == "":
        yield f"no {title}"
    elif is_dataclass(value) and type(value) is type(earlier):
        for field in fields(value):
            part = getattr(value, field.name)
            yield from _of_choice(field.name, part, getattr(earlier, field.name))
    elif isinstance(value, Enum):
        yield f"{title}: {value.value}"
    elif isinstance(value, int | float | str):
        yield f"{title} {value_text(value)}"
    else:
        yield title
