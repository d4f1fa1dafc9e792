"""What all learning methods share: their parameters, and the merge with the learned values.

T experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ace_gui.methods.shared.experts import (
    Computed,
    Context,
    Experts,
    Merged,
    MergeFunction,
    on_experts,
)
from ace_gui.methods.shared.kit import (
    learning_rate_parameter,
    parameter,
    patience_parameter,
    steps_parameter,
)
from ace_gui.methods.shared.learning import Learning, PartInputs, scales
from ace_gui.methods.shared.measured import required_values
from ace_gui.methods.shared.survey import Findings


@dataclass(frozen=True, kw_only=True)
class LearningParameters:
    """Parameters of the training. With 0 ``steps``, the values stay at their start."""

    steps: int = steps_parameter(1000, help="Number of training steps. 0 keeps the initial values.")
    learning_rate: float = learning_rate_parameter(1e-3, help="Learning rate of Adam.", high=10.0)
    batch: int = parameter(
        16, label="Batch", help="Number of inputs per task in each step.", low=1, high=1024
    )
    patience: int = patience_parameter()


class AllSteps:
    """Parameters of methods that take all steps, as their loss is the distance from the experts."""

    @property
    def patience(self) -> int:
        """0: all steps are taken."""
        return 0


def all_part_inputs(
    learning: Learning[Any], experts: Experts, parameters: Any, findings: Findings | None
) -> Iterator[PartInputs]:
    """The inputs of each expert's ``learning.part``: by default only ΔW_t, as "delta".

    Raises MethodError for NaN or Inf.
    """
    deltas = Computed(len(experts), experts.delta)
    if learning.part_inputs is not None and learning.needs_part_inputs(parameters):
        return learning.part_inputs(deltas, experts.weights, parameters, findings)
    return ({"delta": delta} for delta in deltas)


def merge_of_learned(learning: Learning[Any]) -> MergeFunction[Any]:
    """m ⊙ Σ_t w_t λ_t part(t) with the learned values, any shape, float32.

    Raises MethodError for a task vector that is not finite, and if nothing was learned.
    """

    @on_experts
    def merged(experts: Experts, parameters: Any, context: Context) -> Merged:
        values = required_values(context.measured, len(experts))
        gates = learning.gates(values, parameters, None)
        part_inputs = all_part_inputs(learning, experts, parameters, context.findings)
        total = torch.zeros(())  # takes its shape from the first part
        for t, scale in enumerate(scales(experts.weights, gates)):
            # No variable holds the inputs, so they are freed before the next ones are made.
            part = learning.part(t, next(part_inputs), gates)
            if t == 0:
                total = torch.zeros_like(part, dtype=torch.float64)
            total.add_(part, alpha=scale)
            del part
        if "mask" in gates:
            total.mul_(gates["mask"])
        return Merged.of(total)

    return merged
