"""γ along the model, as a plot that follows the session."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ace_gui.gui.plots.heterogeneity import HeterogeneityPlot
from ace_gui.gui.session import Session
from ace_gui.gui.theme import Theme

REFRESH = 60  # ms between repaints while figures stream in


class HeterogeneityPanel(QWidget):
    """Feeds the plot. Its signals ``tau_changed`` and ``tau_committed`` are the plot's."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.plot = HeterogeneityPlot(self)
        self.plot.setAccessibleName("Heterogeneity along the model")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 4, 8, 4)
        layout.addWidget(self.plot)
        self._dirty: set[str] = set()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(REFRESH)
        self._timer.timeout.connect(self._flush)
        self.tau_committed = self.plot.tau_committed
        self.plot.tau_changed.connect(session.preview_tau)
        self.plot.layer_selected.connect(session.select)
        session.plan_changed.connect(self.reload)
        session.layer_changed.connect(self._mark)
        session.tau_changed.connect(self.plot.set_tau)
        session.selection_changed.connect(self._follow)
        self.reload()

    def set_theme(self, theme: Theme) -> None:
        """Restyle the plot."""
        self.plot.set_theme(theme)

    def reload(self) -> None:
        """Take over the session's plan."""
        session, rows = self._session, self._session.merged_rows
        self._dirty.clear()
        if not session.has_gamma or not rows or not (session.plan and session.plan.experts):
            self.plot.clear()
            self.plot.show_message(self._why_not())
            return
        self.plot.set_layers([row.name for row in rows], [row.role for row in rows])
        self.plot.set_many({row.name: session.gamma(row.name) for row in rows})
        self.plot.set_tau(session.tau)
        self._follow()

    def _why_not(self) -> str:
        plan = self._session.plan
        if plan is None or not plan.experts:
            return "Add experts to see where they disagree."
        if not plan.heterogeneity:
            return "This method has no heterogeneity threshold."
        return "No tensor here is merged by the method."

    def _mark(self, name: str) -> None:
        self._dirty.add(name)
        if not self._timer.isActive():
            self._timer.start()

    def _flush(self) -> None:
        if self._session.has_gamma:
            merged = {row.name for row in self._session.merged_rows}
            self.plot.set_many({n: self._session.gamma(n) for n in self._dirty & merged})
        self._dirty.clear()

    def _follow(self) -> None:
        self.plot.select(self._session.selection)
