"""Additions to Qt's layouts: columns that wrap, scroll areas, stacks with a handle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QFocusEvent, QFontMetrics, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QFocusFrame,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLayoutItem,
    QMainWindow,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QTabWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

_UPPER: Final = 15  # in text lines: with less height than this, only the upper widget is shown
_BY_TAB: Final = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
_NO_LIMIT: Final = 16_777_215  # Qt's maximum size


class WrappedColumn(QWidget):
    """A column with enough height for wrapped labels, which Qt underestimates in a scroll area."""

    def event(self, event: QEvent) -> bool:
        kind = event.type()  # after a deferred deletion
        handled = super().event(event)
        if kind not in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            return handled
        layout = self.layout()
        if layout is not None:
            self._give_labels_height()
            self.setMinimumHeight(max(0, layout.heightForWidth(self.width())))
        return handled

    def _give_labels_height(self) -> None:
        """Set the labels' heights, which a form does not ask for again when its rows change."""
        for label in self.findChildren(QLabel):
            if label.wordWrap() and label.isVisibleTo(self):
                height = _needed(label)
                if height != label.minimumHeight():
                    label.setMinimumHeight(height)


def _needed(label: QLabel) -> int:
    """The height in pixels that the text needs. A label itself never asks for less than before."""
    if label.textFormat() != Qt.TextFormat.PlainText:
        return max(0, label.heightForWidth(label.width()))
    margins = label.contentsMargins()
    margin = 2 * label.margin()
    room = label.width() - margins.left() - margins.right() - margin
    flags = Qt.TextFlag.TextWordWrap | label.alignment().value
    words = label.fontMetrics().boundingRect(0, 0, max(room, 1), _NO_LIMIT, flags, label.text())
    return words.height() + margins.top() + margins.bottom() + margin


class _Area(QScrollArea):
    """A scroll area that is at least as wide as its content, so that it only scrolls vertically.

    ``tabs``: the Tab key stops at it while there is something to scroll.
    """

    def __init__(self, *, tabs: bool) -> None:
        super().__init__()
        self._ring = QFocusFrame(self)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        if tabs:
            self.verticalScrollBar().rangeChanged.connect(self._allow_focus)

    def _allow_focus(self, _minimum: int, maximum: int) -> None:
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if maximum else Qt.FocusPolicy.NoFocus)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if event.reason() in _BY_TAB:
            self._ring.setWidget(self)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._ring.setWidget(None)  # type: ignore[arg-type]  # allowed

    def minimumSizeHint(self) -> QSize:
        hint = super().minimumSizeHint()
        content = self.widget()
        if content is None:
            return hint
        width = content.minimumSizeHint().width() + self.verticalScrollBar().sizeHint().width()
        return QSize(max(hint.width(), width), hint.height())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:  # the content may need another width
            self.updateGeometry()
        return super().eventFilter(watched, event)


def scroll_area(name: str, content: QWidget | None = None, *, tabs: bool = True) -> QScrollArea:
    """A frameless area called ``name`` that scrolls vertically; its content has its width.

    ``tabs``: whether the Tab key stops at it when there is something to scroll.
    """
    area = _Area(tabs=tabs)
    area.setAccessibleName(name)
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if content is not None:
        area.setWidget(content)
    return area


class Stacked(QSplitter):
    """The lower widget gets the height that it asks for, or none if the upper one needs all."""

    def __init__(self, upper: QWidget, lower: QWidget) -> None:
        super().__init__(Qt.Orientation.Vertical)
        self._divided = (0, 0)
        self.setChildrenCollapsible(False)
        self.addWidget(upper)
        self.addWidget(lower)
        self.setStretchFactor(0, 1)

    def event(self, event: QEvent) -> bool:
        handled = super().event(event)
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self._divide()
        return handled

    def _divide(self) -> None:
        lower = self.widget(1)
        if lower is None or (self.height(), lower.sizeHint().height()) == self._divided:
            return
        height = self.height()
        lower_height = lower.sizeHint().height()
        self._divided = (height, lower_height)
        low = height - lower_height < _UPPER * self.fontMetrics().height()
        lower.setMaximumHeight(0 if low else _NO_LIMIT)
        lower.setEnabled(not low)  # skipped by the Tab key
        self.setSizes([height, 0] if low else [height - lower_height, lower_height])


