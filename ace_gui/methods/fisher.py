"""Means of the experts by the diagonal Fisher information of each: Fisher averaging, and UBGM.

T experts; entry by entry, for tensors of any shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_entry
from ace_gui.methods.shared.measured import Measured, Need, required_measured


@dataclass(frozen=True, kw_only=True)
class FisherParameters:
    """``normalize``: divide by each expert's norm. ``floor``: a share of the mean information."""

    normalize: bool = parameter(
        True,
        label="Divide by the norms",
        help=(
            "Divide each expert's Fisher information by its norm over the whole model. Then no "
            "expert counts more because its answers are less certain."
        ),
    )
    floor: float = parameter(
        1e-3,
        label="Floor",
        help=(
            "Added to every entry, as a share of the mean over the model. Where all experts have "
            "less information than this, they are averaged."
        ),
        differs=(
            "Published implementations add 1e-6, whatever the scale of the information. A share "
            "means the same in every model."
        ),
        low=0.0,
        high=1e3,
        logarithmic=True,
    )


@dataclass(frozen=True, kw_only=True)
class UbgmParameters:
    """``prior``: H₀ as a share of the mean information over the experts and the model."""

    prior: float = parameter(
        1.0,
        label="Prior H₀",
        help=(
            "Precision of the base's weights, as a share of the mean Fisher information. Small "
            "values come near the Fisher average, large ones near the sum of the task vectors."
        ),
        low=0.0,
        high=1e6,
        low_open=True,
        logarithmic=True,
    )


@on_experts
def fisher(experts: Experts, parameters: FisherParameters, context: Context) -> Merged:
    """Σ_t w_t F_t ΔW_t / Σ_t w_t F_t, entry by entry, float32; for 0 / 0, the mean.

    Raises MethodError for weights that sum to zero, for a task vector that is not finite, and
    without measured statistics.
    """
    measured = required_measured(context.measured, len(experts))
    total = experts.total_weight
    scales = [1 / norm if parameters.normalize and norm else 1.0 for norm in measured.norms]
    floor = parameters.floor * _mean(
        scale * mean for scale, mean in zip(scales, measured.means, strict=True)
    )
    above = torch.zeros(())
    below = torch.zeros(())
    plain = torch.zeros(())
    for t, delta, information in _of_experts(experts, measured):
        information.mul_(scales[t]).add_(floor).mul_(experts.weights[t])
        plain = plain + delta.to(torch.float64) * (experts.weights[t] / total)
        above = above + information * delta
        below = below + information
    return Merged.of(torch.where(below != 0, above / below, plain))


@on_experts
def ubgm(experts: Experts, parameters: UbgmParameters, context: Context) -> Merged:
    """Σ_t w_t (H₀ + H_t) ΔW_t / (H₀ + Σ_j w_j H_j), entry by entry, float32; H_t: of expert t.

    For 0 / 0 it is the sum Σ_t w_t ΔW_t. Raises MethodError for a task vector that is not finite,
    and without measured statistics.
    """
    measured = required_measured(context.measured, len(experts))
    prior = parameters.prior * _mean(measured.means)
    above = torch.zeros(())
    plain = torch.zeros(())
    below = torch.full((), prior, dtype=torch.float64)
    for t, delta, information in _of_experts(experts, measured):
        plain = plain + delta.to(torch.float64) * experts.weights[t]
        above = above + (information + prior).mul_(delta).mul_(experts.weights[t])
        below = below + information.mul_(experts.weights[t])
    return Merged.of(torch.where(below != 0, above / below, plain))


def _of_experts(experts: Experts, measured: Measured) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Each expert's number, task vector and information (float64, a new tensor)."""
    for t in range(len(experts)):
        delta = experts.delta(t)
        information = measured.by_expert[t]
        if information.shape != delta.shape:
            raise MethodError("The Fisher information has another shape; measure it again.")
        yield t, delta, information.to(torch.float64, copy=True)


def _mean(values: Iterator[float] | Sequence[float]) -> float:
    numbers = list(values)
    return math.fsum(numbers) / max(len(numbers), 1)


FISHER = MergeMethod(
    name="fisher",
    title="Fisher averaging",
    summary=(
        "Takes the mean of the experts. Each entry is weighted by how much that expert's "
        "answers to its own data depend on it."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ wₜ Fₜ ΔWₜ / Σₜ wₜ Fₜ,  entry by entry\n"
        "Fisher information: Fₜ = E[(∂ ln p(y|x) / ∂W)²] / ‖F‖ + floor,  y drawn from the "
        "expert's own answers to x"
    ),
    citation=(
        "M. Matena, C. Raffel, Merging Models with Fisher-Weighted Averaging, NeurIPS 2022, "
        "arXiv:2111.09832"
    ),
    parameters=FisherParameters,
    merge=fisher,
    kind=Kind.ENTRY,
    working_memory=per_entry(7),
    least=2,
    needs=lambda _: Need.GRADIENTS,
)

UBGM = MergeMethod(
    name="ubgm",
    title="UBGM",
    summary=(
        "Uncertainty-based gradient matching: adds the experts' changes. Each entry is scaled "
        "by the expert's certainty relative to that of all experts and the base."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ wₜ (H₀ + Hₜ) / (H₀ + Σⱼ wⱼ Hⱼ) ΔWₜ,  entry by entry\n"
        "Fisher information: Hₜ = E[(∂ ln p(y|x) / ∂W)²] in expert t,  H₀ = prior · mean(H)"
    ),
    citation=(
        "N. Daheim, T. Möllenhoff, E. M. Ponti, I. Gurevych, M. E. Khan, Model Merging by "
        "Uncertainty-Based Gradient Matching, ICLR 2024, arXiv:2310.12808"
    ),
    parameters=UbgmParameters,
    merge=ubgm,
    kind=Kind.ENTRY,
    working_memory=per_entry(7),
    least=2,
    needs=lambda _: Need.GRADIENTS,
)
