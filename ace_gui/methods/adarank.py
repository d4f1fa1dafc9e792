"""AdaRank: which singular directions of each expert's change are kept, learned from inputs.

T experts, O outputs, I inputs, R = min(O, I) directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Deltas, Weights
from ace_gui.methods.shared.kit import (
    parameter,
    scaling_parameter,
    share_parameter,
    steps_parameter,
)
from ace_gui.methods.shared.learned import LearningParameters, merge_of_learned
from ace_gui.methods.shared.learning import Gates, Learning, PartInputs, Values
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings

BEGINNING: Final = 0.1
"""Initial logit of a kept direction; its negative is that of a dropped one."""


@dataclass(frozen=True, kw_only=True)
class AdaRankParameters(LearningParameters):
    """``scaling``: initial value of every λ. ``ratio``: share of directions kept at the start."""

    steps: int = steps_parameter(
        1000,
        help="Number of training steps. 0 keeps the initial values.",
        differs=(
            "The paper takes 10 000 steps. Its code for language models takes 5 000 at a rate "
            "of 5e-5. With a calibration set, answers stop improving long before."
        ),
    )
    scaling: float = scaling_parameter(0.3, symbol="λ₀", help="Initial value of every coefficient.")
    ratio: float = share_parameter(
        1.0,
        label="Share kept at first",
        help=(
            "Share of each expert's singular directions kept at the start, the strongest first. "
            "Their number is rounded up."
        ),
        differs=(
            "As published, except that embeddings also have directions here. The published code "
            "chooses only among those of attention and MLP matrices."
        ),
        above_zero=False,
    )
    temperature: float = parameter(
        10.0,
        label="Temperature",
        help=(
            "Temperature of the sigmoid that replaces the choice to keep or drop a direction in "
            "the gradients."
        ),
        low=0.0,
        high=1000.0,
        low_open=True,
        logarithmic=True,
    )


class _Step(torch.autograd.Function):
    """1 if the logit is above 0, else 0; its gradient is that of σ(logit / temperature)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, temperature: float) -> Tensor:
        ctx.save_for_backward(logits)
        ctx.temperature = temperature
        return (logits > 0).to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (logits,) = ctx.saved_tensors
        share = torch.sigmoid(logits / ctx.temperature)
        return gradient * share * (1 - share) / ctx.temperature, None


def _start(deltas: Deltas, parameters: AdaRankParameters, _findings: Findings | None) -> Values:
    coefficient_T = torch.full((len(deltas),), parameters.scaling)
    shape = deltas[0].shape
    if len(shape) != 2:
        return {"coefficient": coefficient_T}
    logits_TR = torch.full((len(deltas), min(shape)), BEGINNING)
    logits_TR[:, ceil(parameters.ratio * min(shape) - 1e-9) :] = -BEGINNING
    return {"coefficient": coefficient_T, "logits": logits_TR}


def _gates(
    values: Values, parameters: AdaRankParameters, _generator: torch.Generator | None
) -> Gates:
    gates = {"coefficient": values["coefficient"]}
    if "logits" in values:
        gates["kept"] = _Step.apply(values["logits"], parameters.temperature)  # type: ignore[no-untyped-call]
    return gates


def _part_inputs(
    deltas: Deltas, _weights: Weights, _parameters: AdaRankParameters, _findings: Findings | None
) -> Iterator[PartInputs]:
    """ΔW_t = left_OR @ right_RI; the singular values are in the left one."""
    for t in range(len(deltas)):
        delta = deltas[t]
        if delta.ndim != 2:
            yield {"delta": delta}
            continue
        left_OR, value_R, right_RI = torch.linalg.svd(delta.to(torch.float64), full_matrices=False)
        left_OR = left_OR.mul_(value_R).to(delta.dtype)
        yield {"left": left_OR.contiguous(), "right": right_RI.to(delta.dtype).contiguous()}


def _part(t: int, part_inputs: PartInputs, gates: Gates) -> Tensor:
    if "delta" in part_inputs:
        return part_inputs["delta"]
    kept_R = gates["kept"][t].to(part_inputs["left"].dtype)
    return (part_inputs["left"] * kept_R) @ part_inputs["right"]


def _figures(gates: Gates) -> Tensor:
    """The share of kept directions; empty for a tensor without directions."""
    if "kept" not in gates or not gates["kept"].numel():
        return gates["coefficient"][:0]
    return gates["kept"].mean(dim=1)


LEARNING = Learning[AdaRankParameters](
    start=_start,
    gates=_gates,
    part_inputs=_part_inputs,
    part=_part,
    figures=_figures,
    curve="share of directions kept",
    numbers=lambda shape, experts: experts * (1 + min(shape, default=0)),
)


def working_memory(shape: tuple[int, ...], _experts: int) -> float:
    """The largest number of float64 numbers at once: one expert's decomposition and factors."""
    if len(shape) != 2:
        numbers = 1.0
        for size in shape:
            numbers *= size
        return 7 * numbers
    outputs, inputs = shape
    rank = min(shape)
    return 5 * outputs * inputs + 3 * rank * (outputs + inputs)


ADARANK = MergeMethod(
    name="adarank",
    title="AdaRank",
    summary=(
        "Learns which singular directions of each expert's change to keep, and a "
        "coefficient per expert and tensor, by minimising the entropy of the merged model's "
        "answers. Needs no labels."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ λₜ wₜ Uₜ diag(Bₜ ⊙ sₜ) Vₜᵀ,  ΔWₜ = Uₜ diag(sₜ) Vₜᵀ\n"
        "singular values kept: Bₜ = 1 where a logit is over 0, else 0;  λ and logits "
        "minimise the entropy of answers"
    ),
    citation=(
        "C. Lee, J. Choi, C. Lee, D. Kim, S. Hong, AdaRank: Adaptive Rank Pruning for Enhanced "
        "Model Merging, 2025, arXiv:2503.22178"
    ),
    parameters=AdaRankParameters,
    merge=merge_of_learned(LEARNING),
    kind=Kind.TENSOR,
    least=2,
    needs=lambda _: Need.ENTROPY,
    learning=LEARNING,
    working_memory=working_memory,
)
