"""Expert Merging: coefficients of task vectors, learned from the experts' answers and states.

T experts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

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
from ace_gui.methods.shared.learning import Gates, Learning, Values
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings

LEAST_START = 1e-6
"""Distance from 0 and from 1 of an initial coefficient, whose logit is then finite."""


@dataclass(frozen=True, kw_only=True)
class ExpertMergingParameters(AllSteps):
    """Parameters of the training. With 0 ``steps``, the coefficients stay at their start."""

    steps: int = steps_parameter(
        60, help="Number of training steps. 0 keeps the initial coefficients."
    )
    learning_rate: float = learning_rate_parameter(
        0.5, help="Learning rate of Adam, on the logits of the coefficients.", high=10.0
    )
    batch: int = parameter(
        8, label="Batch", help="Number of inputs per task in each step.", low=1, high=1024
    )
    inputs: int = parameter(
        10,
        label="Inputs",
        help="Most inputs of each task. The experts' hidden states for all of them are in memory.",
        low=1,
        high=256,
    )
    scaling: float = scaling_parameter(
        0.1, symbol="λ₀", help="Initial value of every coefficient, from 0 to 1."
    )
    hidden: float = parameter(
        1.0,
        label="Hidden states",
        help="Weight of the squared difference of hidden states after the middle block. 0: only "
        "answers are compared.",
        low=0.0,
        high=1e6,
    )
    pull: float = parameter(
        5.0,
        label="Pull to the start",
        help="Weight of the coefficients' mean distance from their initial value.",
        low=0.0,
        high=1e6,
    )


def _start(deltas: Deltas, parameters: ExpertMergingParameters, _: Findings | None) -> Values:
    return {"logits": _logits(len(deltas), parameters)}


def _logits(count: int, parameters: ExpertMergingParameters) -> Tensor:
    share = min(max(parameters.scaling, LEAST_START), 1 - LEAST_START)
    return torch.full((count,), math.log(share / (1 - share)))


def _gates(
    values: Values, _parameters: ExpertMergingParameters, _generator: torch.Generator | None
) -> Gates:
    return {"coefficient": torch.sigmoid(values["logits"])}


def _penalty(gates: Gates, parameters: ExpertMergingParameters, tensors: int) -> Tensor:
    """The pull of one of so many tensors. Tasks' losses are added here, and averaged in the paper.

    So the pull is multiplied by their number.
    """
    coefficients_T = gates["coefficient"]
    # Through the same operations, so that their difference is 0 at the start.
    starts_T = torch.sigmoid(_logits(len(coefficients_T), parameters).to(coefficients_T))
    distance = (coefficients_T - starts_T).abs().sum()
    return parameters.pull * len(coefficients_T) / tensors * distance


LEARNING = Learning[ExpertMergingParameters](
    start=_start,
    gates=_gates,
    penalty=_penalty,
    figures=lambda gates: gates["coefficient"],
    curve="mean coefficient λ",
    hidden_weight=lambda parameters: parameters.hidden,
    inputs=lambda parameters: parameters.inputs,
)


EXPERT_MERGING = MergeMethod(
    name="expert_merging",
    title="Expert Merging",
    summary=(
        "Learns how much of every expert goes into each layer from a few inputs of its task: "
        "answers and hidden states come near the expert's own. Needs no labels."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ λₜ wₜ ΔWₜ,  λ = σ(a) of each expert and tensor\n"
        "coefficients: a = arg min Σₜ E_x∼t [KL(pₜ(y|x) ‖ p(y|x)) + μ E (h(x) − hₜ(x))²] "
        "+ β T E_layers Σₜ |λₜ − λ₀|\n"
        "hidden states: h after the middle block;  by Adam"
    ),
    citation=(
        "D. Zhang et al., Expert Merging: Model Merging with Unsupervised Expert Alignment and "
        "Importance-Guided Layer Chunking, ICLR 2026, arXiv:2509.25712"
    ),
    parameters=ExpertMergingParameters,
    merge=merge_of_learned(LEARNING),
    kind=Kind.TENSOR,
    least=2,
    needs=lambda _: Need.ANSWERS,
    learning=LEARNING,
    working_memory=per_entry(7),
)
