"""ACE's equations with measured covariances of inputs instead of the experts' own Σ̂_t.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. One layer, O outputs, I
inputs. The paper uses Σ̂_t = W̃_tᵀW̃_t (Eq. 6) as the covariance of expert t's inputs, up to its
scale. Here that covariance is C_t = E[x xᵀ] − E[x] E[x]ᵀ, scaled to the trace of Σ̂_t. The ridge,
the regimes and the prior therefore keep their meaning, and only the directions differ.
"""

from __future__ import annotations

from ace_gui.linalg.centring import centre_
from ace_gui.linalg.heterogeneity import energy
from ace_gui.linalg.products import add_product_
from ace_gui.methods.ace.by_inputs import ResidualSums, Sums, solved
from ace_gui.methods.ace.problem import Problem, Terms
from ace_gui.methods.shared.measured import Measured, covariance


def solve(problem: Problem, measured: Measured) -> Terms:
    """As ``by_inputs.solve``, for a problem of one layer; reads each expert and covariance once."""
    outputs, inputs = problem.shape
    delta_1OI = problem.read(problem.shares[0].expert)
    sums = Sums(
        scaled_BII=delta_1OI.new_zeros(1, inputs, inputs),
        ridge_masses=problem.ridge_masses,
        few_outputs=False,
        reference_BOI=None,
        numerator_BOI=delta_1OI.new_zeros(1, outputs, inputs),
        experts=len(problem.shares),
        rest=ResidualSums(
            total_BOI=delta_1OI.new_zeros(1, outputs, inputs),
            ridge_BOI=delta_1OI.new_zeros(1, outputs, inputs),
            mean_B1I=delta_1OI.new_zeros(1, 1, inputs),
        )
        if problem.with_residual
        else None,
    )
    del delta_1OI
    for share in problem.shares:
        delta_OI = problem.read(share.expert)[0]
        if sums.rest is not None:
            sums.rest.total_BOI[0] += delta_OI
        mean_1I = centre_(delta_OI[None])[0]  # Eq. 5: delta_OI is W̃_t from here on
        (weight,), (ridge,) = share.weights, share.ridges
        proxy_II = covariance(measured, share.expert).mul_(weight * energy(delta_OI))
        sums.scaled_BII[0] += proxy_II
        if sums.rest is not None:
            sums.rest.mean_B1I[0] += mean_1I @ proxy_II
            sums.rest.ridge_BOI[0].add_(delta_OI, alpha=ridge)
        proxy_II.diagonal().add_(ridge)
        add_product_(sums.numerator_BOI[0], delta_OI, proxy_II)
    return solved(sums, problem)
