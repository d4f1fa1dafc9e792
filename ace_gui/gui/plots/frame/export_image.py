"""Export of a plot's picture: PNG, SVG, PDF or the clipboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QPoint, QRect, QSizeF
from PySide6.QtGui import QGuiApplication, QPageSize, QPainter, QPdfWriter, QPixmap
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QAbstractButton, QComboBox, QGraphicsView, QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.errors import OutputError
from ace_gui.gui.saving import save
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import LIGHT, Tokens

PIXELS_A_POINT = 2.0
"""Pictures have twice the screen's resolution, so that they stay sharp in a document."""

POINTS_AN_INCH = 72.0

IN_PICTURE = "inPicture"
"""Property of a plot and its controls while they are painted into a picture."""

FILTERS = "PNG picture (*.png);;SVG drawing (*.svg);;PDF drawing (*.pdf)"


class ThemedWidget(QWidget):
    """A widget that is painted in ``theme``, whatever the window's theme."""

    theme: Tokens

    def set_theme(self, theme: Tokens) -> None:
        """Use the colours of ``theme``."""
        raise NotImplementedError

    def show_as_picture(self, on: bool) -> None:
        """Show all that belongs to a picture, or the window's version again."""


def pictures_on_white() -> bool:
    """Whether pictures use the light theme, whatever the window's."""
    return Settings().pictures_on_white


def set_pictures_on_white(on: bool) -> None:
    """Set whether pictures use the light theme or the window's."""
    Settings().pictures_on_white = on


def grab_plot(plot_widget: ThemedWidget, path: Path, suffix: str = "") -> None:
    """Write the picture of ``plot_widget`` to ``path``, by its extension: .png, .svg or .pdf.

    ``suffix``: the default extension. Raises ``OutputError`` for another extension or a write
    failure.
    """
    kinds = {".png": _png, ".svg": svg_of, ".pdf": _pdf}
    chosen, path = path, path if path.suffix else path.with_suffix(suffix)
    draw = kinds.get(path.suffix.lower())
    if draw is None:
        raise OutputError(
            f"“{path.name}” does not end in .png, .svg or .pdf; choose one of the three.",
            path=path,
        )
    save(path, draw(plot_widget), chosen)


def copy_plot(plot_widget: ThemedWidget) -> None:
    """Copy the picture of ``plot_widget`` to the clipboard."""
    QGuiApplication.clipboard().setPixmap(picture_of(plot_widget))


def picture_of(plot_widget: ThemedWidget) -> QPixmap:
    """The picture of ``plot_widget`` at ``PIXELS_A_POINT``."""
    pixmap = QPixmap(plot_widget.size() * PIXELS_A_POINT)
    pixmap.setDevicePixelRatio(PIXELS_A_POINT)
    with _as_picture(plot_widget):
        plot_widget.render(pixmap)
    return pixmap


def svg_of(plot_widget: ThemedWidget) -> bytes:
    """The picture of ``plot_widget`` as an SVG document with lines and text."""
    size, buffer = plot_widget.size(), QBuffer()
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setResolution(plot_widget.logicalDpiX())  # or else points become smaller pixels
    generator.setTitle(plot_widget.accessibleName())
    generator.setDescription(plot_widget.accessibleDescription())
    painter = QPainter(generator)
    with _as_picture(plot_widget):
        plot_widget.render(painter, QPoint())
    painter.end()
    return bytes(buffer.data().data())


@contextmanager
def _as_picture(plot_widget: ThemedWidget) -> Iterator[None]:
    """Without focus frames and controls, optionally on white, with symbols as outlines."""
    with _in_theme_of_pictures(plot_widget):
        buttons = plot_widget.findChildren(QAbstractButton)
        widgets = [plot_widget, *buttons, *plot_widget.findChildren(QComboBox)]
        scatters = [
            item
            for view in plot_widget.findChildren(QGraphicsView)
            for item in view.scene().items()
            if isinstance(item, pg.ScatterPlotItem)
        ]
        for widget in widgets:
            widget.setProperty(IN_PICTURE, True)
        plot_widget.show_as_picture(True)
        for item in scatters:
            item.setExportMode(True, {})
        try:
            yield
        finally:
            for widget in widgets:
                widget.setProperty(IN_PICTURE, False)
            plot_widget.show_as_picture(False)
            for item in scatters:
                item.setExportMode(False)


@contextmanager
def _in_theme_of_pictures(plot_widget: ThemedWidget) -> Iterator[None]:
    before = plot_widget.theme
    if pictures_on_white():
        plot_widget.set_theme(LIGHT)
    try:
        yield
    finally:
        plot_widget.set_theme(before)


def _png(plot_widget: ThemedWidget) -> bytes:
    buffer = QBuffer()
    picture_of(plot_widget).save(buffer, "PNG")
    return bytes(buffer.data().data())


def _pdf(plot_widget: ThemedWidget) -> bytes:
    """One page of the plot's size; a screen pixel is a unit of the page."""
    size, buffer, dots = plot_widget.size(), QBuffer(), plot_widget.logicalDpiX()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setResolution(dots)
    points = QSizeF(size) * (POINTS_AN_INCH / dots)
    exact = QPageSize.SizeMatchPolicy.ExactMatch
    writer.setPageSize(QPageSize(points, QPageSize.Unit.Point, "plot", exact))
    writer.setPageMargins(QMarginsF())
    writer.setTitle(plot_widget.accessibleName())
    writer.setCreator("ACE Workbench")
    painter = QPainter(writer)
    with _as_picture(plot_widget):
        plot_widget.render(painter, QPoint())
    painter.end()
    buffer.close()
    return bytes(buffer.data().data())
