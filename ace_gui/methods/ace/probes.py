"""What the sums over experts do to a few random vectors, exactly: to check cheaper sums by.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers, T experts,
O outputs, I inputs, P probes.

For a matrix D and vectors z of independent normal numbers the mean of ‖Dz‖² is ‖D‖²_F, so that a
few thin products tell how large an error is, whatever its causes. They are taken expert by expert,
before the regime is known, and weighed afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.heterogeneity import norms
from ace_gui.linalg.products import add_product_, one_each, product
from ace_gui.linalg.widened import times_transposed, widened
from ace_gui.methods.ace.problem import Problem, Terms

PROBES: Final = 8
"""Enough: even of a D of rank one, the worst, ‖D‖_F is found three times too small only once in
800 times, of one of rank 4 practically never."""


@dataclass(frozen=True, kw_only=True)
class ProbedExpert:
    """What one expert does to the probes z, exactly (float64).

    ``once_BPO``: W̃z. ``squared_BPI``: W̃ᵀW̃z. ``cubed_BPO``: W̃W̃ᵀW̃z. ``mean_BP1``: μᵀW̃ᵀW̃z.
    """

    once_BPO: Tensor
    squared_BPI: Tensor
    cubed_BPO: Tensor
    mean_BP1: Tensor


@dataclass(frozen=True, kw_only=True)
class Probes:
    """P random vectors, as rows, since thin products are much faster so; and what becomes of them.

    Empty ``experts``: they are of no use to any layer.
    """

    given_PI: Tensor
    experts: list[ProbedExpert]

    def weighed(self, problem: Problem, places: Sequence[int]) -> Probed:
        """What the sums of these layers do to the probes, by the shares of the experts."""
        chosen = list(places)
        sums: dict[str, Tensor] = {}

        def add(name: str, term: Tensor) -> None:
            sums[name] = sums[name].add_(term) if name in sums else term

        for share in problem.shares:
            own = self.experts[share.expert]
            weights_B11 = one_each(share.weights, own.squared_BPI)
            cubed_BPO = own.cubed_BPO[chosen] * weights_B11
            add("scaled", own.squared_BPI[chosen] * weights_B11)
            add("residual", own.mean_BP1[chosen] * weights_B11 + cubed_BPO)
            add("numerator", own.once_BPO[chosen] * one_each(share.ridges, cubed_BPO) + cubed_BPO)
        return Probed(
            given_PI=self.given_PI,
            scaled_BPI=sums["scaled"],
            numerator_BPO=sums["numerator"],
            residual_BPO=sums["residual"],
        )


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What the sums over experts do to the probes, exactly (float64).

    ``scaled_BPI``: S₀ times them. ``numerator_BPO``: B times them. ``residual_BPO``: Σ_t ΔW_t Σ̃_t
    times them.
    """

    given_PI: Tensor
    scaled_BPI: Tensor
    numerator_BPO: Tensor
    residual_BPO: Tensor

    def of(self, places: Sequence[int]) -> Probed:
        """Those of some of the layers."""
        chosen = list(places)
        return replace(
            self,
            scaled_BPI=self.scaled_BPI[chosen],
            numerator_BPO=self.numerator_BPO[chosen],
            residual_BPO=self.residual_BPO[chosen],
        )

    def conditions(self, problem: Problem) -> list[float]:
        """About ‖S₀‖_F/e of each layer."""
        return [
            norm / math.sqrt(PROBES) / mass
            for norm, mass in zip(norms(self.scaled_BPI), problem.ridge_masses, strict=True)
        ]

    def errors(self, terms: Terms, problem: Problem) -> list[float]:
        """About ‖δW‖_F of each layer; the prior (Eq. 11) adds to each entry of S₀z κ their mean."""
        priors_B11 = one_each(problem.prior_scales, self.scaled_BPI)
        system_BPI = self.scaled_BPI + self.scaled_BPI.mean(dim=2, keepdim=True) * priors_B11
        system_BPI.addcmul_(self.given_PI, one_each(problem.ridge_masses, system_BPI))
        missed_BPO = times_transposed(system_BPI, terms.preliminary_BOI) - self.numerator_BPO
        return [
            norm / math.sqrt(PROBES) / mass
            for norm, mass in zip(norms(missed_BPO), problem.ridge_masses, strict=True)
        ]

    def residual_errors(self, terms: Terms, problem: Problem) -> list[float]:
        """About the error of Δ_res of each layer, Frobenius."""
        if terms.residual_BOI is None or terms.total_BOI is None:
            return [0.0] * len(problem.layers)
        mean_BPI = self.scaled_BPI.addcmul(
            self.given_PI, one_each(problem.ridge_masses, self.scaled_BPI)
        ).div_(len(problem.shares))
        given_BPI = self.given_PI.expand(len(mean_BPI), -1, -1)
        missed_BPO = times_transposed(given_BPI, terms.residual_BOI) - self.residual_BPO
        missed_BPO.add_(times_transposed(mean_BPI, terms.total_BOI))
        return [norm / math.sqrt(PROBES) for norm in norms(missed_BPO)]


def new_probes(like_BOI: Tensor) -> Probes:
    """Always the same random vectors for a shape, so that results can be repeated."""
    generator = torch.Generator().manual_seed(0)
    given_PI = torch.randn(PROBES, like_BOI.shape[2], generator=generator, dtype=torch.float64)
    return Probes(given_PI=given_PI.to(like_BOI.device), experts=[])


def probe(
    delta_BOI: Tensor, given_PI: Tensor | None
) -> tuple[list[tuple[float, float]], ProbedExpert | None]:
    """‖ΔW‖²_F and ‖W̃‖²_F of every layer, and what W̃ does to the probes; float64.

    Twice through the matrix: W̃ᵀW̃z = ΔWᵀΔWz − O μ (μᵀz) is found on the way to μ (Eq. 5).
    """
    layers, outputs, inputs = delta_BOI.shape
    mean_B1I = delta_BOI.new_zeros(layers, 1, inputs, dtype=torch.float64)
    given_BPI = mean_B1I[:, :0] if given_PI is None else given_PI.expand(layers, -1, -1)
    squared_BPI = torch.zeros_like(given_BPI, memory_format=torch.contiguous_format)
    energy_B, trace_B = mean_B1I.new_zeros(layers), mean_B1I.new_zeros(layers)
    once, cubed = [], []
    for _, part_BNI in widened(delta_BOI):
        energy_B += torch.linalg.vector_norm(part_BNI, dim=(1, 2)).square()
        mean_B1I += part_BNI.sum(dim=1, keepdim=True)
        if given_PI is not None:
            once.append(product(given_BPI, part_BNI.mT))
            add_product_(squared_BPI, once[-1], part_BNI)
    mean_B1I /= max(1, outputs)
    shift_BP1 = product(given_BPI, mean_B1I.mT)
    squared_BPI.addcmul_(shift_BP1, mean_B1I, value=-outputs)
    for _, part_BNI in widened(delta_BOI):
        centred_BNI = part_BNI - mean_B1I
        trace_B += torch.linalg.vector_norm(centred_BNI, dim=(1, 2)).square()
        if given_PI is not None:
            cubed.append(product(squared_BPI, centred_BNI.mT))
    figures = [(energy, trace) for energy, trace in torch.stack((energy_B, trace_B), 1).tolist()]
    if given_PI is None:
        return figures, None
    return figures, ProbedExpert(
        once_BPO=torch.cat(once, dim=2).sub_(shift_BP1),
        squared_BPI=squared_BPI,
        cubed_BPO=torch.cat(cubed, dim=2),
        mean_BP1=product(squared_BPI, mean_B1I.mT),
    )
