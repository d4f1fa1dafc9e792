"""WUDI-Merging: the matrix whose difference from each expert acts least on that expert's inputs.

T experts, O outputs, I inputs. The loss of M is Σ_t ‖(M − ΔW_t) ΔW_tᵀ‖²_F / ‖ΔW_t‖²_F; with S = Σ_t
ΔW_tᵀ ΔW_t / ‖ΔW_t‖² and B = Σ_t ΔW_t ΔW_tᵀ ΔW_t / ‖ΔW_t‖² its gradient is 2 (M S − B), so a step
costs one product for any T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.eigenvectors import eigenvectors
from ace_gui.linalg.passes import energy
from ace_gui.linalg.products import add_product_, full_float32, gram, times
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.experts import Census, Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import (
    learning_rate_parameter,
    parameter,
    per_matrix,
    scaling_parameter,
    steps_parameter,
)
from ace_gui.methods.shared.tolerance import IN_FLOAT64, Tolerance

BETAS: Final = (0.9, 0.999)
DIVISION_GUARD: Final = 1e-8
"""Adam's default constants, which the published optimisation also uses."""

SINGULAR: Final = 1e-10
"""Eigenvalues of S up to this share of the largest count as zero: no expert has that input."""

ROWS: Final = 16
"""Number of outputs of M that check float32; outputs are independent of each other."""


@dataclass(frozen=True, kw_only=True)
class WudiParameters:
    """Parameters of WUDI-Merging.

    ``solution``: by Adam, as published, or the exact minimiser. ``steps``, ``learning_rate``: of
    Adam. ``scaling``: factor on the merged matrix.
    """

    solution: str = parameter(
        "adam",
        label="Solution",
        help=(
            "adam: as published, starting from the sum of the task vectors. It stops long "
            "before the minimum, as no entry moves by more than about steps · learning rate. "
            "closed: the least-norm minimiser of the same loss, which needs neither steps nor "
            "learning rate."
        ),
        choices=("adam", "closed"),
    )
    steps: int = steps_parameter(
        300,
        help=(
            "Number of Adam steps. The paper uses 300, FusionBench 400. The closed form ignores it."
        ),
    )
    learning_rate: float = learning_rate_parameter(
        1e-5,
        help="Learning rate of Adam. It is absolute, so it must suit the size of the changes.",
        high=1.0,
        presets=(("vision models", 1e-5), ("RoBERTa", 2e-5)),
    )
    scaling: float = scaling_parameter(
        help="Factor on the merged matrix. Tensors that are not matrices are averaged without it."
    )


@on_experts
def wudi(experts: Experts, parameters: WudiParameters, context: Context) -> Merged:
    """Scaling times the (approximate) minimiser M of the loss, for w_t ΔW_t.

    Computed in float64; Adam uses float32 if that is exact enough for the context's ``tolerance``
    (``descended``). Experts that do not change the matrix are left out. A single expert is returned
    unchanged. Reads every expert three times for Adam, twice for the closed form. Holds one expert,
    S and B. Raises MethodError for tensors that are not matrices or not finite.
    """
    census = experts.census()
    if len(census.counted) < 2:
        alone = experts.matrix(census.counted[0] if census.counted else 0)
        return Merged.of(alone, parameters.scaling, census.diagnostics())
    gram_II, target_OI = _sums(experts, census)
    precision = IN_FLOAT64
    if parameters.solution == "closed":
        merged_OI = closed(gram_II, target_OI)
    else:
        start_OI = experts.combination([experts.weights[t] for t in census.counted], census.counted)
        tolerance = context.tolerance.scaled(parameters.scaling)
        merged_OI, precision = descended(start_OI, gram_II, target_OI, parameters, tolerance)
    return Merged.of(merged_OI, parameters.scaling, census.diagnostics(precision=precision))


def flops(shape: tuple[int, ...], experts: int, parameters: WudiParameters) -> float:
    """Operations for S and B, and for a product with S per step or for one solution."""
    outputs, inputs = shape
    product = 2.0 * outputs * inputs**2
    closed_form = parameters.solution == "closed"
    return 2 * experts * product + (inputs**3 if closed_form else parameters.steps * product)


