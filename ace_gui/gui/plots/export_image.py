"""A plot as a picture: PNG, SVG or the clipboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QBuffer, QPoint, QRect
from PySide6.QtGui import QGuiApplication, QPainter, QPixmap
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QAbstractButton, QGraphicsView, QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.errors import OutputError

PIXELS_A_POINT = 2.0
"""Pictures have twice the screen's resolution, so that they stay sharp in a document."""

IN_PICTURE = "inPicture"
"""Property of a plot and its buttons while they are drawn into a picture."""

FILTERS = "PNG picture (*.png);;SVG drawing (*.svg)"


def grab_plot(plot_widget: QWidget, path: Path) -> None:
    """Write the picture of ``plot_widget`` to ``path``, as its ending says: .png or .svg.

    Raises ``OutputError`` for another ending or where the file cannot be written.
    """
    kinds = {".png": _png, ".svg": _svg}
    draw = kinds.get(path.suffix.lower())
    if draw is None:
        raise OutputError(
            f"“{path.name}” does not end in .png or .svg; choose one of the two.", path=path
        )
    try:
        path.write_bytes(draw(plot_widget))
    except OSError as error:
        raise OutputError(
            f"The picture “{path}” cannot be written; choose a folder you may write to.",
            path=path,
            details=str(error),
        ) from error


def copy_plot(plot_widget: QWidget) -> None:
    """Put the picture of ``plot_widget`` on the clipboard."""
    QGuiApplication.clipboard().setPixmap(picture_of(plot_widget))


def picture_of(plot_widget: QWidget) -> QPixmap:
    """The picture of ``plot_widget`` at ``PIXELS_A_POINT``."""
    pixmap = QPixmap(plot_widget.size() * PIXELS_A_POINT)
    pixmap.setDevicePixelRatio(PIXELS_A_POINT)
    with _as_picture(plot_widget):
        plot_widget.render(pixmap)
    return pixmap


@contextmanager
def _as_picture(plot_widget: QWidget) -> Iterator[None]:
    """Without focus frames and controls, and with symbols drawn as outlines, not as pixels."""
    widgets = [plot_widget, *plot_widget.findChildren(QAbstractButton)]
    scatters = [
        item
        for view in plot_widget.findChildren(QGraphicsView)
        for item in view.scene().items()
        if isinstance(item, pg.ScatterPlotItem)
    ]
    for widget in widgets:
        widget.setProperty(IN_PICTURE, True)
    for item in scatters:
        item.setExportMode(True, {})
    try:
        yield
    finally:
        for widget in widgets:
            widget.setProperty(IN_PICTURE, False)
        for item in scatters:
            item.setExportMode(False)


def _png(plot_widget: QWidget) -> bytes:
    buffer = QBuffer()
    picture_of(plot_widget).save(buffer, "PNG")
    return bytes(buffer.data().data())


def _svg(plot_widget: QWidget) -> bytes:
    size, buffer = plot_widget.size(), QBuffer()
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setResolution(plot_widget.logicalDpiX())  # else points become smaller pixels
    generator.setTitle(plot_widget.accessibleName())
    generator.setDescription(plot_widget.accessibleDescription())
    painter = QPainter(generator)
    with _as_picture(plot_widget):
        plot_widget.render(painter, QPoint())
    painter.end()
    return bytes(buffer.data().data())
