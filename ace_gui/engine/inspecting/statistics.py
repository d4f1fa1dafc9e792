"""Statistics before a merge: how much the experts disagree, and trial merges of a few matrices.

The trials show how far the whole merge will move the model. T experts, N elements of a tensor.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, zip_longest
from math import sqrt
from typing import Any, Final

import torch

from ace_gui.engine.contract.declared_figures import (
    GAMMA,
    LOG_VARIANCE,
    DeclaredFigure,
    Place,
    figures_in,
)
from ace_gui.engine.contract.events import LayerAnalysed
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics, Regime
from ace_gui.engine.contract.health import gamma_unreliable
from ace_gui.engine.contract.matrix_figures import cosines_of
from ace_gui.engine.contract.model_figures import matrices
from ace_gui.engine.contract.plan import Plan, PlanRow
from ace_gui.engine.inspecting.layer_context import (
    InspectionCache,
    InspectionContext,
    inspect_row,
    report_array,
    report_from,
)
from ace_gui.engine.merging.method_steps import merge_deltas
from ace_gui.engine.merging.readers import Readers, finding
from ace_gui.engine.merging.surveying import waits
from ace_gui.engine.merging.task_vectors import gram, merging_of
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.row_work import assumed_seconds
from ace_gui.errors import MethodError, NonFiniteError
from ace_gui.linalg.heterogeneity import heterogeneity


def analyse(prepared: Prepared) -> Iterator[LayerAnalysed]:
    """Energies of every merged or averaged tensor, and γ of the merged ones, whatever the method.

    Merged tensors come first, as users wait for them.
    """
    rows = [row for row in prepared.plan.rows if row.is_combined and row.in_base]
    rows.sort(key=lambda row: not row.is_merged)
    readers = Readers(prepared)
    for done, row in enumerate(rows, start=1):
        statistics = layer_statistics(row, readers)
        yield LayerAnalysed(statistics=statistics, done=done, total=len(rows))


def layer_statistics(row: PlanRow, readers: Readers) -> LayerStatistics:
    """Energies ‖ΔW_t‖²_F with the experts' weights, ‖W₀‖²_F, cosines, and γ (ACE, Eq. 7).

    Experts with NaN or Inf in the tensor are left out. Raises NonFiniteError if these stop a merge.
    """
    return finding(partial(_statistics, readers=readers), row, readers)


def _statistics(row: PlanRow, readers: Readers) -> LayerStatistics:
    if not row.experts:  # a slice of one source, or all are left out
        return LayerStatistics(name=row.name, energies={})
    gram_TT, base_energy = gram(row, readers)
    names = readers.names_of(row)
    weights = readers.prepared.weights_of(row)
    energies = []
    for square, weight in zip(gram_TT.diagonal(), weights, strict=True):
        energies.append(float(square) * weight**2)
    result = None
    if row.is_merged:
        with merging_of(row.name, names):
            result = heterogeneity(energies)
    return LayerStatistics(
        name=row.name,
        energies=dict(zip(names, energies, strict=True)),
        base_energy=base_energy,
        gamma=result.gamma if result else None,
        mean_log_energy=result.mean_log_energy if result else None,
        log_variance=result.log_variance if result else None,
        left_out=tuple(names[t] for t in result.left_out) if result else (),
        cosines=cosines_of(gram_TT),
    )


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One tensor, with what is known of it before a merge."""

    name: str
    """The row's name in the plan."""
    role: str
    """What the tensor does."""
    shape: tuple[int, ...]
    """The base's as stored."""
    disposition: str
    """How the merged model obtains it."""
    reason: str
    """Why."""
    gamma: float | None
    """Heterogeneity; None if the method does not use it."""
    regime: str | None
    """None if the method has no regimes."""
    energies: Mapping[str, float]
    """‖ΔW_t‖²_F by expert, empty if nothing is merged."""
    gamma_unreliable: bool = False
    """γ is large because the mean log energy is near zero."""
    figures: Mapping[str, float | None] = field(default_factory=dict)
    """The other figures of ``declared_figures`` by name; None where one is unknown."""

    @property
    def log_variance(self) -> float | None:
        """Var ln E of the energies; None if the method does not use γ."""
        return self.figures.get(LOG_VARIANCE.name)

    def record(self) -> dict[str, Any]:
        """The layer in one line: its fields, and each figure under its name."""
        record: dict[str, Any] = asdict(self)
        unreliable = record.pop("gamma_unreliable")
        figures = record.pop("figures")
        record[LOG_VARIANCE.name] = self.log_variance
        record["gamma_unreliable"] = unreliable
        record.update(figures)
        return record