def _sums(experts: Experts, census: Census) -> tuple[Tensor, Tensor]:
    """S (I × I) and B (O × I)."""
    first_OI = experts.matrix(census.counted[0])
    target_OI = torch.zeros_like(first_OI)
    gram_II = first_OI.new_zeros(first_OI.shape[1], first_OI.shape[1])
    del first_OI
    for t in census.counted:
        delta_OI = experts.matrix(t)
        own_II = gram(delta_OI).div_(census.energies[t])
        add_product_(target_OI, delta_OI, own_II)
        gram_II.add_(own_II)
    return gram_II, target_OI


def descended(
    start_OI: Tensor,
    gram_II: Tensor,
    target_OI: Tensor,
    parameters: WudiParameters,
    tolerance: Tolerance,
) -> tuple[Tensor, str]:
    """The result of Adam's steps from ``start_OI``, and a sentence on the number format.

    With 16-bit inputs, float32 may be exact enough. Some rows are then also computed in float64,
    and the worst of them counts for all. If it is too inexact, everything is computed in float64.
    """
    if tolerance.rounding and parameters.steps:
        outputs = len(start_OI)
        rows = torch.linspace(0, outputs - 1, min(ROWS, outputs), device=start_OI.device).long()
        exact_PI = adam(start_OI[rows], gram_II, target_OI[rows], parameters)
        with full_float32():
            start, gram, target = (matrix.float() for matrix in (start_OI, gram_II, target_OI))
            found_OI = adam(start, gram, target, parameters)
        worst = (found_OI[rows] - exact_PI).norm(dim=1).max()
        size = energy(found_OI) ** 0.5
        error = float(worst) * outputs**0.5 / (size or 1.0)
        if error <= tolerance.relative(size):
            return found_OI, tolerance.describe(error)
        del found_OI, start, gram, target
    return adam(start_OI, gram_II, target_OI, parameters), IN_FLOAT64


def adam(
    start_OI: Tensor, gram_II: Tensor, target_OI: Tensor, parameters: WudiParameters
) -> Tensor:
    """Adam on the loss from ``start_OI``, which is overwritten and returned."""
    mean_OI = torch.zeros_like(start_OI)
    square_OI = torch.zeros_like(start_OI)
    for step in range(1, parameters.steps + 1):
        gradient_OI = times(start_OI, gram_II).sub_(target_OI).mul_(2)
        mean_OI.lerp_(gradient_OI, 1 - BETAS[0])
        square_OI.mul_(BETAS[1]).addcmul_(gradient_OI, gradient_OI, value=1 - BETAS[1])
        root_OI = square_OI.sqrt().div_((1 - BETAS[1] ** step) ** 0.5).add_(DIVISION_GUARD)
        start_OI.addcdiv_(
            mean_OI, root_OI, value=-parameters.learning_rate / (1 - BETAS[0] ** step)
        )
    return start_OI


def closed(gram_II: Tensor, target_OI: Tensor) -> Tensor:
    """B S⁺, the minimiser of least norm."""
    values_I, vectors_II = eigenvectors(gram_II)
    is_regular = values_I > SINGULAR * values_I[-1]
    basis_IK = vectors_II[:, is_regular]
    return times(times(target_OI, basis_IK).div_(values_I[is_regular]), basis_IK.T)


WUDI = MergeMethod(
    name="wudi",
    title="WUDI-Merging",
    summary=(
        "Finds the matrix that interferes least with each expert's outputs on its own inputs. "
        "The span of these inputs is estimated from the experts' changes. Needs no data."
    ),
    formula=(
        "merged matrix: W = W₀ + scaling · argmin_M Σₜ ‖(M − ΔWₜ) ΔWₜᵀ‖² / ‖ΔWₜ‖²\n"
        "minimum: adam from M = Σₜ ΔWₜ, in few steps;  closed: M = B S⁺\n"
        "where: S = Σₜ ΔWₜᵀ ΔWₜ / ‖ΔWₜ‖²,  B = Σₜ ΔWₜ ΔWₜᵀ ΔWₜ / ‖ΔWₜ‖²,  ΔWₜ times its weight wₜ"
    ),
    citation=(
        "R. Cheng, F. Xiong, Y. Wei, W. Zhu, C. Yuan, Whoever Started the Interference Should End "
        "It: Guiding Data-Free Model Merging via Task Vectors, ICML 2025, arXiv:2503.08099"
    ),
    parameters=WudiParameters,
    merge=wudi,
    working_memory=per_matrix(entries=7, inputs=3.2),
    flops=flops,
)
