"""Whether the experts were fine-tuned from this base, judged by their tensors.

Plain arithmetic on the statistics of the layers, so that the window can do it itself.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from ace_gui.engine.contract.checks import Check, Verdict
from ace_gui.engine.contract.figures.findings import LayerStatistics
from ace_gui.engine.contract.plan import Plan

LARGE_CHANGE: Final = 0.5
"""‖ΔW‖/‖W₀‖ over a model that no fine-tune reaches; unrelated models of one size have about √2."""

OUTLYING: Final = 5.0
"""A change this many times the median change counts as an outlier."""

_TITLE: Final = "Distance from the base"


def relative_changes(
    layers: Iterable[LayerStatistics], weights: Mapping[str, float]
) -> dict[str, float]:
    """‖ΔW_t‖/‖W₀‖ of every expert over all its layers, without its weight in the recipe.

    Experts of weight zero are left out, as their statistics do not show their change. Experts
    without any known layer are left out, too. Infinite if the base is zero in all layers and the
    expert is not.
    """
    changed: dict[str, float] = defaultdict(float)
    base: dict[str, float] = defaultdict(float)
    for layer in layers:
        if layer.base_energy is None:
            continue
        for name, energy in layer.energies.items():
            if weights.get(name):
                changed[name] += energy / weights[name] ** 2
                base[name] += layer.base_energy
    return {name: _ratio(changed[name], base[name]) for name in weights if name in base}


def plan_changes(plan: Plan, statistics: Mapping[str, LayerStatistics]) -> dict[str, float]:
    """``relative_changes`` over the layers in which the experts have the recipe's weights."""
    weights = plan.recipe.weights
    own = {row.name for row in plan.rows if row.override and row.override.weights != weights}
    layers = (layer for name, layer in statistics.items() if name not in own)
    return relative_changes(layers, dict(zip(plan.recipe.expert_names, weights, strict=True)))


def fit_checks(changes: Mapping[str, float]) -> tuple[Check, ...]:
    """The distance of each expert from the base, from ``relative_changes``.

    A warning for each outlier, or one line if there is none. No checks without experts.
    """
    if not changes:
        return ()
    fine = Check(
        _TITLE,
        f"Fine-tunes of this base: ‖ΔW‖ is {_range(changes)} of ‖W‖.",
        details="\n".join(f"{name}: {change:.2%}" for name, change in changes.items()),
    )
    return _worries(changes) or (fine,)


def far_experts(changes: Mapping[str, float]) -> tuple[Check, ...]:
    """A warning for each expert that is too far from the base; ``changes`` may be estimates."""
    return _worries({name: change for name, change in changes.items() if change > 0})


def _worries(changes: Mapping[str, float]) -> tuple[Check, ...]:
    middle = statistics.median(changes.values()) if changes else 0.0
    found = (_worry(name, change, middle) for name, change in changes.items())
    return tuple(check for check in found if check is not None)


def _worry(name: str, change: float, middle: float) -> Check | None:
    if change == 0:
        sentence = "Equal to the base in every tensor that is merged; remove it from the list."
    elif change > LARGE_CHANGE:
        sentence = (
            f"Its task vector has {_share(change)}, too far for a fine-tune; "
            "probably it was tuned from another base."
        )
    elif change > OUTLYING * middle:
        sentence = (
            f"Its task vector has {_share(change)}, the median expert's "
            f"{_percent(middle)}; check that it was tuned from this base, or give it less weight."
        )
    else:
        return None
    return Check(_TITLE, sentence, Verdict.WARNING, subject=name)


def _range(changes: Mapping[str, float]) -> str:
    low, high = _percent(min(changes.values())), _percent(max(changes.values()))
    return low if low == high else f"from {low} to {high}"


def _percent(change: float) -> str:
    return f"{100 * change:.2g} %"


def _share(change: float) -> str:
    if change < 1:
        return f"{_percent(change)} of the base's norm"
    return f"{change:.2g} times the base's norm"


def _ratio(change: float, base: float) -> float:
    if base > 0:
        return math.sqrt(change / base)
    return math.inf if change > 0 else 0.0
