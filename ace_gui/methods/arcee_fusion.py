"""Arcee Fusion: take one expert's most important entries, and keep the base's others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.selection import kth_smallest
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_entry

TINY: Final = 1e-8
"""Added to every probability, as in mergekit."""

ROWS_ENTRIES: Final = 1 << 14
"""Entries compared at a time, so that intermediate results stay in the cache."""


@dataclass(frozen=True, kw_only=True)
class ArceeFusionParameters:
    """Parameters of Arcee Fusion. ``spread``: distance of the threshold from the median."""

    spread: float = parameter(
        1.5,
        label="Threshold",
        help=(
            "An entry is taken from the expert if its importance is at least the median "
            "plus this many interquartile ranges."
        ),
        low=0.0,
        high=100.0,
    )


@on_experts
def arcee_fusion(experts: Experts, parameters: ArceeFusionParameters, context: Context) -> Merged:
    """τ = w ΔW if |τ| times its row's KL(softmax(W₀ + τ) ‖ softmax(W₀)) is large, else 0; float32.

    Any shape; rows are along the last dimension. Quantiles are those of all entries. Raises
    MethodError unless there is exactly one expert, which is finite, and a base.
    """
    value = experts.weighted_single()
    base = context.required_base()
    if not value.numel():
        return Merged.of(value)
    importance = value.abs().contiguous()
    if value.ndim:  # a single number has a divergence of 0
        rows = (tensor.reshape(-1, value.shape[-1]) for tensor in (value, base, importance))
        some = max(1, ROWS_ENTRIES // value.shape[-1])
        for delta, old, part in zip(*(torch.split(tensor, some) for tensor in rows), strict=True):
            part.mul_(_divergence(old + delta, old.to(torch.float64)))
    last = importance.numel() - 1
    first, median, third = (kth_smallest(importance, int(q * last) + 1) for q in (0.25, 0.5, 0.75))
    threshold = median + parameters.spread * (third - first)
    return Merged.of(value.masked_fill_(importance < threshold, 0))


def _divergence(new: Tensor, old: Tensor) -> Tensor:
    """KL divergence of the softmax of each row, as a column."""
    p, q = (torch.softmax(tensor, dim=-1).add_(TINY) for tensor in (new, old))
    return (p / q).log_().mul_(p).sum(dim=-1, keepdim=True)


ARCEE_FUSION = MergeMethod(
    name="arcee_fusion",
    title="Arcee Fusion",
    summary="Takes the most important entries of one expert and keeps the base's values elsewhere.",
    formula=(
        "merged matrix: W = W₀ + m ⊙ τ,  τ = w ΔW,  mᵢ = 1 where sᵢ ≥ median(s) + 1.5 · "
        "(Q₃(s) − Q₁(s)), else 0\n"
        "importance: s = |τ| · KL(softmax(W₀ + τ) ‖ softmax(W₀)),  softmax and KL of each row"
    ),
    citation="C. Goddard et al., Arcee's MergeKit, 2024, arXiv:2403.13257",
    parameters=ArceeFusionParameters,
    merge=arcee_fusion,
    kind=Kind.TENSOR,
    working_memory=per_entry(4),
    most=1,
)
