"""All that is wrong with a window, a dialog or a menu as it is now, and its picture."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Final

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QAccessible,
    QAction,
    QColor,
    QFontMetrics,
    QFontMetricsF,
    QImage,
    QPaintDevice,
    QPaintEngine,
    QPainter,
    QPainterPath,
    QRegion,
    QTextItem,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QGraphicsView,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QTextEdit,
    QToolTip,
    QWidget,
)

from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.plots.frame.legend import Chip
from tests.helpers.contrast import TEXT, contrast

SLACK: Final = 2  # px that rounding and side bearings may take
LEAST_PLOT: Final = QSize(110, 72)  # px of data, at any size of font
KEPT: Final = 9  # characters of a shortened text that still say something
OF_TABS: Final = 2  # the same of a tab, whose place tells it
SCROLLED: Final = 18  # characters of a field that need not be seen together
ICON: Final = range(6, 32)  # px of the sides of a shape that is taken for an icon
ROUNDING: Final = 0.02  # of a contrast, by colours of whole numbers
FREE: Final = ("toast", "ring")  # are over others on purpose
ROLES: Final = QAccessible.Role
CONTROLS: Final = (
    *(ROLES.Button, ROLES.CheckBox, ROLES.RadioButton, ROLES.ComboBox, ROLES.EditableText),
    *(ROLES.SpinBox, ROLES.Slider, ROLES.List, ROLES.Table, ROLES.Tree, ROLES.PageTabList),
)


def look_at(root: QWidget, screen: QSize) -> tuple[QImage, list[str]]:
    """Its picture, and one line a fault, on a screen of this size."""
    widgets = [widget for widget in (root, *root.findChildren(QWidget)) if widget.isVisible()]
    widgets = [widget for widget in widgets if widget.window() is root]
    picture = root.grab().toImage()
    painted = [piece for piece in record(root, widgets) if _is_on_top(piece, root)]
    faults = [*_off_screen(root, screen), *_over_others(painted), *_unreadable(picture, painted)]
    faults += [*_cut(painted, root), *_shortened(painted, root)]
    for widget in widgets:
        for check in (_misplaced, _plot, _out_of_reach, lambda widget: _tip(widget, screen)):
            faults += [f"{_path(widget)}: {fault}" for fault in check(widget)]
    return picture, faults


# What is painted


@dataclass(frozen=True)
class Painted:
    """A text in one line, or an icon; the rectangles are in the window."""

    text: str
    """Empty for an icon."""
    by: QWidget
    """Which painted it."""
    rect: QRectF
    """Where it is, all of it."""
    room: QRectF | None
    """Where its widget lets it be seen; None: everywhere."""
    seen: QRectF
    """What is seen of it."""
    ink: QColor
    """Of a text, with the painter's opacity; of an icon no valid colour."""


class Recorder(QPaintEngine):
    """Notes every text and icon that Qt or the window paints: ``by`` which widget, ``at`` where."""

    def __init__(self) -> None:
        super().__init__(QPaintEngine.PaintEngineFeature.AllFeatures)
        self.painted: list[Painted] = []
        self.begin = self.end = lambda *_: True
        self.updateState = self.drawPixmap = self.drawImage = self.drawPolygon = lambda *_: None

    def type(self) -> QPaintEngine.Type:
        return QPaintEngine.Type.User

    def drawPath(self, path: QPainterPath) -> None:
        self._note("", path.boundingRect())

    def drawTextItem(self, start: QPointF, item: QTextItem) -> None:
        text = item.text().rstrip()
        blank = QFontMetricsF(item.font()).horizontalAdvance(item.text()[len(text) :])
        top = start.y() - item.ascent()
        height = item.ascent() + item.descent()
        if text:
            self._note(text, QRectF(start.x(), top, item.width() - blank, height))

    def _note(self, text: str, rect: QRectF) -> None:
        painter = self.painter()
        place = self.painter().deviceTransform()
        ink = QColor()
        rect = place.mapRect(rect)
        if text:
            ink = QColor(painter.pen().color())
            ink.setAlphaF(ink.alphaF() * painter.opacity())
        elif {int(rect.width()), int(rect.height())} - set(ICON):
            return
        room = place.mapRect(painter.clipBoundingRect()) if painter.hasClipping() else None
        last = self.painted[-1] if self.painted else None
        if last and text and last.text and last.by is self.by and last.room == room:
            gap = rect.topLeft() - last.rect.topRight()
            if max(abs(gap.x()), abs(gap.y())) <= SLACK:  # goes on in another font or colour
                text = last.text + text
                rect = rect | self.painted.pop().rect
        seen = QRectF(self.by.visibleRegion().boundingRect()).translated(self.at)
        seen &= rect if room is None else rect & room
        self.painted.append(Painted(text, self.by, rect, room, seen, ink))


class Device(QPaintDevice):
    """Hands what is painted on it to a recorder, as a window of this one's size would."""

    def __init__(self, root: QWidget) -> None:
        super().__init__()
        self.metric = root.metric
        self.recorder = Recorder()

    def paintEngine(self) -> QPaintEngine:
        return self.recorder


