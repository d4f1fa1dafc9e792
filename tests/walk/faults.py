"""What is wrong with the layout of what is seen: cut words, overlaps, plots without height."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, count, takewhile
from typing import Final

from PySide6.QtCore import QModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QScrollArea,
    QSplitter,
    QSplitterHandle,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionComboBox,
    QStyleOptionViewItem,
    QTabBar,
    QToolButton,
    QToolTip,
    QWidget,
)

from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.widgets.labels.plain_label import PartsLabel

SLACK: Final = 1  # px that rounding may take
LEAST_PLOT: Final = QSize(110, 72)  # px of data, at any size of font
SENSE: Final = 9  # letters that an elided text keeps at least
_ELLIPSIS: Final = "…"
_NUMBER: Final = re.compile(r"[−\d][\d.,×⁻⁰¹²³⁴-⁹ %]*")
_FREE: Final = ("toast", "ring")  # lies over others on purpose
_SHOWN: Final = (QLabel, QAbstractButton, QComboBox, QLineEdit, QTabBar, QAbstractItemView, Plot)


def faults_in(root: QWidget, room: QSize) -> list[str]:
    """One line a fault of ``root`` and all that is seen in it, on a screen of ``room``."""
    found = [*_too_large(root, room)]
    for widget in (root, *root.findChildren(QWidget)):
        if not widget.isVisible() or widget.window() is not root:
            continue
        faults = (*_faults_of(widget), *_cut_by_what_it_lies_in(widget, root), *_tip(widget, room))
        found += [f"{path_of(widget, root)}: {fault}" for fault in faults]
    return found


def path_of(widget: QWidget, root: QWidget) -> str:
    """The widget's class and name, and those of what it lies in that have a name."""
    parts = [_called(widget)]
    above = widget.parentWidget()
    while above is not None and above is not root and len(parts) < 3:
        if above.accessibleName():
            parts.append(_called(above))
        above = above.parentWidget()
    return " < ".join(parts)


def _called(widget: QWidget) -> str:
    text = getattr(widget, "text", None)
    said = widget.accessibleName() or (
        text() if callable(text) and not isinstance(text, str) else ""
    )
    return f"{type(widget).__name__}({str(said)[:40]!r})"


def _too_large(root: QWidget, room: QSize) -> Iterator[str]:
    if root.width() > room.width() or root.height() > room.height():
        yield f"{type(root).__name__} is {root.width()}×{root.height()}, larger than the screen"
    elif root.parentWidget() is not None and not root.screen().geometry().contains(root.geometry()):
        yield f"{type(root).__name__} is partly off the screen: {_place(root)}"


def _cut_by_what_it_lies_in(widget: QWidget, root: QWidget) -> Iterator[str]:
    """Something to read or to press that reaches out of one of those around it."""
    if widget is root or not isinstance(widget, _SHOWN) or is_free(widget):
        return
    inner, above = widget, widget.parentWidget()
    rect = widget.rect()
    while inner is not root and above is not None:
        rect = rect.translated(inner.pos())
        if is_free(above) or _scrolls(above, rect) or above.visibleRegion().isEmpty():
            return  # where nothing of what it lies in is seen, that is folded on purpose
        if not above.rect().adjusted(-SLACK, -SLACK, SLACK, SLACK).contains(rect):
            yield f"{_size(widget.size())} is cut by {_called(above)} of {_size(above.size())}"
            return
        inner, above = above, above.parentWidget()


def _scrolls(port: QWidget, rect: QRect) -> bool:
    """Whether the person can scroll to what of ``rect`` is outside of this viewport."""
    area = port.parentWidget()
    if not isinstance(area, QAbstractScrollArea) or area.viewport() is not port:
        return False
    if isinstance(area, QAbstractItemView):
        return True  # what lies in cells moves with them
    beyond = rect.left() < -SLACK or rect.right() > port.width() + SLACK
    return area.horizontalScrollBar().maximum() > 0 or not beyond


def is_free(widget: QWidget) -> bool:
    return widget.property("kind") in _FREE


def _tip(widget: QWidget, room: QSize) -> Iterator[str]:
    """A tip that is larger than the screen; Qt moves others into it."""
    if (text := widget.toolTip()) and not text.startswith("<"):
        needed = QFontMetrics(QToolTip.font()).size(0, text)
        if needed.width() > room.width() or needed.height() > room.height():
            yield f"its tip needs {_size(needed)}: {text[:40]!r}"


