"""The words that are seen in a window, where they are, and how much room they have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any, Final

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QFontMetricsF, QImage, QPainter, QTextCursor
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QGraphicsTextItem,
    QGraphicsView,
    QHeaderView,
    QLabel,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionComboBox,
    QStyleOptionViewItem,
    QTabBar,
    QToolButton,
    QWidget,
)

# isort: split
from pyqtgraph import TextItem

from ace_gui.gui.widgets.labels.plain_label import ElidedLabel

SENSE: Final = 9  # characters that an elided text keeps at least


# What Qt writes


@dataclass(frozen=True)
class Written:
    """A text in a control of Qt's, what is shown of it, and its room; 0 px needed: not measured."""

    text: str
    shown: str
    needed: QSize
    room: QSize


def written(widget: QWidget) -> Iterator[Written]:
    """The texts of a control."""
    match widget:
        case QLabel():
            yield from _label(widget)
        case QComboBox():
            yield _combo(widget)
        case QAbstractButton():
            yield from _button(widget)
        case QLineEdit():
            text, margins, metrics = _text(widget), widget.textMargins(), widget.fontMetrics()
            width = metrics.horizontalAdvance(text) if len(text) <= 2 * SENSE else 0
            room = QSize(widget.width() - margins.left() - margins.right(), widget.height())
            yield Written(text, text, QSize(width, metrics.height()), room)
        case QTabBar():
            yield from _tabs(widget)
        case QHeaderView() if widget.orientation() == Qt.Orientation.Horizontal and widget.model():
            yield from _header(widget)
        case QAbstractItemView() if not isinstance(widget, QHeaderView):
            yield from _cells(widget)


def _text(field: QLineEdit) -> str:
    return field.displayText() or field.placeholderText()


def _label(label: QLabel) -> Iterator[Written]:
    text, needed = label.text(), label.sizeHint()
    if not text or label.pixmap().width() > 0:
        return
    if isinstance(label, ElidedLabel) and not label.wordWrap():
        needed = QSize(label.fontMetrics().horizontalAdvance(text), 0)
    elif label.wordWrap():
        needed = QSize(label.minimumSizeHint().width(), label.heightForWidth(label.width()))
    yield Written(getattr(label, "whole", "") or text, text, needed, label.size())


def _combo(combo: QComboBox) -> Written:
    option = QStyleOptionComboBox()
    combo.initStyleOption(option)
    part, control = QStyle.SubControl.SC_ComboBoxEditField, QStyle.ComplexControl.CC_ComboBox
    room = combo.style().subControlRect(control, option, part, combo)
    metrics, shown = combo.fontMetrics(), option.currentText
    needed = QSize(metrics.horizontalAdvance(shown), metrics.height())
    return Written(combo.currentText(), shown, needed, QSize(room.width(), combo.height()))


def _button(button: QAbstractButton) -> Iterator[Written]:
    text, metrics = button.text(), button.fontMetrics()
    icon = isinstance(button, QToolButton) and not button.icon().isNull()
    if text and not (icon and button.sizeHint().width() < metrics.horizontalAdvance(text) + 12):
        needed = metrics.size(Qt.TextFlag.TextShowMnemonic, text)
        yield Written(text, text, needed, QSize(button.width() - 3, button.height()))


def _tabs(bar: QTabBar) -> Iterator[Written]:
    for index in filter(bar.isTabVisible, range(bar.count())):
        title, rect = bar.tabText(index), bar.tabRect(index)
        needed = round(0.9 * bar.fontMetrics().horizontalAdvance(title)) - 2
        yield Written(title, title, QSize(needed, 0), rect.intersected(bar.rect()).size())


def _header(header: QHeaderView) -> Iterator[Written]:
    for section in range(header.count()):
        size, start = header.sectionSize(section), header.sectionViewportPosition(section)
        if header.isSectionHidden(section) or start + size > header.viewport().width() + 1:
            continue  # scrolled to
        text = str(header.model().headerData(section, header.orientation()) or "")
        yield Written(text, text, header.fontMetrics().size(0, text), QSize(size, header.height()))