class BesideOrBelow(QSplitter):
    """Two widgets next to each other, or stacked if the width is less than ``lines`` text lines."""

    def __init__(self, lines: int, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._lines = lines
        self.setChildrenCollapsible(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = event.size().width() >= self._lines * self.fontMetrics().height()
        self.setOrientation(Qt.Orientation.Horizontal if wide else Qt.Orientation.Vertical)


class TitleLine(QWidget):
    """A text with controls at its right, or below it if the width is less than ``lines`` text
    lines."""

    def __init__(self, text: QWidget, *controls: QWidget, lines: int) -> None:
        super().__init__()
        self._lines = lines
        self._row = across((text, 1), across(None, *controls), gap=12)
        self.setLayout(self._row)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = event.size().width() >= self._lines * self.fontMetrics().height()
        direction = QBoxLayout.Direction
        self._row.setDirection(direction.LeftToRight if wide else direction.TopToBottom)


def move_focus(window: QWidget, *, forward: bool) -> bool:
    """Move the focus to the next control of a window in layout order. False if there is none.

    Qt's own order is the order of creation, with controls that were created later at the end.
    """
    order = list(_as_laid_out(window))
    focused = QApplication.focusWidget()
    if focused in order:
        start = order.index(focused)
    else:
        start = -1
    round_trip = order[start + 1 :] + order[: max(start, 0)]
    for widget in round_trip if forward else reversed(round_trip):
        stops = widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.focusProxy() is None
        if stops and widget.isVisible() and widget.isEnabled():
            widget.setFocus(_BY_TAB[not forward])
            _scroll_to(widget)
            if isinstance(widget, QLabel):
                widget.focusNextPrevChild(forward)  # to its link
            return True
    return False


def _scroll_to(widget: QWidget) -> None:
    above = widget.parentWidget()
    while above is not None:
        if isinstance(above, QScrollArea):
            above.ensureWidgetVisible(widget)
        above = above.parentWidget()


def _as_laid_out(widget: QWidget) -> Iterator[QWidget]:
    """The widget and everything in it, first what is in its layout, in that order."""
    yield widget
    directly = Qt.FindChildOption.FindDirectChildrenOnly
    children = widget.findChildren(QWidget, options=directly)
    for part in dict.fromkeys([*_parts(widget), *children]):
        if part is not None and not part.isWindow():
            yield from _as_laid_out(part)


def _parts(widget: QWidget) -> Iterator[QWidget | None]:
    layout = widget.layout()
    if isinstance(widget, QMainWindow):
        yield from (widget.menuWidget(), widget.centralWidget(), widget.statusBar())
    elif isinstance(widget, QTabWidget):
        yield from (widget.tabBar(), widget.cornerWidget(Qt.Corner.TopRightCorner))
    elif isinstance(widget, QSplitter):
        yield from map(widget.widget, range(widget.count()))
    elif layout is not None:
        yield from _items_of(layout)


def _items_of(layout: QLayout) -> Iterator[QWidget]:
    """The widgets of a layout and of the layouts in it, in their order.

    Without ``itemAt``: the Python object that it makes of a spacer outlives the spacer, and is
    later taken for whatever is then at the same address.
    """
    above = layout.parentWidget()
    directly = Qt.FindChildOption.FindDirectChildrenOnly
    parts: list[QWidget | QLayout] = (
        [] if above is None else above.findChildren(QWidget, options=directly)
    )
    parts += layout.findChildren(QLayout, options=directly)
    places = [(layout.indexOf(part), part) for part in parts]
    for index, part in sorted(places, key=lambda place: place[0]):
        if index < 0:
            continue
        if isinstance(part, QLayout):
            yield from _items_of(part)
        else:
            yield part


def clear_layout(layout: QLayout) -> None:
    """Remove and delete all widgets of a layout."""
    while (item := layout.takeAt(0)) is not None:
        widget = item.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()


class FlowLayout(QLayout):
    """Places widgets from left to right and wraps like text."""

    def __init__(self, parent: QWidget | None = None, *, spacing: int) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        if 0 <= index < len(self._items):
            return self._items[index]
        return None

    def takeAt(self, index: int) -> QLayoutItem | None:
        if 0 <= index < len(self._items):
            return self._items.pop(index)
        return None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._place(QRect(0, 0, width, 0), move=False)

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._place(rect, move=True)

    def sizeHint(self) -> QSize:
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        widest = max((item.minimumSize().width() for item in self._items), default=0)
        return QSize(widest, 0)

    def _place(self, rect: QRect, *, move: bool) -> int:
        """Return the required height, and move the items if asked to."""
        x = rect.x()
        y = rect.y()
        line = 0
        for item in self._items:
            width = max(rect.width(), item.minimumSize().width())
            size = item.sizeHint().boundedTo(QSize(width, _NO_LIMIT))
            if x > rect.x() and x + size.width() > rect.right() + 1:
                x = rect.x()
                y = y + line
                line = 0
            if move:
                item.setGeometry(QRect(QPoint(x, y), size))
            x += size.width() + self.spacing()
            line = max(line, size.height())
        return y + line - rect.y()


Part = QWidget | QLayout | tuple[QWidget | QLayout, int] | int | None
"""An argument of ``down`` and ``across``: a widget or layout, alone or in a pair with its stretch
factor, a number of pixels, or None for space that grows."""


def down(*parts: Part, margins: Sequence[int] = (0, 0, 0, 0), gap: int = 8) -> QVBoxLayout:
    """The parts below each other, ``gap`` pixels apart."""
    return _filled(QVBoxLayout(), parts, margins, gap)


def across(*parts: Part, margins: Sequence[int] = (0, 0, 0, 0), gap: int = 8) -> QHBoxLayout:
    """The parts next to each other, ``gap`` pixels apart."""
    return _filled(QHBoxLayout(), parts, margins, gap)


def pane(layout: QLayout) -> QWidget:
    """A widget with this layout."""
    widget = QWidget()
    widget.setLayout(layout)
    return widget


_Box = TypeVar("_Box", bound=QBoxLayout)


def _filled(box: _Box, parts: Sequence[Part], margins: Sequence[int], gap: int) -> _Box:
    box.setContentsMargins(*margins)
    box.setSpacing(gap)
    for part in parts:
        item, stretch = part if isinstance(part, tuple) else (part, 0)
        if isinstance(item, QWidget):
            box.addWidget(item, stretch)
        elif isinstance(item, QLayout):
            box.addLayout(item, stretch)
        elif isinstance(item, int):
            box.addSpacing(item)
        else:
            box.addStretch(1)
    return box


def split(*parts: QWidget, sizes: Sequence[int], gap: int, lines: int = 0) -> QSplitter:
    """The parts next to each other with handles of ``gap`` pixels, or stacked if the width is less
    than ``lines`` text lines. The last takes spare space."""
    splitter = BesideOrBelow(lines)
    splitter.setHandleWidth(gap)
    for part in parts:
        splitter.addWidget(part)
    splitter.setSizes(list(sizes))
    splitter.setStretchFactor(len(parts) - 1, 1)
    return splitter


GAP: Final = 8
"""Pixels between two cards."""

TWO_COLUMNS: Final = 36
"""In text lines: the least width of a page whose two columns are beside each other."""


def card(content: QWidget) -> QFrame:
    """A card that contains a widget."""
    frame = QFrame()
    frame.setProperty("kind", "card")
    frame.setLayout(down(content, margins=(8, 6, 8, 6)))
    return frame


class Folding(QWidget):
    """A button that shows and hides a widget, at first hidden. ``name``: its accessible name."""

    def __init__(self, title: str, content: QWidget, *, name: str = "") -> None:
        super().__init__()
        self._content = content
        self._button = QToolButton(self)
        self._button.setText(title)
        self._button.setAccessibleName(name or title)
        self._button.setProperty("kind", "fold")
        self._button.setCheckable(True)
        self._button.setAutoRaise(True)
        self._button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._button.toggled.connect(self._fold)
        self.setLayout(down(self._button, content, gap=6))
        self._fold(False)

    def unfold(self) -> None:
        self._button.setChecked(True)

    def fold(self) -> None:
        self._button.setChecked(False)

    @property
    def is_open(self) -> bool:
        return self._button.isChecked()

    def _fold(self, visible: bool) -> None:
        self._button.setArrowType(Qt.ArrowType.DownArrow if visible else Qt.ArrowType.RightArrow)
        self._content.setVisible(visible)


def on_font_change(widget: QWidget, measure: Callable[[QFontMetrics], object]) -> None:
    """Call a function now and after every font change of ``widget``."""
    _Watcher(widget, [QEvent.Type.FontChange], lambda _: measure(widget.fontMetrics()))
    measure(widget.fontMetrics())


def on_visibility_change(widget: QWidget, report: Callable[[bool], object]) -> None:
    """Call ``report`` whenever the widget is shown or hidden, with whether it is visible."""
    kinds = [QEvent.Type.Show, QEvent.Type.Hide]
    _Watcher(widget, kinds, lambda kind: report(kind == QEvent.Type.Show))


class _Watcher(QObject):
    """Calls a function with the type of each event that is of one of these ``kinds``."""

    def __init__(
        self, widget: QWidget, kinds: Sequence[QEvent.Type], act: Callable[[QEvent.Type], object]
    ) -> None:
        super().__init__(widget)
        self._kinds = kinds
        self._act = act
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: ARG002
        if event.type() in self._kinds:
            self._act(event.type())
        return False
