"""Means of whole weights, the base's among them, instead of the experts' changes.

T experts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from ace_gui.methods.method import Context, Merged, parameter
from ace_gui.methods.shared.on_demand import Computed
from ace_gui.methods.shared.weighted_experts import require_base

CHANGES: Final = "changes"
WEIGHTS: Final = "weights"


@dataclass(frozen=True, kw_only=True)
class PointsParameters:
    """``points``: what the mean is of. ``base_weight``: the base's own, among whole weights."""

    points: str = parameter(
        CHANGES,
        label="Mean of",
        help=(
            "changes: of what each expert changes in the base. weights: of whole weights, as "
            "mergekit does where a file names no base."
        ),
        choices=(CHANGES, WEIGHTS),
    )
    base_weight: float = parameter(
        1.0,
        label="Weight of the base",
        help="Weight of the base in a mean of whole weights. 0 leaves it out.",
        low=-1000.0,
        high=1000.0,
    )


def merged_points(
    merge: Callable[[Sequence[Tensor], Sequence[float]], Merged],
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: PointsParameters,
    context: Context,
) -> Merged:
    """The mean by ``merge``, of changes or of whole weights, as a change of the base.

    Raises MethodError if whole weights are wanted and there is no base.
    """
    if parameters.points == CHANGES:
        return merge(deltas, weights)
    base, with_base = require_base(context.get("base")), parameters.base_weight != 0
    first = int(with_base)
    points = Computed(
        first + len(deltas), lambda t: base if t < first else deltas[t - first] + base
    )
    found = merge(points, [*([parameters.base_weight] if with_base else []), *weights])
    return Merged(delta=found.delta.sub_(base))
