"""The page of the report: what it holds, and to write it."""

from __future__ import annotations

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ace_gui.gui.widgets.fields.buttons import action_button
from ace_gui.gui.widgets.labels.empty_state import EmptyState
from ace_gui.gui.widgets.layout.card import card
from ace_gui.gui.words import later, tr

_WHAT = later(
    "The report says what went in, what the merge did layer by layer, and what came of it, with "
    "plots and tables, as one HTML file that opens anywhere."
)


class ReportPage(QWidget):
    """One sentence, one action."""

    def __init__(self, write: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(card(EmptyState(tr(_WHAT), action_button(write, tr("Save report…")))))
