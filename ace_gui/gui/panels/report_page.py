"""The page of the report: what it holds, and to write it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ace_gui.gui.widgets.buttons import action_button
from ace_gui.gui.widgets.card import card
from ace_gui.gui.widgets.plain_label import secondary_label

_WIDTH = 460  # px
_WHAT = (
    "The report says what went in, what the merge did layer by layer, and what came of it, with "
    "plots and tables, as one HTML file that opens anywhere."
)


class ReportPage(QWidget):
    """One sentence, one action."""

    def __init__(self, write: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        content = QWidget()
        said = secondary_label(_WHAT, content)
        said.setAlignment(Qt.AlignmentFlag.AlignCenter)
        said.setFixedSize(_WIDTH, said.heightForWidth(_WIDTH))
        column = QVBoxLayout(content)
        middle = Qt.AlignmentFlag.AlignHCenter
        column.addStretch(2)
        column.addWidget(said, 0, middle)
        column.addSpacing(12)
        column.addWidget(action_button(write, "Save report…"), 0, middle)
        column.addStretch(3)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(card(content))
