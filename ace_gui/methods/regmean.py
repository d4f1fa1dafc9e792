"""RegMean: the matrix whose outputs are nearest to every expert's on that expert's own inputs.

T experts, O outputs, I inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.formatting import shape_text
from ace_gui.linalg.passes import energy
from ace_gui.linalg.products import add_product_, widest_block
from ace_gui.linalg.solve import right_divide_
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.experts import (
    Census,
    Context,
    Experts,
    Merged,
    on_experts,
    require_matrix,
    require_mean,
)
from ace_gui.methods.shared.kit import share_parameter
from ace_gui.methods.shared.measured import Need, required_measured


@dataclass(frozen=True, kw_only=True)
class RegMeanParameters:
    """``alpha``: factor on off-diagonal entries. ``ridge``: a share of the mean square."""

    alpha: float = share_parameter(
        0.9,
        label="Off-diagonal share α",
        help=(
            "Factor on the off-diagonal entries of each Gram matrix. 0 treats every input feature "
            "separately."
        ),
        presets=(("CLIP", 0.95), ("GPT-2", 0.6)),
        above_zero=False,
    )
    ridge: float = share_parameter(
        1e-6,
        label="Ridge",
        help=(
            "Added to the diagonals, as a share of their mean. It decides along directions in "
            "which no expert had inputs."
        ),
        logarithmic=True,
    )


@on_experts
def regmean(experts: Experts, parameters: RegMeanParameters, context: Context) -> Merged:
    """(Σ_t w_t ΔW_t G_t) (Σ_t w_t G_t)⁻¹, float32; G_t: the mean of x xᵀ, off the diagonal times α.

    The weights say how much each expert's inputs count. Every G_t includes the ridge, so that
    directions in which no expert had inputs get the mean. Reads each expert once and each G_t
    twice, and computes in float64. Raises MethodError for tensors that are not matrices or not
    finite, for weights that sum to zero, and without measured statistics.
    """
    grams = required_measured(context.measured, len(experts)).by_expert
    ridge = parameters.ridge * (_mean_square(grams) or 1.0)
    require_mean(experts.weights)
    total_1II = torch.zeros(())
    value_1OI = torch.zeros(())
    energies = []
    for t, weight in enumerate(experts.weights):
        delta_OI = experts.delta(t)
        require_matrix(delta_OI.shape, t)
        energies.append(weight * weight * energy(delta_OI))
        gram_II = _gram(grams[t], parameters.alpha, ridge, delta_OI.shape[1]).mul_(weight)
        if t == 0:
            value_1OI = torch.zeros_like(delta_OI, dtype=torch.float64)[None]
            total_1II = torch.zeros_like(gram_II)[None]
        add_product_(value_1OI[0], delta_OI.to(torch.float64), gram_II)
        total_1II[0] += gram_II
        del delta_OI, gram_II
    (cut,) = right_divide_(total_1II, value_1OI)
    diagnostics = Census.of(energies).diagnostics(_notes(cut))
    return Merged.of(value_1OI[0], diagnostics=diagnostics)


def _mean_square(grams: Sequence[Tensor]) -> float:
    """Mean square of an input feature, over features and experts."""
    means = [float(gram.diagonal().mean(dtype=torch.float64)) for gram in grams]
    return math.fsum(means) / len(means)


def _gram(gram_II: Tensor, alpha: float, ridge: float, inputs: int) -> Tensor:
    if gram_II.shape != (inputs, inputs):
        raise MethodError(
            f"The Gram matrix of the inputs is {shape_text(tuple(gram_II.shape))}, but the matrix "
            f"has {inputs} inputs; measure them again."
        )
    diagonal_I = gram_II.diagonal().to(torch.float64)
    scaled_II = gram_II.to(torch.float64).mul_(alpha)
    scaled_II.diagonal().copy_(diagonal_I + ridge)
    return scaled_II


def _notes(cut: int) -> list[str]:
    if not cut:
        return []
    return [f"{cut} directions of the inputs were lost in rounding and left out; raise the ridge."]


def working_memory(shape: tuple[int, ...], _experts: int) -> float:
    """The largest number of float64 numbers at once, while summing or solving."""
    outputs, inputs = shape
    summing = 2.5 * inputs**2 + 3 * outputs * inputs
    return max(summing, inputs**2 + 2 * outputs * inputs + 5 * widest_block(inputs) * inputs)


REGMEAN = MergeMethod(
    name="regmean",
    title="RegMean",
    summary=(
        "Solves for the one matrix with outputs nearest to each expert's, on the inputs that "
        "the expert had with its own data."
    ),
    formula=(
        "merged matrix: W = W₀ + (Σₜ wₜ ΔWₜ Gₜ) (Σₜ wₜ Gₜ)⁻¹\n"
        "input products: Gₜ = α E[x xᵀ] + (1 − α) diag E[x xᵀ] + ridge · I,  x: inputs of "
        "the matrix in expert t"
    ),
    citation=(
        "X. Jin, X. Ren, D. Preoţiuc-Pietro, P. Cheng, Dataless Knowledge Fusion by Merging "
        "Weights of Language Models, ICLR 2023, arXiv:2212.09849"
    ),
    parameters=RegMeanParameters,
    merge=regmean,
    least=2,
    needs=lambda _: Need.INPUTS,
    working_memory=working_memory,
)
