"""Symbols of one style look as pyqtgraph draws them, however they are looked up."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from ace_gui.gui.plots.frame.items import Points


def drawn(qtbot: QtBot, item: pg.ScatterPlotItem) -> QImage:
    """A picture of the item after its style and its points were changed twice."""
    canvas = pg.PlotWidget()
    qtbot.addWidget(canvas)
    canvas.resize(200, 120)
    canvas.addItem(item)
    canvas.setRange(xRange=(0, 4), yRange=(0, 4), padding=0)
    item.setData(x=[1, 2], y=[1, 2], size=9, symbol="s")
    item.setPen(pg.mkPen("#aa0000", width=2))
    item.setBrush(pg.mkBrush("#0000aa"))
    canvas.grab()
    item.setData(x=[1, np.nan, 3], y=[3, 1, 2], size=7, symbol="t1")
    item.setBrush(pg.mkBrush("#00aa00"))
    return canvas.grab().toImage()


def test_points_look_as_those_of_pyqtgraph(qtbot: QtBot) -> None:
    found, wanted = drawn(qtbot, Points()), drawn(qtbot, pg.ScatterPlotItem())
    assert found == wanted
    colours = {found.pixelColor(x, y).name() for x in range(200) for y in range(120)}
    assert {"#00aa00", "#aa0000"} <= colours
    assert "#0000aa" not in colours
