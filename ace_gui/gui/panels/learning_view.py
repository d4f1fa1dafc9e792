"""The learning curves of a method, live and afterwards."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from ace_gui.gui.panels.layer.layer_panel import expert_colours
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.learning_plot import LearningPlot
from ace_gui.gui.state.session import Session

REFRESH: Final = 200  # ms between updates of growing curves


class LearningView(PlotWithTable):
    """Follows the session's learning curves while it is visible."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        self._steps = LearningPlot()
        super().__init__(self._steps, self._steps.columns, parent)
        self._session = session
        self._drawing = QTimer(self, singleShot=True, interval=REFRESH)
        self._drawing.timeout.connect(self.refresh)
        session.results.learning.changed.connect(self._plan_drawing)
        session.draft.changed.connect(self._plan_drawing)
        self.refresh()

    def refresh(self) -> None:
        """Draw the known steps."""
        known, colours = self._session.results.learning, expert_colours(self._session)
        tasks = {task.title: task.expert or task.title for task in self._session.draft.inputs.tasks}
        by_task = {name: colours[own] for name, own in tasks.items() if own in colours}
        self._steps.show_steps(known.losses, known.figures, known.curve, colours | by_task)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def _plan_drawing(self) -> None:
        if self.isVisible() and not self._drawing.isActive():
            self._drawing.start()
