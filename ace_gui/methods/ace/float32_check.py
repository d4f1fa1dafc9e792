"""ACE's first pass over the experts: their energies, and whether float32 is exact enough.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers of one shape, T
experts, O outputs, I inputs, P probes.

Eq. 14 defines W_pre by W_pre A = B, where A = S + 1cᵀ. A float32 solution has the error
δW = (W_pre A − B) A⁻¹. A⁻¹ is at most about 1/e, with the ridge mass e. For a matrix D and vectors
z of independent normal numbers the mean of ‖Dz‖² is ‖D‖²_F, so a few exact thin products estimate
W_pre A − B, whatever its origin. They are computed per expert, before the regime is known, and
weighted afterwards. The allowed δW follows from the number formats of experts and output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.heterogeneity import Heterogeneity, heterogeneity
from ace_gui.linalg.passes import norms, times_transposed, widened
from ace_gui.linalg.products import add_product_, moved, one_each, product, some
from ace_gui.methods.ace.closed_form import few_experts
from ace_gui.methods.ace.problem import Precision, Problem, Solution, Terms
from ace_gui.methods.shared.experts import Experts, seen
from ace_gui.methods.shared.tolerance import EXACT, Tolerance

SINGLE: Final = 1e-7
"""Relative error of W_pre in float32, divided by ‖S₀‖_F/e, about. Float32 is tried if the error is
within the tolerance."""

REFINED: Final = 40.0
"""Factor by which the refinement multiplies errors, about."""

PROBES: Final = 8
"""Number of probes. Even for a D of rank one, the worst case, the estimate of ‖D‖_F is three times
too small only once in 800 times, and practically never for rank 4."""


@dataclass(frozen=True, kw_only=True)
class ProbedExpert:
    """Exact products of one expert with the probes z (float64).

    ``once_BPO``: W̃z. ``squared_BPI``: W̃ᵀW̃z. ``cubed_BPO``: W̃W̃ᵀW̃z. ``mean_BP1``: μᵀW̃ᵀW̃z.
    """

    once_BPO: Tensor
    squared_BPI: Tensor
    cubed_BPO: Tensor
    mean_BP1: Tensor


@dataclass(frozen=True, kw_only=True)
class Probes:
    """P random vectors z and their products with the experts.

    The vectors are rows, since thin products are much faster that way. ``inner_BTT``: ⟨W̃_sᵀW̃_s z,
    W̃_tᵀW̃_t z⟩, in the processor's memory.
    """

    probes_PI: Tensor
    experts: Sequence[ProbedExpert]
    inner_BTT: Tensor

    def weighed(self, problem: Problem, indices: Sequence[int]) -> Probed:
        """Products of these layers' sums over experts with the probes, by the experts' shares."""
        sums: dict[str, Tensor] = {}

        def add(name: str, term: Tensor) -> None:
            sums[name] = sums[name].add_(term) if name in sums else term

        for share in problem.shares:
            probed = self.experts[share.expert]
            weights_B11 = one_each(share.weights, probed.squared_BPI)
            cubed_BPO = some(probed.cubed_BPO, indices) * weights_B11
            add("scaled", some(probed.squared_BPI, indices) * weights_B11)
            add("residual", some(probed.mean_BP1, indices) * weights_B11 + cubed_BPO)
            ridged_BPO = some(probed.once_BPO, indices) * one_each(share.ridges, cubed_BPO)
            add("numerator", ridged_BPO + cubed_BPO)
        return Probed(
            probes_PI=self.probes_PI,
            scaled_BPI=sums["scaled"],
            numerator_BPO=sums["numerator"],
            residual_BPO=sums["residual"],
        )

    def promising(self, problem: Problem, indices: Sequence[int]) -> list[int]:
        """The layers of the problem for which float32 is probably exact enough.

        Decided by an estimate of ‖S₀‖_F/e, without waiting for a GPU. ``indices``: the layers of
        the problem within the probes.
        """
        experts = [share.expert for share in problem.shares]
        multiplied = REFINED if problem.with_residual else 1.0
        layers = []
        for b, index in enumerate(indices):
            weights_T = self.inner_BTT.new_tensor([share.weights[b] for share in problem.shares])
            inner_TT = self.inner_BTT[index][experts][:, experts]
            square = float(weights_T @ inner_TT @ weights_T)
            condition = math.sqrt(max(0.0, square) / PROBES) / problem.ridge_masses[b]
            most = problem.tolerances[b].relative(problem.sizes[b]) / multiplied
            if not math.isnan(square) and SINGLE * condition <= most:
                layers.append(b)
        return layers


@dataclass(frozen=True, kw_only=True)
class Probed:
    """Exact products of the sums over experts with the probes (float64).

    ``scaled_BPI``: S₀z. ``numerator_BPO``: Bz. ``residual_BPO``: Σ_t ΔW_t Σ̃_t z.
    """

    probes_PI: Tensor
    scaled_BPI: Tensor
    numerator_BPO: Tensor
    residual_BPO: Tensor

    def precisions(self, terms: Terms, problem: Problem) -> list[Precision]:
        """The error that float32 left in each layer."""
        errors = (self._error(terms, problem), self._residual_error(terms, problem))
        asked_B3 = torch.stack((*errors, norms(terms.preliminary_BOI)), dim=1)
        root = math.sqrt(PROBES)
        return [
            Precision(size=size, error=error / root / mass, residual_error=residual_error / root)
            for (error, residual_error, size), mass in zip(
                asked_B3.tolist(), problem.ridge_masses, strict=True
            )
        ]

    def _error(self, terms: Terms, problem: Problem) -> Tensor:
        """‖(W_pre A − B)z‖. The prior (Eq. 11) adds κ times the mean of S₀z to its entries."""
        priors_B11 = one_each(problem.prior_scales, self.scaled_BPI)
        system_BPI = self.scaled_BPI + self.scaled_BPI.mean(dim=2, keepdim=True) * priors_B11
        system_BPI.addcmul_(self.probes_PI, one_each(problem.ridge_masses, system_BPI))
        return norms(times_transposed(system_BPI, terms.preliminary_BOI) - self.numerator_BPO)

    def _residual_error(self, terms: Terms, problem: Problem) -> Tensor:
        if terms.residual_BOI is None or terms.total_BOI is None:
            return self.scaled_BPI.new_zeros(len(problem.layers))
        mean_BPI = self.scaled_BPI.addcmul(
            self.probes_PI, one_each(problem.ridge_masses, self.scaled_BPI)
        ).div_(len(problem.shares))
        probes_BPI = self.probes_PI.expand(len(mean_BPI), -1, -1)
        error_BPO = times_transposed(probes_BPI, terms.residual_BOI) - self.residual_BPO
        error_BPO.add_(times_transposed(mean_BPI, terms.total_BOI))
        return norms(error_BPO)


def exact_enough(solution: Solution, tolerance: Tolerance) -> bool:
    """Whether float32's error is small enough, also after the refinement has multiplied it."""
    precision, refinement = solution.precision, solution.refinement
    if precision is None or solution.cut:
        return False
    if not precision.error <= tolerance.relative(precision.size) * precision.size:
        return False
    if refinement is None:
        return True
    size = math.hypot(precision.size, refinement.size)
    fused_error = math.hypot(precision.error, precision.residual_error)
    return fused_error * refinement.sensitivity <= tolerance.relative(size) * size


