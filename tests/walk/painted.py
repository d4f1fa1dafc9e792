"""Texts that are painted: item views, menus, plots and controls of our own draw them themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QTextCursor
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QGraphicsTextItem,
    QGraphicsView,
    QHeaderView,
    QLabel,
    QWidget,
)

# isort: split
from pyqtgraph import TextItem

SLACK: Final = 2.0  # px that rounding and side bearings take
_ELLIPSIS: Final = "…"
_KEPT: Final = 2  # letters of a painted text that was shortened


@dataclass(frozen=True)
class Painted:
    """A text, what painted it, and where it lies, in pixels of the root.

    ``seen``: the part that is painted, ``port``: all of the widget, ``room``: what was
    given to the text.
    """

    text: str
    by: QWidget
    rect: QRectF
    seen: QRectF
    port: QRectF
    room: QRectF | None
    ink: QColor


class Recorder(QObject):
    """Notes every text that Python code paints while a widget is grabbed."""

    def __init__(self) -> None:
        super().__init__()
        self._at: QWidget | None = None
        self._found: list[Painted] = []

    def grab(self, root: QWidget) -> tuple[QImage, list[Painted]]:
        """A picture of ``root``, and the texts painted in it."""
        application, draw = QApplication.instance(), QPainter.drawText
        assert application is not None
        self._found = []

        def note(painter: QPainter, *given: Any) -> Any:
            self._note(root, painter, given)
            return draw(painter, *given)

        application.installEventFilter(self)
        QPainter.drawText = note  # type: ignore[method-assign, assignment]
        try:
            picture = root.grab().toImage()
        finally:
            QPainter.drawText = draw  # type: ignore[method-assign]
            application.removeEventFilter(self)
        return picture, [*self._found, *_items_of_plots(root)]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """A widget is painted in one go, before what lies in it."""
        if event.type() == QEvent.Type.Paint and isinstance(watched, QWidget):
            self._at = watched
        return False

    def _note(self, root: QWidget, painter: QPainter, given: tuple[Any, ...]) -> None:
        text = next((each for each in given if isinstance(each, str)), "")
        if not text.strip() or self._at is None:
            return
        rect, room = _place(QFontMetricsF(painter.font()), text, given)
        clip = rect & painter.clipBoundingRect() if painter.hasClipping() else rect
        to_root, by = painter.deviceTransform(), self._at
        port, uncovered = _ports(by, root)
        ink = QColor(painter.pen().color())
        ink.setAlphaF(ink.alphaF() * painter.opacity())
        self._found.append(
            Painted(
                text=text,
                by=by,
                rect=to_root.mapRect(rect),
                seen=to_root.mapRect(clip) & uncovered,
                port=port,
                room=None if room is None else to_root.mapRect(room),
                ink=ink,
            )
        )


def _ports(widget: QWidget, root: QWidget) -> tuple[QRectF, QRectF]:
    """All of a widget, and what is seen of it beside others and in areas that scroll."""
    corner = QPointF(widget.mapTo(root, QPoint(0, 0)))
    seen = widget.visibleRegion().boundingRect() if root.isVisible() else widget.rect()
    return QRectF(widget.rect()).translated(corner), QRectF(seen).translated(corner)


def _place(
    metrics: QFontMetricsF, text: str, given: tuple[Any, ...]
) -> tuple[QRectF, QRectF | None]:
    """Where ``drawText`` writes, and the room that it was given: a rectangle, or none."""
    if hasattr(given[0], "width"):
        room = QRectF(given[0])
        flags = next((each for each in given[1:] if not isinstance(each, str)), 0)
        return metrics.boundingRect(room, int(getattr(flags, "value", flags)), text), room
    start = QPointF(*given[:2]) if isinstance(given[0], int | float) else QPointF(given[0])
    return metrics.boundingRect(text).translated(start), None


def _items_of_plots(root: QWidget) -> Iterator[Painted]:
    """Texts that a plot's scene has as items of their own."""
    for view in root.findChildren(QGraphicsView):
        port = view.viewport()
        if not view.isVisible() or view.window() is not root or port.visibleRegion().isEmpty():
            continue
        whole, uncovered = _ports(port, root)
        for item in view.scene().items():
            if not isinstance(item, QGraphicsTextItem) or not item.isVisible():
                continue
            if not (text := item.toPlainText()).strip():
                continue
            margin = item.document().documentMargin()
            inner = item.boundingRect().adjusted(margin, margin, -margin, -margin)
            rect = view.mapFromScene(item.mapToScene(inner)).boundingRect().toRectF()
            rect.translate(whole.topLeft())
            room = whole
            if isinstance(above := item.parentItem(), TextItem) and above.getViewBox() is not None:
                box = above.getViewBox().sceneBoundingRect()  # it cuts what lies in it
                inside = view.mapFromScene(box).boundingRect().toRectF()
                room = whole & inside.translated(whole.topLeft())
            yield Painted(text, port, rect, rect & room & uncovered, room, None, _ink(item))


