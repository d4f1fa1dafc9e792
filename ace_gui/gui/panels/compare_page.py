"""The page of comparisons: two finished merges, and the way to compare several methods."""

from __future__ import annotations

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ace_gui.gui.panels.two_merges_panel import ComparePanel
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.buttons import action_button
from ace_gui.gui.widgets.card import card
from ace_gui.gui.widgets.plain_label import heading


class ComparePage(QWidget):
    """``panel`` shows two merges side by side."""

    def __init__(self, session: Session, methods: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.panel = ComparePanel(session)
        content = QWidget()
        head = QHBoxLayout()
        head.setContentsMargins(8, 4, 8, 0)
        head.addWidget(heading("Two merges side by side", content), 1)
        head.addWidget(action_button(methods, "Compare methods…"))
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(head)
        column.addWidget(self.panel, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(card(content))