def new_probes(like_BOI: Tensor) -> Tensor:
    """Random vectors (P × I), always the same for a shape, so that results can be repeated."""
    generator = torch.Generator().manual_seed(0)
    probes_PI = torch.randn(PROBES, like_BOI.shape[2], generator=generator, dtype=torch.float64)
    return moved(probes_PI, like_BOI.device)


def inner_products(experts: Sequence[ProbedExpert]) -> Tensor:
    """⟨W̃_sᵀW̃_s z, W̃_tᵀW̃_t z⟩ for all pairs of experts in every layer (B × T × T)."""
    flat_BTN = torch.stack([expert.squared_BPI.flatten(1) for expert in experts], dim=1)
    return product(flat_BTN, flat_BTN.mT)


def probe(delta_BOI: Tensor, probes_PI: Tensor | None) -> tuple[Tensor, ProbedExpert | None]:
    """‖ΔW‖²_F and ‖W̃‖²_F of every layer (B × 2), and the products of W̃ with the probes; float64.

    Reads the matrix twice. The sums are over Y = ΔW − 1sᵀ, where s is the first row. As ‖s − μ‖² is
    one of the O terms of ‖W̃‖²_F, rounding errors grow by a factor of at most O + 1, however large
    μ is. With ν = μ − s (Eq. 5), W̃ᵀW̃z is YᵀYz − O ν (νᵀz).
    """
    layers, outputs, _ = delta_BOI.shape
    shift_B1I = delta_BOI[:, :1].sum(dim=1, keepdim=True, dtype=torch.float64)
    mean_B1I = torch.zeros_like(shift_B1I)
    probes_BPI = mean_B1I[:, :0] if probes_PI is None else probes_PI.expand(layers, -1, -1)
    squared_BPI = torch.zeros_like(probes_BPI, memory_format=torch.contiguous_format)
    square_B = mean_B1I.new_zeros(layers)
    once = []
    for _, part_BNI in widened(delta_BOI, less=shift_B1I):
        square_B += torch.linalg.vector_norm(part_BNI, dim=(1, 2)).square()
        mean_B1I += part_BNI.sum(dim=1, keepdim=True)
        if probes_PI is not None:
            once.append(product(probes_BPI, part_BNI.mT))
            add_product_(squared_BPI, once[-1], part_BNI)
    mean_B1I /= max(1, outputs)
    apart_BP1 = product(probes_BPI, mean_B1I.mT)
    squared_BPI.addcmul_(apart_BP1, mean_B1I, value=-outputs)
    trace_B = square_B - outputs * mean_B1I.square().sum(dim=(1, 2))
    mean_B1I += shift_B1I
    trace_B.clamp_(min=0)
    energy_B = trace_B + outputs * mean_B1I.square().sum(dim=(1, 2))
    figures_B2 = torch.stack((energy_B, trace_B), 1)
    if probes_PI is None:
        return figures_B2, None
    mean_BP1 = product(squared_BPI, mean_B1I.mT)
    return figures_B2, ProbedExpert(
        once_BPO=torch.cat(once, dim=2).sub_(apart_BP1),
        squared_BPI=squared_BPI,
        cubed_BPO=times_transposed(squared_BPI, delta_BOI).sub_(mean_BP1),
        mean_BP1=mean_BP1,
    )