def _cells(view: QAbstractItemView) -> Iterator[Written]:
    seen = set()
    for y in range(2, view.viewport().height(), max(view.fontMetrics().height() // 2, 4)):
        first = view.indexAt(QPoint(4, y))
        if not first.isValid() or (first.row() in seen and not first.parent().isValid()):
            continue
        seen.add(first.row())
        cells = (first.siblingAtColumn(column) for column in count())
        for index in takewhile(QModelIndex.isValid, cells):
            yield from _cell(view, index)


def _cell(view: QAbstractItemView, index: QModelIndex) -> Iterator[Written]:
    text, rect = str(index.data(Qt.ItemDataRole.DisplayRole) or ""), view.visualRect(index)
    if not text or rect.width() <= 0 or not view.viewport().rect().contains(rect):
        return  # hidden: the tip or another panel has it; or scrolled to
    font = index.data(Qt.ItemDataRole.FontRole)
    metrics = QFontMetrics(font if isinstance(font, QFont) else view.font())
    needed, room = metrics.horizontalAdvance(text), _room_for_text(view, index)
    if room is None:  # drawn by us, sometimes in smaller letters; what is drawn is looked at, too
        needed, room = round(0.85 * needed), rect.width()
    if view.wordWrap() and " " in text:
        needed = 0
    fits = needed <= room or text[0] in "−0123456789"  # a number is never shortened
    shown = text if fits else metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, room)
    size = QSize(needed if fits else 0, round(0.85 * metrics.height()))
    yield Written(text, shown, size, QSize(room, rect.height()))


def _room_for_text(view: QAbstractItemView, index: QModelIndex) -> int | None:
    """Px beside the tick and the icon of a cell that Qt draws; None where we draw it."""
    delegate = view.itemDelegateForIndex(index)
    if type(delegate).paint is not QStyledItemDelegate.paint:
        return None
    option = QStyleOptionViewItem()
    view.initViewItemOption(option)
    option.rect = view.visualRect(index)
    QStyledItemDelegate.initStyleOption(delegate, option, index)
    style, part = view.style(), QStyle.SubElement.SE_ItemViewItemText
    margin = style.pixelMetric(QStyle.PixelMetric.PM_FocusFrameHMargin, option, view) + 1
    return int(style.subElementRect(part, option, view).width()) - 2 * margin


# What we paint: item views, menus, plots and controls of our own


@dataclass(frozen=True)
class Painted:
    """A text, what painted it, and where it is in the window.

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

    def grab(self, root: QWidget) -> tuple[QImage, list[Painted]]:
        """A picture of ``root``, and the texts painted in it."""
        application, draw = QApplication.instance(), QPainter.drawText
        self._by, found = root, []

        def note(painter: QPainter, *given: Any) -> Any:
            text = next((each for each in given if isinstance(each, str)), "")
            if text.strip():
                found.append(_painted(painter, text, given, self._by, root))
            return draw(painter, *given)

        application.installEventFilter(self)
        QPainter.drawText = note
        try:
            picture = root.grab().toImage()
        finally:
            QPainter.drawText = draw
            application.removeEventFilter(self)
        return picture, [*found, *_items_of_plots(root)]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """A widget is painted in one go, before what is in it."""
        if event.type() == QEvent.Type.Paint and isinstance(watched, QWidget):
            self._by = watched
        return False


def _painted(painter: QPainter, text: str, given: tuple, by: QWidget, root: QWidget) -> Painted:
    """What a call of ``drawText`` writes, and where: in a rectangle, or from a point."""
    metrics, room = QFontMetricsF(painter.font()), None
    if hasattr(given[0], "width"):
        room = QRectF(given[0])
        flags = next((each for each in given[1:] if not isinstance(each, str)), 0)
        rect = metrics.boundingRect(room, int(getattr(flags, "value", flags)), text)
    else:
        start = QPointF(*given[:2]) if isinstance(given[0], int | float) else QPointF(given[0])
        rect = metrics.boundingRect(text).translated(start)
    clip = rect & painter.clipBoundingRect() if painter.hasClipping() else rect
    to_root, (port, uncovered) = painter.deviceTransform(), _ports(by, root)
    ink = QColor(painter.pen().color())
    ink.setAlphaF(ink.alphaF() * painter.opacity())
    seen, given_room = to_root.mapRect(clip) & uncovered, room and to_root.mapRect(room)
    return Painted(text, by, to_root.mapRect(rect), seen, port, given_room, ink)


def _ports(widget: QWidget, root: QWidget) -> tuple[QRectF, QRectF]:
    """All of a widget, and what is seen of it beside others and in areas that scroll."""
    corner = QPointF(widget.mapTo(root, QPoint(0, 0)))
    seen = widget.visibleRegion().boundingRect() if root.isVisible() else widget.rect()
    return QRectF(widget.rect()).translated(corner), QRectF(seen).translated(corner)


def _items_of_plots(root: QWidget) -> Iterator[Painted]:
    """Texts that a plot's scene has as items of their own."""
    for view in root.findChildren(QGraphicsView):
        port = view.viewport()
        if not view.isVisible() or view.window() is not root or port.visibleRegion().isEmpty():
            continue
        whole, uncovered = _ports(port, root)
        for item in view.scene().items():
            if not (isinstance(item, QGraphicsTextItem) and item.isVisible()):
                continue
            if not (text := item.toPlainText()).strip():
                continue
            margin = item.document().documentMargin()
            inner = item.boundingRect().adjusted(margin, margin, -margin, -margin)
            rect = view.mapFromScene(item.mapToScene(inner)).boundingRect().toRectF()
            rect.translate(whole.topLeft())
            room = whole
            if isinstance(above := item.parentItem(), TextItem) and above.getViewBox() is not None:
                box = above.getViewBox().sceneBoundingRect()  # it cuts what is in it
                inside = view.mapFromScene(box).boundingRect().toRectF()
                room = whole & inside.translated(whole.topLeft())
            cursor = QTextCursor(item.document())
            cursor.movePosition(QTextCursor.MoveOperation.NextCharacter)
            brush = cursor.charFormat().foreground()
            marked = brush.style() != Qt.BrushStyle.NoBrush
            ink = brush.color() if marked else item.defaultTextColor()
            yield Painted(text, port, rect, rect & room & uncovered, room, None, ink)


def labels(root: QWidget) -> Iterator[Painted]:
    """Those of Qt, which paint themselves: all of each label."""
    for label in root.findChildren(QLabel):
        if label.isVisible() and label.window() is root and label.pixmap().isNull():
            seen = label.visibleRegion().boundingRect() & label.contentsRect()
            rect = QRectF(seen.translated(label.mapTo(root, QPoint(0, 0))))
            ink = label.palette().color(label.foregroundRole())
            yield Painted(label.text(), label, rect, rect, rect, None, ink)
