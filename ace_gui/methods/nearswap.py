"""NearSwap: take the expert's weights where they are near the base's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_entry

SMALLEST: Final = 1e-6
"""Smaller distances are raised to this, as in mergekit."""


@dataclass(frozen=True, kw_only=True)
class NearswapParameters:
    """Parameters of NearSwap. ``t``: distance up to which the expert's entry is taken in full."""

    t: float = parameter(
        1e-4,
        label="Distance t",
        help=(
            "An entry is taken from the expert if it differs from the base's by at most this. "
            "Otherwise the base's entry moves towards it by this amount."
        ),
        low=0.0,
        high=10.0,
    )


@on_experts
def nearswap(experts: Experts, parameters: NearswapParameters, _: Context) -> Merged:
    """min(1, t / |τ|) · τ, entry by entry, τ = w ΔW of the one expert; any shape, float32.

    Raises MethodError for other than one expert, and where it is not finite.
    """
    value = experts.weighted_single()
    share = (parameters.t / value.abs().clamp(min=SMALLEST)).clamp(max=1)
    return Merged.of(value * share)


NEARSWAP = MergeMethod(
    name="nearswap",
    title="NearSwap",
    summary=(
        "Takes one expert's entries that are near the base's. All others move a fixed distance "
        "towards the expert."
    ),
    formula="W = W₀ + min(1, t / |τ|) · τ,  entry by entry,  τ = w ΔW",
    citation=(
        "alchemonaut, QuartetAnemoi-70B-t0.0001, 2024; as in C. Goddard et al., Arcee's MergeKit, "
        "2024, arXiv:2403.13257"
    ),
    parameters=NearswapParameters,
    merge=nearswap,
    kind=Kind.ENTRY,
    working_memory=per_entry(4),
    most=1,
)
