"""Widgets to read: plain labels, icons, empty panels, bars with numbers, formulas, terms."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from PySide6.QtCore import QByteArray, QEvent, QLineF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QIcon, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget

from ace_gui.gui.text import breakable, plain, tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.drawn_controls import scale
from ace_gui.gui.theme.painting import SWATCH, paint_share, paint_swatch, write
from ace_gui.gui.widgets.layout import across, down, on_font_change
from ace_gui.paths import resource_path

_LEAST: Final = 40  # px: width of an elided text


def plain_label(
    text: str = "", *, wrap: bool = True, kind: str = "", role: Face | None = None
) -> QLabel:
    """A label that ignores markup. ``kind``: its colours; ``role``: its font."""
    label = QLabel(breakable(text) if wrap else plain(text))
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(wrap)
    label.setProperty("kind", kind)
    if role is not None:
        label.setFont(face(role))
    return label


def muted_label(text: str = "") -> QLabel:
    """A smaller label in the caption colour."""
    return plain_label(text, kind="caption", role=Face.CAPTION)


def secondary_label(text: str = "") -> QLabel:
    """A label in the colour of secondary text."""
    return plain_label(text, kind="secondary")


def heading(text: str) -> QLabel:
    """The title of a panel."""
    return plain_label(text, wrap=False, role=Face.HEADING)


class ElidedLabel(QLabel):
    """One line, elided in the middle, or at its end for a sentence; the tooltip has the whole text.

    ``caption``: smaller, in the caption colour.
    """

    def __init__(
        self, parent: QWidget | None = None, *, sentence: bool = False, caption: bool = False
    ) -> None:
        super().__init__(parent)
        if caption:
            self.setProperty("kind", "caption")
            self.setFont(face(Face.CAPTION))
        mode = Qt.TextElideMode
        self._full = ""
        if sentence:
            self._mode = mode.ElideRight
        else:
            self._mode = mode.ElideMiddle
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    @property
    def full_text(self) -> str:
        return self._full

    def set_full_text(self, text: str) -> None:
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
    """An icon of ``size`` × ``size`` pixels at the normal font size, with which it grows."""

    def __init__(self, size: int, picture: QIcon | None = None, parent: QWidget | None = None):
        super().__init__(parent)
        self._icon = picture or QIcon()
        on_font_change(self, lambda _metrics: self.setFixedSize(*[round(size * scale())] * 2))

    def show_icon(self, picture: QIcon) -> None:
        self._icon = picture
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        self._icon.paint(QPainter(self), self.rect())


_WIDTH = 460  # px: maximum width of the sentence
_MARGIN = 16


class EmptyState(QWidget):
    """A sentence and a button in the middle of an area that is empty."""

    def __init__(self, sentence: str, button: QPushButton) -> None:
        super().__init__()
        self.button = button
        self.sentence = secondary_label()
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.sentence.setMaximumWidth(_WIDTH)
        # in a row of its own, because its height depends on its width
        row = across(None, (self.sentence, 100), None)
        below = across(None, button, None)
        self.setLayout(down(None, row, below, None, margins=(_MARGIN, 0, _MARGIN, 0), gap=12))
        self.say(sentence)

    def say(self, sentence: str) -> None:
        self.sentence.setText(plain(sentence))


class Swatch(QWidget):
    """A square in a model's colour, at first the base's grey. Hidden without a colour."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colour = "base"
        self.setFixedSize(SWATCH, SWATCH)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def show_colour(self, colour: str) -> None:
        """Show a colour by its name, or "" for none."""
        self._colour = colour
        self.setVisible(bool(colour))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        paint_swatch(QPainter(self), QRectF(self.rect()), self._colour)


_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_BAR: Final = 6.0  # px: height
_END: Final = 4.0  # px: half of the line at an end of an interval
_NAME: Final = 0.5  # maximum part of the width


class Bar(NamedTuple):
    """A bar with a name and a number. ``share``: its length, 0 to 1. ``strong``: highlighted.
    ``error``: half of the interval that is drawn at its end, in the same unit.
    """

    title: str
    share: float
    text: str
    strong: bool = False
    error: float = 0.0


