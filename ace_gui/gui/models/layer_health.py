"""The health of every layer, computed on demand and cached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from ace_gui.engine.contract.checks import Verdict
from ace_gui.engine.contract.figures.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.figures.health import (
    LayerHealth,
    ModelHealth,
    layer_health,
    model_health,
)
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.gui.state.activity import start_once
from ace_gui.gui.state.session import Session
from ace_gui.recipe.values import ParameterValue

REFRESH: Final = 200  # ms between signals while statistics arrive
QUIET: Final = 700  # ms without a change before all layers' health is computed in advance
BATCH: Final = 200  # layers per turn of the event loop

_Known = tuple[LayerStatistics | None, LayerReport | None]


class Healths(QObject):
    """``changed`` follows, combined, when the health of any layer may have changed.

    ``warned`` carries the number of layers with a warning, after a pause. A report only counts if
    the merge belongs to the current inputs.
    """

    changed = Signal()
    warned = Signal(int)

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._parameters: dict[str, ParameterValue] = {}
        self._reports: dict[str, LayerReport] = {}
        self._found: dict[str, tuple[_Known, LayerHealth]] = {}
        self._timer = QTimer(self, singleShot=True, interval=REFRESH)
        self._timer.timeout.connect(self.changed)
        self._left: Iterator[PlanRow] = iter(())  # of the computation in advance
        self._warnings = 0
        self._quiet = QTimer(self, singleShot=True, interval=QUIET)
        self._quiet.timeout.connect(self._begin_ahead)
        self._idle = QTimer(self, interval=0)
        self._idle.timeout.connect(self._find_ahead)
        for signal in (session.draft.changed, session.results.changed, session.draft.tau_changed):
            signal.connect(self._start_anew)
        session.layers.learnt.connect(self._announce)
        self._start_anew()

    def of(self, name: str) -> LayerHealth | None:
        """The health of a tensor; None if unknown."""
        known = (self._session.layers.statistics.get(name), self._reports.get(name))
        if known == (None, None):
            return None
        before = self._found.get(name)
        if before is None or before[0][0] is not known[0] or before[0][1] is not known[1]:
            before = known, layer_health(*known, self._parameters_of(name))
            self._found[name] = before
        return before[1]

    def summary(self) -> ModelHealth:
        """The combined health of all tensors."""
        found = (self.of(row.name) for row in self._session.layers.rows)
        return model_health(health for health in found if health is not None)

    def _parameters_of(self, name: str) -> Mapping[str, ParameterValue]:
        row = self._session.layers.row(name)
        own = None if row is None else row.override
        return self._parameters if own is None else own.parameters

    def _start_anew(self) -> None:
        session = self._session
        self._parameters = {**session.draft.resolved_parameters(), "tau": session.draft.tau}
        merge = session.results.merge if session.merge_is_current else None
        self._reports = merge.reports if merge is not None else {}
        self._found.clear()
        self._announce()

    def _announce(self) -> None:
        start_once(self._timer)
        self._idle.stop()
        self._quiet.start()

    def _begin_ahead(self) -> None:
        """Compute all health values in advance, so that sorting by health is fast."""
        self._left, self._warnings = iter(self._session.layers.rows), 0
        self._idle.start()

    def _find_ahead(self) -> None:
        batch = tuple(islice(self._left, BATCH))
        for row in batch:
            health = self.of(row.name)
            self._warnings += health is not None and health.verdict is Verdict.WARNING
        if not batch:
            self._idle.stop()
            self.warned.emit(self._warnings)