def layers_of(plan: Plan, statistics: Mapping[str, LayerStatistics]) -> tuple[Layer, ...]:
    """Every tensor of the plan, in its order."""
    return tuple(_layer(row, statistics.get(row.name), plan) for row in plan.rows)


def _layer(row: PlanRow, statistics: LayerStatistics | None, plan: Plan) -> Layer:
    tau = plan.tau_of(row)
    gamma = _value(GAMMA, row, statistics, plan)
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
        energies={} if statistics is None else dict(statistics.energies),
        gamma_unreliable=gamma is not None
        and statistics is not None
        and gamma_unreliable(statistics, tau),
        figures={
            figure.name: _value(figure, row, statistics, plan)
            for figure in figures_in(Place.INSPECT)
        },
    )


def _value(
    figure: DeclaredFigure, row: PlanRow, statistics: LayerStatistics | None, plan: Plan
) -> float | None:
    """A figure of a tensor; None if it is unknown, or about regimes that the method has not."""
    if figure.needs_regimes and not plan.has_regimes(row):
        return None
    return figure.value(statistics)


TOTAL_SECONDS: Final = 4.0
ONE_SECONDS: Final = 1.5
"""Most seconds for all matrices, and for one, so that nobody has to wait."""

_FIRST_PACES: Final = {"cpu": 1.0}
_FAST: Final = 50.0
"""How much faster than estimated, before the first merge was timed; the second is for GPUs."""

_GOLDEN: Final = (sqrt(5) - 1) / 2


def sampled(
    prepared: Prepared, device: torch.device, cache: InspectionCache
) -> Iterator[LayerReport | None]:
    """Merge matrices of every role and shape, the smallest first, as far as time allows.

    Matrices that cannot be merged are skipped; the merge itself reports them. So are those whose
    method first surveys the whole model or needs data. Nothing is written except to the cache.
    """
    pace = _FIRST_PACES.get(device.type, _FAST)
    seconds_left = TOTAL_SECONDS
    in_base = [row for row in prepared.plan.rows if row.in_base]
    estimated = {row.tensor: assumed_seconds(row, prepared) for row in in_base}
    rows = [row for row in matrices(prepared.plan) if not waits(row, prepared)]
    for row in in_order(rows, estimated):
        started = time.monotonic()
        report = None
        context = InspectionContext(prepared, row, device, cache)
        stored = cache.get(context.merge_key("report"))
        if stored is not None:
            report = report_from(stored["report"])
        elif estimated[row.tensor] / pace < min(seconds_left, ONE_SECONDS):
            report = _merged(context)
            pace = estimated[row.tensor] / max(time.monotonic() - started, 1e-6)
        seconds_left -= time.monotonic() - started
        yield report
        if seconds_left < 0:
            return


def in_order(rows: Sequence[PlanRow], work: Mapping[str, float]) -> list[PlanRow]:
    """One matrix of each role and shape, least work first, then another of each, and so on.

    Matrices of one role and shape are taken from the whole depth of the model.
    """
    alike: defaultdict[object, list[PlanRow]] = defaultdict(list)
    for row in rows:
        alike[row.role, row.shape].append(row)
    groups = []
    for group in sorted(alike.values(), key=lambda group: work[group[0].tensor]):
        spread = sorted(range(len(group)), key=lambda n: (n + 0.5) * _GOLDEN % 1)
        groups.append([group[index] for index in spread])
    return [row for row in chain.from_iterable(zip_longest(*groups)) if row is not None]


def _merged(context: InspectionContext) -> LayerReport | None:
    """The report of a merge of the matrix; None if it cannot be merged."""

    def report(of: InspectionContext) -> Iterator[LayerReport]:
        layer_report = of.report(merge_deltas(of.row, of.prepared, of.deltas))
        of.cache.put(of.merge_key("report"), {"report": report_array(layer_report)})
        yield layer_report

    with contextlib.suppress(MethodError, NonFiniteError):
        return next(
            inspect_row(context.prepared, context.row, context.device, context.cache, report)
        )
    return None
