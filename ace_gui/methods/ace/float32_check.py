"""Whether float32 is exact enough, estimated with random vectors.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers, T experts, O
outputs, I inputs. Eq. 14 defines W_pre by W_pre A = B, where A = S + 1cᵀ. A float32 solution has
the error δW = (W_pre A − B) A⁻¹. A⁻¹ is at most about 1/e, with the ridge mass e, and W_pre A − B
is probed (``probes``). The allowed δW follows from the number formats of experts and output.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum
from typing import Final

import torch

from ace_gui.methods.ace import by_inputs, by_rows
from ace_gui.methods.ace.probes import Probed
from ace_gui.methods.ace.problem import Precision, Problem, Solution, Terms, joined
from ace_gui.methods.shared.tolerance import Tolerance

SUMS: Final = 3e-8
"""What sums in float32 leave W_pre of relative error, by ‖S₀‖_F/e: half its rounding at least,
and up to ten times as much. Where that would be too much already they are not tried."""

SOLVED: Final = 1e-7
"""The same where the system is solved in float32 too."""

REFINED: Final = 40.0
"""By about how much the refinement multiplies errors."""


class Way(Enum):
    """In which numbers a layer is computed."""

    SINGLE = "float32"
    MIXED = "float32 where experts are summed up, float64 where the system is solved"
    DOUBLE = "float64"


def _ways(problem: Problem, probed: Probed) -> list[Way]:
    """The cheapest numbers for each layer whose expected error is within its tolerance."""
    multiplied = REFINED if problem.with_residual else 1.0
    found = []
    for condition, tolerance, size in zip(
        probed.conditions, problem.tolerances, problem.sizes, strict=True
    ):
        most = tolerance.relative(size) / multiplied
        if SOLVED * condition <= most:
            found.append(Way.SINGLE)
        else:
            found.append(Way.MIXED if SUMS * condition <= most else Way.DOUBLE)
    return found


def solve(problem: Problem, probed: Probed) -> Terms:
    """Each layer in the cheapest numbers that are exact enough for it.

    Each expert is read once, and once more where a layer is solved anew in float64.
    """
    ways = _ways(problem, probed)
    parts: list[tuple[list[int], Terms]] = []
    exact = [b for b, way in enumerate(ways) if way is Way.DOUBLE]
    for way in (Way.SINGLE, Way.MIXED):
        indices = [b for b, own in enumerate(ways) if own is way]
        if not indices:
            continue
        terms, coarse = attempt(problem.of(indices), probed.of(indices), way)
        fine = [b for b in range(len(indices)) if b not in coarse]
        if fine:
            parts.append(([indices[b] for b in fine], terms.of(fine)))
        exact += [indices[b] for b in coarse]
        del terms
    if exact:
        exact.sort()
        parts.append((exact, in_float64(problem.of(exact))))
    return joined(parts)


def in_float64(problem: Problem) -> Terms:
    """The same in float64, by the shorter of both ways."""
    if by_rows.few_experts(problem.shape, len(problem.shares)):
        return by_rows.solve(problem)
    return by_inputs.solve(problem)


def attempt(problem: Problem, probed: Probed, way: Way) -> tuple[Terms, list[int]]:
    """In float32, wholly or in part; and the layers for which that is too coarse."""
    widened = way is Way.MIXED
    if by_rows.few_experts(problem.shape, len(problem.shares)):
        terms = by_rows.solve(problem, torch.float32, widened=widened)
    else:
        # Where experts have little in common, their sums are more exact without the reference.
        referred = all(tolerance.rounding for tolerance in problem.tolerances)
        sums = by_inputs.collect(problem, torch.float32, referred=referred)
        terms = by_inputs.solved(sums, problem, widened=widened)
    errors = probed.errors(terms, problem)
    coarse = [
        b
        for b, (error, _, size) in enumerate(errors)
        if terms.cuts[b] or not error <= problem.tolerances[b].relative(size) * size
    ]
    precisions = [
        Precision(
            numbers=way.value,
            error=error / (size or 1.0),
            fused_error=math.hypot(error, residual_error),
        )
        for error, residual_error, size in errors
    ]
    return replace(terms, precisions=precisions, sizes=[size for *_, size in errors]), coarse


def too_coarse(solution: Solution, tolerance: Tolerance) -> bool:
    """Whether what float32 left is too much once the refinement has multiplied it."""
    precision, refinement = solution.precision, solution.refinement
    if precision is None or refinement is None or not precision.fused_error:
        return False
    size = math.hypot(solution.size, refinement.size)
    allowed = tolerance.relative(size) * size
    return not precision.fused_error * refinement.sensitivity <= allowed
