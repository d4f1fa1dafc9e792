"""A person's own method: the median of the experts' changes, as they would write it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ace_gui import Merged, parameter, register_method


@dataclass(frozen=True, kw_only=True)
class MedianParameters:
    """``scaling``: factor on the median."""

    scaling: float = parameter(1.0, label="Scaling", help="Factor on the median.", low=0, high=2)


@register_method(
    name="median",
    title="Median",
    summary="Takes the median of the experts' changes, entry by entry.",
    formula="W = W₀ + scaling · medianₜ(ΔWₜ)",
    parameters=MedianParameters,
    kind="entry",
)
def median(
    deltas: Sequence[torch.Tensor], weights: Sequence[float], parameters: MedianParameters, **_: Any
) -> Merged:
    """The lower median where the number of experts is even."""
    stacked = torch.stack([delta * w for delta, w in zip(deltas, weights, strict=True)])
    return Merged(delta=parameters.scaling * stacked.median(dim=0).values)
