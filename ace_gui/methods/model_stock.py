"""Model Stock: the mean of the experts, moved towards the base if they disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import (
    Census,
    Context,
    Experts,
    Merged,
    on_experts,
    require_mean,
)
from ace_gui.methods.shared.inner_products import (
    COEFFICIENT,
    ENERGY,
    combined,
    inner_product_survey,
    parts_memory,
    weighted_energies,
)
from ace_gui.methods.shared.kit import parameter
from ace_gui.methods.shared.survey import Findings, MethodSurvey, SumSurvey, SurveyContext


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


COSINE: Final = "cosine"
"""Name of a finding: the mean cosine over pairs of experts, the same for every expert."""


def agreement(context: SurveyContext) -> SumSurvey | None:
    """The mean cosine in a tensor, and each expert's coefficient; None if rows have their own."""
    if context.parameters[0].filter_wise:
        return None
    experts = len(context.parameters)

    def findings_of(products: Tensor) -> Findings:
        energies = weighted_energies(products, context)
        counted = list(Census.of(energies).counted)
        cosine = 1.0
        share = 1.0
        if len(counted) > 1:
            cosine = mean_cosine(products[counted][:, counted])
            share = interpolation(len(counted), cosine)
        if counted:
            total = require_mean([context.weights[t] for t in counted])
        else:
            total = 1.0
        coefficients = [0.0] * experts
        for t in counted:
            coefficients[t] = share * context.weights[t] / total
        return {
            COEFFICIENT: tuple(coefficients),
            ENERGY: energies,
            COSINE: (cosine,) * experts,
        }

    return inner_product_survey(context, findings_of)


SURVEYS: Final = (MethodSurvey(survey=agreement, finds=(COEFFICIENT, ENERGY, COSINE)),)


@on_experts
def model_stock(experts: Experts, parameters: ModelStockParameters, context: Context) -> Merged:
    """t · Σ w_t ΔW_t / Σ w_t, t = N c / (1 + (N − 1) c), c the mean cosine; any shape, float32.

    N counts the experts that changed the tensor. c is the mean cosine over their pairs (FusionBench
    takes the mean angle). It is at least 0, because a negative one would point away from the
    experts. A single expert is returned unchanged. Raises MethodError if one is not finite, and for
    weights that sum to zero.
    """
    if parameters.filter_wise:
        return _by_rows(experts)
    findings = experts.surveyed(SURVEYS, parameters, context).findings
    notes = []
    if findings[COSINE][0] < 0:
        notes.append(
            f"The experts point in opposite directions (mean cosine {findings[COSINE][0]:.2g}), so "
            "this tensor stays as in the base."
        )
    diagnostics = Census.of(findings[ENERGY]).diagnostics(notes)
    return Merged.of(combined(experts, findings), diagnostics=diagnostics)


def _by_rows(experts: Experts) -> Merged:
    """Model Stock for each row along the last dimension; a row without a change has cosine 0."""
    census = experts.census()
    weights = [experts.weights[t] for t in census.counted]
    if weights:
        mean = require_mean(weights)
    else:
        mean = 1.0
    shares = [weight / mean for weight in weights]
    if len(weights) < 2:
        merged = experts.combination(shares, census.counted)
        return Merged.of(merged, diagnostics=census.diagnostics())
    total = _in_rows(experts.zeros())
    changed = torch.zeros_like(total[..., :1])
    for t in census.counted:
        row = _in_rows(experts.raw(t)).to(torch.float64)
        norm = row.norm(dim=-1, keepdim=True)
        total.add_(row / torch.where(norm == 0, 1, norm))
        changed.add_(norm != 0)
    count = len(census.counted)
    pairs = count * (count - 1)
    cosine = (total.square().sum(dim=-1, keepdim=True) - changed) / pairs
    held = cosine.clamp(0, 1)
    merged = experts.combination(shares, census.counted)
    factors = count * held / (1 + (count - 1) * held)
    merged.mul_(factors if merged.ndim else factors[0])
    notes = []
    if opposite := int((cosine < 0).sum()):
        notes.append(
            f"The experts point in opposite directions in {opposite} of {cosine.numel()} rows, "
            "which stay as in the base."
        )
    return Merged.of(merged, diagnostics=census.diagnostics(notes))


def _in_rows(tensor: Tensor) -> Tensor:
    """The tensor; a number as a row of one."""
    if tensor.ndim:
        return tensor
    return tensor.reshape(1)


def mean_cosine(products: Tensor) -> float:
    """Mean cosine over all pairs of N ≥ 2 experts that changed something (N × N products)."""
    norms = products.diagonal().sqrt()
    cosines = products / norms / norms[:, None]
    count = len(cosines)
    return (float(cosines.sum()) - count) / (count * (count - 1))


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
    kind=Kind.ENTRY,
    whole=lambda parameters: parameters.filter_wise,
    surveys=SURVEYS,
    working_memory=parts_memory(numbers_per_element=4),
)
