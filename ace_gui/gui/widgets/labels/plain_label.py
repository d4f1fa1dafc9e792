"""Labels that show text from files literally."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from ace_gui.gui.text import breakable, plain, tooltip
from ace_gui.gui.theme import Face, face


def plain_label(text: str = "", parent: QWidget | None = None, *, wrap: bool = True) -> QLabel:
    """A label that takes nothing for markup."""
    label = QLabel(parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(wrap)
    label.setText(breakable(text) if wrap else plain(text))
    return label


def muted_label(text: str = "", parent: QWidget | None = None) -> QLabel:
    """A smaller label in the colour of captions."""
    label = plain_label(text, parent)
    label.setProperty("kind", "caption")
    label.setFont(face(Face.CAPTION))
    return label


def secondary_label(text: str = "", parent: QWidget | None = None) -> QLabel:
    """A label in the colour of secondary text."""
    label = plain_label(text, parent)
    label.setProperty("kind", "secondary")
    return label


def heading(text: str, parent: QWidget | None = None) -> QLabel:
    """The title of a panel."""
    label = plain_label(text, parent, wrap=False)
    label.setFont(face(Face.HEADING))
    return label


class ElidedLabel(QLabel):
    """One line that gives up its middle where there is no room, or its end if it is a sentence;
    the tooltip has all of it."""

    def __init__(self, parent: QWidget | None = None, *, sentence: bool = False) -> None:
        super().__init__(parent)
        mode = Qt.TextElideMode
        self._full, self._mode = "", mode.ElideRight if sentence else mode.ElideMiddle
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    @property
    def whole(self) -> str:
        """The text before anything was given up."""
        return self._full

    def set_full_text(self, text: str) -> None:
        """The text to show as much of as fits."""
        self._full = plain(text)
        self.setToolTip(tooltip(text) if text else "")
        self._elide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        self.setText(self.fontMetrics().elidedText(self._full, self._mode, self.width()))