def record(root: QWidget, widgets: list[QWidget]) -> list[Painted]:
    """What each of the widgets in a window paints."""
    device = Device(root)
    alone = QWidget.RenderFlag.DrawWindowBackground
    painter = QPainter(device)
    for widget in widgets:
        device.recorder.by = widget
        device.recorder.at = widget.mapTo(root, QPoint())
        QWidget.render(widget, painter, device.recorder.at, QRegion(), alone)
    painter.end()
    return device.recorder.painted


def _is_on_top(piece: Painted, root: QWidget) -> bool:
    """Whether nothing, for example a message, is over either end of it."""
    ends = piece.seen.adjusted(1, 0, -1, 0)
    at = () if ends.isEmpty() else (ends.topLeft(), ends.center(), ends.bottomRight())
    over = [root.childAt(point.toPoint()) or root for point in at]
    in_view = not piece.by.visibleRegion().isEmpty()
    return in_view and all(piece.by.isAncestorOf(w) or w is piece.by for w in over)


# Whether words can be read


def _cut(painted: list[Painted], root: QWidget) -> Iterator[str]:
    """Words that do not fit into the room that they are given, or into their widget."""
    places = Counter((piece.text, piece.by, piece.rect.getRect()) for piece in painted)
    for piece in painted:
        by = piece.by
        view = piece.by.parentWidget()
        high = 0.2 * piece.rect.height()
        long = isinstance(by, QLineEdit) and len(piece.text) > SCROLLED
        if not piece.text or long or isinstance(view, QTextEdit | QPlainTextEdit):
            continue
        once = places[piece.text, by, piece.rect.getRect()] == 1  # or on the grounds of two colours
        port = QRectF(by.rect()).translated(by.mapTo(root, QPointF()))
        if isinstance(view, QAbstractItemView):
            port = port | piece.rect  # a row that is scrolled to
        room = port & piece.room if once and piece.room is not None else port
        # What is above and below the letters may be missing.
        if not room.adjusted(-SLACK, -high, SLACK, high).contains(piece.rect):
            needed = f"{piece.text[:40]!r}, which needs {_size(piece.rect)}"
            yield f"{_path(by)}: {_size(room)} for {needed}"


def _shortened(painted: list[Painted], root: QWidget) -> Iterator[str]:
    """Words that are elided to nothing that makes sense; a number is never elided."""
    above = root.parentWidget().window() if root.parentWidget() else root
    named = [control for kind in (QAbstractButton, QAction) for control in above.findChildren(kind)]
    titles = {control.text().replace("&", "") for control in named}  # some end so on purpose
    for (by, room), lines in groupby(painted, lambda piece: (piece.by, piece.room)):
        texts = [line.text for line in lines]
        # What is clipped alike are the lines of one text.
        for text in texts if room is None else ["".join(texts)]:
            length = len(text.replace("…", "").strip())
            few = length < (OF_TABS if isinstance(by, QTabBar) else KEPT)
            if "…" in text and text not in titles and (few or re.match(r"−?[\d.]+…", text)):
                yield f"{_path(by)}: elided to {text!r}"


def _over_others(painted: list[Painted]) -> Iterator[str]:
    """Words and icons that are over another word."""
    edges = np.array([piece.seen.getCoords() for piece in painted]).reshape(-1, 4)
    ends = np.minimum(edges[:, None, 2:], edges[None, :, 2:])
    wide, tall = np.moveaxis(ends - np.maximum(edges[:, None, :2], edges[None, :, :2]), 2, 0)
    heights = np.array([piece.rect.height() for piece in painted])
    over = (wide > SLACK) & (tall > 0.3 * np.minimum(heights[:, None], heights[None, :]))
    for earlier, later in ((painted[i], painted[k]) for i, k in np.argwhere(np.triu(over, 1))):
        # In the colours of two grounds.
        twice = earlier.text == later.text and earlier.by is later.by
        first, word = sorted((earlier, later), key=lambda piece: len(piece.text))
        icon = not first.text and (
            first.rect.contains(word.seen) or isinstance(first.by.parent(), QGraphicsView)
        )
        if word.text and not (twice or icon):
            what = repr(first.text[:40]) if first.text else "an icon"
            yield f"{_path(word.by)}: {what} is over {word.text[:40]!r}"


def _unreadable(picture: QImage, painted: list[Painted]) -> Iterator[str]:
    """Words in a picture whose ink is too near to their ground."""
    plain = picture.convertToFormat(QImage.Format.Format_RGB32)
    numbers = np.frombuffer(plain.constBits(), np.uint32).reshape(plain.height(), -1)
    pixels = numbers[:, : plain.width()] & 0xFFFFFF
    for piece in painted:
        rect = piece.seen.toAlignedRect() & plain.rect()
        if not re.search(r"\w", piece.text) or rect.isEmpty():
            continue
        crop = pixels[rect.top() : rect.bottom() + 1, rect.left() : rect.right() + 1]
        colours, counts = np.unique(crop, return_counts=True)
        ground = f"#{colours[counts.argmax()]:06x}"
        seen = _on(piece.ink, ground)
        if (ratio := contrast(seen, ground)) < TEXT - ROUNDING:
            yield f"{_path(piece.by)}: {piece.text[:40]!r} is {seen} on {ground}: {ratio:.2f}"


