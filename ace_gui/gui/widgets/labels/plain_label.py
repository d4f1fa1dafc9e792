"""Labels that show text from files literally, icons, and the content of an empty panel."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget

from ace_gui.gui.text import breakable, plain, tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.drawn_controls import scale
from ace_gui.gui.theme.painting import SWATCH, paint_swatch
from ace_gui.gui.widgets.layout.arrangement import across, down, on_font_change

_LEAST: Final = 40  # px: width of an elided text


def plain_label(text: str = "", parent: QWidget | None = None, *, wrap: bool = True) -> QLabel:
    """A label that ignores markup."""
    label = QLabel(parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(wrap)
    label.setText(breakable(text) if wrap else plain(text))
    return label


def muted_label(text: str = "", parent: QWidget | None = None) -> QLabel:
    """A smaller label in the caption colour."""
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
    """One line, elided in the middle, or at its end for a sentence; the tooltip has all of it."""

    def __init__(self, parent: QWidget | None = None, *, sentence: bool = False) -> None:
        super().__init__(parent)
        mode = Qt.TextElideMode
        self._full, self._mode = "", mode.ElideRight if sentence else mode.ElideMiddle
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    @property
    def whole(self) -> str:
        """The complete text."""
        return self._full

    def set_full_text(self, text: str) -> None:
        """Set the complete text."""
        self._full = plain(text)
        self.setToolTip(tooltip(text) if text else "")
        self._elide()
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        """The width of the complete text."""
        width = self.fontMetrics().horizontalAdvance(self._full) + 2
        return QSize(width, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(_LEAST, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        self.setText(self.fontMetrics().elidedText(self._full, self._mode, self.width()))


class IconLabel(QWidget):
    """``size`` pixels square at normal font size, and scaled with it."""

    def __init__(self, size: int, picture: QIcon | None = None, parent: QWidget | None = None):
        super().__init__(parent)
        self._icon = picture or QIcon()
        on_font_change(self, lambda _metrics: self.setFixedSize(*[round(size * scale())] * 2))

    def show_icon(self, picture: QIcon) -> None:
        """Replace the icon."""
        self._icon = picture
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        self._icon.paint(QPainter(self), self.rect())


_WIDTH = 460  # px: maximum width of the sentence
_MARGIN = 16


class EmptyState(QWidget):
    """Centred in its area. ``button``: the action."""

    def __init__(self, sentence: str, button: QPushButton, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.button = button
        self.sentence = secondary_label("", self)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.sentence.setMaximumWidth(_WIDTH)
        # in a row of its own, because its height depends on its width
        row, below = across(None, (self.sentence, 100), None), across(None, button, None)
        self.setLayout(down(None, row, below, None, margins=(_MARGIN, 0, _MARGIN, 0), gap=12))
        self.say(sentence)

    def say(self, sentence: str) -> None:
        """Replace the sentence."""
        self.sentence.setText(plain(sentence))


class Swatch(QWidget):
    """The base model's grey until another colour is shown; hidden without a colour."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colour: str | None = None
        self.setFixedSize(SWATCH, SWATCH)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def show_colour(self, colour: str) -> None:
        """Show another colour, or none."""
        self._colour = colour
        self.setVisible(bool(colour))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        colour = current_theme().base if self._colour is None else self._colour
        paint_swatch(QPainter(self), QRectF(self.rect()), colour)
