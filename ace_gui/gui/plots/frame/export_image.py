"""Export of a plot's picture: PNG, SVG, PDF or the clipboard, and its data as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

import pyqtgraph as pg
from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QPoint, QRect, QSize, QSizeF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QGuiApplication,
    QPageSize,
    QPaintDevice,
    QPainter,
    QPdfWriter,
    QPixmap,
)
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QGraphicsItem,
    QGraphicsView,
    QSpinBox,
    QWidget,
)

from ace_gui.errors import OutputError
from ace_gui.gui.models.figures_model import FigureColumn, write_csv
from ace_gui.gui.saving import save
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import LIGHT, Face, Tokens, body_font, face
from ace_gui.gui.widgets.file_dialogs import PICTURES, ask_target
from ace_gui.gui.widgets.labels import muted_label

PIXELS_A_POINT = 2.0
"""Copied pictures have twice the screen's resolution, so that they stay sharp in a document."""

_FILTERS = "PNG picture (*.png);;SVG drawing (*.svg);;PDF drawing (*.pdf)"


_SERIFS = ["STIX Two Text", "Times New Roman", "Liberation Serif", "DejaVu Serif"]
_PNG_DOTS = 300
"""Dots an inch of a PNG picture whose size is given in millimetres."""
_MM_AN_INCH = 25.4


class PictureFormat(NamedTuple):
    """A picture for a paper: size in millimetres, font, and whether a CSV is saved with it.

    The picture of every block is higher than this if its plots could not be read otherwise.
    """

    width: int = 120
    height: int = 80
    points: int = 8
    serif: bool = False
    with_data: bool = True

    @classmethod
    def remembered(cls) -> PictureFormat:
        """The format that was used last, or the default."""
        numbers = Settings().picture_format.split()
        if len(numbers) != len(cls._fields) or not all(map(str.isdecimal, numbers)):
            return cls()
        width, height, points, serif, with_data = map(int, numbers)
        return cls(width, height, points, bool(serif), bool(with_data))

    def remember(self) -> None:
        """Store this format as the next proposal."""
        Settings().picture_format = " ".join(str(int(part)) for part in self)

    def pixels(self, dots: int) -> QSize:
        """The size in pixels at so many dots an inch."""
        return QSize(*(round(side / _MM_AN_INCH * dots) for side in (self.width, self.height)))

    @property
    def font(self) -> QFont:
        font = QFont(QApplication.font())
        if self.serif:
            font.setFamilies(_SERIFS)
            font.setStyleHint(QFont.StyleHint.Serif)
        font.setPointSizeF(self.points / Face.CAPTION.value[0])  # numbers and names are captions
        return font


_SIDES: Final = 30, 300
"""The shortest and the longest side of a picture, in millimetres."""


def _side(millimetres: int) -> QSpinBox:
    shortest, longest = _SIDES
    return QSpinBox(minimum=shortest, maximum=longest, suffix=" mm", value=millimetres)