def _on(ink: QColor, ground: str) -> str:
    """What a translucent ink looks like on its ground."""
    share = ink.alphaF()
    behind = QColor(ground)
    parts = zip(ink.getRgbF()[:3], behind.getRgbF()[:3], strict=True)
    return QColor.fromRgbF(*(share * top + (1 - share) * below for top, below in parts)).name()


# Where things are


def _off_screen(root: QWidget, screen: QSize) -> Iterator[str]:
    if root.width() > screen.width() or root.height() > screen.height():
        yield f"{type(root).__name__} of {_size(root)} is larger than the screen"
    elif root.parentWidget() is not None and not root.screen().geometry().contains(root.geometry()):
        yield f"{type(root).__name__} is partly off the screen: {root.geometry().getRect()}"


def _tip(widget: QWidget, screen: QSize) -> Iterator[str]:
    """A tip that is larger than the screen; Qt moves others into it."""
    needed = QFontMetrics(QToolTip.font()).size(0, widget.toolTip())
    if needed != needed.boundedTo(screen):
        yield f"its tip needs {_size(needed)}: {widget.toolTip()[:40]!r}"


def _misplaced(parent: QWidget) -> Iterator[str]:
    """What is in a widget and reaches out of it, or is over something else that is laid out."""
    direct = parent.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly)
    children = [child for child in direct if child.isVisible() and not child.isWindow()]
    children = [child for child in children if not child.size().isEmpty()]
    children = [child for child in children if child.property("kind") not in FREE]
    if parent.visibleRegion().isEmpty():
        return  # folded on purpose
    for child in children:
        rect = child.geometry()
        area = parent.rect().adjusted(-SLACK, -SLACK, SLACK, SLACK)
        if not (area.contains(rect) or _scrolls(parent, rect)):
            yield f"{_called(child)} at {rect.getRect()} reaches out of its {_size(parent)}"
    for first, second in combinations(children, 2) if parent.layout() is not None else ():
        shared = first.geometry() & second.geometry()
        if shared.width() >= SLACK and shared.height() >= SLACK:
            yield f"{_called(first)} and {_called(second)} overlap by {_size(shared)}"


def _scrolls(port: QWidget, rect: QRect) -> bool:
    """Whether the person can scroll to what of ``rect`` is outside of this viewport."""
    area = port.parentWidget()
    if not isinstance(area, QAbstractScrollArea) or area.viewport() is not port:
        return False
    off = area.horizontalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAlwaysOff
    beyond = rect.left() < -SLACK or rect.right() > port.width() + SLACK
    return isinstance(area, QAbstractItemView) or not (off and beyond)


def _plot(plot: QWidget) -> Iterator[str]:
    if isinstance(plot, Plot) and plot.message() is None:
        view = plot.canvas.getViewBox()
        if view.height() < LEAST_PLOT.height() or view.width() < LEAST_PLOT.width():
            yield f"only {_size(view)} px of data"


# Whether keys and a screen reader reach it


def _out_of_reach(widget: QWidget) -> Iterator[str]:
    """A control that Tab does not reach, or that has no name."""
    role = _role(widget)
    above = widget.parentWidget()
    legend = isinstance(widget, Chip) and not widget.isCheckable()  # nobody can press it
    if not (role in CONTROLS or isinstance(widget, Plot | QTextEdit)) or legend:
        return
    if widget.isWindow() or _role(above) in CONTROLS:  # or it is a part of another
        return
    group = widget.group() if isinstance(widget, QAbstractButton) else None
    leading = group.buttons() if group is not None else [widget.focusProxy() or widget]
    by_keys = any(control.focusPolicy() & Qt.FocusPolicy.TabFocus for control in leading)
    if widget.isEnabled() and not by_keys:
        yield "is not reached by Tab"
    if sum(map(str.isalpha, _name(widget))) < 2:
        yield "has no name"


def _role(widget: QWidget) -> QAccessible.Role:
    return QAccessible.queryAccessibleInterface(widget).role()


def _name(widget: QWidget) -> str:
    """Its own, in whose place Qt speaks the value of some controls, or what Qt finds."""
    spoken = QAccessible.queryAccessibleInterface(widget)
    return widget.accessibleName() or spoken.text(QAccessible.Text.Name)


# How faults name what they are about


def _path(widget: QWidget) -> str:
    """The widget's class and name, and those of what it is in that have a name."""
    above = widget.parentWidget()
    parts = [_called(widget)]
    while above is not None and len(parts) < 3 and not above.isWindow():
        parts += [_called(above)] if above.accessibleName() else []
        above = above.parentWidget()
    return " < ".join(parts)


def _called(widget: QWidget) -> str:
    return f"{type(widget).__name__}({_name(widget)[:40]!r})"


def _size(size: QSize | QRect | QRectF | QWidget) -> str:
    return f"{size.width():.0f}×{size.height():.0f}"