def _faults_of(widget: QWidget) -> Iterator[str]:
    match widget:
        case PartsLabel():
            if widget.fontMetrics().horizontalAdvance(widget.text()) > widget.width() + SLACK:
                yield f"{widget.width()} px for {widget.text()!r}"
        case QLabel():
            yield from _label(widget)
        case QComboBox():
            yield from _combo(widget)
        case QAbstractButton():
            yield from _button(widget)
        case QLineEdit():
            yield from _line(widget)
        case QTabBar():
            yield from _tabs(widget)
        case QHeaderView():
            yield from _header(widget)
        case QAbstractItemView():
            yield from _cells(widget)
        case Plot():
            yield from _plot(widget)
        case QScrollArea():
            yield from _scrolls_across(widget)
    yield from _children(widget)


def _label(label: QLabel) -> Iterator[str]:
    text = label.text()
    if not text or label.pixmap().width() > 0:
        return
    whole = getattr(label, "whole", "")
    if whole not in ("", text):
        yield from _nonsense(text, whole)
    elif label.wordWrap():
        needed = label.heightForWidth(label.width())
        if needed > label.height() + SLACK:
            yield f"{label.height()} px high, its words need {needed}: {text[:40]!r}"
        if label.minimumSizeHint().width() > label.width() + SLACK:
            yield f"a word is cut: {text[:40]!r}"
    else:
        hint = label.minimumSizeHint() if label.wordWrap() else label.sizeHint()
        if hint.width() > label.width() + SLACK or hint.height() > label.height() + SLACK:
            yield f"{_size(label.size())}, its words need {_size(hint)}: {text[:40]!r}"


def _nonsense(shown: str, whole: str) -> Iterator[str]:
    kept = len(shown.replace(_ELLIPSIS, "").strip())
    if kept < min(SENSE, len(whole)):
        yield f"elided to {shown!r}"


def _button(button: QAbstractButton) -> Iterator[str]:
    text = button.text()
    only_icon = isinstance(button, QToolButton) and not button.icon().isNull()
    only_icon &= button.sizeHint().width() < button.fontMetrics().horizontalAdvance(text) + 12
    if not text or only_icon:
        return
    needed = button.fontMetrics().size(Qt.TextFlag.TextShowMnemonic, text)
    if needed.width() > button.width() - 2 or needed.height() > button.height():
        yield f"{_size(button.size())}, its words need {_size(needed)}"


def _combo(combo: QComboBox) -> Iterator[str]:
    option = QStyleOptionComboBox()
    combo.initStyleOption(option)
    part, control = QStyle.SubControl.SC_ComboBoxEditField, QStyle.ComplexControl.CC_ComboBox
    room = combo.style().subControlRect(control, option, part, combo)
    needed = combo.fontMetrics().horizontalAdvance(option.currentText)
    if option.currentText != combo.currentText():
        yield from _nonsense(option.currentText, combo.currentText())
    if needed > room.width() + SLACK or combo.fontMetrics().height() > combo.height():
        yield f"{room.width()} px for {combo.currentText()!r}, which needs {needed}"


def _line(field: QLineEdit) -> Iterator[str]:
    text, metrics = field.displayText() or field.placeholderText(), field.fontMetrics()
    margins = field.textMargins()
    room = field.width() - margins.left() - margins.right()
    if len(text) <= 2 * SENSE and metrics.horizontalAdvance(text) > room:
        yield f"{room} px for {text!r}, which needs {metrics.horizontalAdvance(text)}"
    if metrics.height() > field.height():
        yield f"{field.height()} px high, its letters need {metrics.height()}"


def _tabs(bar: QTabBar) -> Iterator[str]:
    for index in filter(bar.isTabVisible, range(bar.count())):
        position = bar.tabRect(index)
        title = bar.tabText(index)
        needed = round(0.9 * bar.fontMetrics().horizontalAdvance(title)) - 2
        if needed > position.width() or position.right() > bar.width() + SLACK:
            yield f"tab {title!r} has {position.width()} px and needs {needed}"


