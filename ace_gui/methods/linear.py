"""Weight averaging: the weighted mean of the experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Context, Deltas, Experts, Merged, Weights, require_mean
from ace_gui.methods.shared.kit import parameter, per_entry


@dataclass(frozen=True, kw_only=True)
class LinearParameters:
    """Parameters of weight averaging. ``base_weight``: the base's weight. ``normalize``: a mean."""

    base_weight: float = parameter(
        0.0,
        label="Weight of the base",
        help="Weight of the base in the mean, relative to the experts. 0 leaves it out.",
        low=-1000.0,
        high=1000.0,
    )
    normalize: bool = parameter(
        True,
        label="Divide by the weights",
        help=(
            "Divide by the sum of all weights. Otherwise the result is the plain weighted sum "
            "of base and experts."
        ),
    )


def linear(
    deltas: Deltas, weights: Weights, parameters: LinearParameters, **context_values: Any
) -> Merged:
    """Σ_t w_t ΔW_t / (w_0 + Σ_t w_t), elementwise, float32, for tensors of any shape.

    Without ``normalize``, it is w_0 W₀ + Σ_t w_t W_t; without experts, w_0 W₀. Raises MethodError
    if the weights of a mean sum to zero, if a sum has no base, and if a task vector is not finite.
    """
    context = Context(**context_values)
    if not len(deltas) and not parameters.normalize:
        return Merged(delta=context.required_base() * (parameters.base_weight - 1))
    experts = Experts(deltas, weights)
    every = [parameters.base_weight, *weights]
    if parameters.normalize:
        return Merged(delta=experts.sum_in_float32().div_(require_mean(every)))
    surplus = sum(every) - 1
    merged = experts.sum_in_float32()
    if abs(surplus) > 1e-12:
        merged.add_(context.required_base(), alpha=surplus)
    return Merged(delta=merged)


LINEAR = MergeMethod(
    name="linear",
    title="Weight averaging",
    summary="Takes the weighted mean of the experts' parameters.",
    formula="W = W₀ + Σₜ wₜ ΔWₜ / (w₀ + Σₜ wₜ),  ΔWₜ = Wₜ − W₀",
    citation=(
        "M. Wortsman et al., Model soups: averaging weights of multiple fine-tuned models improves "
        "accuracy without increasing inference time, ICML 2022, arXiv:2203.05482"
    ),
    parameters=LinearParameters,
    merge=linear,
    kind=Kind.ENTRY,
    working_memory=per_entry(1),
    sums=True,
)
