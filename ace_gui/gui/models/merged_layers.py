"""The layers that the method merges, as arrays for the plots.

L layers, T experts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, QTimer, Signal

from ace_gui.gui.state.activity import start_once
from ace_gui.gui.state.session import Session

REFRESH: Final = 60  # ms between signals while statistics arrive


@dataclass(frozen=True, kw_only=True)
class LayerFigures:
    """The merged layers in model order; NaN means unknown.

    ``gamma_L``: heterogeneity. ``mean_log_L``: mean over the experts of ln ‖ΔW_t‖²_F.
    ``energies_LT``: ‖ΔW_t‖²_F; zero if an expert has no such tensor or did not change it.
    """

    names: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    blocks: tuple[int | None, ...] = ()
    experts: tuple[str, ...] = ()
    gamma_L: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    mean_log_L: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    energies_LT: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))


class MergedLayers(QObject):
    """The session's merged layers.

    ``replaced`` follows when the layers change, ``figures_changed`` when their statistics do, at
    most once every ``REFRESH`` ms while statistics arrive.
    """

    replaced = Signal()
    figures_changed = Signal()

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._index: dict[str, int] = {}
        self._dirty: set[str] = set()
        self._timer = QTimer(self, singleShot=True, interval=REFRESH)
        self._timer.timeout.connect(self._flush)
        self.figures = LayerFigures()
        self._seen: tuple[object, object] = (None, None)
        session.draft.changed.connect(self.take_plan)
        session.layers.learnt.connect(self._learn)
        self.take_plan()

    def take_plan(self) -> None:
        """Update from the session's plan and experts, if they have changed."""
        session, (rows, statistics) = self._session, self._seen
        same = rows is session.layers.rows and statistics is session.layers.statistics
        if not same or self.figures.experts != session.draft.inputs.names:
            self._seen = (session.layers.rows, session.layers.statistics)
            self._rebuild()
            self.replaced.emit()

    def _rebuild(self) -> None:
        self._timer.stop()
        rows, experts = self._session.layers.merged, self._session.draft.inputs.names
        self._index = {row.name: index for index, row in enumerate(rows)}
        self.figures = LayerFigures(
            names=tuple(self._index),
            roles=tuple(row.role for row in rows),
            blocks=tuple(row.block for row in rows),
            experts=experts,
            gamma_L=np.full(len(rows), np.nan),
            mean_log_L=np.full(len(rows), np.nan),
            energies_LT=np.full((len(rows), len(experts)), np.nan),
        )
        self._dirty = set(self._index)
        self._fill()

    def _learn(self, name: str) -> None:
        if not name:
            self._dirty = set(self._index)
            self._flush()
        elif name in self._index:
            self._dirty.add(name)
            start_once(self._timer)

    def _flush(self) -> None:
        self._timer.stop()
        self._fill()
        self.figures_changed.emit()

    def _fill(self) -> None:
        known, figures = self._session.layers.statistics, self.figures
        for name in self._dirty & known.keys():
            index, found = self._index[name], known[name]
            gamma, mean_log = found.gamma, found.mean_log_energy
            figures.gamma_L[index] = np.nan if gamma is None else gamma
            figures.mean_log_L[index] = np.nan if mean_log is None else mean_log
            figures.energies_LT[index] = [found.energies.get(e, 0.0) for e in figures.experts]
        self._dirty.clear()