class NamedBars(QWidget):
    """Bars in one colour. Without a colour they are grey, and strong ones have the merge's."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bars: tuple[Bar, ...] = ()
        self._colour = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_bars(self, bars: Sequence[Bar], colour: str = "") -> None:
        """Show these bars from top to bottom."""
        self._bars = tuple(bars)
        self._colour = colour
        bars_text = ", ".join(f"{bar.title} {bar.text}" for bar in self._bars)
        self.setAccessibleName(bars_text)
        self.setToolTip(tooltip(bars_text))
        self.updateGeometry()
        self.update()

    @property
    def bars(self) -> tuple[Bar, ...]:
        return self._bars

    def sizeHint(self) -> QSize:
        return QSize(180, round(self._line * max(len(self._bars), 1)))

    @property
    def _line(self) -> float:
        return 1.6 * QFontMetricsF(face(Face.BODY)).height()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        theme = current_theme()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        strong = QFontMetricsF(face(Face.STRONG))
        names = max((strong.horizontalAdvance(bar.title) for bar in self._bars), default=0.0) + 8
        names = min(names, _NAME * self.width())
        number = max((strong.horizontalAdvance(bar.text) for bar in self._bars), default=0.0) + 6
        # closer if the height is small
        line = min(self._line, self.height() / max(len(self._bars), 1))
        for index, bar in enumerate(self._bars):
            row = QRectF(0, index * line, self.width(), line)
            name = QRectF(row.left(), row.top(), names, row.height())
            font = face(Face.STRONG if bar.strong else Face.BODY)
            if bar.strong:
                ink = theme.text
            else:
                ink = theme.text2
            write(painter, name, bar.title, font, ink)
            track = QRectF(name.right() + 8, 0, row.right() - number - name.right() - 12, _BAR)
            track.moveTop(row.center().y() - _BAR / 2)
            colour = self._colour or ("merged" if bar.strong else "base")
            paint_share(painter, track, bar.share, colour, "sunk")
            if bar.error:
                _paint_interval(painter, track, bar)
            number_rect = QRectF(row.right() - number, row.top(), number, row.height())
            write(painter, number_rect, bar.text, font, ink, align=_RIGHT)


def _paint_interval(painter: QPainter, track: QRectF, bar: Bar) -> None:
    """Paint a line with two ends across the end of a bar in ``track``."""
    theme = current_theme()
    middle = track.center().y()
    ends = [track.left() + track.width() * (bar.share + side * bar.error) for side in (-1, 1)]
    lines = [QLineF(ends[0], middle, ends[1], middle)]
    lines += [QLineF(end, middle - _END, end, middle + _END) for end in ends]
    for colour, width in ((theme.card, 3.5), (theme.text, 1.2)):
        painter.setPen(QPen(QColor(colour), width))
        painter.drawLines(lines)


# in the drawings: of formulas, of the names of lines
_INK = "#000000"
_QUIET = "#808080"
_UNIT: Final = 20.0  # the line height in a drawing's units
_FONT_SCALE: Final = 1.15  # of the window's line height, because italics are smaller than Inter
_ARXIV: Final = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


def formula(method: str, text: str) -> QWidget:
    """The formula of the method with this name. ``text``: the formula in plain text."""
    file = resource_path(f"formulas/{method}.svg")
    if file.is_file():
        return DrawingLabel(file.read_text(encoding="utf-8"), f"Formula: {plain(text)}")
    label = plain_label(text)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def citation(text: str) -> QLabel:
    """The method's publication; links to arXiv open in the browser."""
    linked = _ARXIV.sub(
        r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', html.escape(plain(text))
    )
    label = _Linked(linked)
    label.setTextFormat(Qt.TextFormat.RichText)
    label.setWordWrap(True)
    label.setOpenExternalLinks(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
    label.setAccessibleName(plain(text))
    return label


class _Linked(QLabel):
    """A text whose links have the colours of the current scheme."""

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            text = self.text()
            self.clear()  # Qt ignores a text that has not changed
            self.setText(text)


def linked_label(links: Callable[[str], object]) -> QLabel:
    """A wrapped text whose links call ``links`` with their address. Its text is HTML."""
    label = _Linked()
    label.setTextFormat(Qt.TextFormat.RichText)
    label.setWordWrap(True)
    interaction = Qt.TextInteractionFlag
    keys = interaction.LinksAccessibleByKeyboard
    label.setTextInteractionFlags(keys | interaction.LinksAccessibleByMouse)
    label.linkActivated.connect(links)
    return label


class DrawingLabel(QWidget):
    """An SVG drawing in the text colour and font size, but smaller if there is little room."""

    def __init__(self, drawing: str, name: str) -> None:
        super().__init__()
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
        full = self.sizeHint()
        if width >= full.width():
            return full.height()
        return full.height() * width // full.width()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        self._load()
        full = self.sizeHint()
        share = min(1.0, self.width() / max(full.width(), 1))
        rect = QRectF(0, 0, full.width() * share, full.height() * share)
        painter = QPainter(self)
        self._renderer.render(painter, rect)
        painter.end()

    def _scale(self) -> float:
        return _FONT_SCALE * self.fontMetrics().height() / _UNIT

    def _load(self) -> None:
        """Load the drawing in the scheme's text colours, unless it is loaded."""
        ink = current_theme().text
        if ink != self._ink:
            self._ink = ink
            drawing = self._drawing.replace(_QUIET, current_theme().text3).replace(_INK, ink)
            self._renderer.load(QByteArray(drawing.encode()))


_TERM: Final = "term"
OF_PARAMETERS: Final = {
    "epsilon": "Ridge ε",
    "alpha": "Ridge share α",
    "tau": "Threshold τ",
    "k_frac": "Refinement",
    "refine": "Refinement",
    "delta": "Cap δ",
    "cap": "Cap δ",
    "after.cap": "Cap δ",
    "variant": "Automatic variant",
    "scaling": "Task vector",
    "density": "Density",
}
"""The parameters of methods that the glossary explains."""


def explain(widget: QWidget, term: str) -> None:
    """Make F1 open this glossary term while the widget has the focus."""
    widget.setProperty(_TERM, term)


def term_of(widget: QWidget | None) -> str:
    """The term of the widget or of its nearest parent with one; empty if there is none."""
    while widget is not None:
        term = widget.property(_TERM)
        if term:
            return str(term)
        widget = widget.parentWidget()
    return ""
