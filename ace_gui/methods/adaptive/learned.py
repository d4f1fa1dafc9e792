"""What methods that learn share: how they learn, and the merge with what was learned.

T experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import torch

from ace_gui.methods.method import Context, Deltas, Merged, Weights
from ace_gui.methods.shared.census import finished, task_vector
from ace_gui.methods.shared.kit import (
    learning_rate_parameter,
    parameter,
    patience_parameter,
    steps_parameter,
)
from ace_gui.methods.shared.learning import Learning, Values, scales
from ace_gui.methods.shared.measured import required_values
from ace_gui.methods.shared.survey import Findings
from ace_gui.methods.shared.weighted_experts import Computed, WeightedExperts


@dataclass(frozen=True, kw_only=True)
class LearningParameters:
    """Parameters of the search for the values. ``steps`` 0 keeps the initial values."""

    steps: int = steps_parameter(1000, help="Number of training steps. 0 keeps the initial values.")
    learning_rate: float = learning_rate_parameter(1e-3, help="Learning rate of Adam.", high=10.0)
    batch: int = parameter(
        16, label="Batch", help="Number of inputs per task in each step.", low=1, high=1024
    )
    patience: int = patience_parameter()


def factors_of(
    learning: Learning[Any],
    deltas: Deltas,
    weights: Weights,
    parameters: Any,
    findings: Findings | None,
) -> Iterator[Values]:
    """What the parts are made of, expert by expert. Raises MethodError if not finite."""
    experts = WeightedExperts(deltas, weights)
    if learning.factors is not None and learning.prepares(parameters):
        yield from learning.factors(
            Computed(len(experts), partial(task_vector, experts)), weights, parameters, findings
        )
        return
    for t in range(len(experts)):
        yield {"delta": task_vector(experts, t)}


def merged_as_learned(
    deltas: Deltas,
    weights: Weights,
    parameters: Any,
    *,
    learning: Learning[Any],
    **context: Unpack[Context],
) -> Merged:
    """m ⊙ Σ_t w_t λ_t part(t) with the values that were learned, any shape, float32.

    Raises MethodError for a task vector that is not finite, and without what was learned.
    """
    experts = WeightedExperts(deltas, weights)
    values = required_values(context.get("measured"), len(experts))
    gates = learning.gates(values, parameters, None)
    total = torch.zeros(())
    each = factors_of(learning, deltas, weights, parameters, context.get("findings"))
    for t, (factors, scale) in enumerate(zip(each, scales(weights, gates), strict=True)):
        found = learning.part(t, factors, gates)
        if t == 0:
            total = torch.zeros_like(found, dtype=torch.float64)
        total.add_(found, alpha=scale)
        del factors, found
    return finished(total.mul_(gates["mask"]) if "mask" in gates else total)
