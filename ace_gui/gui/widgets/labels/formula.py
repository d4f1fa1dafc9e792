"""A method's formula, typeset if there is a drawing of it, and its paper with links."""

from __future__ import annotations

import html
import re
from typing import Final

from PySide6.QtCore import QByteArray, QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from ace_gui.gui.text import plain
from ace_gui.gui.theme import current_theme
from ace_gui.gui.widgets.labels.plain_label import plain_label
from ace_gui.paths import resource_path

_INK, _QUIET = "#000000", "#808080"  # of the formulas and of the lines' names in the drawings
_UNIT: Final = 20.0  # the line height in a drawing's units
_LETTERS: Final = 1.15  # of the window's line: italics are smaller than Inter
_ARXIV: Final = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


def formula(method: str, text: str, parent: QWidget | None = None) -> QWidget:
    """The formula of the method with this name; ``text``: the same in plain text."""
    file = resource_path(f"formulas/{method}.svg")
    if file.is_file():
        return Drawing(file.read_text(encoding="utf-8"), f"Formula: {plain(text)}", parent)
    made = plain_label(text, parent)
    made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return made


def citation(text: str, parent: QWidget | None = None) -> QLabel:
    """The method's publication; links to arXiv open in the browser."""
    linked = _ARXIV.sub(
        r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', html.escape(plain(text))
    )
    made = _Linked(linked, parent)
    made.setTextFormat(Qt.TextFormat.RichText)
    made.setWordWrap(True)
    made.setOpenExternalLinks(True)
    made.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
    made.setAccessibleName(plain(text))
    return made


class _Linked(QLabel):
    """Its links have the colours of the current scheme."""

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            text = self.text()
            self.clear()  # the same text would not be read again
            self.setText(text)


class Drawing(QWidget):
    """An SVG drawing in the text colour and font size, but smaller if there is little room."""

    def __init__(self, drawing: str, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._drawing = drawing
        self._ink = ""
        self._renderer = QSvgRenderer(self)
        self._load()
        self.setAccessibleName(name)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def sizeHint(self) -> QSize:
        return self._renderer.defaultSize() * self._scale()

    def minimumSizeHint(self) -> QSize:
        return QSize(120, 24)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        whole = self.sizeHint()
        return whole.height() if width >= whole.width() else whole.height() * width // whole.width()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        self._load()
        whole = self.sizeHint()
        share = min(1.0, self.width() / max(whole.width(), 1))
        rect = QRectF(0, 0, whole.width() * share, whole.height() * share)
        painter = QPainter(self)
        self._renderer.render(painter, rect)
        painter.end()

    def _scale(self) -> float:
        return _LETTERS * self.fontMetrics().height() / _UNIT

    def _load(self) -> None:
        """The drawing in the scheme's text colours."""
        ink = current_theme().text
        if ink != self._ink:
            self._ink = ink
            drawing = self._drawing.replace(_QUIET, current_theme().text3).replace(_INK, ink)
            self._renderer.load(QByteArray(drawing.encode()))
