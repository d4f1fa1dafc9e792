"""The base of every plot: message, captions, theme, menu, zoom; and ``PlotWithTable``, which also
shows a plot's data as a table."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QItemSelectionModel, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QLabel,
    QMenu,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from ace_gui.gui.models.figures_model import FiguresModel
from ace_gui.gui.plots.frame.canvas import Canvas, QuantityAxis
from ace_gui.gui.plots.frame.export_image import ThemedWidget, ask_for_picture, copy_plot
from ace_gui.gui.plots.frame.legend import CaptionLabel, Legend, breakable
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import Face, Tokens, current_theme, face, palette_of
from ace_gui.gui.widgets.controls import head_button, widget_action
from ace_gui.gui.widgets.labels import ElidedLabel
from ace_gui.gui.widgets.layout import Part, across, down, pane
from ace_gui.gui.widgets.tables import FittedTable, copy_table, save_table

_BUSY_AFTER_MS: Final = 200
BUSY: Final = "Computing…"
NOT_COMPUTED: Final = "Not computed yet."
_LOW: Final = 17  # in text lines: a lower plot has no room for its sentence

pg.setConfigOptions(antialias=True, imageAxisOrder="row-major", background=None)


class Plot(ThemedWidget):
    """A plot with title, caption and legend, or a message instead.

    Subclasses draw into ``canvas`` and implement ``rescale``, ``fit`` and ``_draw``. ``changed`` is
    emitted when the plot shows other figures or a message.

    Subclasses declare ``called``, the plot's name; ``empty``, the message while there is nothing to
    draw; ``toggles``: the legend shows and hides curves; ``wraps``: a long caption wraps instead of
    being elided; ``logarithmic_first``: the initial scale, or None if it cannot be changed.
    """

    changed = Signal()
    called = ""
    empty = ""
    toggles = True
    wraps = True
    logarithmic_first: bool | None = None
    named_outside = False
    axis_named_outside = False

    def __init__(self, bottom: pg.AxisItem, left: pg.AxisItem) -> None:
        super().__init__()
        self.theme = current_theme()
        self._font = face(Face.BODY).key()
        self._by_keys = False  # after a click, the focus has no frame
        self.setAccessibleName(self.called)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.Light)
        self.canvas = Canvas(bottom, left)
        self.canvas.setFocusProxy(self)
        for part in (self.canvas, self.canvas.viewport()):
            part.setAccessibleName(self.called)
        self.legend = Legend(toggles=self.toggles)
        self._has_legend = True
        self.title = CaptionLabel()
        self.caption = CaptionLabel(sentence=True, wraps=self.wraps)
        self._heading = CaptionLabel(wraps=True)
        self._sentence = CaptionLabel(wraps=True)
        self.busy = QLabel(BUSY)
        self._quantity = QLabel()
        self._message = QLabel()
        for label in (self.caption, self._sentence, self.busy, self._message):
            label.setProperty("kind", "secondary")
        self._quantity.setProperty("kind", "caption")
        self._controls: list[QWidget] = []
        self._seen: list[QWidget] = []  # the controls that were visible before the picture
        self.log_box = QAction("Logarithmic scale", self, checkable=True)
        self.log_box.setChecked(bool(self.logarithmic_first))
        self.log_box.toggled.connect(lambda _on: self.rescale())
        tip = "Scale and curves of this plot; its picture and its data to save"
        self.picture_button = head_button("Picture and data of this plot", tip, picture="export")
        self.picture_button.setAutoRaise(True)
        self.picture_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.picture_button.setMenu(QMenu(self.picture_button))
        self._text = self.empty
        self._is_busy = False
        self._stack = QStackedWidget()
        self._busy_timer = QTimer(self, singleShot=True, interval=_BUSY_AFTER_MS)
        self._busy_timer.timeout.connect(lambda: self._show_busy(True))
        self._lay_out()
        self._add_actions()
        self._paint_theme()
        self.show_message(self.empty)

    # Content, or a message

    def show_message(self, text: str) -> None:
        """Show ``text`` instead of the plot."""
        self._text = text
        self._stack.setCurrentWidget(self._message)
        self._show_parts()
        self._write_message()

    def show_canvas(self) -> None:
        """Show the plot instead of a message."""
        self._stack.setCurrentWidget(self.canvas)
        self._show_parts()
        self.changed.emit()

    def message(self) -> str | None:
        """The message instead of the plot, or None."""
        is_message = self._stack.currentWidget() is self._message
        if is_message:
            return self._message.text()
        return None

    def expect(self) -> None:
        """Replace an earlier message by “not computed yet”; a plot stays until the next one."""
        if self.message() is not None:
            self._text = NOT_COMPUTED
            self._write_message()

    def set_busy(self, busy: bool) -> None:
        """Say “Computing…” if being busy lasts longer than ``_BUSY_AFTER_MS``."""
        if not busy:
            self._busy_timer.stop()
            self._show_busy(False)
        elif not self._is_busy and not self._busy_timer.isActive():
            self._busy_timer.start()

    def _show_busy(self, busy: bool) -> None:
        """Say so next to the plot, or instead of a message."""
        if busy == self._is_busy:
            return
        self._is_busy = busy
        if self.message() is None:
            self.busy.setVisible(busy)
        else:
            self._write_message()

    def _write_message(self) -> None:
        if self._is_busy:
            text = BUSY
        else:
            text = self._text
        self._message.setText(text)
        self._message.setAccessibleName(text)
        self.setAccessibleDescription(text)
        self.changed.emit()

    def _show_parts(self) -> None:
        """Show the plot's parts, or hide them if there is a message instead."""
        drawn = self.message() is None
        in_picture = self.canvas.in_picture
        titled = drawn and bool(self.title.full_text)
        self.title.setVisible(titled and not in_picture and not self.named_outside)
        self._heading.set_full_text(breakable(self.title.full_text))
        self._heading.setVisible(titled and in_picture)
        self._show_caption()
        self.legend.setVisible(drawn and bool(self.legend.entries()) and self._has_legend)
        named = in_picture or not self.axis_named_outside
        self._quantity.setVisible(drawn and bool(self._quantity.text()) and named)
        self.busy.setVisible(drawn and self._is_busy)
        for control in (self.picture_button, *self._controls):
            control.setVisible(drawn)
        for action in self.actions():
            action.setEnabled(drawn)

    def _show_caption(self) -> None:
        """Show the caption, unless it needs the room of a low plot."""
        low = self.wraps and self.height() < _LOW * self.fontMetrics().height()
        in_picture = self.canvas.in_picture
        captioned = self.message() is None and bool(self.caption.full_text)
        self.caption.setVisible(captioned and not low and not in_picture)
        self._sentence.set_full_text(breakable(self.caption.full_text))
        self._sentence.setVisible(captioned and in_picture)

    # Parts

    def name_outside(self) -> None:
        """Show the title only in exported pictures, because the window shows it above the plot."""
        self.named_outside = True
        self.title.hide()

    def keep_title(self) -> None:
        """Never cut the title; the legend beside it wraps instead."""
        self.title.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)

    def add_control(self, control: QWidget, *, first: bool = False) -> None:
        """Add a control after the title, or ``first``, visible together with the plot."""
        if first:
            index = 0
        else:
            index = self._head.indexOf(self.picture_button)
        self._head.insertWidget(index, control)
        self._controls.append(control)
        control.setVisible(self.message() is None)

    def add_curve_menu(self) -> None:
        """Replace the legend by a menu, because the curves have their names at their ends."""
        self._has_legend = False
        self.legend.hide()
        menu = self.picture_button.menu().addMenu("Curves")

        def fill() -> None:
            menu.clear()
            for entry in self.legend.entries():
                action = menu.addAction(entry.label.replace("&", "&&"))
                action.setCheckable(True)
                action.setChecked(self.legend.is_on(entry.key))
                action.triggered.connect(self.legend.chip(entry.key).click)

        menu.aboutToShow.connect(fill)

    def _lay_out(self) -> None:
        self.busy.hide()
        self._message.setWordWrap(True)
        self._message.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._message.setMargin(24)
        self._stack.addWidget(self._message)
        self._stack.addWidget(self.canvas)
        wraps = self.wraps  # a short caption is next to the title
        at_right: list[Part] = [] if wraps else [(self.caption, 1), self.legend]
        if not wraps:
            self.caption.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._head = across((self.title, int(wraps)), *at_right, gap=12)
        self._head.addStretch()  # if nothing else needs the room
        for widget in (self.busy, self.picture_button):
            self._head.addWidget(widget)
        self._quantity.setAlignment(Qt.AlignmentFlag.AlignBottom)
        named = across(self._quantity, None, *[self.legend] * wraps)
        # In a picture, title and caption are whole: they wrap in rows of their own.
        in_pictures = self._heading, self._sentence
        rows: list[Part] = [*in_pictures, self._head, *[self.caption] * wraps, named]
        column = down(*rows, (self._stack, 1), margins=(4, 4, 4, 2), gap=4)
        column.setSizeConstraint(column.SizeConstraint.SetNoConstraint)  # a picture may be smaller
        self.setLayout(column)

    def _add_actions(self) -> None:
        widget_action(self, "Show everything", self.fit)
        if self.logarithmic_first is not None:
            self.addAction(self.log_box)
        copy = QKeySequence.StandardKey.Copy
        save = "Ctrl+Alt+S"
        widget_action(self, "Copy picture", lambda: copy_plot(self), copy)
        widget_action(self, "Save picture…", lambda: ask_for_picture(self, self), save)
        tip = "Save what the plot shows as a table, with full precision"
        data = lambda: save_table(self, self.accessibleName(), self.columns())  # noqa: E731
        widget_action(self, "Save data as CSV…", data, tip=tip)
        on_white = QAction("Pictures on white", self, checkable=True)
        on_white.setToolTip("Draw pictures in the light colours, for paper")
        on_white.triggered.connect(lambda on: setattr(Settings(), "pictures_on_white", on))
        self.addAction(on_white)
        menu = self.picture_button.menu()
        menu.addActions(self.actions())
        # One setting serves the actions of all plots.
        menu.aboutToShow.connect(lambda: on_white.setChecked(Settings().pictures_on_white))

    # Look

    def set_theme(self, theme: Tokens) -> None:
        """Use the colours of ``theme`` and the window's font size."""
        font = face(Face.BODY).key()
        if theme is self.theme and font == self._font:
            return
        self.theme = theme
        self._font = font
        view = self.canvas.getViewBox()
        across, up = view.viewRange()
        self._paint_theme()
        self._draw()
        view.setRange(xRange=across, yRange=up, padding=0)  # redrawing must not reset a zoom

    def show_as_picture(self, on: bool) -> None:
        """Show the titles of plot and axes, and no controls, or the window's version again."""
        controls = (self.picture_button, *self._controls)
        if on:
            self._seen = [control for control in controls if not control.isHidden()]
        self.canvas.in_picture = on
        self._show_parts()
        self.canvas.fit_height(self.canvas.height())
        for control in controls:
            control.setVisible(control in self._seen and not on)
        self.activate_layout()

    def activate_layout(self) -> None:
        layout = self.layout()
        if layout is not None:
            layout.activate()
        self.canvas.grid.activate()

    def _draw(self) -> None:
        """Draw everything in ``self.theme``."""
        raise NotImplementedError

    def fit(self) -> None:
        """Show all data."""
        raise NotImplementedError

    def rescale(self) -> None:
        """Redraw after a change between linear and logarithmic scale."""
        raise NotImplementedError

    def _paint_theme(self) -> None:
        theme = self.theme
        self.setPalette(QPalette() if theme is current_theme() else palette_of(theme))
        self.canvas.setBackground(theme.card)
        self.canvas.fit_font()
        for axis in (self.canvas.getAxis("left"), self.canvas.getAxis("bottom")):
            axis.setPen(pg.mkPen(None))
            axis.setTextPen(pg.mkPen(theme.text3))
            axis.setTickPen(pg.mkPen(theme.grid) if axis.grid is not False else pg.mkPen(None))
            axis.setTickFont(face(Face.CAPTION))
            if isinstance(axis, QuantityAxis):
                axis.fit_font()
        for title in (self.title, self._heading):
            title.setFont(face(Face.STRONG))
        self._sentence.setFont(face(Face.CAPTION))
        self._quantity.setFont(face(Face.CAPTION))
        if self.wraps:
            self.caption.setFont(face(Face.CAPTION))
        self.update()

    # Events

    def changeEvent(self, event: QEvent) -> None:
        """Follow the palette, except in a plot with a theme of its own, and while updates are
        disabled: the window then restyles its plots one by one."""
        super().changeEvent(event)
        has_theme = self.testAttribute(Qt.WidgetAttribute.WA_SetPalette)
        follows = self.isVisible() and self.updatesEnabled() and not has_theme
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and follows:
            self.set_theme(current_theme())

    def showEvent(self, event: QShowEvent) -> None:
        """Update the colours: hidden plots do not follow them."""
        super().showEvent(event)
        self.set_theme(current_theme())

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hasFocus() and self._by_keys:
            painter = QPainter(self)
            painter.setPen(QPen(QColor(self.theme.accent), 2))
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        reasons = Qt.FocusReason
        if event.reason() not in (reasons.ActiveWindowFocusReason, reasons.PopupFocusReason):
            self._by_keys = event.reason() != reasons.MouseFocusReason
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.picture_button.menu().popup(event.globalPos())


