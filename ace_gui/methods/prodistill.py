"""ProDistill: a coefficient of every entry, learned one block after another from hidden states.

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
    scaling_parameter,
)
from ace_gui.methods.shared.learned import AllSteps, merge_of_learned
from ace_gui.methods.shared.learning import Gates, Learning, PartInputs, Values
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings


@dataclass(frozen=True, kw_only=True)
class ProdistillParameters(AllSteps):
    """Parameters of the training. With 0 ``epochs``, the coefficients stay at their start."""

    epochs: int = parameter(
        100,
        label="Epochs",
        help="Passes over the inputs for each block. 0 keeps the initial coefficients.",
        low=0,
        high=10_000,
    )
    learning_rate: float = learning_rate_parameter(0.1, help="Learning rate of Adam.", high=10.0)
    batch: int = parameter(
        16, label="Batch", help="Number of inputs per task in each step.", low=1, high=1024
    )
    inputs: int = parameter(
        64,
        label="Inputs",
        help="Most inputs of each task. The hidden states of all of them are in memory, twice.",
        low=1,
        high=100_000,
    )
    scaling: float = scaling_parameter(
        0.3, symbol="λ₀", help="Initial value of every coefficient, kept outside of the blocks."
    )


def _start(deltas: Deltas, parameters: ProdistillParameters, _: Findings | None) -> Values:
    shape = (len(deltas), *deltas[0].shape)
    return {"entries": torch.full(shape, parameters.scaling)}


def _part(t: int, part_inputs: PartInputs, gates: Gates) -> Tensor:
    return part_inputs["delta"] * gates["entries"][t]


def _working_memory(shape: tuple[int, ...], experts: int) -> float:
    """Coefficients of all experts, and what any method holds of a tensor."""
    return (8 + experts) * math.prod(shape)


LEARNING = Learning[ProdistillParameters](
    start=_start,
    part=_part,
    numbers=lambda shape, experts: experts * math.prod(shape),
    figures=lambda gates: gates["entries"].flatten(1).mean(dim=1),
    curve="mean coefficient λ",
    inputs=lambda parameters: parameters.inputs,
    by_block=True,
)


PRODISTILL = MergeMethod(
    name="prodistill",
    title="ProDistill",
    summary=(
        "Learns a coefficient of every entry of every expert, one block after another, until each "
        "block gives what the expert's gives for inputs of its task. Needs no labels."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ λₜ ⊙ wₜ ΔWₜ,  λ of each expert and entry\n"
        "coefficients: λ = arg min Σₜ Σ_x∼t ‖f(h) − fₜ(hₜ)‖²,  by Adam, block by block\n"
        "inputs of a block: h after the merged blocks before, hₜ after those of expert t"
    ),
    citation=(
        "J. Xu et al., Scalable Model Merging with Progressive Layer-wise Distillation, ICML 2025, "
        "arXiv:2502.12706"
    ),
    parameters=ProdistillParameters,
    merge=merge_of_learned(LEARNING),
    kind=Kind.TENSOR,
    least=2,
    needs=lambda _: Need.ANSWERS,
    learning=LEARNING,
    working_memory=_working_memory,
)
