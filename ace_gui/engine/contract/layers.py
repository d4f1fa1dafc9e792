"""One line for each tensor of a plan, with its statistics: the result of `inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ace_gui.engine.contract.figures.findings import LayerStatistics, Regime
from ace_gui.engine.contract.figures.health import gamma_unreliable
from ace_gui.engine.contract.plan import Plan, PlanRow


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One tensor. ``gamma``, ``log_variance`` and ``regime`` are None if the method has none.

    ``disposition``: how the merged model obtains it, ``reason``: why. ``energies``: ‖ΔW_t‖²_F by
    expert, empty if nothing is merged. ``log_variance``: Var ln E of the energies.
    ``gamma_unreliable``: γ is large because the mean log energy is near zero.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    disposition: str
    reason: str
    gamma: float | None
    regime: str | None
    energies: Mapping[str, float]
    log_variance: float | None = None
    gamma_unreliable: bool = False


def layers_of(plan: Plan, statistics: Mapping[str, LayerStatistics]) -> tuple[Layer, ...]:
    """Every tensor of the plan, in its order."""
    return tuple(_layer(row, statistics.get(row.name), plan) for row in plan.rows)


def _layer(row: PlanRow, found: LayerStatistics | None, plan: Plan) -> Layer:
    tau, applies = plan.tau_of(row), plan.has_regimes(row)
    gamma = None if found is None or not applies else found.gamma
    regime = None
    if gamma is not None and tau is not None:
        regime = (Regime.HETEROGENEOUS if gamma > tau else Regime.HOMOGENEOUS).value
    return Layer(
        name=row.name,
        role=row.role,
        shape=row.shape,
        disposition=row.disposition.value,
        reason=row.reason,
        gamma=gamma,
        regime=regime,
        energies={} if found is None else dict(found.energies),
        log_variance=None if found is None or not applies else found.log_variance,
        gamma_unreliable=gamma is not None and found is not None and gamma_unreliable(found, tau),
    )
