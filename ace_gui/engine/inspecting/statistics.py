"""How much the experts disagree, tensor by tensor, before anything is merged.

T experts, N elements of a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from ace_gui.engine.contract.events import LayerAnalysed
from ace_gui.engine.contract.findings import LayerStatistics, Regime
from ace_gui.engine.contract.health import gamma_unreliable
from ace_gui.engine.contract.matrix_figures import cosines_of
from ace_gui.engine.contract.plan import COMBINED, Disposition, Plan, PlanRow
from ace_gui.engine.merging.readers import Readers, finding
from ace_gui.engine.merging.task_vectors import gram, merging_of
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.linalg.heterogeneity import heterogeneity


def analyse(prepared: Prepared) -> Iterator[LayerAnalysed]:
    """Energies of every merged or averaged tensor, and γ of the merged ones, whatever the method.

    Merged tensors come first, as users wait for them.
    """
    rows = [row for row in prepared.plan.rows if row.disposition in COMBINED and row.in_base]
    rows.sort(key=lambda row: row.disposition != Disposition.MERGED)
    readers = Readers(prepared)
    for done, row in enumerate(rows, start=1):
        statistics = layer_statistics(row, prepared, readers)
        yield LayerAnalysed(statistics=statistics, done=done, total=len(rows))


def layer_statistics(row: PlanRow, prepared: Prepared, readers: Readers) -> LayerStatistics:
    """Energies ‖ΔW_t‖²_F with the experts' weights, ‖W₀‖²_F, cosines, and γ (ACE, Eq. 7).

    Experts with NaN or Inf in the tensor are left out. Raises NonFiniteError if these stop a merge.
    """
    return finding(partial(_statistics, prepared=prepared, readers=readers), row, prepared, readers)


def _statistics(row: PlanRow, prepared: Prepared, readers: Readers) -> LayerStatistics:
    if not row.experts:  # a slice of one source, or all are left out
        return LayerStatistics(name=row.name, energies={})
    gram_TT, base_energy = gram(row, readers)
    names = tuple(readers.experts[t].model.name for t in row.experts)
    weights = prepared.weights_of(row)
    energies = [
        float(square) * weight**2
        for square, weight in zip(gram_TT.diagonal(), weights, strict=True)
    ]
    found = None
    if row.disposition == Disposition.MERGED:
        with merging_of(row.name, names):
            found = heterogeneity(energies)
    return LayerStatistics(
        name=row.name,
        energies=dict(zip(names, energies, strict=True)),
        base_energy=base_energy,
        gamma=found.gamma if found else None,
        mean_log_energy=found.mean_log_energy if found else None,
        log_variance=found.log_variance if found else None,
        left_out=tuple(names[t] for t in found.left_out) if found else (),
        cosines=cosines_of(gram_TT),
    )


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
