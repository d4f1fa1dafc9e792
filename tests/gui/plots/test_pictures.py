"""Pictures for a paper: whole, filled, of the size asked for, whatever the window looks like."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QImage, QTransform
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow, QSplitter

from ace_gui.gui.plots.frame.base_plot import Plot, PlotWithTable
from ace_gui.gui.plots.frame.export_image import (
    PIXELS_A_POINT,
    PictureDialog,
    PictureFormat,
    ThemedWidget,
    copy_plot,
    grab_plot,
    in_format,
    legible,
)
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.plots.gamma_plot import GammaPlot
from ace_gui.gui.plots.spectrum_plot import SpectrumPlot
from ace_gui.gui.theme import LIGHT
from tests.gui.plots.drawn import BLOCKS, COLOURS, DRAWN, NAMES, ROLES, spectrum
from tests.helpers.windows import in_view

pytestmark = pytest.mark.usefixtures("light")

FORMATS = (PictureFormat(86, 60, 7), PictureFormat(180, 130, 10))
WINDOWS = ((560, 360), (1400, 900))
_MM_A_POINT = 25.4 / 72
_SVG = "{http://www.w3.org/2000/svg}"
every_plot = pytest.mark.parametrize("kind", DRAWN, ids=lambda kind: kind.__name__)


def placed(qtbot, plot: Plot, width: int, height: int) -> QMainWindow:
    """The plot as it is in the window: with its table, in a splitter, below a title."""
    window = QMainWindow()
    splitter = QSplitter(Qt.Orientation.Vertical)
    splitter.addWidget(QLabel("Layers"))
    splitter.addWidget(PlotWithTable(plot))
    window.setCentralWidget(splitter)
    in_view(qtbot, window, width=width, height=height)
    QApplication.processEvents()
    return window


def texts_of(drawing: Path) -> Iterator[tuple[str, QRectF]]:
    """Each text of an SVG drawing, and the rectangle that it covers there."""
    for group in ElementTree.parse(drawing).getroot().iter(f"{_SVG}g"):
        numbers = re.findall(r"-?[\d.]+(?:e-?\d+)?", group.get("transform", "1,0,0,1,0,0"))
        placing = QTransform(*map(float, numbers))
        for text in group.findall(f"{_SVG}text"):
            font = QFont(text.get("font-family", "").split(",")[0].strip("'\""))
            font.setPixelSize(max(1, round(float(text.get("font-size", "10")))))
            width = QFontMetricsF(font).horizontalAdvance(text.text or "")
            x = float(text.get("x", "0"))
            base = float(text.get("y", "0"))
            yield text.text or "", placing.mapRect(QRectF(x, base - 1, width, 1))


def filled(image: QImage) -> bool:
    """Whether no pixel is transparent and all four edges have the colour of the card."""
    image = image.convertToFormat(QImage.Format.Format_ARGB32)
    pixels = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.width(), 4)
    card = [int(LIGHT.card[start : start + 2], 16) for start in (5, 3, 1)]
    edges = pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]
    return bool((pixels[..., 3] == 255).all()) and all((e[:, :3] == card).all() for e in edges)


def difference(first: QImage, second: QImage) -> float:
    """The share of pixels in which two pictures differ visibly."""
    arrays = []
    for image in (first, second):
        grey = image.convertToFormat(QImage.Format.Format_Grayscale8)
        rows = np.frombuffer(grey.constBits(), np.uint8).reshape(grey.height(), -1)
        arrays.append(rows[:, : grey.width()].astype(np.int16))
    return float((np.abs(arrays[0] - arrays[1]) > 96).mean())


def check_sizes(folder: Path, form: PictureFormat, height: float) -> None:
    """All three pictures have the size in millimetres, and the bitmap is filled."""
    image = QImage(str(folder / "picture.png"))
    assert (image.width(), image.height()) == (
        round(form.width / 25.4 * 300),
        round(height / 25.4 * 300),
    )
    assert filled(image)
    document = (folder / "picture.pdf").read_bytes()
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", document)
    assert box is not None
    sizes = [float(side) * _MM_A_POINT for side in box.groups()]
    assert sizes == pytest.approx([form.width, height], abs=0.2)
    root = ElementTree.parse(folder / "picture.svg").getroot()
    sizes = [float(root.get(side, "").removesuffix("mm")) for side in ("width", "height")]
    assert sizes == pytest.approx([form.width, height], abs=0.2)


def check_texts(drawing: Path, last: str) -> None:
    """The last name is in the drawing, and no text is outside the page."""
    texts = list(texts_of(drawing))
    view = ElementTree.parse(drawing).getroot().get("viewBox", "")
    page = QRectF(*map(float, view.split())).adjusted(-0.5, -0.5, 0.5, 0.5)
    outside = [(text, box) for text, box in texts if not page.contains(box)]
    assert not outside
    assert any(last in text for text, _ in texts), [text for text, _ in texts]


def pictures(plot: ThemedWidget, folder: Path, form: PictureFormat) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for ending in ("png", "svg", "pdf"):
        grab_plot(plot, folder / f"picture.{ending}", form)


def test_every_kind_of_plot_is_looked_at():
    kinds = [SpecPlot]
    drawn_kinds = set()
    while kinds:
        kind = kinds.pop()
        below = [
            subclass
            for subclass in kind.__subclasses__()
            if subclass.__module__.startswith("ace_gui.")
        ]
        kinds += below
        if not below:
            drawn_kinds.add(kind)
    assert drawn_kinds <= set(DRAWN)


@every_plot
def test_a_picture_is_whole_whatever_the_size_of_the_window(qtbot, tmp_path, kind):
    make, last = DRAWN[kind]
    alone = in_view(qtbot, make(), width=700, height=500)
    windows = [placed(qtbot, make(), *size) for size in WINDOWS]
    for form in FORMATS:
        grab_plot(alone, tmp_path / "alone.png", form)
        expected = QImage(str(tmp_path / "alone.png"))
        for window in windows:
            plot = window.findChild(Plot)
            QApplication.processEvents()
            before = plot.geometry(), plot.grab().toImage()
            pictures(plot, tmp_path, form)
            check_sizes(tmp_path, form, form.height)
            check_texts(tmp_path / "picture.svg", last)
            assert not [text for text, _ in texts_of(tmp_path / "picture.svg") if "…" in text]
            assert difference(QImage(str(tmp_path / "picture.png")), expected) < 0.004
            QApplication.processEvents()
            assert plot.geometry() == before[0], "the window shows it as before"
            assert difference(plot.grab().toImage(), before[1]) == 0


@every_plot
def test_a_copied_picture_is_as_large_as_the_plot_and_filled(qtbot, kind):
    window = placed(qtbot, DRAWN[kind][0](), 700, 460)
    plot = window.findChild(Plot)
    copy_plot(plot)
    image = QApplication.clipboard().image()
    assert image.size() == plot.size() * PIXELS_A_POINT
    assert filled(image)


@pytest.mark.parametrize("kind", [k for k in DRAWN if hasattr(k, "by_block")])
@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_plots_of_every_block_are_large_enough_to_be_read(qtbot, tmp_path, kind, form):
    window = placed(qtbot, DRAWN[kind][0](), 560, 360)
    plot = window.findChild(Plot)
    layers = [spectrum(name) for name in NAMES[:: len(ROLES)]]
    grid = plot.by_block(layers, COLOURS) if kind is SpectrumPlot else plot.by_block()
    qtbot.addWidget(grid)
    assert len(grid.panels) == BLOCKS
    pictures(grid, tmp_path, form)
    check_sizes(tmp_path, form, legible(grid, form).height)
    check_texts(tmp_path / "picture.svg", f"Block {BLOCKS - 1}")
    with in_format(grid, legible(grid, form)):
        grid.show_as_picture(True)
        grid.grab()
        sizes = [panel.canvas.getViewBox().size() for panel in grid.panels]
    line = form.points / 72 * 96
    assert min(size.height() for size in sizes) >= 5 * line
    assert min(size.width() for size in sizes) >= 5 * line


def test_the_dialog_offers_only_heights_from_which_every_block_can_be_read(qtbot):
    window = placed(qtbot, DRAWN[GammaPlot][0](), 560, 360)
    plot = window.findChild(GammaPlot)
    grid = plot.by_block()
    qtbot.addWidget(grid)
    used: list[PictureFormat] = []
    dialog = PictureDialog(used.append, grid, plot)
    lowest = dialog.down.minimum()
    assert lowest > 80
    dialog.across.setValue(60)
    assert dialog.down.minimum() > lowest
    dialog.accept()
    assert used[0].height == legible(grid, used[0]).height == dialog.down.value()
    single = PictureDialog(used.append, plot, plot)
    assert single.down.minimum() == 30
    single.reject()


@pytest.mark.parametrize("size", [(1280, 720), (1600, 1000)], ids=str)
def test_the_pictures_of_the_whole_window_are_whole(loaded, qtbot, tmp_path, size):
    loaded.resize(*size)
    loaded.session.select("layer.10.q")
    QApplication.processEvents()
    plots = [plot for plot in loaded.findChildren(Plot) if plot.isVisible() and not plot.message()]
    assert GammaPlot in map(type, plots)
    for plot in plots:
        before = plot.geometry()
        for form in FORMATS:
            pictures(plot, tmp_path, form)
            check_sizes(tmp_path, form, form.height)
            check_texts(tmp_path / "picture.svg", "10" if isinstance(plot, GammaPlot) else "")
        QApplication.processEvents()
        assert plot.geometry() == before
