"""The look and cells of tables, their export as CSV or to the clipboard, and a table of a few
figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QFontMetricsF,
    QGuiApplication,
    QKeySequence,
    QPainter,
    QPalette,
    QResizeEvent,
    QStandardItem,
    QStandardItemModel,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QTreeWidget,
    QWidget,
)

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import GAP, FigureColumn, FiguresModel, rows_of, write_csv
from ace_gui.gui.models.list_models import LINES, RunLines
from ace_gui.gui.state.known_scores import sample_figures
from ace_gui.gui.text import short_score_text, tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import paint_share, rounded, swatch, write
from ace_gui.gui.widgets.controls import widget_action
from ace_gui.gui.widgets.file_dialogs import TABLES, ask_target
from ace_gui.gui.widgets.layout import on_font_change

_LEAST: Final = 22  # digits
_Index = QModelIndex | QPersistentModelIndex
_ROOM: Final = 8  # px


class RoomyCell(QStyledItemDelegate):
    """Qt's delegate with rows that are higher than the font."""

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        hint = super().sizeHint(option, index)
        return QSize(hint.width(), option.fontMetrics.height() + _ROOM)


def plain_rows(table: QTableView, *, padding: int) -> None:
    """Make the table select whole rows, without grid and row numbers. ``padding``: the pixels that
    a row is higher than its text."""
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setShowGrid(False)
    table.setTabKeyNavigation(False)
    table.verticalHeader().hide()
    _fit_rows(table, padding)
    table.horizontalHeader().setHighlightSections(False)


def _fit_rows(table: QTableView, padding: int) -> None:
    """Make rows ``padding`` pixels higher than their text."""
    rows = table.verticalHeader()
    rows.setMinimumSectionSize(1)  # Qt's own minimum follows the font later
    on_font_change(table, lambda metrics: rows.setDefaultSectionSize(metrics.height() + padding))


class FittedTable(QTableView):
    """A sortable table. Its first column takes the remaining width, and shrinks first."""

    _first = 0  # px that the first column's content needs

    def __init__(self, name: str, model: FiguresModel, *, padding: int) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setModel(model)
        plain_rows(self, padding=padding)
        self.setWordWrap(False)
        header = self.horizontalHeader()
        header.setResizeContentsPrecision(50)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setSortIndicatorClearable(True)
        self.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)

    def fit_columns(self) -> None:
        """Fit each column to its content, and give the first one the remaining width."""
        self.resizeColumnsToContents()
        self._first = self.horizontalHeader().sectionSize(0)
        self._fill()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fill()

    def _fill(self) -> None:
        header = self.horizontalHeader()
        spare = self.viewport().width() - header.length()
        minimum = min(_LEAST * self.fontMetrics().horizontalAdvance("0"), self._first)
        if header.count():
            header.resizeSection(0, max(header.sectionSize(0) + spare, minimum))


def save_table(parent: QWidget, name: str, columns: Sequence[FigureColumn]) -> None:
    """Ask for a path and write the table there; report a failure."""
    kinds = "Table (*.csv)"
    ask_target(
        parent, "Save table", f"{name}.csv", kinds, TABLES, lambda to: write_csv(columns, *to)
    )


def add_table_actions(
    table: QAbstractItemView, name: str, columns: Callable[[], Sequence[FigureColumn]]
) -> None:
    """Give a table and its menu the actions that copy and save ``columns``."""
    widget_action(table, "Copy table", lambda: copy_table(columns()), QKeySequence.StandardKey.Copy)
    widget_action(table, "Save table…", lambda: save_table(table, name, columns()))
    table.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)


def row_tree(name: str, titles: Sequence[str], parent: QWidget | None = None) -> QTreeWidget:
    """A list with a few columns, as wide as their texts."""
    tree = QTreeWidget(parent)
    tree.setAccessibleName(name)
    tree.setRootIsDecorated(False)
    tree.setItemDelegate(RoomyCell(tree))
    tree.setHeaderLabels(list(titles))
    tree.header().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    return tree


def copy_table(columns: Sequence[FigureColumn]) -> None:
    """Copy the table to the clipboard, separated by tabs for spreadsheets."""
    lines = ("\t".join(map(str, row)) for row in rows_of(columns))
    QGuiApplication.clipboard().setText("\n".join(lines))


