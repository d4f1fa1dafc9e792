"""All that is wrong with a window, a dialog or a menu as it is now, and its picture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Final

import numpy as np
from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QAccessible, QColor, QFontMetrics, QImage
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QScrollBar,
    QSplitter,
    QSplitterHandle,
    QTabBar,
    QTextEdit,
    QToolTip,
    QWidget,
)

from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.plots.frame.legend import Chip
from tests.helpers.contrast import TEXT, contrast
from tests.walk.texts import SENSE, Painted, Recorder, labels, written

SLACK: Final = 1  # px that rounding may take
PAINTED_SLACK: Final = 2.0  # px that rounding and side bearings take
LEAST_PLOT: Final = QSize(110, 72)  # px of data, at any size of font
KEPT: Final = 2  # characters of a painted text that was shortened
ROUNDING: Final = 0.02  # of a contrast, by colours of whole numbers
FREE: Final = ("toast", "ring")  # are over others on purpose
CONTROLS: Final = (
    *(QAbstractButton, QComboBox, QLineEdit, QAbstractItemView, QTabBar, QAbstractSlider),
    *(QAbstractSpinBox, QPlainTextEdit, QTextEdit, Plot),
)
PARTS: Final = (QScrollBar, QHeaderView)  # the keys of what they belong to move them
SHOWN: Final = (QLabel, QAbstractButton, QComboBox, QLineEdit, QTabBar, QAbstractItemView, Plot)
_RECORDER = Recorder()


def look_at(root: QWidget, screen: QSize) -> tuple[QImage, list[str]]:
    """Its picture, and one line a fault, on a screen of this size."""
    picture, texts = _RECORDER.grab(root)
    covers = [each for each in root.findChildren(QWidget) if is_free(each) and each.isVisible()]
    seen = [text for text in texts if not _is_covered(text, covers, root)]
    of_labels = [text for text in labels(root) if not _is_covered(text, covers, root)]
    found = [*_off_screen(root, screen), *_cut_or_over_others(seen)]
    found += _unreadable(picture, [*seen, *of_labels])
    for widget in (root, *root.findChildren(QWidget)):
        if widget.isVisible() and widget.window() is root:
            checks = (_shortened, _cut, _overlaps, _plot, _scrolls_across, _out_of_reach)
            faults = [
                *_tip(widget, screen),
                *(fault for check in checks for fault in check(widget)),
            ]
            found += [f"{_path(widget)}: {fault}" for fault in faults]
    return picture, found


def is_free(widget: QWidget) -> bool:
    return widget.property("kind") in FREE


def _is_covered(text: Painted, covers: list[QWidget], root: QWidget) -> bool:
    """Whether a message is over it."""
    return any(
        not cover.isAncestorOf(text.by)
        and QRectF(cover.rect()).translated(cover.mapTo(root, QPoint(0, 0))).intersects(text.seen)
        for cover in covers
    )


# How faults name what they are about


def _path(widget: QWidget) -> str:
    """The widget's class and name, and those of what it is in that have a name."""
    above, parts = widget.parentWidget(), [_called(widget)]
    while above is not None and len(parts) < 3 and not above.isWindow():
        if above.accessibleName():
            parts.append(_called(above))
        above = above.parentWidget()
    return " < ".join(parts)


def _called(widget: QWidget) -> str:
    text = getattr(widget, "text", None)
    name = widget.accessibleName() or (text() if callable(text) else "")
    return f"{type(widget).__name__}({str(name)[:40]!r})"


def _size(size: QSize | QRectF) -> str:
    return f"{size.width():.0f}×{size.height():.0f}"


# Where things are


def _off_screen(root: QWidget, screen: QSize) -> Iterator[str]:
    if root.width() > screen.width() or root.height() > screen.height():
        yield f"{type(root).__name__} of {_size(root.size())} is larger than the screen"
    elif root.parentWidget() is not None and not root.screen().geometry().contains(root.geometry()):
        yield f"{type(root).__name__} is partly off the screen: {root.geometry().getRect()}"


