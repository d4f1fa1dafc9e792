"""Methods whose result is Σ c_t ΔW_t, with c_t from the inner products of the experts' changes.

A survey takes the inner products in one pass over a tensor, and the method combines in a second,
both in parts. T experts. A method of whole weights takes W₀ as one more vector, the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.passes import energy
from ace_gui.methods.shared.experts import Experts
from ace_gui.methods.shared.kit import WorkingMemory
from ace_gui.methods.shared.survey import Findings, SumSurvey, SurveyContext

COEFFICIENT: Final = "coefficient"
"""Name of a finding: c_t of each expert's unweighted task vector."""

OF_BASE: Final = "coefficient of the base"
"""Name of a finding: the coefficient of W₀ in the change, the same for every expert."""

ENERGY: Final = "energy"
"""Name of a finding: ‖w_t ΔW_t‖²_F of each expert."""

BLOCK: Final = 1 << 14
"""Elements of each vector that are widened to float64 at a time; they fit into a CPU cache."""

IN_MEMORY: Final = 1 << 20
"""Elements of a vector up to which all are in memory at once. Of longer vectors, two are."""


def inner_products(vectors: Sequence[Tensor]) -> Tensor:
    """⟨v_s, v_t⟩ for all pairs of tensors of one shape, float64, in the processor's memory."""
    count = len(vectors)
    products = torch.zeros(count, count, dtype=torch.float64)
    first = vectors[0].reshape(-1)  # is used below, as reading a vector may take long
    if first.numel() <= IN_MEMORY:
        other_vectors = [vectors[index].reshape(-1) for index in range(1, count)]
        return _products([first, *other_vectors])
    for row in range(count):
        if row == 0:
            row_vector = first
        else:
            row_vector = vectors[row].reshape(-1)
        products[row, row] = _products([row_vector])[0, 0]
        for column in range(row + 1, count):
            product = _products([row_vector, vectors[column].reshape(-1)])[0, 1]
            products[row, column] = product
            products[column, row] = product
    return products


def _products(vectors: Sequence[Tensor]) -> Tensor:
    """``inner_products`` of flat vectors."""
    count = len(vectors)
    width = min(BLOCK, vectors[0].numel())
    products = vectors[0].new_zeros(count, count, dtype=torch.float64)
    block = vectors[0].new_empty(count, width, dtype=torch.float64)
    for start in range(0, vectors[0].numel(), BLOCK):
        pieces = [vector[start : start + BLOCK] for vector in vectors]
        wide = block[:, : len(pieces[0])]
        for row, piece in zip(wide, pieces, strict=True):
            row.copy_(piece)
        products.addmm_(wide, wide.T)
    return products.cpu()


def inner_product_survey(
    context: SurveyContext, to_findings: Callable[[Tensor], Findings], *, with_base: bool = False
) -> SumSurvey:
    """A survey of a tensor's inner products.

    ``to_findings``: maps them (T × T, float64, of unweighted task vectors) to the findings. With
    the base they are (T + 1) × (T + 1), and W₀ is last.
    """
    experts = len(context.parameters)

    # A survey has figures of experts only, so the base's row of the matrix is left out. Its
    # products also stand in the column ``base_at``. Its energy stands in every row, in the column
    # ``base_energy_at``, and ``findings`` restores the row.
    base_at = experts
    base_energy_at = experts + 1

    def figures(vectors: Sequence[Tensor], _start: int) -> Iterable[Sequence[float]]:
        products: list[list[float]] = inner_products(vectors).tolist()
        if not with_base:
            return products
        energy_of_base = products[base_at][base_at]
        return [[*row, energy_of_base] for row in products[:base_at]]

    def findings(sums: list[list[float]]) -> Findings:
        if not with_base:
            return to_findings(torch.tensor(sums, dtype=torch.float64))
        products = [row[:base_energy_at] for row in sums]
        row_of_base = [row[base_at] for row in sums]
        products.append([*row_of_base, sums[0][base_energy_at]])
        return to_findings(torch.tensor(products, dtype=torch.float64))

    if with_base:
        width = experts + 2
    else:
        width = experts
    return SumSurvey(experts, width, figures, findings, with_base=with_base)


def weighted_energies(products: Tensor, context: SurveyContext) -> tuple[float, ...]:
    """‖w_t ΔW_t‖²_F of each expert."""
    # There may also be W₀'s product with itself, after those of the experts.
    energies = products.diagonal()[: len(context.weights)].tolist()
    return _times_squared_weights(energies, context.weights)


def _times_squared_weights(
    energies: Iterable[float], weights: Sequence[float]
) -> tuple[float, ...]:
    pairs = zip(weights, energies, strict=True)
    return tuple(weight * weight * square for weight, square in pairs)


def energies_survey(context: SurveyContext) -> SumSurvey:
    """A survey of the energies of the weighted task vectors in a tensor."""

    def figures(vectors: Sequence[Tensor], _start: int) -> Iterable[Sequence[float]]:
        return ([energy(vectors[index])] for index in range(len(vectors)))

    def findings(sums: list[list[float]]) -> Findings:
        energies = [square for (square,) in sums]
        return {ENERGY: _times_squared_weights(energies, context.weights)}

    return SumSurvey(len(context.parameters), 1, figures, findings)


def combined(experts: Experts, findings: Findings, base: Tensor | None = None) -> Tensor:
    """Σ c_t ΔW_t in float64, with c_t from the findings, plus W₀ times its coefficient there."""
    total = experts.combination(findings[COEFFICIENT], range(len(experts)))
    if base is None:
        return total
    return total.add_(base, alpha=findings[OF_BASE][0])


def parts_memory(*, numbers_per_element: float) -> WorkingMemory:
    """So many float64 numbers for each element, or what the survey holds if that is more."""

    def numbers(shape: tuple[int, ...], experts: int) -> float:
        count = math.prod(shape)
        if count <= IN_MEMORY:
            vectors_at_once = experts + 1
        else:
            vectors_at_once = 2
        # A task vector in float32 takes half as much as float64 numbers.
        surveying = vectors_at_once * (0.5 * count + min(count, BLOCK))
        return max(numbers_per_element * count, surveying)

    return numbers