_DIGITS = 3
_Align = Qt.AlignmentFlag
_CELL: Final = _Align.AlignRight | _Align.AlignVCenter
_OVER_COLUMN: Final = _Align.AlignRight | _Align.AlignBottom


@dataclass(frozen=True)
class FigureRow:
    """One figure of every item, NaN for an item without it. ``tip``: its definition.

    ``percent``: the values are shares.
    """

    title: str
    tip: str
    values: Sequence[float]
    percent: bool = False

    def texts(self) -> list[str]:
        """The values as text, as counts only if all of them are whole numbers."""
        are_counts = all(np.isnan(value) or _is_count(value) for value in self.values)
        return [self._text(value, is_count=are_counts) for value in self.values]

    def _text(self, value: float, *, is_count: bool) -> str:
        """``1.25``, ``48 %``, ``12`` for a count, a dash for none."""
        if np.isnan(value):
            return "–"
        if self.percent:
            return f"{number_text(100 * value, _DIGITS)} %"
        if is_count:
            return str(int(value))
        return number_text(value, _DIGITS)


class FigureSheet(QTableView):
    """A table of figures. Its menu copies it and saves it as CSV; tooltips explain the figures.

    ``kind``: the kind of its rows, the title of the first column in CSV. ``turned``: on the screen,
    items are rows and figures are columns, which needs less width.
    """

    def __init__(
        self,
        name: str,
        parent: QWidget | None = None,
        *,
        kind: str = "figure",
        turned: bool = False,
    ) -> None:
        super().__init__(parent)
        self._kind = kind
        self._turned = turned
        self._columns: tuple[FigureColumn, ...] = ()
        self._cells = QStandardItemModel(self)
        self.setModel(self._cells)
        self.setAccessibleName(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setShowGrid(False)
        contents = QHeaderView.ResizeMode.ResizeToContents
        self.horizontalHeader().setSectionResizeMode(contents)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        _fit_rows(self, 8)  # a row header has margins above and below its text
        self.setCornerButtonEnabled(False)
        add_table_actions(self, name, lambda: self._columns)

    def show_figures(
        self,
        titles: Sequence[str],
        rows: Sequence[FigureRow],
        colours: Sequence[str] = (),
        *,
        count: int | None = None,
    ) -> None:
        """Show ``rows`` under ``titles``, with a colour for each title or without colours.

        ``count``: the number of rows to display; the copied or saved table has all rows.
        """
        self._columns = (
            FigureColumn(self._kind, [row.title for row in rows]),
            *(
                FigureColumn(title, np.array([row.values[index] for row in rows]))
                for index, title in enumerate(titles)
            ),
        )
        self._show(titles, rows[:count], colours)
        self.updateGeometry()

    def _show(
        self, titles: Sequence[str], rows: Sequence[FigureRow], colours: Sequence[str]
    ) -> None:
        """Fill the cells. Cells that exist already keep the selection."""
        cells = self._cells
        turned = self._turned
        cells.setRowCount(len(titles) if turned else len(rows))
        cells.setColumnCount(len(rows) if turned else len(titles))
        across = cells.setHorizontalHeaderItem
        down = cells.setVerticalHeaderItem
        set_figure, set_item = (across, down) if turned else (down, across)
        for item, title in enumerate(titles):
            head = QStandardItem((GAP if turned else "") + title)
            if colours:
                head.setIcon(swatch(colours[item]))
            set_item(item, head)
        for position, figure in enumerate(rows):
            head = QStandardItem(_in_two_lines(figure.title) if turned else GAP + figure.title)
            head.setToolTip(tooltip(figure.tip))
            if turned:
                head.setTextAlignment(_OVER_COLUMN)
            set_figure(position, head)
            for item, text in enumerate(figure.texts()):
                cell = QStandardItem(text)
                cell.setTextAlignment(_CELL)
                cell.setToolTip(tooltip(f"{figure.title}, {titles[item]}: {text}\n{figure.tip}"))
                cells.setItem(*((item, position) if turned else (position, item)), cell)

    def sizeHint(self) -> QSize:
        """As high as its rows."""
        rows = self.horizontalHeader().height() + self.verticalHeader().length()
        bar = self.horizontalScrollBar().sizeHint().height()
        return QSize(super().sizeHint().width(), rows + bar + 2 * self.frameWidth())

    @property
    def columns(self) -> tuple[FigureColumn, ...]:
        """The content with full precision."""
        return self._columns


def _is_count(value: float) -> bool:
    return float(value).is_integer() and abs(value) < 1e6


def _in_two_lines(title: str) -> str:
    """The title with a line break at the space nearest to its middle."""
    spaces = [index for index, sign in enumerate(title) if sign == " "]
    middle = min(spaces, key=lambda index: abs(index - len(title) / 2), default=None)
    if middle is None:
        return title
    return f"{title[:middle]}\n{title[middle + 1 :]}"


_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class SizeCell(QStyledItemDelegate):
    """The cell of the files' size. A warning about the files keeps its icon and colour."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: _Index) -> None:
        super().initStyleOption(option, index)
        theme = current_theme()
        worry = option.text.startswith("⚠")
        option.text = option.text.removeprefix("✓ ")
        option.font = face(Face.CAPTION)
        option.palette.setColor(
            QPalette.ColorRole.Text, QColor(theme.warn if worry else theme.text3)
        )
        option.displayAlignment = _RIGHT


class WeightCell(QStyledItemDelegate):
    """The cell of a weight, with two digits in a frame."""

    def displayText(self, value: Any, locale: object) -> str:  # noqa: ARG002  (Qt's signature)
        try:
            number = float(value)
        except ValueError:
            return str(value)
        if round(number, 2) == number:
            return f"{number:.2f}"
        return f"{number:g}"

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: _Index) -> QWidget:
        editor = super().createEditor(parent, option, index)
        if isinstance(editor, QAbstractSpinBox):
            editor.setAlignment(Qt.AlignmentFlag.AlignRight)
        return editor

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        hint = super().sizeHint(option, index)
        return QSize(
            max(hint.width(), option.fontMetrics.horizontalAdvance("-0.000") + 24), hint.height()
        )

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        theme = current_theme()
        frame = QRectF(option.rect).adjusted(4, 2, -1, -2)
        focused = bool(option.state & QStyle.StateFlag.State_HasFocus)
        edge, width = (theme.accent, 2.0) if focused else (theme.edge, 1.0)
        rounded(painter, frame, theme.field, edge, width=width)
        text = self.displayText(index.data(), option.locale)
        room = frame.adjusted(4, 0, -8, 0)
        write(painter, room, text, option.font, theme.text, align=_RIGHT)


_PADDING: Final = 8  # px


class RunCell(QStyledItemDelegate):
    """The cell of a run. The window's merge is on a card; selected rows are tinted."""

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: ARG002
        lines = sum(
            QFontMetrics(face(line_face)).height() for line_face in (Face.STRONG, Face.CAPTION)
        )
        return QSize(0, lines + _PADDING + 2)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        lines = index.data(LINES)
        if not isinstance(lines, RunLines):
            return
        theme = current_theme()
        rect = QRectF(option.rect).adjusted(0.5, 0.5, -0.5, -1.5)
        state = option.state
        chosen = bool(state & QStyle.StateFlag.State_Selected)
        if chosen:
            ground = theme.tint
        elif lines.current:
            ground = theme.card
        else:
            ground = ""
        if not ground and state & QStyle.StateFlag.State_MouseOver:
            ground = theme.hover
        focused = bool(state & QStyle.StateFlag.State_HasFocus)
        rounded(painter, rect, ground, theme.accent if focused else "", width=2.0)
        self._write(painter, rect.adjusted(_PADDING, 0, -_PADDING, 0), lines, chosen=chosen)

    def _write(self, painter: QPainter, rect: QRectF, lines: RunLines, *, chosen: bool) -> None:
        theme = current_theme()
        caption = face(Face.CAPTION)
        font = face(Face.STRONG if lines.current else Face.BUTTON)
        if lines.current:
            ink = theme.text
        else:
            ink = theme.text2
        above, below = (
            QFontMetrics(face(line_face)).height() for line_face in (Face.STRONG, Face.CAPTION)
        )
        score = write(painter, rect, lines.score, font, ink, align=_RIGHT)
        width = rect.width() - (score + _PADDING if score else 0)
        top = rect.top() + (rect.height() - above - below) / 2
        write(painter, QRectF(rect.left(), top, width, above), lines.title, font, ink)
        if chosen:
            quiet = theme.text2
        else:
            quiet = theme.text3
        below_title = QRectF(rect.left(), top + above, width, below)
        write(painter, below_title, lines.line, caption, quiet)


METHOD: Final = Qt.ItemDataRole.UserRole
"""A MethodInfo."""
MISFIT: Final = Qt.ItemDataRole.UserRole + 2
"""The reason why the method cannot merge what is loaded; empty if it can."""
MEANS: Final = (
    "Mean accuracy on the sample: its five experts merged with each method's defaults, "
    "including modules. Bars run from 0 to 1."
)
_BAR: Final = (44.0, 6.0)  # px
_GAP: Final = 8.0  # px


class MethodCell(QStyledItemDelegate):
    """A method that cannot merge what is loaded is paler and says why; families are headings."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        method = index.data(METHOD)
        if not isinstance(method, MethodInfo):
            option.palette.setColor(QPalette.ColorRole.Text, QColor(current_theme().text3))
            super().paint(painter, option, index)
            return
        theme = current_theme()
        widget = option.widget
        element = QStyle.PrimitiveElement.PE_PanelItemViewItem
        widget.style().drawPrimitive(element, option, painter, widget)
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        if option.state & QStyle.StateFlag.State_HasFocus:
            ring = QStyle.PrimitiveElement.PE_FrameFocusRect
            widget.style().drawPrimitive(ring, option, painter, widget)
        rect = QRectF(option.rect).adjusted(4, 0, -_GAP, 0)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        why = index.data(MISFIT)
        if chosen:
            quiet = theme.text2
        else:
            quiet = theme.text3
        if why:
            caption = face(Face.CAPTION)
            used = write(painter, rect, why, caption, quiet, align=_RIGHT)
        else:
            used = self._draw_mean(painter, rect, method, chosen=chosen)
        room = rect.adjusted(0, 0, -used - _GAP, 0)
        font = face(Face.STRONG if chosen else Face.BODY)
        write(painter, room, method.title, font, quiet if why else theme.text)
        painter.restore()

    def _draw_mean(
        self, painter: QPainter, rect: QRectF, method: MethodInfo, *, chosen: bool
    ) -> float:
        """Paint the number at the right, and the bar if it fits. Return the painted width."""
        theme = current_theme()
        mean = sample_figures().methods.get(method.name)
        font = face(Face.STRONG if chosen else Face.BODY)
        if mean is None:
            text = "–"
        else:
            text = short_score_text(mean)
        write(painter, rect, text, font, theme.text2, align=_RIGHT)
        measure = QFontMetricsF(face(Face.STRONG)).horizontalAdvance
        number = measure(".000")
        if measure(method.title) > rect.width() - number - _BAR[0] - 2 * _GAP:
            return number
        bar = QRectF(0, 0, *_BAR)
        bar.moveCenter(rect.center())
        bar.moveRight(rect.right() - number - _GAP)
        if mean is None:
            share = 0.0
        else:
            share = mean
        ink, ground = (theme.accent, theme.card) if chosen else (theme.axis, theme.hover)
        paint_share(painter, bar, share, ink, ground)
        return rect.right() - bar.left()


def misfit(method: MethodInfo, experts: int) -> str:
    """Why a method cannot merge this number of experts; empty if it can, or if there are none."""
    fits = experts >= method.least and (method.most is None or experts <= method.most)
    if fits or not experts:
        return ""
    return number_of_experts(method)


def number_of_experts(method: MethodInfo) -> str:
    """The number of experts that a method supports, as text."""
    if method.most is None:
        if method.least == 1:
            return "any number of experts"
        return f"{method.least} experts or more"
    if method.most == 1:
        return "one expert only"
    if method.least == method.most:
        return f"{method.most} experts only"
    return f"{method.most} experts at most"