def _tip(widget: QWidget, screen: QSize) -> Iterator[str]:
    """A tip that is larger than the screen; Qt moves others into it."""
    if (text := widget.toolTip()) and not text.startswith("<"):
        needed = QFontMetrics(QToolTip.font()).size(0, text)
        if needed.width() > screen.width() or needed.height() > screen.height():
            yield f"its tip needs {_size(needed)}: {text[:40]!r}"


def _cut(widget: QWidget) -> Iterator[str]:
    """Something to read or to press that reaches out of one of those around it."""
    inner, above, rect = widget, widget.parentWidget(), widget.rect()
    if not isinstance(widget, SHOWN) or is_free(widget):
        return
    while above is not None and not inner.isWindow():
        rect = rect.translated(inner.pos())
        if is_free(above) or _scrolls(above, rect) or above.visibleRegion().isEmpty():
            return  # where nothing of what it is in is seen, that is folded on purpose
        if not _contains(above.rect(), rect):
            yield f"{_size(widget.size())} is cut by {_called(above)} of {_size(above.size())}"
            return
        inner, above = above, above.parentWidget()


def _contains(outer: QRect, inner: QRect) -> bool:
    return outer.adjusted(-SLACK, -SLACK, SLACK, SLACK).contains(inner)


def _scrolls(port: QWidget, rect: QRect) -> bool:
    """Whether the person can scroll to what of ``rect`` is outside of this viewport."""
    area = port.parentWidget()
    if not isinstance(area, QAbstractScrollArea) or area.viewport() is not port:
        return False
    if isinstance(area, QAbstractItemView):
        return True  # what is in cells moves with them
    beyond = rect.left() < -SLACK or rect.right() > port.width() + SLACK
    return area.horizontalScrollBar().maximum() > 0 or not beyond


def _overlaps(parent: QWidget) -> Iterator[str]:
    """What is laid out in a widget and reaches out of it, or is over something else in it."""
    laid_out = parent.layout() is not None or isinstance(parent, QSplitter)
    if isinstance(parent, QAbstractScrollArea) or not laid_out:
        return
    children = [
        child
        for child in parent.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly)
        if child.isVisible() and not (child.isWindow() or child.size().isEmpty() or is_free(child))
    ]
    children = [child for child in children if not isinstance(child, QSplitterHandle)]
    for child in children:
        if not _contains(parent.rect(), child.geometry()):
            yield f"{_called(child)} reaches out of it: {child.geometry().getRect()}"
    for one, other in combinations(children, 2):
        shared = one.geometry().intersected(other.geometry())
        if shared.width() > SLACK and shared.height() > SLACK:
            yield f"{_called(one)} and {_called(other)} overlap by {_size(shared.size())}"


def _plot(plot: QWidget) -> Iterator[str]:
    if isinstance(plot, Plot) and plot.message() is None:
        view = plot.canvas.getViewBox()
        if view.height() < LEAST_PLOT.height() or view.width() < LEAST_PLOT.width():
            yield f"only {_size(view)} px of data"


def _scrolls_across(area: QWidget) -> Iterator[str]:
    if not isinstance(area, QScrollArea) or area.widget() is None:
        return
    off = area.horizontalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAlwaysOff
    if off and area.widget().width() > area.viewport().width() + SLACK:
        yield f"content of {area.widget().width()} px in {area.viewport().width()}"


# Whether words have room


def _shortened(widget: QWidget) -> Iterator[str]:
    """Texts of Qt's controls that are cut, or elided to nothing that makes sense."""
    for each in written(widget):
        if each.shown != each.text:
            if len(each.shown.replace("…", "").strip()) < min(SENSE, len(each.text)):
                yield f"elided to {each.shown!r}"
        elif not _contains(QRect(QPoint(), each.room), QRect(QPoint(), each.needed)):
            yield f"{_size(each.room)} for {each.text[:40]!r}, which needs {_size(each.needed)}"


