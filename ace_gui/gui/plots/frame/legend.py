"""Captions that elide, and a legend that wraps and never covers the data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyqtgraph.graphicsItems.ScatterPlotItem import drawSymbol
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from ace_gui.gui.plots.frame.spec import LegendEntry
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.labels import ElidedLabel
from ace_gui.gui.widgets.layout import FlowLayout, clear_layout

_SWATCH_WIDTH = 24
_NAME_CHARACTERS = 22
_MIN_CHARACTERS = 10


_ZERO_WIDTH_SPACE: Final = "\u200b"


def breakable(text: str) -> str:
    """The text, with names of tensors that can be continued in the next line."""
    return re.sub(r"(?<=\w[._/])(?=\w)", _ZERO_WIDTH_SPACE, text)


class CaptionLabel(ElidedLabel):
    """A title or a caption. If it is too long, it is elided, or it ``wraps``."""

    def __init__(self, *, sentence: bool = False, wraps: bool = False) -> None:
        super().__init__(sentence=sentence)
        self.setWordWrap(wraps)
        policies = QSizePolicy.Policy
        policy = QSizePolicy(policies.Preferred, policies.Fixed)
        if wraps:
            self._mode = Qt.TextElideMode.ElideNone
            policy = QSizePolicy(policies.Ignored, policies.Minimum)
            policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def set_full_text(self, text: str) -> None:
        super().set_full_text(text)
        self.setAccessibleName(text)

    def _elide(self) -> None:
        super()._elide()
        if self.text() != self.full_text and len(self.text()) < _MIN_CHARACTERS:
            self.setText("")  # a few characters mean nothing; the tooltip has the whole text
        self.setToolTip(tooltip(self.full_text) if self.text() != self.full_text else "")


class Chip(QAbstractButton):
    """One entry of a legend: a swatch and a name."""

    def __init__(self, entry: LegendEntry, toggles: bool, parent: QWidget) -> None:
        super().__init__(parent)
        self.entry = entry
        self.setCheckable(toggles)
        self.setChecked(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus if toggles else Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(entry.label)
        if toggles:
            self.setToolTip(f"{entry.label}: show or hide")
            self.setAccessibleDescription("Shows or hides this curve")
            self.setCursor(Qt.CursorShape.PointingHandCursor)

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(self.font())
        return QSize(
            _SWATCH_WIDTH + 8 + metrics.horizontalAdvance(self._shown_label()),
            max(metrics.height(), 14) + 4,
        )

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        on = self.isChecked() or not self.isCheckable()
        self._paint_swatch(painter, on)
        if on:
            ink = self.palette().text()
        else:
            ink = self.palette().placeholderText()
        painter.setPen(QPen(ink.color()))
        font = painter.font()
        font.setStrikeOut(not on)
        painter.setFont(font)
        room = self.rect().adjusted(_SWATCH_WIDTH + 4, 0, 0, 0)
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, self._shown_label())
        if self.hasFocus():
            painter.setPen(QPen(self.palette().accent().color(), 2))
            painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1), 3, 3)

    def _shown_label(self) -> str:
        label = self.entry.label
        half = (_NAME_CHARACTERS - 1) // 2
        if len(label) <= _NAME_CHARACTERS:
            return label
        return f"{label[:half]}…{label[-half:]}"

    def _paint_swatch(self, painter: QPainter, on: bool) -> None:
        entry = self.entry
        middle = self.height() / 2
        colour = QColor(entry.colour)
        if not on:
            colour.setAlphaF(0.35)
        if not entry.symbol:
            pen = QPen(colour, entry.width, entry.style)
            pen.setCapStyle(Qt.PenCapStyle.FlatCap)
            painter.setPen(pen)
            painter.drawLine(2, round(middle), _SWATCH_WIDTH - 1, round(middle))
            return
        painter.save()
        painter.translate(_SWATCH_WIDTH / 2, middle)
        if entry.filled:
            fill = QBrush(colour)
        else:
            fill = QBrush(Qt.BrushStyle.NoBrush)
        pen = QPen(colour, 1.5)
        pen.setCosmetic(True)
        drawSymbol(painter, entry.symbol, 9, pen, fill)
        painter.restore()


class Legend(QWidget):
    """A plot's entries in rows that wrap; with ``toggles`` each can be switched off and on.

    Signal ``toggled(key, on)``. A key that was switched off stays off when it appears again.
    """

    toggled = Signal(str, bool)

    def __init__(self, *, toggles: bool) -> None:
        super().__init__()
        self._toggles = toggles
        self._off: set[str] = set()
        self._chips: list[Chip] = []
        self._flow = FlowLayout(self, spacing=10)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Legend")

    def entries(self) -> tuple[LegendEntry, ...]:
        return tuple(chip.entry for chip in self._chips)

    def is_on(self, key: str) -> bool:
        return key not in self._off

    def set_entries(self, entries: Sequence[LegendEntry]) -> None:
        """Replace the entries. Keys that are switched off stay off."""
        present = self.entries()
        if tuple(entries) == present:
            return
        if [(e.key, e.label) for e in present] == [(e.key, e.label) for e in entries]:
            for chip, entry in zip(self._chips, entries, strict=True):
                chip.entry = entry  # only the colours differ: the layout is the same
                chip.update()
            return
        clear_layout(self._flow)
        chips = self._chips = [self._chip(entry) for entry in entries]
        for chip in chips:
            self._flow.addWidget(chip)
        for chip in chips:
            # Showing lays out the window, and the plot may then set the entries again.
            if chips is self._chips:
                chip.show()
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        """All entries in one line."""
        hints = [chip.sizeHint() for chip in self._chips]
        width = sum(hint.width() + self._flow.spacing() for hint in hints)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def chip(self, key: str) -> QAbstractButton:
        """The button of the entry ``key``. ``KeyError`` if there is none."""
        return {chip.entry.key: chip for chip in self._chips}[key]

    def _chip(self, entry: LegendEntry) -> Chip:
        chip = Chip(entry, self._toggles, self)
        chip.setChecked(self.is_on(entry.key))
        chip.toggled.connect(lambda on, key=entry.key: self._toggle(key, on))
        return chip

    def _toggle(self, key: str, on: bool) -> None:
        (self._off.discard if on else self._off.add)(key)
        self.toggled.emit(key, on)
