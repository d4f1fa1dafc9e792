"""What a method learns from data: coefficients, ranks or masks on the task vectors.

A merged tensor is W₀ + Δ with Δ = m ⊙ Σ_t w_t λ_t part(t, gates(values)). The gradient of the
values therefore needs ∂L/∂Δ of one model, and one expert's task vector at a time. T experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from ace_gui.methods.shared.survey import Findings

Values = Mapping[str, Tensor]
"""What is learned, by name."""

Gates = Mapping[str, Tensor]
"""What is computed from the values and scales or masks the experts' parts, by name."""

PartInputs = Mapping[str, Tensor]
"""What an expert's part is made of, by name."""

Parameters = TypeVar("Parameters")

ENTRIES_AT_A_TIME: Final = 1 << 22
"""Number of entries of all experts for which gradients are computed at once."""


PartInputsFunction = Callable[
    [Sequence[Tensor], Sequence[float], Parameters, Findings | None], Iterator[PartInputs]
]
"""Yields the inputs of each part from the task vectors, weights, parameters and findings."""


def task_vector(_t: int, part_inputs: PartInputs, _gates: Gates) -> Tensor:
    """The part of an expert that is its task vector."""
    return part_inputs["delta"]


def values_as_gates(values: Values, _parameters: Any, _generator: torch.Generator | None) -> Gates:
    """The learned values themselves."""
    return values


@dataclass(frozen=True, kw_only=True)
class Learning(Generic[Parameters]):
    """How a method learns its values; most fields are functions."""

    start: Callable[[Sequence[Tensor], Parameters, Findings | None], Values]
    """Returns a tensor's initial values."""
    figures: Callable[[Gates], Tensor]
    """From the gates, one number per expert for the progress plot; empty for a tensor without such
    a number.
    """
    curve: str
    """The title of the progress plot, whose curves are these numbers: what they mean."""
    part: Callable[[int, PartInputs, Gates], Tensor] = task_vector
    """The contribution of expert t, before λ_t, from its inputs and the gates; it is differentiable
    by the gates. The default is ΔW_t.
    """
    numbers: Callable[[tuple[int, ...], int], int] = lambda _, experts: experts
    """How many values a tensor of this shape has for T experts."""
    gates: Callable[[Values, Parameters, torch.Generator | None], Gates] = values_as_gates
    """Maps the learned values to the numbers that scale or mask each expert's part; it is
    differentiable. It may draw random numbers if it gets a generator. Without one, it returns the
    gates of the exported model. The gate "coefficient" holds the λ_t and "mask" holds m, by default
    all 1.
    """
    shared: Callable[[Parameters, int], Values] | None = None
    """Returns the initial values that the whole model shares; their first dimension is the experts.
    None without such values.
    """
    part_inputs: PartInputsFunction[Parameters] | None = None
    """Yields the inputs of each expert's ``part``; None: {"delta": ΔW_t}."""
    needs_part_inputs: Callable[[Parameters], bool] = lambda _: True
    """Whether these parameters need ``part_inputs``, whose results are then kept on disk."""
    per_expert: bool = False
    """Whether each expert is learned separately, on its own tasks."""
    penalty: Callable[[Gates, Parameters, int], Tensor] | None = None
    """A number that each tensor adds to the loss, from its gates, the parameters and the number of
    tensors; None for none.
    """
    radius: Callable[[Parameters], float] = lambda _: 0.0
    """Radius ρ of sharpness-aware minimisation: a step's gradient is taken at a distance of ρ from
    the values, along the gradient there; 0: at the values.
    """
    temperature: Callable[[Parameters], float] = lambda _: 1.0
    """By which logits are divided before they are compared with an expert's."""
    hidden_weight: Callable[[Parameters], float] = lambda _: 0.0
    """Weight of the squared difference of hidden states from an expert's; 0 if they are not
    compared.
    """
    inputs: Callable[[Parameters], int] | None = None
    """Most inputs of each task; None: as many as for other methods."""
    by_block: bool = False
    """Whether it is learned block after block, from the first."""
    plain_descent: bool = False
    """Whether a step is w ← w − rate · ∂L/∂w; False: Adam, whose steps use means of gradients."""
    stored_form: Callable[[Tensor], Tensor] = lambda value: value
    """Maps a learned value to the form that is stored."""


