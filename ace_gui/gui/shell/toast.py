"""The toast: where it stands in the window, and how long.

It stands beside what it speaks of, and covers no control if there is any other place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from PySide6.QtCore import (
    QEasingCurve,
    QEvent,
    QModelIndex,
    QObject,
    QPoint,
    QPropertyAnimation,
    QRect,
    QSize,
    Qt,
    QTimer,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QWidget,
)

from ace_gui.gui.panels.notice import Notice

WIDTH: Final = 272  # px, scaled with the font size
STAYS: Final = 6_000  # ms; errors, warnings and questions stay until they are dismissed
_SLIDE: Final = 160  # ms
_SETTLED: Final = 500  # ms after which the page that a message came with is laid out
_MARGIN: Final = 8  # px

_CELL: Final = 16
"""px: the distance of two places that are compared."""
_CONTROL: Final = 1000
_ROW: Final = 100
_WORDS: Final = 1
"""What a place costs for each cell of a control, of a list's rows or what a question is about, or
of a text that it covers. A cell of distance from what the toast speaks of costs 1."""
_CONTROLS: Final = (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
)


class Toast(QObject):
    """Places a notice over ``ground``, slides it in, and hides simple messages after a while.

    The timer stops while the pointer is over the notice. ``subject``: returns the widget that
    questions are about, which they do not cover. Other messages are about what has the focus: the
    control that was used last.
    """

    def __init__(
        self, notice: Notice, ground: QWidget, subject: Callable[[], QWidget | None]
    ) -> None:
        super().__init__(ground)
        self._notice = notice
        self._ground = ground
        self._subject = subject
        self._clock = QTimer(self, singleShot=True, interval=STAYS)
        self._clock.timeout.connect(notice.hide)
        self._settling = QTimer(self, singleShot=True, interval=_SETTLED)
        self._settling.timeout.connect(self._place_again)
        self._slide = QPropertyAnimation(notice, b"pos", self)
        self._slide.setEasingCurve(QEasingCurve.Type.OutCubic)
        notice.shown.connect(self._show)
        notice.details_button.toggled.connect(lambda _: self._place_again())
        for watched in (ground, notice):
            watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if watched is self._ground and kind == QEvent.Type.Resize:
            self._place_again()
        elif watched is self._notice:
            if kind in (QEvent.Type.Enter, QEvent.Type.Hide):
                self._clock.stop()
            elif kind == QEvent.Type.Leave:
                self._wind_up()
            elif kind == QEvent.Type.LayoutRequest:
                self._place_again()
        return False

    def _show(self) -> None:
        self._wind_up()
        self._settling.start()
        QTimer.singleShot(0, self, self._place_again)  # its new buttons are shown then
        self._place(self._spoken_of())
        self._notice.raise_()
        end = self._notice.pos()
        self._slide.stop()
        self._slide.setDuration(_SLIDE)
        self._slide.setStartValue(end + QPoint(0, 24))
        self._slide.setEndValue(end)
        self._slide.start()

    def _wind_up(self) -> None:
        if self._notice.passes and self._notice.isVisible():
            self._clock.start()
        else:
            self._clock.stop()

    def _place_again(self) -> None:
        """As near as possible to where it is."""
        if self._notice.isVisible():
            if self._slide.state() == QPropertyAnimation.State.Running:
                position = self._slide.endValue()
            else:
                position = self._notice.pos()
            self._place(QRect(position, QSize()))

    def _place(self, near: QRect) -> None:
        """Place the notice where it covers the least, as near as possible to a rectangle."""
        notice = self._notice
        ground = self._ground
        width_of_letter = notice.fontMetrics().averageCharWidth()
        width = min(max(WIDTH, 36 * width_of_letter), ground.width() - 2 * _MARGIN)
        height = max(notice.heightForWidth(width), notice.minimumSizeHint().height())
        height = min(height, ground.height() - 2 * _MARGIN)
        self._slide.stop()
        size = QSize(width, height)
        room = ground.rect().adjusted(_MARGIN, _MARGIN, -_MARGIN, -_MARGIN)
        costs = _costs(self._covered(), room)
        notice.setGeometry(QRect(cheapest_place(costs, room, size, near), size))

    def _covered(self) -> Iterator[tuple[QRect, int]]:
        """What the notice might cover in the window, and what a cell of it costs."""
        ground = self._ground
        for widget in ground.findChildren(QWidget):
            cost = _cost_of(widget)
            is_here = widget.isVisible() and widget.window() is ground.window()
            if cost and is_here and not self._notice.isAncestorOf(widget):
                yield _visible_part(widget, ground), cost
        subject = None if self._notice.passes else self._subject()
        if subject is not None and subject.isVisible() and ground.isAncestorOf(subject):
            yield _visible_part(subject, ground), _ROW

    def _spoken_of(self) -> QRect:
        """Where what the message speaks of is; the lower left corner if that is not known."""
        ground = self._ground
        subject = self._focused()
        if not self._notice.passes:
            subject = self._subject() or subject
        if subject is None or not subject.isVisible() or subject.window() is not ground.window():
            return QRect(_MARGIN, ground.height() - _MARGIN, 1, 1)
        return QRect(ground.mapFromGlobal(subject.mapToGlobal(QPoint())), subject.size())

    def _focused(self) -> QWidget | None:
        """The control that has the focus in the window, if that is not in the notice."""
        focused = QApplication.focusWidget()
        if focused is None or focused.window() is not self._ground.window():
            return None
        if self._notice.isAncestorOf(focused) or not _cost_of(focused):
            return None
        return focused


def _cost_of(widget: QWidget) -> int:
    """What covering a cell of a widget costs."""
    if isinstance(widget, _CONTROLS):
        return _CONTROL
    if isinstance(widget, QAbstractItemView):
        return _ROW
    if isinstance(widget, QLabel):
        links = Qt.TextInteractionFlag.LinksAccessibleByMouse
        if widget.textInteractionFlags() & links and "<a " in widget.text():
            return _CONTROL
        return _WORDS
    return 0


def _visible_part(widget: QWidget, ground: QWidget) -> QRect:
    """The part of a widget that is in view, of a list down to its last row, on the ground."""
    rect = widget.rect()
    if isinstance(widget, QAbstractItemView):
        last = _last_row(widget)
        if last.isValid() and widget.visualRect(last).bottom() < widget.viewport().height():
            rect.setBottom(widget.viewport().y() + widget.visualRect(last).bottom())
    rect.translate(widget.mapTo(ground, QPoint()))
    parent = widget.parentWidget()
    while parent is not None and parent is not ground:
        rect &= QRect(parent.mapTo(ground, QPoint()), parent.size())
        parent = parent.parentWidget()
    return rect


def _last_row(view: QAbstractItemView) -> QModelIndex:
    """The last row of a list, table or tree."""
    model = view.model()
    last = QModelIndex()
    while model is not None and model.rowCount(last):
        last = model.index(model.rowCount(last) - 1, 0, last)
    return last


def _costs(covered: Iterable[tuple[QRect, int]], room: QRect) -> list[list[int]]:
    """What it costs to cover each cell of a room, by row and column."""
    rows = max(room.height() // _CELL, 1)
    columns = max(room.width() // _CELL, 1)
    costs = [[0] * columns for _ in range(rows)]
    for rect, cost in sorted(covered, key=lambda pair: pair[1]):  # what costs more comes last
        part = (rect & room).translated(-room.topLeft())
        if part.isEmpty():
            continue
        first = part.left() // _CELL
        last = min(part.right() // _CELL, columns - 1)
        for row in range(part.top() // _CELL, min(part.bottom() // _CELL, rows - 1) + 1):
            costs[row][first : last + 1] = [cost] * (last + 1 - first)
    return costs


def cheapest_place(costs: Sequence[Sequence[int]], room: QRect, size: QSize, near: QRect) -> QPoint:
    """Where a toast of this size covers the least, as near as possible to a rectangle.

    ``costs``: of each cell of the room. ``near``: without a size, the place where it was.
    """
    high = min(-(-size.height() // _CELL), len(costs))
    wide = min(-(-size.width() // _CELL), len(costs[0]))
    sums = _sums(costs)
    tops = range(room.top(), room.bottom(), _CELL)[: len(costs) - high + 1]
    lefts = range(room.left(), room.right(), _CELL)[: len(costs[0]) - wide + 1]
    across = [_gap(left, size.width(), near.left(), near.right()) for left in lefts]
    best = math.inf
    place = room.topLeft()
    for row, top in enumerate(tops):
        down = _gap(top, size.height(), near.top(), near.bottom())
        above = sums[row]
        below = sums[row + high]
        for column, left in enumerate(lefts):
            end = column + wide
            covered = below[end] - below[column] - above[end] + above[column]
            total = covered + (down + across[column]) / _CELL
            if total < best:
                best = total
                place = QPoint(left, top)
    return place


def _sums(costs: Sequence[Sequence[int]]) -> list[list[int]]:
    """The sum of all cells above and left of each corner."""
    sums = [[0] * (len(costs[0]) + 1)]
    for row in costs:
        along = accumulate(row, initial=0)
        sums.append([left + above for left, above in zip(along, sums[-1], strict=True)])
    return sums


def _gap(start: int, length: int, first: int, last: int) -> int:
    """The gap between a stretch and another one, or from its start to a point; 0 if they overlap.

    ``last``: before ``first`` for a point.
    """
    if last < first:
        return abs(start - first)
    return max(start - last, first - (start + length), 0)
