"""Whether float32 is exact enough for a layer: what is expected beforehand, what is measured after.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers of one shape, T
experts, O outputs, I inputs, P probes.

Eq. 14 defines W_pre by W_pre A = B, where A = S + 1cᵀ. A float32 solution leaves R = W_pre A − B,
and has the error δW = R A⁻¹. Rounding prefers no direction, so that

    ‖δW‖_F ≈ ‖R‖_F · ‖A⁻¹‖_F / √I.

The probes z measure both factors: R z is exact, from the thin products with every expert
(``probes``), and z A⁻¹ is solved together with W_pre. The products are made before the regime is
known, and weighted afterwards. The error that is allowed follows from the number formats of experts
and output (``Tolerance``).

Whether float32 is worth trying is one rule for all regimes: R is about ``ROUNDING`` · ‖S₀‖ ‖W_pre‖.
‖A⁻¹‖_F/√I lies between I/Tr S, if all eigenvalues of S are equal, and 1/e, with the ridge mass e,
if most of them are that small. The geometric mean of the two is expected. A refinement multiplies
the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.passes import norms, times_transposed
from ace_gui.linalg.products import factor_per_matrix, matrices_at
from ace_gui.methods.ace.probes import PROBES, Probes
from ace_gui.methods.ace.problem import (
    LayerEnergies,
    Precision,
    Problem,
    Refinement,
    Terms,
)
from ace_gui.methods.shared.tolerance import Tolerance

ROUNDING: Final = 1e-7
"""‖R‖_F of a solution in float32, as a share of ‖S₀‖_F ‖W_pre‖_F, about."""

REFINED: Final = 40.0
"""Factor by which the refinement multiplies the expected relative error, about."""

SAFETY: Final = 1.3
"""Factor on the measured error. Over made layers of all kinds, the true one was at most 1.24 times
as large; over 314 layers of five whole models, once 1.36 times, after a refinement."""


def expected_error(norm: float, trace: float, ridge_mass: float, inputs: int) -> float:
    """The relative error of W_pre that float32 will leave, about.

    ``norm``, ``trace``: ‖S₀‖_F and Tr S₀. NaN if they are.
    """
    largest_inverse = 1 / ridge_mass
    smallest_inverse = inputs / (trace + inputs * ridge_mass)
    return ROUNDING * norm * math.sqrt(smallest_inverse * largest_inverse)


def promising(
    probes: Probes, problem: Problem, group: Sequence[LayerEnergies], indices: Sequence[int]
) -> list[int]:
    """The layers of the problem for which float32 is probably exact enough.

    Does not wait for a GPU. ``group``: figures of the problem's layers; ``indices``: of these
    layers within the probes.
    """
    experts = [share.expert for share in problem.shares]
    if problem.with_residual:
        factor = REFINED
    else:
        factor = 1.0
    layers = []
    for b, (figures, index) in enumerate(zip(group, indices, strict=True)):
        weights_T = probes.inner_BTT.new_tensor([share.weights[b] for share in problem.shares])
        inner_TT = probes.inner_BTT[index][experts][:, experts]
        square = max(0.0, float(weights_T @ inner_TT @ weights_T)) / PROBES
        terms = [share.weights[b] * figures.traces[share.expert] for share in problem.shares]
        norm = math.sqrt(square)
        inputs = problem.shape[1]
        error = expected_error(norm, math.fsum(terms), problem.ridge_masses[b], inputs)
        if not figures.double and error * factor <= problem.tolerances[b].relative(
            problem.sizes[b]
        ):
            layers.append(b)
    return layers


@dataclass(frozen=True, kw_only=True)
class ProbedSums:
    """Exact products of the sums over experts with the probes z (float64)."""

    probes_PI: Tensor

    scaled_BPI: Tensor
    """S₀z."""

    numerator_BPO: Tensor
    """Bz."""

    residual_BPO: Tensor
    """Σ_t ΔW_t Σ̃_t z."""

    @classmethod
    def of(cls, probes: Probes, problem: Problem, indices: Sequence[int]) -> ProbedSums:
        """Those of the problem's layers, which have these ``indices`` within the probes."""
        sums: dict[str, Tensor] = {}

        def add(name: str, term: Tensor) -> None:
            sums[name] = sums[name].add_(term) if name in sums else term

        for share in problem.shares:
            probed = probes.experts[share.expert]
            weights_B11 = factor_per_matrix(share.weights, probed.squared_BPI)
            cubed_BPO = matrices_at(probed.cubed_BPO, indices) * weights_B11
            add("scaled", matrices_at(probed.squared_BPI, indices) * weights_B11)
            add("residual", matrices_at(probed.mean_BP1, indices) * weights_B11 + cubed_BPO)
            ridges_B11 = factor_per_matrix(share.ridges, cubed_BPO)
            ridged_BPO = matrices_at(probed.once_BPO, indices) * ridges_B11
            add("numerator", ridged_BPO + cubed_BPO)
        return cls(
            probes_PI=probes.probes_PI,
            scaled_BPI=sums["scaled"],
            numerator_BPO=sums["numerator"],
            residual_BPO=sums["residual"],
        )

    def precisions(self, terms: Terms, problem: Problem) -> list[Precision]:
        """The error that float32 left in each layer. ``terms``: with the inverse's size."""
        assert terms.inverse_size_B is not None
        errors_B = self._left_over(terms, problem) * terms.inverse_size_B
        residual_errors_B = self._residual_error(terms, problem)
        figures_B3 = torch.stack((errors_B, residual_errors_B, norms(terms.preliminary_BOI)), dim=1)
        share = SAFETY / math.sqrt(PROBES)
        return [
            Precision(size=size, error=share * error, residual_error=share * residual_error)
            for error, residual_error, size in figures_B3.tolist()
        ]

    def _left_over(self, terms: Terms, problem: Problem) -> Tensor:
        """‖Rz‖, R = W_pre A − B. The prior (Eq. 11) adds κ times the mean of S₀z to its entries."""
        priors_B11 = factor_per_matrix(problem.prior_scales, self.scaled_BPI)
        system_BPI = self.scaled_BPI + self.scaled_BPI.mean(dim=2, keepdim=True) * priors_B11
        system_BPI.addcmul_(self.probes_PI, factor_per_matrix(problem.ridge_masses, system_BPI))
        return norms(times_transposed(system_BPI, terms.preliminary_BOI) - self.numerator_BPO)

    def _residual_error(self, terms: Terms, problem: Problem) -> Tensor:
        """‖δΔ_res z‖ (Eq. 17); 0 without a residual."""
        if terms.residual_BOI is None or terms.total_BOI is None:
            return self.scaled_BPI.new_zeros(len(problem.layers))
        mean_BPI = self.scaled_BPI.addcmul(
            self.probes_PI, factor_per_matrix(problem.ridge_masses, self.scaled_BPI)
        ).div_(len(problem.shares))
        probes_BPI = self.probes_PI.expand(len(mean_BPI), -1, -1)
        error_BPO = times_transposed(probes_BPI, terms.residual_BOI) - self.residual_BPO
        error_BPO.add_(times_transposed(mean_BPI, terms.total_BOI))
        return norms(error_BPO)


def exact_enough(precision: Precision, cut: int, tolerance: Tolerance) -> bool:
    """Whether float32's error of W_pre is small enough. ``cut``: directions left out of S."""
    return not cut and precision.error <= tolerance.relative(precision.size) * precision.size


def refined_error(precision: Precision, refinement: Refinement | None) -> tuple[float, float]:
    """Float32's error after the refinement, which multiplies it, and the norm of the change."""
    if refinement is None:
        return precision.error, precision.size
    fused_error = math.hypot(precision.error, precision.residual_error)
    return fused_error * refinement.sensitivity, math.hypot(precision.size, refinement.size)


def refined_exactly_enough(
    precision: Precision, refinement: Refinement | None, tolerance: Tolerance
) -> bool:
    """Whether W_pre is still exact enough after the refinement, if there is one."""
    error, size = refined_error(precision, refinement)
    return error <= tolerance.relative(size) * size
