"""Model Stock: the mean of the experts, moved towards the base if they disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import (
    Census,
    Context,
    Experts,
    Merged,
    on_experts,
    require_mean,
)
from ace_gui.methods.shared.kit import parameter, per_entry


@dataclass(frozen=True, kw_only=True)
class ModelStockParameters:
    """``filter_wise``: a distance for each row instead of one for each tensor."""

    filter_wise: bool = parameter(
        False,
        label="Row by row",
        help=(
            "Measure the angle between experts in each row along the last dimension, which is a "
            "filter, instead of in the whole tensor."
        ),
    )


@on_experts
def model_stock(experts: Experts, parameters: ModelStockParameters, _: Context) -> Merged:
    """t · Σ w_t ΔW_t / Σ w_t, t = N c / (1 + (N − 1) c), c the mean cosine; any shape, float32.

    N counts the experts that changed the tensor. c is the mean cosine over their pairs (FusionBench
    takes the mean angle). It is at least 0, because a negative one would point away from the
    experts. A single expert is returned unchanged. Reads every expert three times. Raises
    MethodError if one is not finite, and for weights that sum to zero.
    """
    census = experts.census()
    kept = [experts.weights[t] for t in census.kept]
    total = require_mean(kept) if kept else 1.0
    notes: list[str] = []
    share = 1.0
    if len(kept) > 1:
        if parameters.filter_wise:
            return _by_rows(experts, census, [weight / total for weight in kept])
        cosine = mean_cosine(experts, census)
        share = interpolation(len(kept), cosine)
        if cosine < 0:
            notes.append(
                f"The experts point in opposite directions (mean cosine {cosine:.2g}), so this "
                "tensor stays as in the base."
            )
    coefficients = [share * weight / total for weight in kept]
    merged = experts.combination(coefficients, census.kept)
    return Merged.of(merged, diagnostics=census.diagnostics(notes))


def _by_rows(experts: Experts, census: Census, shares: Sequence[float]) -> Merged:
    """Model Stock for each row along the last dimension; a row without a change has cosine 0."""
    total = experts.zeros()
    changed = torch.zeros_like(total[..., :1])
    for t in census.kept:
        row = experts.raw(t).to(torch.float64)
        norm = row.norm(dim=-1, keepdim=True)
        total.add_(row / torch.where(norm == 0, 1, norm))
        changed.add_(norm != 0)
    count = len(census.kept)
    pairs = count * (count - 1)
    cosine = (total.square().sum(dim=-1, keepdim=True) - changed) / pairs
    held = cosine.clamp(0, 1)
    merged = experts.combination(shares, census.kept)
    merged.mul_(count * held / (1 + (count - 1) * held))
    notes = []
    if opposite := int((cosine < 0).sum()):
        notes.append(
            f"The experts point in opposite directions in {opposite} of {cosine.numel()} rows, "
            "which stay as in the base."
        )
    return Merged.of(merged, diagnostics=census.diagnostics(notes))


def mean_cosine(experts: Experts, census: Census) -> float:
    """Mean cosine over all pairs of N ≥ 2 experts: (‖Σ u_t‖² − N) / (N (N − 1)), u_t of norm 1."""
    total = experts.zeros()
    for t in census.kept:
        unit = experts.raw(t).to(torch.float64)
        total.add_(unit / unit.norm())
    count = len(census.kept)
    return (float(total.square().sum()) - count) / (count * (count - 1))


def interpolation(count: int, cosine: float) -> float:
    """How far to go from the base towards the mean of ``count`` experts, from 0 to 1."""
    held = min(max(cosine, 0.0), 1.0)
    return count * held / (1 + (count - 1) * held)


MODEL_STOCK = MergeMethod(
    name="model_stock",
    title="Model Stock",
    summary=(
        "Moves from the base towards the experts' mean. The smaller the angle between the "
        "experts, the further it moves."
    ),
    formula=(
        "merged matrix: W = W₀ + t · Σₜ wₜ ΔWₜ / Σₜ wₜ,  t = N c / (1 + (N − 1) c)\n"
        "agreement: c = mean of cos(ΔWᵢ, ΔWⱼ) over pairs of the N experts, at least 0"
    ),
    citation=(
        "D.-H. Jang, S. Yun, D. Han, Model Stock: All we need is just a few fine-tuned models, "
        "ECCV 2024, arXiv:2403.19522"
    ),
    parameters=ModelStockParameters,
    merge=model_stock,
    kind=Kind.TENSOR,
    working_memory=per_entry(4),
)
