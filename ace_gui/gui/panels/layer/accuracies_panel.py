"""Held-out accuracies of the sample's models, as a table."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.figure_sheet import FigureRow, FigureSheet
from ace_gui.gui.widgets.plain_label import muted_label

_TIP = "Share of held-out samples that the model gets right."


class AccuraciesPanel(QWidget):
    """One row a model; the mean, then one column a task."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.table = FigureSheet("Held-out accuracies", self, kind="model")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 6, 0, 0)
        layout.addWidget(muted_label("Share of held-out samples each model gets right.", self))
        layout.addWidget(self.table, 1)
        session.results.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what the session knows."""
        accuracies = list(self._session.results.accuracies.values())
        tasks = list(accuracies[0].by_task) if accuracies else []
        rows = [
            FigureRow(title=a.model, tip=_TIP, values=[a.mean, *a.by_task.values()])
            for a in accuracies
        ]
        self.table.show_figures(["mean", *tasks], rows)
