"""The base of every plot: message, captions, theme, menu, zoom."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPen,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QLabel,
    QMenu,
    QMessageBox,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QWidget,
)

# isort: split
import pyqtgraph as pg

from ace_gui.errors import WorkbenchError
from ace_gui.gui.plots.frame.axes import QuantityAxis
from ace_gui.gui.plots.frame.canvas import Canvas
from ace_gui.gui.plots.frame.controls import HeadButton
from ace_gui.gui.plots.frame.export_image import (
    FILTERS,
    IN_PICTURE,
    PictureDialog,
    PictureFormat,
    ThemedWidget,
    copy_plot,
    grab_plot,
    pictures_on_white,
    set_pictures_on_white,
)
from ace_gui.gui.plots.frame.legend import CaptionLabel, Legend
from ace_gui.gui.theme import Face, Tokens, current_theme, face, palette_of
from ace_gui.gui.widgets.files.file_dialogs import PICTURES, ask_target
from ace_gui.gui.widgets.layout.arrangement import Part, across, down

BUSY_AFTER_MS = 200
NOT_COMPUTED = "Not computed yet."

pg.setConfigOptions(antialias=True, imageAxisOrder="row-major", background=None)


class Plot(ThemedWidget):
    """A plot with title, caption and legend, or a message instead.

    Subclasses draw into ``canvas`` and implement ``restyle``, ``rescale`` and ``fit``. ``toggles``:
    the legend switches curves. ``wraps``: a long caption wraps instead of being elided.
    ``logarithmic``: the initial scale, or None if it cannot be changed. ``changed`` follows when
    other figures or a message are shown.
    """

    changed = Signal()
    named_outside = False
    axis_named_outside = False

    def __init__(
        self,
        *,
        name: str,
        empty: str,
        bottom: pg.AxisItem,
        left: pg.AxisItem,
        toggles: bool = True,
        wraps: bool = True,
        logarithmic: bool | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.theme = current_theme()
        self._by_keys = False  # a click shows no frame around the whole plot
        self._font = face(Face.BODY).key()
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.canvas = Canvas(bottom, left)
        self.canvas.setFocusProxy(self)
        self.canvas.setAccessibleName(name)
        self.legend = Legend(toggles=toggles)
        self.title = CaptionLabel(Qt.TextElideMode.ElideMiddle)
        elide = Qt.TextElideMode
        self.caption = CaptionLabel(elide.ElideNone if wraps else elide.ElideRight)
        self.busy = QLabel("Computing…")
        self.log_box = QAction("Logarithmic scale", self, checkable=True)
        self._has_log_box = logarithmic is not None
        self._has_legend = True
        self._controls: list[QWidget] = []
        self._chosen: list[QWidget] = []  # those in a row of their own
        self.log_box.setChecked(bool(logarithmic))
        self.log_box.toggled.connect(lambda _on: self.rescale())
        tip = "Scale and curves of this plot, and its picture to copy or save"
        self.picture_button = HeadButton("Picture of this plot", tip, self, "export")
        self.picture_button.setAutoRaise(True)
        self.picture_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.picture_button.setMenu(QMenu(self.picture_button))
        self._quantity = QLabel()
        if isinstance(left, QuantityAxis):
            left.retitled = self._quantity.setText
            self._quantity.setText(left.title)
        self.empty = empty
        """The message while there is nothing to draw."""
        self._message, self._before_busy = QLabel(empty), empty
        self._stack = QStackedWidget()
        self._busy_timer = QTimer(self, singleShot=True, interval=BUSY_AFTER_MS)
        self._busy_timer.timeout.connect(self._show_busy)
        self._lay_out()
        self._add_actions()
        self._paint_theme()
        self.show_message(empty)

    def show_message(self, text: str) -> None:
        """Show ``text`` instead of the plot."""
        self._message.setText(text)
        self._message.setAccessibleName(text)
        self._stack.setCurrentWidget(self._message)
        texts = (self.title, self.caption, self.legend, self._quantity)
        for widget in (*texts, self.picture_button, *self._controls):
            widget.hide()
        for action in self.actions():
            action.setEnabled(False)
        self.setAccessibleDescription(text)
        self.changed.emit()

    def message(self) -> str | None:
        """The message instead of the plot, or None."""
        shown = self._stack.currentWidget() is self._message
        return self._message.text() if shown else None

    def expect(self) -> None:
        """What is to be shown is not known yet: an earlier message gives way, a plot stays."""
        if self.message() == self.busy.text():
            self._before_busy = NOT_COMPUTED
        elif self.message() is not None:
            self.show_message(NOT_COMPUTED)

    def show_canvas(self) -> None:
        """Show the plot instead of a message."""
        self._stack.setCurrentWidget(self.canvas)
        self.title.setVisible(bool(self.title.whole) and not self.named_outside)
        self.caption.setVisible(bool(self.caption.whole))
        self.legend.setVisible(bool(self.legend.entries()) and self._has_legend)
        self._quantity.setVisible(bool(self._quantity.text()) and not self.axis_named_outside)
        for control in (self.picture_button, *self._controls):
            control.show()
        for action in self.actions():
            action.setEnabled(True)
        self.changed.emit()

    def name_outside(self) -> None:
        """Show the title only in exported pictures, because the window shows it elsewhere. Its row
        goes to the choices."""
        self.named_outside = True
        self.title.hide()
        column = self.layout()
        assert column is not None
        column.removeItem(self._choices)
        self._head.insertLayout(0, self._choices)

    def add_control(self, control: QWidget) -> None:
        """Add a control next to the title, visible together with the plot."""
        self._controls.append(control)
        self._head.insertWidget(self._head.indexOf(self.picture_button), control)
        control.setVisible(self.message() is None)

    def add_choice(self, control: QWidget) -> None:
        """Add a control in its own row below the title, visible together with the plot."""
        self._controls.append(control)
        self._chosen.append(control)
        self._choices.insertWidget(self._choices.count() - 1, control)
        control.setVisible(self.message() is None)

    def add_curve_menu(self) -> None:
        """Replace the legend by a menu: the names are at the ends of the curves."""
        self._has_legend = False
        self.legend.hide()
        menu = QMenu("Curves", self)
        menu.aboutToShow.connect(lambda: self._fill_curve_menu(menu))
        self.picture_button.menu().addMenu(menu)

    def _fill_curve_menu(self, menu: QMenu) -> None:
        menu.clear()
        for entry in self.legend.entries():
            action = menu.addAction(entry.label.replace("&", "&&"))
            action.setCheckable(True)
            action.setChecked(self.legend.is_on(entry.key))
            action.triggered.connect(lambda _=False, key=entry.key: self.legend.chip(key).click())

    def set_busy(self, busy: bool) -> None:
        """Say “Computing…” if being busy lasts longer than ``BUSY_AFTER_MS``."""
        if busy:
            if self.busy.isHidden() and not self._busy_timer.isActive():
                self._busy_timer.start()
            return
        self._busy_timer.stop()
        self.busy.hide()
        if self.message() == self.busy.text():
            self.show_message(self._before_busy)  # no answer came

    def _show_busy(self) -> None:
        """Show it next to an earlier plot, or instead of a message."""
        message_now = self.message()
        if message_now is None:
            self.busy.show()
        else:
            self.show_message(self.busy.text())
            self._before_busy = message_now

    def set_theme(self, theme: Tokens) -> None:
        """Use the colours of ``theme`` and the window's font size."""
        font = face(Face.BODY).key()
        if theme is self.theme and font == self._font:
            return
        self.theme, self._font = theme, font
        view = self.canvas.getViewBox()
        across, up = view.viewRange()
        self._paint_theme()
        self.restyle()
        view.setRange(xRange=across, yRange=up, padding=0)  # redrawing must not reset a zoom

    def show_as_picture(self, on: bool) -> None:
        """A picture has its title and those of its axes, wherever the window has them."""
        for control in self._chosen:
            if not control.hasFocus():
                control.setVisible(not on and self.message() is None)
        self.canvas.in_picture = on
        axis = self.canvas.getAxis("bottom")
        if isinstance(axis, QuantityAxis):
            axis.make_room(low=not on and self.canvas.is_low)
        if self.named_outside and self.title.whole:
            self.title.setVisible(on)
        if self.axis_named_outside and self.message() is None:
            self._quantity.setVisible(on)
        self.activate_layout()

    def activate_layout(self) -> None:
        layout = self.layout()
        if layout is not None:
            layout.activate()
        self.canvas.frame.layout.activate()

    def restyle(self) -> None:
        """Redraw in ``self.theme``."""
        raise NotImplementedError

    def fit(self) -> None:
        """Show all data."""
        raise NotImplementedError

    def rescale(self) -> None:
        """Redraw after a change between linear and logarithmic scale."""
        raise NotImplementedError

    def changeEvent(self, event: QEvent) -> None:
        """Follow the palette, unless a window with updates disabled restyles its plots one by
        one."""
        super().changeEvent(event)
        seen = self.isVisible() and self.updatesEnabled()
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and seen:
            self.set_theme(current_theme())

    def showEvent(self, event: QShowEvent) -> None:
        """Update the colours: hidden plots do not follow them."""
        super().showEvent(event)
        self.set_theme(current_theme())

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self.theme.card))
        if self.hasFocus() and self._by_keys and not self.property(IN_PICTURE):
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

    def _lay_out(self) -> None:
        self.busy.hide()
        self._message.setWordWrap(True)
        self._message.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._message.setMargin(24)
        self._stack.addWidget(self._message)
        self._stack.addWidget(self.canvas)
        wraps = self.caption.wordWrap()  # a short caption is next to the title
        beside: list[Part] = [] if wraps else [(self.caption, 1), self.legend]
        if not wraps:
            self.caption.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._head = across((self.title, int(wraps)), *beside, gap=12)
        self._head.addStretch()  # if nothing else needs the room
        for widget in (self.busy, self.picture_button):
            self._head.addWidget(widget)
        self._choices = across(None)
        self._quantity.setAlignment(Qt.AlignmentFlag.AlignBottom)
        named = across(self._quantity, None, *[self.legend] * wraps)
        rows: list[Part] = [self._head, self._choices, *[self.caption] * wraps, named]
        self.setLayout(down(*rows, (self._stack, 1), margins=(4, 4, 4, 2), gap=4))

    def _add_actions(self) -> None:
        copy, save = QAction("Copy picture", self), QAction("Save picture…", self)
        copy.setShortcut(QKeySequence.StandardKey.Copy)
        save.setShortcut(QKeySequence("Ctrl+Alt+S"))
        for action in (copy, save):
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        copy.triggered.connect(lambda: copy_plot(self))
        save.triggered.connect(lambda: ask_for_picture(self, self))
        fit = QAction("Show everything", self)
        fit.triggered.connect(self.fit)
        self._on_white = QAction("Pictures on white", self, checkable=True)
        self._on_white.setToolTip("Draw pictures in the light colours, for paper")
        self._on_white.triggered.connect(set_pictures_on_white)
        scale = [self.log_box] if self._has_log_box else []
        self.addActions([fit, *scale, copy, save, self._on_white])
        menu = self.picture_button.menu()
        menu.addActions(self.actions())
        # Every plot has this action, with the same meaning.
        menu.aboutToShow.connect(lambda: self._on_white.setChecked(pictures_on_white()))

    def _paint_theme(self) -> None:
        theme = self.theme
        self.canvas.setBackground(theme.card)
        self.canvas.fit_letters()
        for axis in (self.canvas.getAxis("left"), self.canvas.getAxis("bottom")):
            axis.setPen(pg.mkPen(None))
            axis.setTextPen(pg.mkPen(theme.text3))
            axis.setTickPen(pg.mkPen(theme.grid) if axis.grid is not False else pg.mkPen(None))
            axis.setTickFont(face(Face.CAPTION))
            if isinstance(axis, QuantityAxis):
                axis.fit_letters()
        for label, colour in (
            (self.title, theme.text),
            (self.caption, theme.text2),
            (self.busy, theme.text2),
            (self._message, theme.text2),
            (self._quantity, theme.text3),
        ):
            palette = label.palette()
            palette.setColor(label.foregroundRole(), QColor(colour))
            label.setPalette(palette)
        self.title.setFont(face(Face.STRONG))
        self._quantity.setFont(face(Face.CAPTION))
        if self.caption.wordWrap():
            self.caption.setFont(face(Face.CAPTION))
        self.legend.setPalette(palette_of(theme))
        self.update()


