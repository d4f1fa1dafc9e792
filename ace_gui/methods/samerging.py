"""SAMerging: coefficients of task vectors, learned from the experts' answers.

T experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Deltas
from ace_gui.methods.shared.kit import (
    learning_rate_parameter,
    parameter,
    per_entry,
    scaling_parameter,
    steps_parameter,
)
from ace_gui.methods.shared.learned import AllSteps, merge_of_learned
from ace_gui.methods.shared.learning import Learning, Values
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings


@dataclass(frozen=True, kw_only=True)
class SamergingParameters(AllSteps):
    """Parameters of the training. With 0 ``steps``, the coefficients stay at their start."""

    steps: int = steps_parameter(
        100,
        help="Number of training steps, each with two passes. 0 keeps the initial coefficients.",
    )
    learning_rate: float = learning_rate_parameter(1e-3, help="Learning rate of Adam.", high=10.0)
    batch: int = parameter(
        16, label="Batch", help="Number of inputs per task in each step.", low=1, high=1024
    )
    scaling: float = scaling_parameter(
        0.3,
        symbol="λ₀",
        help="Initial value of every coefficient.",
        presets=(("published code", 0.0),),
    )
    radius: float = parameter(
        0.07,
        label="Radius ρ",
        help="How far along the gradient the coefficients are moved before each step's gradient "
        "is taken. 0: plain steps.",
        low=0.0,
        high=10.0,
        logarithmic=True,
    )
    temperature: float = parameter(
        2.0,
        label="Temperature",
        help="By which the logits of expert and merge are divided before they are compared.",
        low=0.1,
        high=100.0,
        logarithmic=True,
    )


def _start(deltas: Deltas, parameters: SamergingParameters, _: Findings | None) -> Values:
    return {"coefficient": torch.full((len(deltas),), parameters.scaling)}


LEARNING = Learning[SamergingParameters](
    start=_start,
    figures=lambda gates: gates["coefficient"],
    curve="mean coefficient λ",
    radius=lambda parameters: parameters.radius,
    temperature=lambda parameters: parameters.temperature,
)


SAMERGING = MergeMethod(
    name="samerging",
    title="SAMerging",
    summary=(
        "Learns how much of every expert goes into each layer from the experts' own answers to "
        "inputs of their tasks, in sharpness-aware steps. Needs no labels."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ λₜ wₜ ΔWₜ,  λ of each expert and tensor\n"
        "coefficients: λ = arg min Σₜ E_x∼t KL(pₜ(y|x) ‖ p(y|x)),  by Adam\n"
        "each step: the gradient at λ + ρ g / ‖g‖,  g: gradient at λ"
    ),
    citation=(
        "S. A. Dalili, M. Mahdavi, Model Merging via Multi-Teacher Knowledge Distillation, 2025, "
        "arXiv:2512.21288"
    ),
    parameters=SamergingParameters,
    merge=merge_of_learned(LEARNING),
    kind=Kind.TENSOR,
    least=2,
    needs=lambda _: Need.ANSWERS,
    learning=LEARNING,
    working_memory=per_entry(7),
)
