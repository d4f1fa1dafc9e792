"""What a method learns from data: coefficients, ranks or masks on the task vectors.

A merged tensor is W₀ + Δ, and Δ a sum over experts, Δ = m ⊙ Σ_t w_t λ_t part(t, gates(values)). So
its gradient with respect to the values needs ∂L/∂Δ of one model, and one expert's task vector at a
time. T experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, TypeVar

import torch
from torch import Tensor

from ace_gui.methods.shared.survey import Findings

Values = Mapping[str, Tensor]
"""Of one tensor, by name: what is learned, what it gives, or what an expert's part is made of."""

Parameters = TypeVar("Parameters")

TOGETHER: Final = 1 << 22
"""Entries of the experts' parts of a tensor whose gradients are taken at once."""


@dataclass(frozen=True, kw_only=True)
class Learning(Generic[Parameters]):
    """How a method's values are learned.

    ``start``: the values of a tensor to begin with, from its task vectors, the parameters and the
    findings. ``shared``: those that are one for the whole model, from the parameters and T; the
    first dimension is the experts'. ``gates``: from values to what the parts are made with, a
    differentiable function; with a generator it may draw, without one it is what is exported. A
    gate "coefficient" holds the λ_t; without one they are 1.
    ``factors``: expert by expert, what its part is made of, where that is not {"delta": ΔW_t};
    ``prepares``: the parameters that need such factors, which are kept on disk.
    ``part``: what expert t adds but for λ_t, from its factors and the gates, which it can be
    differentiated by; ΔW_t if it is not given. A gate "mask" holds m, entries that multiply the
    whole sum; without one they are 1.
    ``per_expert``: each expert is learned by itself, on its own tasks. ``penalty``: a number that
    is added to the loss, from the gates. ``plain_descent``: w ← w − rate · ∂L/∂w, without moments.
    ``numbers``: how many of a tensor are learned at once, from its shape and T.
    ``settled``: from a value as it was learned to what is kept of it. ``curve``: what ``figures``
    are, which are one an expert, or none of a tensor that has none, from the gates.
    """

    start: Callable[[Sequence[Tensor], Parameters, Findings | None], Values]
    figures: Callable[[Values], Tensor]
    curve: str
    part: Callable[[int, Values, Values], Tensor] = lambda _t, factors, _gates: factors["delta"]
    numbers: Callable[[tuple[int, ...], int], int] = lambda _, experts: experts
    gates: Callable[[Values, Parameters, torch.Generator | None], Values] = lambda values, *_: (
        values
    )
    shared: Callable[[Parameters, int], Values] | None = None
    factors: (
        Callable[[Sequence[Tensor], Sequence[float], Parameters, Findings | None], Iterator[Values]]
        | None
    ) = None
    prepares: Callable[[Parameters], bool] = lambda _: True
    per_expert: bool = False
    penalty: Callable[[Values, Parameters], Tensor] | None = None
    plain_descent: bool = False
    settled: Callable[[Tensor], Tensor] = lambda value: value


def change(
    learning: Learning[Any],
    factors: Callable[[int], Values],
    weights: Sequence[float],
    gates: Values,
) -> Tensor:
    """Δ = m ⊙ Σ_t w_t λ_t part(t), without a graph. ``factors``: called once for each expert."""
    total: Tensor | None = None
    for t, scale in enumerate(scales(weights, gates)):
        found = learning.part(t, factors(t), gates)
        total = found * scale if total is None else total.add_(found, alpha=scale)
    if total is None:
        return torch.zeros(())
    return total.mul_(gates["mask"]) if "mask" in gates else total


def scales(weights: Sequence[float], gates: Values) -> list[float]:
    """w_t λ_t of every expert."""
    if "coefficient" not in gates:
        return list(weights)
    return [w * own for w, own in zip(weights, gates["coefficient"].tolist(), strict=True)]


def gradients(
    learning: Learning[Any],
    factors: Callable[[int], Values],
    weights: Sequence[float],
    values: Values,
    made: Callable[[Values], Values],
    gradient: Tensor,
    penalty: Callable[[Values], Tensor] | None = None,
) -> dict[str, Tensor]:
    """∂L/∂values from ∂L/∂Δ (``gradient``): that of Σ_t w_t λ_t ⟨m ⊙ ∂L/∂Δ, part(t)⟩.

    It takes a few experts at a time. ``made``: the gates of values, with the random numbers of this
    step.
    """
    leaves = {name: value.detach().requires_grad_() for name, value in values.items()}
    sums = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    with torch.enable_grad():
        gates = made(leaves)
        terms = _terms(learning, factors, weights, gates, gradient)
        for term, pulled in chain(terms, [(penalty(gates), None)] if penalty else []):
            found = torch.autograd.grad(
                term, list(leaves.values()), pulled, retain_graph=True, allow_unused=True
            )
            for total, more in zip(sums.values(), found, strict=True):
                if more is not None:
                    total += more
    return sums


def _terms(
    learning: Learning[Any],
    factors: Callable[[int], Values],
    weights: Sequence[float],
    gates: Values,
    gradient: Tensor,
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """What the gates are differentiated by: numbers, and the mask with the gradient at it."""
    mask = gates.get("mask")
    inner = gradient if mask is None else gradient * mask.detach()
    total = None if mask is None else torch.zeros_like(gradient)
    others = any(gate.requires_grad for name, gate in gates.items() if name != "mask")
    some = max(1, TOGETHER // max(1, gradient.numel()))
    for first in range(0, len(weights), some):
        chunk = slice(first, first + some)
        pulls = []
        for t, scale in list(enumerate(scales(weights, gates)))[chunk]:
            part = learning.part(t, factors(t), gates)
            if total is not None:
                total.add_(part.detach(), alpha=scale)
            if others:
                pulls.append(torch.dot(part.flatten(), inner.flatten().to(part.dtype)))
            del part
        if others:
            pull_T = torch.stack(pulls) * torch.tensor(weights[chunk]).to(pulls[0])
            if "coefficient" in gates:
                pull_T = pull_T * gates["coefficient"][chunk]
            yield pull_T.sum(), None
    if mask is not None and total is not None:
        yield mask, gradient * total
