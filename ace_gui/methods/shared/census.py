"""Which experts changed a tensor, and reading and returning tensors that are finite.

T experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.heterogeneity import heterogeneity
from ace_gui.linalg.passes import energy, is_finite
from ace_gui.methods.method import Diagnostics, Merged, Weights
from ace_gui.methods.shared.weighted_experts import WeightedExperts


@dataclass(frozen=True, kw_only=True)
class Census:
    """``energies``: ‖w_t ΔW_t‖²_F, one an expert. ``kept``, ``left_out``: indices, ascending."""

    energies: tuple[float, ...]
    kept: tuple[int, ...]
    left_out: tuple[int, ...]

    @classmethod
    def of(cls, energies: Sequence[float]) -> Self:
        """Of these energies. Raises MethodError if one is not finite."""
        found = heterogeneity(energies)
        return cls(energies=tuple(energies), kept=found.kept, left_out=found.left_out)

    def diagnostics(self, notes: Sequence[str] = (), precision: str = "") -> Diagnostics:
        """With a note on the experts that were left out, before the given ones."""
        counts = []
        if self.left_out:
            counts.append(
                f"{len(self.left_out)} of {len(self.energies)} experts do not change this tensor "
                "and were left out of it."
            )
        return Diagnostics(
            energies=self.energies,
            left_out=self.left_out,
            precision=precision,
            notes=(*counts, *notes),
        )


def census(experts: WeightedExperts, weights: Weights) -> Census:
    """Read every expert once; one with at most 1e-10 of the median energy is left out.

    Raises MethodError if a task vector is not finite.
    """
    energies = tuple(weight * weight * energy(experts.delta(t)) for t, weight in enumerate(weights))
    return Census.of(energies)


def task_vector(experts: WeightedExperts, t: int) -> Tensor:
    """ΔW_t as given. Raises MethodError if it is not finite: masks would hide a NaN."""
    delta = experts.delta(t)
    if not is_finite(delta):
        raise MethodError(
            f"Task vector {t + 1} of {len(experts)} holds NaN or Inf; check that expert's files."
        )
    return delta


def require_mean(weights: Weights) -> float:
    """The sum of the weights. Raises MethodError if it is zero: there is no mean then."""
    total = sum(weights)
    if total == 0:
        raise MethodError("The experts' weights sum to zero, so they have no mean; change one.")
    return total


def combination(
    experts: WeightedExperts, coefficients: Sequence[float], indices: Sequence[int]
) -> Tensor:
    """Σ c_t ΔW_t over ``indices`` in float64, any shape; zero where there are none."""
    total = torch.zeros_like(experts.delta(0), dtype=torch.float64)
    for coefficient, t in zip(coefficients, indices, strict=True):
        total.add_(task_vector(experts, t), alpha=coefficient)
    return total


def summed(experts: WeightedExperts, weights: Weights) -> tuple[Census, Tensor]:
    """The census, and Σ w_t ΔW_t in float64 over the experts it keeps, any shape.

    Reads every expert once, and those that are left out again, to take them out of the sum.
    Raises MethodError if a task vector is not finite.
    """
    total, energies = torch.zeros(()), []
    for t, weight in enumerate(weights):
        delta = experts.delta(t)
        energies.append(weight * weight * energy(delta))
        if t == 0:
            total = torch.zeros_like(delta, dtype=torch.float64)
        total.add_(delta, alpha=weight)
    found = Census.of(energies)
    for t in found.left_out:
        total.sub_(experts.delta(t), alpha=weights[t])
    return found, total


def finished(value: Tensor, scaling: float = 1.0, diagnostics: Diagnostics | None = None) -> Merged:
    """The result, which is overwritten, scaled and rounded to float32.

    Raises MethodError if it leaves the range of float32.
    """
    delta = value.mul_(scaling).to(torch.float32).contiguous()
    if not is_finite(delta):
        raise MethodError(
            "The merged task vector leaves the range of float32; use smaller weights or scaling."
        )
    return Merged(delta=delta, diagnostics=diagnostics or Diagnostics())