def ask_for_picture(shown: ThemedWidget, parent: QWidget) -> None:
    """Ask for a format and a path and write the picture of ``shown`` there; report a failure."""
    suggested = f"{shown.accessibleName()}.png"

    def ask(form: PictureFormat) -> None:
        def write(chosen: list[Path]) -> None:
            ending = dialog.selectedNameFilter().rpartition("*")[2].rstrip(")")
            try:
                grab_plot(shown, chosen[0], suffix=ending, form=form)
            except WorkbenchError as error:
                QMessageBox.warning(parent, "Save picture", error.sentence)

        dialog = ask_target(parent, "Save picture", suggested, FILTERS, PICTURES, write)

    PictureDialog(ask, parent).open()


def quantity_axis(orientation: str, *titles: str, grid: bool = False) -> QuantityAxis:
    """A ``QuantityAxis`` with its titles, longest first, and optional grid lines."""
    axis = QuantityAxis(orientation)
    axis.set_titles(*titles)
    if grid:
        axis.setGrid(255)
    return axis


def restyle_plots(parent: QWidget, theme: Tokens) -> Generator[None, None, None]:
    """Restyle the visible plots in ``widget``, one per turn; the others update when shown."""
    for plot in parent.findChildren(Plot):
        if plot.isVisible():
            plot.set_theme(theme)
            yield