def merged_change(
    learning: Learning[Any],
    part_inputs_of: Callable[[int], PartInputs],
    weights: Sequence[float],
    gates: Gates,
) -> Tensor:
    """Δ = m ⊙ Σ_t w_t λ_t part(t), without a graph. Calls ``part_inputs_of`` once an expert."""
    total: Tensor | None = None
    for t, scale in enumerate(scales(weights, gates)):
        part = learning.part(t, part_inputs_of(t), gates)
        if total is None:
            total = part * scale
        else:
            total = total.add_(part, alpha=scale)
    if total is None:
        return torch.zeros(())
    if "mask" in gates:
        return total.mul_(gates["mask"])
    return total


def scales(weights: Sequence[float], gates: Gates) -> list[float]:
    """w_t λ_t of every expert."""
    if "coefficient" not in gates:
        return list(weights)
    return [w * gate for w, gate in zip(weights, gates["coefficient"].tolist(), strict=True)]


def gradients(
    learning: Learning[Any],
    part_inputs_of: Callable[[int], PartInputs],
    weights: Sequence[float],
    values: Values,
    gates_of: Callable[[Values], Gates],
    gradient: Tensor,
    penalty: Callable[[Gates], Tensor] | None = None,
) -> dict[str, Tensor]:
    """∂L/∂values as the gradient of Σ_t w_t λ_t ⟨m ⊙ ∂L/∂Δ, part(t)⟩, a few experts at a time.

    ``gradient``: ∂L/∂Δ. ``gates_of``: computes the gates with this step's random numbers.
    """
    leaves = {name: value.detach().requires_grad_() for name, value in values.items()}
    sums = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    with torch.enable_grad():
        gates = gates_of(leaves)
        terms: Iterable[_Term] = _terms(learning, part_inputs_of, weights, gates, gradient)
        if penalty:
            terms = chain(terms, [_Term(output=penalty(gates))])
        for term in terms:
            leaf_gradients = torch.autograd.grad(
                term.output,
                list(leaves.values()),
                term.gradient,
                retain_graph=True,
                allow_unused=True,
            )
            for name, addend in zip(leaves, leaf_gradients, strict=True):
                if addend is not None:
                    sums[name] += addend
    return sums


class _Term(NamedTuple):
    """A term of the loss."""

    output: Tensor
    """What is differentiated."""
    gradient: Tensor | None = None
    """∂L/∂output; None for a number that is added to the loss."""


def _terms(
    learning: Learning[Any],
    part_inputs_of: Callable[[int], PartInputs],
    weights: Sequence[float],
    gates: Gates,
    gradient: Tensor,
) -> Iterator[_Term]:
    """The terms by which the loss depends on the gates."""
    # The mask multiplies the sum of all parts. So the parts' terms have it as a constant, and the
    # mask has a term of its own, with the sum as a constant.
    mask = gates.get("mask")
    if mask is None:
        masked = gradient
        total = None
    else:
        masked = gradient * mask.detach()
        total = torch.zeros_like(gradient)
    # Whether any other gate than the mask depends on the learned values.
    learns_parts = any(gate.requires_grad for name, gate in gates.items() if name != "mask")
    all_scales = scales(weights, gates)
    size = max(1, ENTRIES_AT_A_TIME // max(1, gradient.numel()))
    for first in range(0, len(weights), size):
        end = min(first + size, len(weights))
        chunk = slice(first, end)
        products = []
        for t in range(first, end):
            part = learning.part(t, part_inputs_of(t), gates)
            if total is not None:
                total.add_(part.detach(), alpha=all_scales[t])
            if learns_parts:
                products.append(torch.dot(part.flatten(), masked.flatten().to(part.dtype)))
            del part
        if learns_parts:
            products_T = torch.stack(products)
            terms_T = products_T * torch.tensor(weights[chunk]).to(products_T)
            if "coefficient" in gates:
                terms_T = terms_T * gates["coefficient"][chunk]
            yield _Term(output=terms_T.sum())
    if mask is not None and total is not None:
        yield _Term(output=mask, gradient=gradient * total)