def _header(header: QHeaderView) -> Iterator[str]:
    if header.orientation() != Qt.Orientation.Horizontal or header.model() is None:
        return
    for section in range(header.count()):
        size = header.sectionSize(section)
        at = header.sectionViewportPosition(section)
        if header.isSectionHidden(section) or at + size > header.viewport().width() + SLACK:
            continue  # scrolled to
        text = str(header.model().headerData(section, header.orientation()) or "")
        needed = header.fontMetrics().size(0, text)  # of one line or of several
        if needed.width() > size:
            yield f"column {text!r} has {size} px and needs {needed.width()}"
        if text and needed.height() > header.height() + SLACK:
            yield f"column {text!r} is {header.height()} px high and needs {needed.height()}"


def _cells(view: QAbstractItemView) -> Iterator[str]:
    area, seen = view.viewport().rect(), set()
    for y in range(2, area.height(), max(view.fontMetrics().height() // 2, 4)):
        at = view.indexAt(area.topLeft() + QRect(4, y, 0, 0).topLeft())
        if not at.isValid() or (at.row() in seen and not at.parent().isValid()):
            continue
        seen.add(at.row())
        cells = (at.siblingAtColumn(column) for column in count())
        for index in takewhile(QModelIndex.isValid, cells):
            yield from _cell(view, index)


def _cell(view: QAbstractItemView, index: QModelIndex) -> Iterator[str]:
    if view.visualRect(index).width() <= 0:
        return  # hidden: the tip or another panel has it
    text = str(index.data(Qt.ItemDataRole.DisplayRole) or "")
    rect = view.visualRect(index).intersected(view.viewport().rect())
    if not text or view.visualRect(index) != rect:
        return
    font = index.data(Qt.ItemDataRole.FontRole)
    metrics = QFontMetrics(font if isinstance(font, QFont) else view.font())
    if rect.height() < 0.85 * metrics.height():
        yield f"{text[:40]!r} has a row of {rect.height()} px and needs {metrics.height()}"
    if view.wordWrap() and " " in text:
        return
    needed, room = metrics.horizontalAdvance(text), _room_for_text(view, index)
    if room is None:  # drawn by us, sometimes in smaller letters; what is drawn is looked at, too
        needed, room = round(0.85 * needed), rect.width()
    if needed <= room:
        return
    shown = metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, room)
    if _NUMBER.fullmatch(text):
        yield f"number {text!r} has {room} px and needs {needed}"
    yield from _nonsense(shown, text)


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


def _plot(plot: Plot) -> Iterator[str]:
    if plot.message() is not None:
        return
    view = plot.canvas.getViewBox()
    if view.height() < LEAST_PLOT.height() or view.width() < LEAST_PLOT.width():
        yield f"only {view.width():.0f}×{view.height():.0f} px of data"


def _scrolls_across(area: QScrollArea) -> Iterator[str]:
    content = area.widget()
    if content is None or area.horizontalScrollBarPolicy() != Qt.ScrollBarPolicy.ScrollBarAlwaysOff:
        return
    if content.width() > area.viewport().width() + SLACK:
        yield f"content of {content.width()} px in {area.viewport().width()}"


def _children(parent: QWidget) -> Iterator[str]:
    if isinstance(parent, QAbstractScrollArea) or not (
        parent.layout() is not None or isinstance(parent, QSplitter)
    ):
        return
    children = [
        child
        for child in parent.children()
        if isinstance(child, QWidget)
        and child.isVisible()
        and not child.isWindow()
        and not is_free(child)
        and not isinstance(child, QSplitterHandle)
        and child.width() > 0
        and child.height() > 0
    ]
    whole = parent.rect().adjusted(-SLACK, -SLACK, SLACK, SLACK)
    for child in children:
        if not whole.contains(child.geometry()):
            yield f"{_called(child)} reaches out of it: {_place(child)} in {_size(parent.size())}"
    for one, other in combinations(children, 2):
        shared = one.geometry().intersected(other.geometry())
        if shared.width() > SLACK and shared.height() > SLACK:
            yield f"{_called(one)} and {_called(other)} overlap by {_size(shared.size())}"


def _size(size: QSize) -> str:
    return f"{size.width()}×{size.height()}"


def _place(widget: QWidget) -> str:
    at = widget.geometry()
    return f"{at.x()},{at.y()} {_size(at.size())}"
