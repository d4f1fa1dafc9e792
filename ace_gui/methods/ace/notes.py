"""What ACE reports about a layer: figures, departures from the published procedure, warnings."""

from __future__ import annotations

from typing import Final

from ace_gui.ace_variants import LARGEST_RIDGE_MASS
from ace_gui.linalg.heterogeneity import (
    Heterogeneity,
    by_scale_message,
    heterogeneous_by_scale,
)
from ace_gui.methods.ace.parameters import AceParameters
from ace_gui.methods.ace.problem import LayerEnergies, Precision, Refinement, Rule, Solution
from ace_gui.methods.shared.experts import Diagnostics
from ace_gui.methods.shared.tolerance import IN_FLOAT64, Tolerance

LARGEST_CONDITION: Final = 1e10
"""Beyond it, double precision leaves the solution with fewer than about five digits."""

FLOAT32_ROUNDING: Final = 6e-8
"""Task vectors come from float32 numbers at best: weaker directions hold no information."""


def diagnostics(
    layer: LayerEnergies,
    solution: Solution,
    parameters: AceParameters,
    cap_factor: float | None,
    tolerance: Tolerance,
) -> Diagnostics:
    """All figures and sentences on one layer; ``cap_factor``: the cap's factor on its change."""
    rule = solution.rule
    refinement = solution.refinement
    regimes = {Rule.HOMOGENEOUS: False, Rule.HETEROGENEOUS: True}
    findings = left_out(layer.heterogeneity)
    warnings = list[str]()
    if solution.condition is not None:
        warnings += conditioning(solution.condition, solution.cut)
    if rule is Rule.HETEROGENEOUS:
        warnings += regime(layer.heterogeneity, parameters.tau, solution.ridge_mass or 0.0)
        if refinement is None:
            findings.append(
                f"No refinement: {parameters.k_frac:g} of the {min(layer.shape)} singular "
                "directions "
                "is less than one."
            )
    if refinement is not None:
        notes, more = about_refinement(refinement, parameters.refine)
        findings = [*findings, *notes]
        warnings = [*warnings, *more]
    return Diagnostics(
        energies=layer.energies,
        traces=layer.traces,
        left_out=layer.heterogeneity.left_out,
        gamma=layer.gamma,
        log_variance=layer.heterogeneity.log_variance,
        heterogeneous=None if rule is None else regimes.get(rule),
        ridge_mass=solution.ridge_mass,
        condition=solution.condition,
        refinement_cosine=None if refinement is None else refinement.cosine,
        refinement_ratio=None if refinement is None else refinement.ratio,
        cap_factor=cap_factor,
        precision="" if solution.precision is None else precision(solution.precision, tolerance),
        notes=tuple(findings),
        warnings=tuple(warnings),
    )


def precision(precision_of_layer: Precision, tolerance: Tolerance) -> str:
    """A sentence on the number format in which a layer was computed, and why."""
    if precision_of_layer.error:
        return tolerance.describe(precision_of_layer.error / (precision_of_layer.size or 1.0))
    return IN_FLOAT64


def left_out(heterogeneity: Heterogeneity) -> list[str]:
    """Notes on ignored experts, and on the result if fewer than two remain."""
    notes = []
    total = len(heterogeneity.counted) + len(heterogeneity.left_out)
    if heterogeneity.left_out:
        notes.append(
            f"{len(heterogeneity.left_out)} of {total} experts do not change this tensor, or by "
            "less "
            "than 1e-5 of the usual change, and were left out."
        )
    if len(heterogeneity.counted) == 1:
        notes.append("Only one expert changes this tensor, so its task vector was taken as it is.")
    if not heterogeneity.counted:
        notes.append("No expert changes this tensor, so it stays as in the base.")
    return notes


def conditioning(condition: float, cut: int) -> list[str]:
    """Warnings about the linear system."""
    if cut:
        return [
            f"The system is numerically singular: {cut} directions were left out of the solution. "
            "Raise epsilon."
        ]
    if condition > LARGEST_CONDITION:
        return [
            f"The system's condition number may reach {condition:.0e}, which costs accuracy. "
            "Raise epsilon."
        ]
    return []


def regime(heterogeneity: Heterogeneity, tau: float, ridge_mass: float) -> list[str]:
    """Warnings about a tensor in the heterogeneous regime."""
    notes = []
    gamma = heterogeneity.gamma or 0.0
    mean = heterogeneity.mean_log_energy or 0.0
    if heterogeneous_by_scale(gamma, mean, tau):
        notes.append(f"{by_scale_message(gamma, mean)} Raise tau to treat it as homogeneous.")
    if ridge_mass > LARGEST_RIDGE_MASS:
        notes.append(
            f"The ridge mass is {ridge_mass:.2g} (more than {LARGEST_RIDGE_MASS}), so that the "
            "refinement may work against the experts. Lower epsilon."
        )
    return notes


def about_refinement(refinement: Refinement, refine: str) -> tuple[list[str], list[str]]:
    """Notes and warnings about a refinement, which the parameter ``refine`` may leave out."""
    notes = list[str]()
    warnings = list[str]()
    if refinement.rank < refinement.k:
        notes.append(
            f"The fused matrix has only {refinement.rank} directions above rounding, but "
            f"{refinement.k} were requested. The others are arbitrary and were not refined."
        )
    if not refinement.refines(refine):
        notes.append(
            "No refinement: it points against the sum of the task vectors (cosine "
            f"{refinement.cosine:.2f}), and `refine` is `agreeing`."
        )
        return notes, warnings
    if refinement.weakest < FLOAT32_ROUNDING and refinement.rank:
        warnings.append(
            f"The weakest refined direction is {refinement.weakest:.0e} of the strongest, below "
            "the rounding of float32, so that rounding noise is amplified. Lower k_frac."
        )
    if refinement.cosine < 0:
        warnings.append(
            "The refinement points against the sum of the task vectors (cosine "
            f"{refinement.cosine:.2f}). Lower epsilon, or set k_frac to 0."
        )
    return notes, warnings
