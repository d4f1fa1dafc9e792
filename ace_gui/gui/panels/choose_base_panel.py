"""Asks, in place, which of several dropped models is the base."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCommandLinkButton, QPushButton, QVBoxLayout, QWidget

from ace_gui.gui.text import plain
from ace_gui.gui.widgets.arrangement import clear_layout
from ace_gui.gui.widgets.plain_label import muted_label, plain_label

_WIDTH = 520


class ChooseBasePanel(QWidget):
    """One button a model. ``chosen`` carries the paths, the base first; ``dismissed``: none."""

    chosen = Signal(object)
    dismissed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        column = QWidget(self)
        column.setFixedWidth(_WIDTH)
        inner = QVBoxLayout(column)
        title = plain_label("Which one is the base model?", column)
        font = title.font()
        font.setPointSizeF(font.pointSizeF() * 1.4)
        title.setFont(font)
        inner.addWidget(title)
        inner.addWidget(muted_label("The others are taken as experts fine-tuned from it.", column))
        self._buttons = QVBoxLayout()
        inner.addLayout(self._buttons)
        self._cancel = QPushButton("Cancel", column)
        self._cancel.setAccessibleName("Open none of them")
        self._cancel.clicked.connect(self.dismissed)
        inner.addWidget(self._cancel, 0, Qt.AlignmentFlag.AlignRight)
        layout = QVBoxLayout(self)
        layout.addStretch(2)
        layout.addWidget(column, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(3)

    def ask(self, paths: Sequence[Path]) -> None:
        """Offer these models."""
        clear_layout(self._buttons)
        for path in paths:
            others = tuple(other for other in paths if other != path)
            name, place = plain(path.name), plain(str(path.parent))
            button = QCommandLinkButton(name.replace("&", "&&"), place, self)
            button.setAccessibleName(f"{name} is the base model")
            button.clicked.connect(lambda _=False, order=(path, *others): self.chosen.emit(order))
            self._buttons.addWidget(button)
