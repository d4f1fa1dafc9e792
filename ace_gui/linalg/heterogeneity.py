"""Differences of scale between experts: γ of their energies (ACE paper, Eq. 7)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ace_gui.errors import MethodError

GUARD: Final = 1e-12
"""Is added to energies before the logarithm and to denominators, as in the authors' code."""

NO_CHANGE: Final = 1e-10
"""An expert with at most this share of the median energy numerically does not change a tensor.

In norms this is 1e-5. Fine-tuning usually moves weights by 1e-3 to 1e-2 of their size. An expert's
change that is 1e-5 of a usual one is 1e-8 to 1e-7 of the weights' size. That is about the rounding
of float32 weights (6e-8).
"""


@dataclass(frozen=True, kw_only=True)
class Heterogeneity:
    """γ of one tensor and what it was computed from: ℓ_t = ln E_t of the experts' energies E_t."""

    gamma: float | None
    """γ = Var_t(ℓ_t) / mean_t(ℓ_t)²; None if fewer than two experts are counted."""
    mean_log_energy: float | None
    """mean_t(ℓ_t); None if no expert is counted."""
    log_variance: float | None
    """Var_t(ℓ_t), which a common factor on the task vectors does not change; None if γ is None."""
    counted: tuple[int, ...]
    """Indices of the experts that changed the tensor, ascending."""
    left_out: tuple[int, ...]
    """Indices of the experts that numerically did not change it, ascending."""


def heterogeneity(energies: Sequence[float]) -> Heterogeneity:
    """γ of a tensor from one energy per expert (Eq. 7), unbiased variance, natural logarithm.

    Experts that numerically do not change the tensor are left out first, as ln 0 would make γ
    extreme for a single frozen tensor. Raises MethodError if an energy is NaN or infinite.
    """
    for t, value in enumerate(energies, start=1):
        if not math.isfinite(value):
            raise MethodError(
                f"Task vector {t} of {len(energies)} holds NaN or Inf; check that expert's files."
            )
    counted = _changed(energies)
    logs = [math.log(energies[t] + GUARD) for t in counted]
    if logs:
        mean = statistics.fmean(logs)
    else:
        mean = None
    gamma = None
    variance = None
    if mean is not None and len(logs) > 1:
        variance = statistics.variance(logs)
        gamma = variance / (mean**2 + GUARD)
    left_out = tuple(t for t in range(len(energies)) if t not in counted)
    return Heterogeneity(
        gamma=gamma, mean_log_energy=mean, log_variance=variance, counted=counted, left_out=left_out
    )


def _changed(energies: Sequence[float]) -> tuple[int, ...]:
    nonzero = [value for value in energies if value > 0]
    if not nonzero:
        return ()
    threshold = NO_CHANGE * statistics.median(nonzero)
    return tuple(t for t, value in enumerate(energies) if value > threshold)


def heterogeneous_by_scale(gamma: Any, mean_log: Any, tau: Any) -> Any:
    """Whether γ exceeds τ by scale alone: only because the mean log energy is near 0.

    γ is the variance of the log energies divided by their squared mean. A common factor on all task
    vectors leaves the variance as it is, and can move the mean to ±1 or further. With a variance of
    at most τ, γ is then at most τ, too. All three arguments are numbers, or NumPy arrays; the
    result is then an array of truth values.
    """
    variance = gamma * mean_log**2
    return (gamma > tau) & (variance <= tau)


USUAL_TAU: Final = 0.3
"""The published threshold, used to judge γ if there is no other."""


def by_scale_or_usual_tau(gamma: Any, mean_log: Any, tau: float | None) -> Any:
    """``heterogeneous_by_scale``; if τ is None or infinite, ``USUAL_TAU`` takes its place."""
    if tau is None or math.isinf(tau):
        tau = USUAL_TAU
    return heterogeneous_by_scale(gamma, mean_log, tau)


WHY_BY_SCALE: Final = (
    "the changes have norms near 1, where γ is large even if the experts hardly differ; in other "
    "units of the weights the layer would be homogeneous"
)
"""Why γ exceeds τ by scale alone: γ has the squared mean of ln E_t as its divisor, and ln 1 = 0."""


def by_scale_message(gamma: float, mean_log: float) -> str:
    """The sentence for a tensor that is heterogeneous by scale alone, without advice."""
    return (
        f"Heterogeneous by scale alone, γ = {gamma:.3g}: {WHY_BY_SCALE} (mean log energy "
        f"{mean_log:.2g})."
    )