def _ink(item: QGraphicsTextItem) -> QColor:
    """What its markup says, or its own."""
    cursor = QTextCursor(item.document())
    cursor.movePosition(QTextCursor.MoveOperation.NextCharacter)
    said = cursor.charFormat().foreground()
    return said.color() if said.style() != Qt.BrushStyle.NoBrush else item.defaultTextColor()


def labels(root: QWidget) -> Iterator[Painted]:
    """Those of Qt, which paint themselves; their place is all of the label."""
    for label in root.findChildren(QLabel):
        if label.isVisible() and label.window() is root and label.pixmap().isNull():
            seen = label.visibleRegion().boundingRect() & label.contentsRect()
            rect = QRectF(seen.translated(label.mapTo(root, QPoint(0, 0))))
            ink = label.palette().color(label.foregroundRole())
            yield Painted(label.text(), label, rect, rect, rect, None, ink)


def faults_of(painted: list[Painted]) -> Iterator[str]:
    """What is cut, or lies over another text."""
    for each in painted:
        yield from (f"{_by(each)}: {fault}" for fault in _cut(each))
    for one, other in combinations(painted, 2):
        shared = one.seen & other.seen
        same = one.text == other.text and one.by is other.by  # the same twice, in two colours
        if not same and shared.width() > SLACK and shared.height() > _line(one, other):
            yield f"{_by(one)}: {one.text[:40]!r} lies over {other.text[:40]!r}"


def _line(one: Painted, other: Painted) -> float:
    """Px that the boxes of two texts may share: the letters do not fill them."""
    return 0.3 * min(one.rect.height(), other.rect.height())


def _cut(each: Painted) -> Iterator[str]:
    kept = len(each.text.replace(_ELLIPSIS, "").strip())
    if _ELLIPSIS in each.text and kept < _KEPT:
        yield f"shortened to {each.text!r}"
    if _is_scrolled(each.by):
        return
    said, needed = repr(each.text[:40]), _size(each.rect)
    if each.room is not None and _is_beyond(each.rect, each.room):
        yield f"{_size(each.room)} for {said}, which needs {needed}"
    elif _is_beyond(each.rect, each.port):
        yield f"only {_size(each.rect & each.port)} of {said} is seen, which needs {needed}"


def _is_scrolled(widget: QWidget) -> bool:
    """Part of what scrolls: the rest of a row or a column comes into view."""
    view = widget.parentWidget()
    return isinstance(view, QAbstractItemView) and not isinstance(view, QHeaderView)


def _is_beyond(rect: QRectF, room: QRectF) -> bool:
    high = 0.2 * rect.height()  # what stands above and below the letters
    return not room.adjusted(-SLACK, -high, SLACK, high).contains(rect)


def _by(each: Painted) -> str:
    widget: QWidget | None = each.by
    while widget is not None and not widget.accessibleName():
        widget = widget.parentWidget()
    name = widget.accessibleName() if widget is not None else ""
    return f"painted in {type(widget or each.by).__name__}({name[:40]!r})"


def _size(rect: QRectF) -> str:
    return f"{rect.width():.0f}×{rect.height():.0f}"
