"""Names of input changes for the Undo and Redo menu."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ace_gui.formatting import counted
from ace_gui.gui.state.chosen.inputs import Expert, Inputs
from ace_gui.recipe.values import model_name


def change_text(
    before: Inputs, after: Inputs, titles: Mapping[str, str], labels: Mapping[str, str]
) -> str:
    """A short text that follows Undo or Redo. ``titles`` of methods, ``labels`` of parameters."""
    kinds: tuple[Callable[[], str], ...] = (
        lambda: "change of the base model" if before.base != after.base else "",
        lambda: _experts(before, after),
        lambda: _method(before, after, titles),
        lambda: _parameters(before, after, labels),
        lambda: "change of overrides" if before.overrides != after.overrides else "",
        lambda: "change of tasks" if before.tasks != after.tasks else "",
        lambda: "change of scope" if before.scope != after.scope else "",
        lambda: "change of later steps" if before.after != after.after else "",
    )
    return next((text for kind in kinds if (text := kind())), "change of options")


def _experts(before: Inputs, after: Inputs) -> str:
    then, now = tuple(each.experts for each in (before, after))
    if then == now:
        return ""
    old, new = {each.path for each in then}, {each.path for each in now}
    if len(now) > len(then):
        return f"adding {_named([each for each in now if each.path not in old])}"
    if len(now) < len(then):
        return f"removing {_named([each for each in then if each.path not in new])}"
    changed = [(a, b) for a, b in zip(then, now, strict=True) if a != b]
    one, other = changed[0]
    if one.path != other.path:
        return "change of experts"
    if one.name != other.name:
        return f"renaming {_named([one])}"
    return f"weight of {_named([other])}"


def _named(experts: list[Expert]) -> str:
    if len(experts) == 1:
        return experts[0].name or model_name(experts[0].path)
    return counted(len(experts), "expert", "experts")


def _method(before: Inputs, after: Inputs, titles: Mapping[str, str]) -> str:
    if before.method == after.method:
        return ""
    return f"change to {titles.get(after.method, after.method)}"


def _parameters(before: Inputs, after: Inputs, labels: Mapping[str, str]) -> str:
    then, now = before.touched, after.touched
    names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    if len(names) == 1:
        return f"change of {labels.get(names[0], names[0])}"
    return "change of parameters" if names else ""