@dataclass(frozen=True, kw_only=True)
class LayerEnergies:
    """Figures of one layer: E_t = ‖ΔW_t‖²_F and Tr Σ̂_t of each expert, and γ (Eq. 7).

    ``shape``: (O, I). ``single``: whether float32 may be exact enough.
    """

    energies: tuple[float, ...]
    traces: tuple[float, ...]
    shape: tuple[int, int]
    single: bool
    heterogeneity: Heterogeneity

    @property
    def kept(self) -> tuple[int, ...]:
        """The experts that changed the layer, by index."""
        return self.heterogeneity.kept

    @property
    def gamma(self) -> float | None:
        """γ; None if fewer than two experts changed the layer."""
        return self.heterogeneity.gamma


def measure(
    layers: Sequence[Experts], epsilon: float | None, tolerances: Sequence[Tolerance] = ()
) -> tuple[list[LayerEnergies], Probes | None]:
    """Read every expert of every layer once; raises MethodError if an energy is not finite.

    ``epsilon``: the ridge of the homogeneous regime, None if that regime is not used. The probes
    serve the float32 check of layers that are ``single``. On a processor, probing stops as soon as
    no layer can use float32. On a GPU that is only known after the last expert.
    """
    coarse_B = [tolerance.rounding > 0 for tolerance in tolerances] or [False] * len(layers)
    figures: list[Tensor] = []
    probed: list[ProbedExpert] = []
    probes_PI: Tensor | None = None
    for t in range(len(layers[0])):
        delta_BOI = seen(layers, t)
        if not t:
            shape = (delta_BOI.shape[1], delta_BOI.shape[2])
            usable = epsilon is not None and not few_experts(shape, len(layers[0]))
            probes_PI = new_probes(delta_BOI) if usable or any(coarse_B) else None
        figures_B2, products = probe(delta_BOI, probes_PI)
        figures.append(figures_B2)
        if products is not None:
            probed.append(products)
            if delta_BOI.device.type == "cpu":
                vain_B = _in_vain(layers, torch.stack(figures), shape, epsilon, coarse_B)
                probes_PI = None if all(vain_B) else probes_PI
        del delta_BOI
    figures_TB2, inner_BTT = _to_processor(figures, [] if probes_PI is None else probed)
    vain_B, probes = [True] * len(layers), None
    if probes_PI is not None:
        vain_B = _in_vain(layers, figures_TB2, shape, epsilon, coarse_B)
        probes = Probes(probes_PI=probes_PI, experts=probed, inner_BTT=inner_BTT)
    energies_BT, traces_BT = figures_TB2.permute(2, 1, 0).tolist()
    return [
        LayerEnergies(
            energies=tuple(energies),
            traces=tuple(traces),
            shape=shape,
            single=not vain,
            heterogeneity=heterogeneity(energies),
        )
        for energies, traces, vain in zip(energies_BT, traces_BT, vain_B, strict=True)
    ], probes


def _in_vain(
    layers: Sequence[Experts],
    figures_TB2: Tensor,
    shape: tuple[int, int],
    epsilon: float | None,
    coarse_B: Sequence[bool],
) -> list[bool]:
    """For each layer, whether float32 is surely not exact enough, or no faster than float64."""
    # ‖S₀‖_F is at least Tr S₀ / √I.
    largest = EXACT / SINGLE * len(layers[0]) * (epsilon or 0.0) * shape[1] ** 0.5
    few = few_experts(shape, len(layers[0]))  # then float64 is faster
    traces_B = figures_TB2[..., 1].sum(dim=0).tolist()
    return [
        layer.double or (not coarse and (few or not trace <= largest))
        for layer, coarse, trace in zip(layers, coarse_B, traces_B, strict=True)
    ]


def _to_processor(
    figures: Sequence[Tensor], probed: Sequence[ProbedExpert]
) -> tuple[Tensor, Tensor]:
    """Figures (T × B × 2) and inner products (B × T × T), copied to the processor at once."""
    figures_TB2 = torch.stack(list(figures))
    count, layers, _ = figures_TB2.shape
    inner_BTT = inner_products(probed) if probed else figures_TB2.new_zeros(layers, 0, 0)
    copied = torch.cat([figures_TB2.flatten(), inner_BTT.flatten()]).cpu()
    size = figures_TB2.numel()
    return copied[:size].view(count, layers, 2), copied[size:].view(inner_BTT.shape)
