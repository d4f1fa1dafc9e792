"""What a method learns from data: coefficients, ranks or masks on the task vectors.

A merged tensor is W₀ + Δ with Δ = m ⊙ Σ_t w_t λ_t part(t, gates(values)). The gradient of the
values therefore needs ∂L/∂Δ of one model, and one expert's task vector at a time. T experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, TypeVar

import torch
from torch import Tensor

from ace_gui.methods.shared.survey import Findings

Values = Mapping[str, Tensor]
"""By name: the learned values, the gates, or the factors of an expert's part of one tensor."""

Parameters = TypeVar("Parameters")

TOGETHER: Final = 1 << 22
"""Number of entries for which gradients are computed at once."""


@dataclass(frozen=True, kw_only=True)
class Learning(Generic[Parameters]):
    """How a method learns its values; most fields are functions."""

    start: Callable[[Sequence[Tensor], Parameters, Findings | None], Values]
    """Returns a tensor's initial values."""
    figures: Callable[[Values], Tensor]
    """From the gates, one number per expert for the progress plot; empty for a tensor without such
    a number.
    """
    curve: str
    """What these numbers mean."""
    part: Callable[[int, Values, Values], Tensor] = lambda _t, factors, _gates: factors["delta"]
    """The contribution of expert t, before λ_t, from its factors and the gates; it is
    differentiable by the gates. The default is ΔW_t.
    """
    numbers: Callable[[tuple[int, ...], int], int] = lambda _, experts: experts
    """How many values a tensor of this shape has for T experts."""
    gates: Callable[[Values, Parameters, torch.Generator | None], Values] = lambda values, *_: (
        values
    )
    """Maps the learned values to the numbers that scale or mask each expert's part; it is
    differentiable. It may draw random numbers if it gets a generator. Without one, it returns the
    gates of the exported model. The gate "coefficient" holds the λ_t and "mask" holds m, by default
    all 1.
    """
    shared: Callable[[Parameters, int], Values] | None = None
    """Returns the initial values that the whole model shares; their first dimension is the experts.
    None without such values.
    """
    factors: (
        Callable[[Sequence[Tensor], Sequence[float], Parameters, Findings | None], Iterator[Values]]
        | None
    ) = None
    """Yields each expert's input to ``part``; None: {"delta": ΔW_t}."""
    prepares: Callable[[Parameters], bool] = lambda _: True
    """Whether these parameters need ``factors``, which are then kept on disk."""
    per_expert: bool = False
    """Whether each expert is learned separately, on its own tasks."""
    penalty: Callable[[Values, Parameters, int], Tensor] | None = None
    """A number that each tensor adds to the loss, from its gates, the parameters and the number of
    tensors; None for none.
    """
    radius: Callable[[Parameters], float] = lambda _: 0.0
    """How far all values together are moved along the gradient before a step's gradient is taken.
    """
    temperature: Callable[[Parameters], float] = lambda _: 1.0
    """By which logits are divided before they are compared with an expert's."""
    hidden: Callable[[Parameters], float] = lambda _: 0.0
    """Weight of the squared difference of hidden states from an expert's; 0 if they are not
    compared.
    """
    inputs: Callable[[Parameters], int] | None = None
    """Most inputs of each task; None: as many as for other methods."""
    by_block: bool = False
    """Whether it is learned block after block, from the first."""
    plain_descent: bool = False
    """Whether w ← w − rate · ∂L/∂w, without moments."""
    settled: Callable[[Tensor], Tensor] = lambda value: value
    """Maps a learned value to the form that is stored."""


def change(
    learning: Learning[Any],
    factors: Callable[[int], Values],
    weights: Sequence[float],
    gates: Values,
) -> Tensor:
    """Δ = m ⊙ Σ_t w_t λ_t part(t), without a graph. Calls ``factors`` once for each expert."""
    total: Tensor | None = None
    for t, scale in enumerate(scales(weights, gates)):
        part = learning.part(t, factors(t), gates)
        if total is None:
            total = part * scale
        else:
            total = total.add_(part, alpha=scale)
    if total is None:
        return torch.zeros(())
    if "mask" in gates:
        return total.mul_(gates["mask"])
    return total


def scales(weights: Sequence[float], gates: Values) -> list[float]:
    """w_t λ_t of every expert."""
    if "coefficient" not in gates:
        return list(weights)
    return [w * gate for w, gate in zip(weights, gates["coefficient"].tolist(), strict=True)]


def gradients(
    learning: Learning[Any],
    factors: Callable[[int], Values],
    weights: Sequence[float],
    values: Values,
    gates_of: Callable[[Values], Values],
    gradient: Tensor,
    penalty: Callable[[Values], Tensor] | None = None,
) -> dict[str, Tensor]:
    """∂L/∂values as the gradient of Σ_t w_t λ_t ⟨m ⊙ ∂L/∂Δ, part(t)⟩, a few experts at a time.

    ``gradient``: ∂L/∂Δ. ``gates_of``: computes the gates with this step's random numbers.
    """
    leaves = {name: value.detach().requires_grad_() for name, value in values.items()}
    sums = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    with torch.enable_grad():
        gates = gates_of(leaves)
        terms: Iterable[tuple[Tensor, Tensor | None]]
        terms = _terms(learning, factors, weights, gates, gradient)
        if penalty:
            terms = chain(terms, [(penalty(gates), None)])
        for term, at_term in terms:
            at_leaves = torch.autograd.grad(
                term, list(leaves.values()), at_term, retain_graph=True, allow_unused=True
            )
            for total, addend in zip(sums.values(), at_leaves, strict=True):
                if addend is not None:
                    total += addend
    return sums


def _terms(
    learning: Learning[Any],
    factors: Callable[[int], Values],
    weights: Sequence[float],
    gates: Values,
    gradient: Tensor,
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The outputs to differentiate, each with its gradient: none or ∂L/∂m."""
    mask = gates.get("mask")
    if mask is None:
        masked = gradient
        total = None
    else:
        masked = gradient * mask.detach()
        total = torch.zeros_like(gradient)
    has_others = any(gate.requires_grad for name, gate in gates.items() if name != "mask")
    all_scales = scales(weights, gates)
    size = max(1, TOGETHER // max(1, gradient.numel()))
    for first in range(0, len(weights), size):
        chunk = slice(first, first + size)
        products = []
        for t in range(len(weights))[chunk]:
            part = learning.part(t, factors(t), gates)
            if total is not None:
                total.add_(part.detach(), alpha=all_scales[t])
            if has_others:
                products.append(torch.dot(part.flatten(), masked.flatten().to(part.dtype)))
            del part
        if has_others:
            terms_T = torch.stack(products) * torch.tensor(weights[chunk]).to(products[0])
            if "coefficient" in gates:
                terms_T = terms_T * gates["coefficient"][chunk]
            yield terms_T.sum(), None
    if mask is not None and total is not None:
        yield mask, gradient * total
