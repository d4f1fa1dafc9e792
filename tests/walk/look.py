"""All that is wrong with a window, a dialog or a menu as it is now, and its picture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QAccessible, QColor, QImage
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QScrollBar,
    QTabBar,
    QTextEdit,
    QWidget,
)

from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.plots.frame.legend import Chip
from tests.helpers.contrast import TEXT, contrast
from tests.walk import faults, painted
from tests.walk.painted import Painted

_RECORDER = painted.Recorder()


def look_at(root: QWidget, room: QSize) -> tuple[QImage, list[str]]:
    """Its picture, and one line a fault, on a screen of ``room``."""
    picture, texts = _RECORDER.grab(root)
    covers = [each for each in root.findChildren(QWidget) if faults.is_free(each)]
    seen = [text for text in texts if not _is_covered(text, covers, root)]
    labels = [text for text in painted.labels(root) if not _is_covered(text, covers, root)]
    found = [
        *faults.faults_in(root, room),
        *painted.faults_of(seen),
        *_unreadable(picture, [*seen, *labels]),
        *_out_of_reach(root),
    ]
    return picture, found


def _is_covered(text: Painted, covers: list[QWidget], root: QWidget) -> bool:
    """Whether a message lies over it."""
    return any(
        cover.isVisible()
        and not cover.isAncestorOf(text.by)
        and QRectF(cover.rect()).translated(cover.mapTo(root, QPoint(0, 0))).intersects(text.seen)
        for cover in covers
    )


_CONTROLS: Final = (
    *(QAbstractButton, QComboBox, QLineEdit, QAbstractItemView, QTabBar, QAbstractSlider),
    *(QAbstractSpinBox, QPlainTextEdit, QTextEdit, Plot),
)
_PARTS: Final = (QScrollBar, QHeaderView)  # the keys of what they belong to move them


def _out_of_reach(root: QWidget) -> Iterator[str]:
    """A line for each control that Tab does not reach, and for each without a name."""
    for widget in root.findChildren(QWidget):
        if not widget.isVisible() or widget.window() is not root or not _is_control(widget):
            continue
        if widget.isEnabled() and not _takes_keys(widget):
            yield f"{type(widget).__name__}({_name(widget)[:40]!r}) is not reached by Tab"
        if not _name(widget).strip():
            above = widget.parentWidget()
            inside = f"{type(above).__name__}({_name(above)[:40]!r})"
            yield f"{type(widget).__name__} in {inside} has no name"


def _takes_keys(widget: QWidget) -> bool:
    """Itself, or what leads to it: one of its group, the field whose keys move it."""
    group = widget.group() if isinstance(widget, QAbstractButton) else None
    leading = group.buttons() if group is not None else [widget.focusProxy() or widget]
    return any(each.focusPolicy() & Qt.FocusPolicy.TabFocus for each in leading)


def _is_control(widget: QWidget) -> bool:
    """A control, and no part of another."""
    above = widget.parentWidget()
    inside = isinstance(above, QComboBox | QAbstractSpinBox | QLineEdit | QTabBar)
    inside |= isinstance(above, QAbstractItemView)  # its corner
    part = inside or isinstance(widget, _PARTS)
    legend = isinstance(widget, Chip) and not widget.isCheckable()  # nobody can press it
    return isinstance(widget, _CONTROLS) and not part and not legend


def _name(widget: QWidget | None) -> str:
    spoken = QAccessible.queryAccessibleInterface(widget) if widget is not None else None
    return spoken.text(QAccessible.Text.Name) if spoken is not None else ""


_WORD: Final = re.compile(r"\w")
_ROUNDING: Final = 0.02  # of a ratio, by colours of whole numbers


def _unreadable(picture: QImage, texts: list[Painted]) -> Iterator[str]:
    """Texts in a picture whose ink is too near to their ground."""
    pixels = _pixels(picture)
    for each in texts:
        yield from _pale(pixels, each.text, each.seen.toAlignedRect(), each.ink)


def _pixels(picture: QImage) -> np.ndarray:
    """0xRRGGBB a pixel."""
    plain = picture.convertToFormat(QImage.Format.Format_RGB32)
    numbers = np.frombuffer(plain.constBits(), np.uint32).reshape(plain.height(), -1)
    return numbers[:, : plain.width()] & 0xFFFFFF


def _pale(pixels: np.ndarray, text: str, rect: QRect, ink: QColor) -> Iterator[str]:
    top, left = max(rect.top(), 0), max(rect.left(), 0)
    crop = pixels[top : rect.bottom() + 1, left : rect.right() + 1]
    if not _WORD.search(text) or rect.isEmpty() or crop.size == 0:
        return
    colours, counts = np.unique(crop, return_counts=True)
    ground = f"#{colours[counts.argmax()]:06x}"
    seen = _over(ink, ground)
    if (ratio := contrast(seen, ground)) < TEXT - _ROUNDING:
        yield f"{text[:40]!r} is {seen} on {ground}: {ratio:.2f}"


def _over(ink: QColor, ground: str) -> str:
    """What a translucent ink looks like on its ground."""
    share, behind = ink.alphaF(), QColor(ground)
    parts = zip(ink.getRgbF()[:3], behind.getRgbF()[:3], strict=True)
    return QColor.fromRgbF(*(share * top + (1 - share) * below for top, below in parts)).name()