def restyle_plots(parent: QWidget) -> Generator[None, None, None]:
    """Restyle the visible plots in ``parent``, one per turn; the others update when shown."""
    for plot in parent.findChildren(Plot):
        if plot.isVisible():
            plot.set_theme(current_theme())
            yield


REFRESH: Final = 100  # ms between updates of changing figures


class PlotWithTable(QStackedWidget):
    """A plot or the table of its data, with a button that switches between them.

    It reads the plot's columns when the table is shown and, while it is, after ``Plot.changed``.
    ``row_chosen`` carries the row that the user selected, as its index in these columns.
    """

    row_chosen = Signal(int)

    def __init__(self, plot: Plot) -> None:
        super().__init__()
        self.plot = plot
        self._shows_table = False
        self._selected: int | None = None
        self.model = FiguresModel(self)
        self.table = self._make_table()
        tip = "Show the same figures as a table"
        self.table_button = head_button("Table", tip, lambda: self.show_table(True), "table")
        plot.add_control(self.table_button)
        self.addWidget(plot)
        self.addWidget(self._make_page())
        self._timer = QTimer(self, singleShot=True, interval=REFRESH)
        self._timer.timeout.connect(self._read)
        plot.changed.connect(self._plan_reading)
        self.setFocusProxy(plot)

    def show_table(self, visible: bool) -> None:
        """Show the table, or the plot again."""
        self._shows_table = visible
        self._read()
        (self.table if self.shows_table else self.plot).setFocus()

    @property
    def shows_table(self) -> bool:
        """Whether the table is shown; a plot that only has a message stays visible."""
        return self.currentIndex() == 1

    def select(self, row: int | None) -> None:
        """Mark the row with this index in the columns, without a signal."""
        self._selected = row
        if self.shows_table:
            self._mark()

    def save_csv(self) -> None:
        """Ask for a path and write the table there; report a failure."""
        save_table(self, self.plot.accessibleName(), self.model.columns)

    def copy(self) -> None:
        """Copy the selected rows, or all of them, to the clipboard, separated by tabs."""
        chosen = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        rows = chosen if len(chosen) > 1 else range(self.model.rowCount())
        copy_table(self.model.columns_of(rows))

    # The table

    def _plan_reading(self) -> None:
        if self._shows_table and not self._timer.isActive():
            self._timer.start()

    def _read(self) -> None:
        self._timer.stop()
        shows_table = self._shows_table and self.plot.message() is None
        if shows_table:
            self.model.set_columns(self.plot.columns())
            self.table.fit_columns()
        self.setCurrentIndex(int(shows_table))
        self.setFocusProxy(self.table if shows_table else self.plot)
        if shows_table:
            self._mark()

    def _mark(self) -> None:
        if self._selected is None:
            position = -1
        else:
            position = self.model.position(self._selected)
        selection = self.table.selectionModel()
        selection.blockSignals(True)
        flags = QItemSelectionModel.SelectionFlag
        if position < 0:
            selection.clear()
        else:
            index = self.model.index(position, 0)
            selection.setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
            self.table.scrollTo(index)
        selection.blockSignals(False)
        self.table.viewport().update()

    def _choose(self) -> None:
        rows = self.table.selectionModel().selectedRows()
        if len(rows) == 1:  # several rows are selected for copying
            self._selected = self.model.source_row(rows[0].row())
            self.row_chosen.emit(self._selected)

    def _make_table(self) -> FittedTable:
        table = FittedTable(f"Table: {self.plot.accessibleName()}", self.model, padding=6)
        table.selectionModel().selectionChanged.connect(self._choose)
        widget_action(table, "Copy table", self.copy, QKeySequence.StandardKey.Copy)
        widget_action(table, "Save table…", self.save_csv)
        table.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        return table

    def _make_page(self) -> QWidget:
        title = ElidedLabel()
        title.setFont(face(Face.HEADING))
        title.set_full_text(self.plot.accessibleName())
        tip = "Save the table as CSV with full precision"
        save = head_button("Save…", tip, self.save_csv)
        back = head_button("Plot", "Show the plot again", lambda: self.show_table(False))
        head = across((title, 1), save, back)
        return pane(down(head, (self.table, 1), margins=(8, 6, 8, 4)))
