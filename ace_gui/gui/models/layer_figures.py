"""What is known so far about all layers: arrays for the plots, and the layers' health.

L layers, T experts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, QTimer, Signal

from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.health import (
    LayerHealth,
    ModelHealth,
    layer_health,
    model_health,
)
from ace_gui.engine.contract.plan import CheckVerdict, PlanRow
from ace_gui.gui.state.activity import start_once
from ace_gui.gui.state.session import Session
from ace_gui.linalg.heterogeneity import USUAL_TAU, heterogeneous_by_scale
from ace_gui.recipe.values import ParameterValue


@dataclass(frozen=True, kw_only=True)
class LayerFigures:
    """The merged layers in model order; NaN means unknown."""

    names: tuple[str, ...] = ()
    """The rows' names."""
    roles: tuple[str, ...] = ()
    """What the tensors do."""
    blocks: tuple[int | None, ...] = ()
    """Their transformer blocks."""
    experts: tuple[str, ...] = ()
    """Their names."""
    gamma_L: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """Heterogeneity."""
    mean_log_L: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """Mean over the experts of ln ‖ΔW_t‖²_F."""
    energies_LT: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    """‖ΔW_t‖²_F; zero if an expert has no such tensor or did not change it."""
    override_tau_L: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """The threshold of γ from an override, infinite if it has none; NaN for the recipe's."""

    def tau_L(self, tau: float) -> NDArray[np.float64]:
        """The threshold of each layer; ``tau``: the recipe's. Infinite where there is none."""
        if not self.override_tau_L.size:
            return np.full(len(self.names), tau)
        return np.where(np.isnan(self.override_tau_L), tau, self.override_tau_L)

    def unreliable(self, tau: float) -> NDArray[np.bool_]:
        """Whether each γ is unreliable, by the published threshold where there is none."""
        tau_L = self.tau_L(tau)
        judged_by = np.where(np.isinf(tau_L), USUAL_TAU, tau_L)
        return np.asarray(heterogeneous_by_scale(self.gamma_L, self.mean_log_L, judged_by))


class MergedLayers(QObject):
    """The figures of the session's merged layers. Only new statistics are read again."""

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._index: dict[str, int] = {}
        self._new: set[str] = set()
        self._of: tuple[object, object] = (None, None)
        self._figures = LayerFigures()
        self._overrides: tuple[object, ...] = ()
        session.layers.learnt.connect(self._learn)

    @property
    def figures(self) -> LayerFigures:
        """Everything that is known now."""
        layers = self._session.layers
        experts = self._session.draft.inputs.names
        same_plan = self._of[0] is layers.rows and self._of[1] is layers.statistics
        if not same_plan or self._figures.experts != experts:
            self._of = layers.rows, layers.statistics
            self._begin(layers.merged, experts)
        self._read_overrides()
        for name in self._new & layers.statistics.keys():
            self._read(self._index[name], layers.statistics[name])
        self._new.clear()
        return self._figures

    def _learn(self, name: str) -> None:
        self._new |= {name} & self._index.keys() if name else self._index.keys()

    def _begin(self, rows: Sequence[PlanRow], experts: tuple[str, ...]) -> None:
        self._index = {row.name: index for index, row in enumerate(rows)}
        self._new = set(self._index)
        self._figures = LayerFigures(
            names=tuple(self._index),
            roles=tuple(row.role for row in rows),
            blocks=tuple(row.block for row in rows),
            experts=experts,
            gamma_L=np.full(len(rows), np.nan),
            mean_log_L=np.full(len(rows), np.nan),
            energies_LT=np.full((len(rows), len(experts)), np.nan),
            override_tau_L=np.full(len(rows), np.nan),
        )
        self._overrides = ()

    def _read_overrides(self) -> None:
        """Read the thresholds again if the plan, its overrides or whether τ is there changed."""
        draft = self._session.draft
        layers = self._session.layers
        overrides = (draft.plan, draft.inputs.overrides, math.isinf(draft.tau))
        if overrides == self._overrides:
            return
        self._overrides = overrides
        for row in layers.merged:
            tau = layers.override_tau(row)
            self._figures.override_tau_L[self._index[row.name]] = np.nan if tau is None else tau

    def _read(self, index: int, statistics: LayerStatistics) -> None:
        figures = self._figures
        gamma = statistics.gamma
        mean_log = statistics.mean_log_energy
        figures.gamma_L[index] = np.nan if gamma is None else gamma
        figures.mean_log_L[index] = np.nan if mean_log is None else mean_log
        figures.energies_LT[index] = [statistics.energies.get(e, 0.0) for e in figures.experts]


