"""FR-Merging filters the low frequencies out of the experts' changes. O outputs, I inputs.

FREE-Merging adds the largest entries of each expert and a router that selects one expert.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.expert_modules import Differences, ModuleKind, StoredPart
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_matrix, scaling_parameter, share_parameter
from ace_gui.methods.shared.tolerance import IN_FLOAT64
from ace_gui.methods.shared.trimming import kept_count


@dataclass(frozen=True, kw_only=True)
class FrParameters:
    """Parameters of FR-Merging. ``cutoff``: D₀. ``coefficients``: λ_t. ``scaling``: factor."""

    cutoff: float = share_parameter(
        0.1,
        label="Cut-off D₀",
        help=(
            "Frequencies below this share of the highest frequency are removed. They are "
            "measured by their distance to zero frequency over both dimensions. 0 removes nothing."
        ),
        differs=(
            "The paper does not give a value. Its code measures the distance from another "
            "point, which removes almost nothing from square matrices."
        ),
        above_zero=False,
    )
    coefficients: str = parameter(
        "magnitude",
        label="Coefficients",
        help=(
            "magnitude: in proportion to the mean magnitude after filtering, with a sum of "
            "1, as in the paper. equal: 1 for every expert."
        ),
        differs=(
            "This is the paper's formula. Its code uses equal coefficients and scales the sum "
            "by 0.7 for FR-Merging and by 0.5 for FREE-Merging."
        ),
        choices=("magnitude", "equal"),
    )
    scaling: float = scaling_parameter(
        help="Factor on the merged matrix. Tensors that are not matrices are averaged without it.",
        presets=(("with magnitude", 1.0), ("with equal, published script", 0.7)),
    )


@on_experts
def fr_merging(experts: Experts, parameters: FrParameters, _: Context) -> Merged:
    """Scaling · Σ λ_t G_t, G_t the high frequencies of w_t ΔW_t; float32.

    FREE-Merging adds its experts to this. Reads every expert twice. Raises MethodError for tensors
    that are no matrices or not finite.
    """
    census = experts.census()
    total_OI = torch.zeros_like(experts.matrix(0))
    magnitudes = 0.0
    for t in census.counted:
        filtered_OI = high_pass(experts.matrix(t), parameters.cutoff)
        magnitude = 1.0
        if parameters.coefficients == "magnitude":
            magnitude = float(filtered_OI.abs().mean())
            magnitudes += magnitude
        total_OI.add_(filtered_OI, alpha=magnitude)
    if magnitudes:
        total_OI.div_(magnitudes)
    return Merged.of(total_OI, parameters.scaling, census.diagnostics(precision=IN_FLOAT64))


def high_pass(matrix_OI: Tensor, cutoff: float) -> Tensor:
    """The matrix without frequencies of a radius below ``cutoff`` times the highest possible.

    The radius of (η, γ), in cycles per entry, is √(η² + γ²); the highest possible is √½.
    """
    rows, columns = matrix_OI.shape
    options = {"dtype": matrix_OI.dtype, "device": matrix_OI.device}
    down = torch.fft.fftfreq(rows, **options)[:, None]
    across = torch.fft.rfftfreq(columns, **options)
    passed = (down.square() + across.square()).sqrt() >= cutoff * 0.5**0.5 * (1 - 1e-12)
    filtered_OI: Tensor = torch.fft.irfft2(torch.fft.rfft2(matrix_OI) * passed, s=matrix_OI.shape)
    return filtered_OI


FR_MERGING = MergeMethod(
    name="fr_merging",
    title="FR-Merging",
    summary=(
        "Removes the low frequencies of every expert's change, where experts interfere "
        "most, and adds the rest."
    ),
    formula=(
        "merged matrix: W = W₀ + scaling · Σₜ λₜ Gₜ,  Gₜ = F⁻¹[H ⊙ F(wₜ ΔWₜ)],  F the 2-D "
        "Fourier transform\n"
        "high-pass filter: H = 1 where √(η² + γ²) ≥ D₀ · √½, else 0,  η and γ in cycles per entry\n"
        "coefficients: λₜ = mean|Gₜ| / Σⱼ mean|Gⱼ|, or 1"
    ),
    citation=(
        "S. Zheng, H. Wang, FREE-Merging: Fourier Transform for Efficient Model Merging, ICCV "
        "2025, arXiv:2411.16815"
    ),
    parameters=FrParameters,
    merge=fr_merging,
    working_memory=per_matrix(entries=5.5),
)


@dataclass(frozen=True, kw_only=True)
class FreeParameters(FrParameters):
    """Parameters of FR-Merging, and ``density``: the share d that each expert keeps."""

    density: float = share_parameter(
        0.01,
        label="Density d",
        help="Share of each matrix row that an expert keeps, its largest entries.",
        differs=(
            "As in the paper, except that μ is computed for each matrix and the kept entries "
            "are added to the merged matrix. The published code uses one μ per expert and "
            "replaces entries."
        ),
        logarithmic=True,
    )


def sparse_experts(experts: Experts, parameters: FreeParameters) -> Iterator[Tensor]:
    """μ_t w_t ΔW_t, of which the share d of each row is kept; float64, reads each expert once."""
    for t in range(len(experts)):
        own_OI = experts.matrix(t)
        yield own_OI.mul_(rescaling(own_OI, parameters))


def rescaling(own_OI: Tensor, parameters: FreeParameters) -> float:
    """μ_t = −log₁₀ d · mean|M(ΔW, d)| / mean|G|, the first mean over the kept entries.

    It is 1 for d = 1, where the formula gives 0, and if there is nothing to compare.
    """
    count = kept_count(parameters.density, own_OI.shape[1])
    largest_mean = float(own_OI.abs().topk(count, dim=1).values.mean())
    passed_mean = float(high_pass(own_OI, parameters.cutoff).abs().mean())
    if parameters.density == 1 or not passed_mean or not largest_mean:
        return 1.0
    return -math.log10(parameters.density) * largest_mean / passed_mean


FREE_MERGING = MergeMethod(
    name="free_merging",
    title="FREE-Merging",
    summary=(
        "FR-Merging that also stores the largest entries of each expert, rescaled. A router "
        "adds them for the examples it assigns to that expert."
    ),
    formula=(
        "merged matrix: W = W₀ + scaling · Σₜ λₜ Gₜ,  Gₜ the high frequencies of wₜ ΔWₜ\n"
        "for x: W + μₜ M(wₜ ΔWₜ),  t = argmax(A h(x) + b),  M: the share d of each row\n"
        "rescaling: μₜ = −log₁₀ d · mean|M(wₜ ΔWₜ)| / mean|Gₜ|"
    ),
    citation=FR_MERGING.citation,
    parameters=FreeParameters,
    merge=fr_merging,
    working_memory=FR_MERGING.working_memory,
    least=2,
    modules=Differences(
        differences_of=sparse_experts,
        stored_part=lambda parameters: StoredPart(density_in_rows=parameters.density),
        kind=ModuleKind.CHOICE,
    ),
)
