"""Held-out accuracies of the sample's models, as a table."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ace_gui.gui.session import Session
from ace_gui.gui.widgets.labels import muted_label


class AccuraciesPanel(QWidget):
    """One row a model; the mean, then one column a task."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.table = QTableWidget(self)
        self.table.setAccessibleName("Held-out accuracies")
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.table.setTabKeyNavigation(False)
        contents = QHeaderView.ResizeMode.ResizeToContents
        self.table.horizontalHeader().setSectionResizeMode(contents)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 6, 0, 0)
        layout.addWidget(muted_label("Share of held-out samples each model gets right.", self))
        layout.addWidget(self.table, 1)
        session.accuracy_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what the session knows."""
        accuracies = list(self._session.accuracies.values())
        tasks = list(accuracies[0].by_task) if accuracies else []
        self.table.setColumnCount(len(tasks) + 1)
        self.table.setHorizontalHeaderLabels(["mean", *tasks])
        self.table.setRowCount(len(accuracies))
        self.table.setVerticalHeaderLabels([accuracy.model for accuracy in accuracies])
        for row, accuracy in enumerate(accuracies):
            for column, value in enumerate([accuracy.mean, *accuracy.by_task.values()]):
                item = QTableWidgetItem(f"{value:.3f}")
                item.setTextAlignment(Qt.AlignmentFlag.AlignCenter)
                self.table.setItem(row, column, item)