class PictureDialog(QDialog):
    """Proposes the format that was used last, and calls ``use`` with the chosen one."""

    def __init__(
        self, use: Callable[[PictureFormat], object], plot: ThemedWidget, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Save picture")
        self._plot = plot
        last = PictureFormat.remembered()
        self.across = _side(last.width)
        self.down = _side(last.height)
        self.points = QSpinBox(minimum=4, maximum=24, suffix=" pt", value=last.points)
        self.typeface = QComboBox(self)
        self.typeface.addItems(["Sans serif", "Serif"])
        self.typeface.setCurrentIndex(int(last.serif))
        self.data = QCheckBox("Save the data as CSV next to it", self)
        self.data.setChecked(last.with_data)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        save = buttons.addButton("Save picture…", QDialogButtonBox.ButtonRole.AcceptRole)
        save.setDefault(True)
        form = QFormLayout(self)
        form.addRow("&Width", self.across)
        form.addRow("&Height", self.down)
        form.addRow("&Font size", self.points)
        form.addRow("&Typeface", self.typeface)
        form.addRow(self.data)
        form.addRow(muted_label(f"PNG: {_PNG_DOTS} dots an inch; SVG and PDF: lines and text."))
        form.addRow(buttons)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.finished.connect(self.deleteLater)
        self.accepted.connect(lambda: use(self._remember()))
        self.down.setToolTip("At least the height from which the picture can be read")
        self._limit_height()
        self.across.valueChanged.connect(self._limit_height)
        self.points.valueChanged.connect(self._limit_height)
        self.typeface.currentIndexChanged.connect(self._limit_height)

    @property
    def _format(self) -> PictureFormat:
        return PictureFormat(
            self.across.value(),
            self.down.value(),
            self.points.value(),
            bool(self.typeface.currentIndex()),
            self.data.isChecked(),
        )

    def _limit_height(self) -> None:
        """Offer only heights from which the picture can be read."""
        lowest = legible(self._plot, self._format._replace(height=_SIDES[0])).height
        self.down.setRange(lowest, max(lowest, _SIDES[1]))

    def _remember(self) -> PictureFormat:
        chosen = self._format
        chosen.remember()
        return chosen


class ThemedWidget(QWidget):
    """A widget that is painted in ``theme``, whatever the window's theme."""

    theme: Tokens

    def set_theme(self, theme: Tokens) -> None:
        raise NotImplementedError

    def activate_layout(self) -> None:
        """Lay everything out now, without waiting for an event."""

    def least_height(self, width: int) -> int:  # noqa: ARG002  (most plots can be of any height)
        """The height in pixels from which a picture of this width can be read."""
        return 0

    def columns(self) -> Sequence[FigureColumn]:
        return ()

    def show_as_picture(self, on: bool) -> None:
        """Show all that belongs to a picture, or the window's version again."""


def ask_for_picture(plot: ThemedWidget, parent: QWidget) -> None:
    """Ask for a format and a path and write the picture of ``plot`` there; report a failure."""
    suggested = f"{plot.accessibleName()}.png"

    def ask(form: PictureFormat) -> None:
        def write(paths: list[Path]) -> None:
            ending = dialog.selectedNameFilter().rpartition("*")[2].rstrip(")")
            grab_plot(plot, paths[0], form, ending)

        dialog = ask_target(parent, "Save picture", suggested, _FILTERS, PICTURES, write)

    PictureDialog(ask, plot, parent).open()


def grab_plot(plot_widget: ThemedWidget, path: Path, form: PictureFormat, suffix: str = "") -> None:
    """Write the picture of ``plot_widget`` to ``path``, by its extension: .png, .svg or .pdf.

    ``suffix``: the default extension. Raises ``OutputError`` for another extension or a write
    failure.
    """
    kinds = {".png": _png, ".svg": _svg, ".pdf": _pdf}
    asked_path = path
    if not path.suffix:
        path = path.with_suffix(suffix)
    draw = kinds.get(path.suffix.lower())
    if draw is None:
        raise OutputError(
            f"“{path.name}” does not end in .png, .svg or .pdf; choose one of the three.", path=path
        )
    form = legible(plot_widget, form)
    with in_format(plot_widget, form):
        save(path, draw(plot_widget, form), asked_path)
    if form.with_data:
        columns = plot_widget.columns()
    else:
        columns = ()
    if columns:
        write_csv(columns, path.with_suffix(".csv"))


def legible(plot_widget: ThemedWidget, form: PictureFormat) -> PictureFormat:
    """The format, with more height if the picture could not be read otherwise."""
    dots = plot_widget.logicalDpiX()
    with body_font(form.font):
        lowest = plot_widget.least_height(form.pixels(dots).width())
    return form._replace(height=max(form.height, ceil(lowest * _MM_AN_INCH / dots)))


@contextmanager
def in_format(plot_widget: ThemedWidget, form: PictureFormat) -> Iterator[None]:
    """Give the plot the size and font of a picture for a moment, in which nothing is painted."""
    size = plot_widget.size()
    with _free_of_layouts(plot_widget), _same_axes(plot_widget):
        try:
            with body_font(form.font):
                _lay_out(plot_widget, form.pixels(plot_widget.logicalDpiX()))
                yield
        finally:
            _lay_out(plot_widget, size)


@contextmanager
def _free_of_layouts(plot_widget: ThemedWidget) -> Iterator[None]:
    """Keep the layouts around the plot from giving it back the window's size.

    Qt activates them whenever a part of the plot is shown, for example its title.
    """
    around = []
    above = plot_widget.parentWidget()
    while above is not None:
        layout = above.layout()
        if layout is not None and layout.isEnabled():
            around.append(above)  # not the layout, whose wrapper does not outlive its widget's
        above = above.parentWidget()
    _enable_layouts(around, on=False)
    try:
        yield
    finally:
        _enable_layouts(around, on=True)


def _enable_layouts(widgets: Sequence[QWidget], *, on: bool) -> None:
    for widget in widgets:
        layout = widget.layout()
        if layout is not None:
            layout.setEnabled(on)


def _lay_out(plot_widget: ThemedWidget, size: QSize) -> None:
    plot_widget.setFont(face(Face.BODY))
    plot_widget.set_theme(plot_widget.theme)
    plot_widget.resize(size)
    plot_widget.activate_layout()


def copy_plot(plot_widget: ThemedWidget) -> None:
    """Copy the picture of ``plot_widget`` to the clipboard."""
    with _free_of_layouts(plot_widget):
        size = plot_widget.size() * PIXELS_A_POINT
        QGuiApplication.clipboard().setPixmap(_pixmap(plot_widget, size, PIXELS_A_POINT))


def _pixmap(plot_widget: ThemedWidget, size: QSize, ratio: float) -> QPixmap:
    """The picture of ``plot_widget``, ``size`` in pixels, ``ratio`` times as many as on screen."""
    pixmap = QPixmap(size)
    pixmap.setDevicePixelRatio(ratio)
    with _as_picture(plot_widget):
        pixmap.fill(QColor(plot_widget.theme.card))
        plot_widget.render(pixmap)
    return pixmap


def _svg(plot_widget: ThemedWidget, _form: PictureFormat) -> bytes:
    """The picture of ``plot_widget`` as an SVG document with lines and text."""
    size = plot_widget.size()
    buffer = QBuffer()
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(size)
    generator.setViewBox(QRect(QPoint(), size))
    generator.setResolution(plot_widget.logicalDpiX())  # otherwise a point has fewer pixels
    generator.setTitle(plot_widget.accessibleName())
    generator.setDescription(plot_widget.accessibleDescription())
    _paint(plot_widget, generator)
    return bytes(buffer.data().data())


def _paint(plot_widget: ThemedWidget, device: QPaintDevice) -> None:
    painter = QPainter(device)
    with _as_picture(plot_widget):
        plot_widget.render(painter, QPoint())
    painter.end()


@contextmanager
def _as_picture(plot_widget: ThemedWidget) -> Iterator[None]:
    """For a moment, hide controls and focus, draw symbols as outlines, and use white if chosen."""
    theme = plot_widget.theme
    focused = plot_widget.focusWidget() or plot_widget
    has_focus = focused.hasFocus()
    focused.clearFocus()  # a hidden widget would give the focus to another one
    with _same_axes(plot_widget):
        if Settings().pictures_on_white:
            plot_widget.set_theme(LIGHT)
        plot_widget.show_as_picture(True)
        scatters = [i for i in _items(plot_widget) if isinstance(i, pg.ScatterPlotItem)]
        for item in scatters:
            item.setExportMode(True, {})
        try:
            yield
        finally:
            for item in scatters:
                item.setExportMode(False)
            plot_widget.show_as_picture(False)
            plot_widget.set_theme(theme)
            if has_focus:
                focused.setFocus(Qt.FocusReason.PopupFocusReason)


def _items(plot_widget: ThemedWidget) -> list[QGraphicsItem]:
    return [i for view in plot_widget.findChildren(QGraphicsView) for i in view.scene().items()]


@contextmanager
def _same_axes(plot_widget: ThemedWidget) -> Iterator[None]:
    """Restore the widths of the axes, which grow for a picture's larger text."""
    widths = {
        item: item.textWidth
        for item in _items(plot_widget)
        if isinstance(item, pg.AxisItem) and item.orientation == "left" and item.fixedWidth is None
    }
    try:
        yield
    finally:
        for axis, width in widths.items():
            axis.textWidth = width
            axis.picture = None
            axis.setWidth(None)
        plot_widget.activate_layout()


def _png(plot_widget: ThemedWidget, form: PictureFormat) -> bytes:
    ratio = _PNG_DOTS / plot_widget.logicalDpiX()
    buffer = QBuffer()
    image = _pixmap(plot_widget, form.pixels(_PNG_DOTS), ratio).toImage()
    image.setDotsPerMeterX(round(1000 * _PNG_DOTS / _MM_AN_INCH))
    image.setDotsPerMeterY(round(1000 * _PNG_DOTS / _MM_AN_INCH))
    image.save(buffer, "PNG")  # type: ignore[call-overload]
    return bytes(buffer.data().data())


def _pdf(plot_widget: ThemedWidget, form: PictureFormat) -> bytes:
    """The picture as one page of its size, in units of a screen pixel."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setResolution(plot_widget.logicalDpiX())
    exact = QPageSize.SizeMatchPolicy.ExactMatch
    page = QSizeF(form.width, form.height)
    writer.setPageSize(QPageSize(page, QPageSize.Unit.Millimeter, "plot", exact))
    writer.setPageMargins(QMarginsF())
    writer.setTitle(plot_widget.accessibleName())
    writer.setCreator("ACE Workbench")
    _paint(plot_widget, writer)
    buffer.close()
    return bytes(buffer.data().data())