def _cut_or_over_others(painted: list[Painted]) -> Iterator[str]:
    """Painted texts that are cut, shortened, or over another."""
    for each in painted:
        yield from (f"{_by(each)}: {fault}" for fault in _cut_paint(each))
    for one, other in combinations(painted, 2):
        shared, lower = one.seen & other.seen, min(one.rect.height(), other.rect.height())
        same = one.text == other.text and one.by is other.by  # the same twice, in two colours
        if not same and shared.width() > PAINTED_SLACK and shared.height() > 0.3 * lower:
            yield f"{_by(one)}: {one.text[:40]!r} is over {other.text[:40]!r}"


def _cut_paint(each: Painted) -> Iterator[str]:
    if "…" in each.text and len(each.text.replace("…", "").strip()) < KEPT:
        yield f"shortened to {each.text!r}"
    view = each.by.parentWidget()
    if isinstance(view, QAbstractItemView) and not isinstance(view, QHeaderView):
        return  # the rest of a row or a column is scrolled to
    room = each.port if each.room is None else each.room
    for given in (room, each.port):
        high = 0.2 * each.rect.height()  # what is above and below the letters
        if not given.adjusted(-PAINTED_SLACK, -high, PAINTED_SLACK, high).contains(each.rect):
            yield f"{_size(given)} for {each.text[:40]!r}, which needs {_size(each.rect)}"
            return


def _by(each: Painted) -> str:
    widget = each.by
    while not widget.accessibleName() and widget.parentWidget() is not None:
        widget = widget.parentWidget()
    return f"painted in {_called(widget)}"


# Whether words can be read


def _unreadable(picture: QImage, texts: list[Painted]) -> Iterator[str]:
    """Texts in a picture whose ink is too near to their ground."""
    plain = picture.convertToFormat(QImage.Format.Format_RGB32)
    numbers = np.frombuffer(plain.constBits(), np.uint32).reshape(plain.height(), -1)
    pixels = numbers[:, : plain.width()] & 0xFFFFFF
    for each in texts:
        rect = each.seen.toAlignedRect() & plain.rect()
        crop = pixels[rect.top() : rect.bottom() + 1, rect.left() : rect.right() + 1]
        if not re.search(r"\w", each.text) or rect.isEmpty():
            continue
        colours, counts = np.unique(crop, return_counts=True)
        ground = f"#{colours[counts.argmax()]:06x}"
        seen = _over(each.ink, ground)
        if (ratio := contrast(seen, ground)) < TEXT - ROUNDING:
            yield f"{each.text[:40]!r} is {seen} on {ground}: {ratio:.2f}"


def _over(ink: QColor, ground: str) -> str:
    """What a translucent ink looks like on its ground."""
    share, behind = ink.alphaF(), QColor(ground)
    parts = zip(ink.getRgbF()[:3], behind.getRgbF()[:3], strict=True)
    return QColor.fromRgbF(*(share * top + (1 - share) * below for top, below in parts)).name()


# Whether keys and a screen reader reach it


def _out_of_reach(widget: QWidget) -> Iterator[str]:
    """A control that Tab does not reach, or that has no name."""
    above = widget.parentWidget()
    of_another = QComboBox | QAbstractSpinBox | QLineEdit | QTabBar | QAbstractItemView
    legend = isinstance(widget, Chip) and not widget.isCheckable()  # nobody can press it
    if not isinstance(widget, CONTROLS) or isinstance(widget, PARTS) or legend:
        return
    if widget.isWindow() or isinstance(above, of_another):
        return
    group = widget.group() if isinstance(widget, QAbstractButton) else None
    leading = group.buttons() if group is not None else [widget.focusProxy() or widget]
    by_keys = any(each.focusPolicy() & Qt.FocusPolicy.TabFocus for each in leading)
    if widget.isEnabled() and not by_keys:
        yield "is not reached by Tab"
    if sum(map(str.isalpha, _name(widget))) < 2:
        yield f"in {type(above).__name__}({_name(above)[:40]!r}) has no name"


def _name(widget: QWidget) -> str:
    spoken = QAccessible.queryAccessibleInterface(widget)
    own = widget.accessibleName()  # Qt speaks the value of some controls in its place
    return own or (spoken.text(QAccessible.Text.Name) if spoken is not None else "")
