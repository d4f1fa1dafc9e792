"""The panels of the window and how they share its room."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QSplitter, QVBoxLayout, QWidget

from ace_gui.gui.panels.experts import ExpertsPanel
from ace_gui.gui.panels.heterogeneity import HeterogeneityPanel
from ace_gui.gui.panels.inspector import InspectorPanel
from ace_gui.gui.panels.layers import LayersPanel
from ace_gui.gui.panels.method import MethodPanel
from ace_gui.gui.session import Session
from ace_gui.gui.settings import Settings
from ace_gui.gui.theme import Theme

_SIZES = {"columns": [270, 1170], "left": [300, 500], "rows": [520, 270], "top": [810, 360]}


class Workspace(QWidget):
    """Experts over method on the left; layers beside the inspector, over the heterogeneity plot."""

    def __init__(
        self,
        session: Session,
        change_base: Callable[[], object],
        add_experts: QAction,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.experts = ExpertsPanel(session, change_base, add_experts)
        self.method = MethodPanel(session)
        self.layers = LayersPanel(session)
        self.inspector = InspectorPanel(session)
        self.experts.checks_wanted.connect(self.inspector.show_checks)
        self.heterogeneity = HeterogeneityPanel(session)
        vertical, horizontal = Qt.Orientation.Vertical, Qt.Orientation.Horizontal
        left = _splitter("left", vertical, self.experts, self.method)
        top = _splitter("top", horizontal, self.layers, self.inspector)
        rows = _splitter("rows", vertical, top, self.heterogeneity)
        columns = _splitter("columns", horizontal, left, rows)
        self._splitters = (columns, left, rows, top)
        columns.setStretchFactor(1, 1)
        top.setStretchFactor(0, 2)
        top.setStretchFactor(1, 1)
        rows.setStretchFactor(0, 1)
        left.setMinimumWidth(250)
        self.inspector.setMinimumWidth(300)
        self.layers.setMinimumWidth(320)
        self.heterogeneity.setMinimumHeight(150)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(columns)
        self.reset_layout()

    def set_theme(self, theme: Theme) -> None:
        """Restyle the plots, and whatever shows an expert's colour."""
        self.experts.set_theme(theme)
        self.inspector.set_theme(theme)
        self.heterogeneity.set_theme(theme)

    def reset_layout(self) -> None:
        """The layout of the first start."""
        for splitter in self._splitters:
            splitter.setSizes(_SIZES[splitter.objectName()])

    def restore_layout(self, settings: Settings) -> None:
        """The layout of the last time."""
        for splitter in self._splitters:
            state = settings.layout(splitter.objectName())
            if not state.isEmpty():
                splitter.restoreState(state)

    def save_layout(self, settings: Settings) -> None:
        """Remember the layout."""
        for splitter in self._splitters:
            settings.save_layout(splitter.objectName(), splitter.saveState())


def _splitter(name: str, orientation: Qt.Orientation, *widgets: QWidget) -> QSplitter:
    splitter = QSplitter(orientation)
    splitter.setObjectName(name)
    splitter.setChildrenCollapsible(False)
    splitter.setHandleWidth(5)
    for widget in widgets:
        if isinstance(widget, QSplitter):
            splitter.addWidget(widget)
            continue
        frame = QFrame()
        frame.setFrameShape(QFrame.Shape.StyledPanel)
        inner = QVBoxLayout(frame)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.addWidget(widget)
        splitter.addWidget(frame)
    return splitter
