"""The figures that a method reports on one tensor, in its diagnostics and in the merge's report."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class MethodFigures:
    """Numbers about one tensor; each is None if the method has no such figure."""

    gamma: float | None = None
    """Heterogeneity of the experts (ACE, Eq. 7)."""
    log_variance: float | None = None
    """Var ln E of the experts' energies, the numerator of γ."""
    ridge_mass: float | None = None
    """Σ_t ε_t."""
    condition: float | None = None
    """Upper bound on the condition number of the solved system."""
    refinement_cosine: float | None = None
    """Cosine between the refinement and the sum of the task vectors."""
    refinement_ratio: float | None = None
    """Norm of the refinement divided by that of the solution before it."""
    cap_factor: float | None = None
    """The cap's factor on the change, 1 if the change was small enough."""

    def figures(self) -> dict[str, Any]:
        """These figures by name, without what a subclass adds."""
        return {field.name: getattr(self, field.name) for field in fields(MethodFigures)}