_HEALTH_REFRESH: Final = 200  # ms between signals while statistics arrive
_QUIET: Final = 700  # ms without a change before all layers' health is computed in advance
_BATCH: Final = 200  # layers per turn of the event loop

_Known = tuple[LayerStatistics | None, LayerReport | None]


class Healths(QObject):
    """The health of every layer, from its statistics and from the report of a current merge.

    ``changed``: the health of some layers may have changed; many changes give one signal.
    ``warned`` carries the number of layers with a warning, after a pause.
    """

    changed = Signal()
    warned = Signal(int)

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._parameters: dict[str, ParameterValue] = {}
        self._reports: dict[str, LayerReport] = {}
        self._healths: dict[str, tuple[_Known, LayerHealth]] = {}
        self._timer = QTimer(self, singleShot=True, interval=_HEALTH_REFRESH)
        self._timer.timeout.connect(self.changed)
        self._waiting: Iterator[PlanRow] | None = None  # the rows whose health is not computed yet
        self._warnings = 0
        self._ahead = QTimer(self, singleShot=True)
        self._ahead.timeout.connect(self._find_ahead)
        for signal in (session.draft.changed, session.results.changed, session.draft.tau_changed):
            signal.connect(self._start_anew)
        session.layers.learnt.connect(self._announce)
        self._start_anew()

    def of(self, name: str) -> LayerHealth | None:
        """The health of a tensor; None if unknown."""
        figures = (self._session.layers.statistics.get(name), self._reports.get(name))
        if figures == (None, None):
            return None
        stored = self._healths.get(name)
        if stored is None or stored[0][0] is not figures[0] or stored[0][1] is not figures[1]:
            stored = figures, layer_health(*figures, self._parameters_of(name))
            self._healths[name] = stored
        return stored[1]

    def summary(self) -> ModelHealth:
        """The combined health of all tensors."""
        healths = (self.of(row.name) for row in self._session.layers.rows)
        return model_health(health for health in healths if health is not None)

    def _parameters_of(self, name: str) -> Mapping[str, ParameterValue]:
        row = self._session.layers.row(name)
        if row is None:
            override = None
        else:
            override = row.override
        if override is None:
            return self._parameters
        return override.parameters

    def _start_anew(self) -> None:
        session = self._session
        self._parameters = {**session.draft.resolved_parameters(), "tau": session.draft.tau}
        if session.merge_is_current:
            merge = session.results.merge
        else:
            merge = None
        if merge is not None:
            self._reports = merge.reports
        else:
            self._reports = {}
        self._healths.clear()
        self._announce()

    def _announce(self) -> None:
        start_once(self._timer)
        self._waiting = None
        self._ahead.start(_QUIET)

    def _find_ahead(self) -> None:
        """Compute the health of all layers in advance, so that sorting by it is fast."""
        if self._waiting is None:
            self._waiting = iter(self._session.layers.rows)
            self._warnings = 0
        batch = tuple(islice(self._waiting, _BATCH))
        for row in batch:
            health = self.of(row.name)
            self._warnings += health is not None and health.verdict is CheckVerdict.WARNING
        if batch:
            self._ahead.start(0)
        else:
            self.warned.emit(self._warnings)
