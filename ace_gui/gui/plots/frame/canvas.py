"""The drawing area of a plot: a view of the data with axes around it.

pyqtgraph's ``PlotItem`` creates a hidden menu of some ninety widgets per plot, which is slow to
create and must follow every palette change. This class only has its layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGraphicsGridLayout, QGraphicsItem, QSizePolicy

# isort: split
import pyqtgraph as pg

from ace_gui.gui.plots.frame.axes import QuantityAxis, label_overhang

_PLACES: Final = {"top": (1, 1), "bottom": (3, 1), "left": (2, 0), "right": (2, 2)}
_VIEW: Final = (2, 1)
_FREE: Final = 8  # px next to the text at an axis end
_LOW: Final = 15  # in text lines: a lower plot has no horizontal axis title
_MOST: Final = 0.6  # the part of the axis that such text takes


class _View(pg.ViewBox):
    """A view box that leaves the right mouse button to the context menu."""

    def mouseDragEvent(self, event: object, axis: int | None = None) -> None:
        if event.button() == Qt.MouseButton.RightButton:  # type: ignore[attr-defined]
            event.ignore()  # type: ignore[attr-defined]
            return
        super().mouseDragEvent(event, axis)


class Frame(pg.GraphicsWidget):
    """``layout``: a grid with the view in its middle; a colour scale may join it."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.view = _View(enableMenu=False)
        self.axes: dict[str, pg.AxisItem] = {}
        self.layout = QGraphicsGridLayout()
        self.layout.setContentsMargins(1, 1, 1, 1)
        self.layout.setSpacing(0)
        self.layout.addItem(self.view, *_VIEW)
        self.layout.setRowStretchFactor(_VIEW[0], 1)
        self.layout.setColumnStretchFactor(_VIEW[1], 1)
        self.setLayout(self.layout)

    def add_axes(self, axes: Mapping[str, pg.AxisItem]) -> None:
        """Put axes at their sides: ``left``, ``right``, ``top`` or ``bottom``."""
        for side, axis in axes.items():
            axis.linkToView(self.view)
            axis.setFlag(QGraphicsItem.GraphicsItemFlag.ItemNegativeZStacksBehindParent)
            axis.setZValue(-1)  # grid lines belong behind the data
            self.layout.addItem(axis, *_PLACES[side])
            self.axes[side] = axis


class Canvas(pg.GraphicsView):
    """No menu and no buttons of pyqtgraph's own. ``left``: the pointer is elsewhere now."""

    left = Signal()

    def __init__(self, bottom: pg.AxisItem, left: pg.AxisItem) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.enableMouse(False)
        self.in_picture = False
        self.is_low = False
        """Whether the title of the horizontal axis leaves its room to the data."""
        self.frame = Frame()
        self.frame.add_axes({"bottom": bottom, "left": left})
        self.setCentralItem(self.frame)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.setFrameShape(self.Shape.NoFrame)
        # a cached background would be a bitmap in SVG
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        self.fit_letters()
        for axis in (bottom, left):
            axis.setStyle(hideOverlappingLabels=False)
        # pyqtgraph does this while painting, which would cause a complete second paint.
        self.frame.view.sigStateChanged.connect(self.scene().prepareForPaint)

    def resizeEvent(self, event: QResizeEvent) -> None:
        axis = self.frame.axes.get("bottom") if event is not None else None  # pyqtgraph's own call
        if isinstance(axis, QuantityAxis):
            self.is_low = event.size().height() < _LOW * self.fontMetrics().height()
            axis.make_room(low=self.is_low and not self.in_picture)
        super().resizeEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        """A plot shows values itself; Qt's own tooltips of items, all empty, would hide them."""
        return event.type() == QEvent.Type.ToolTip or super().viewportEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.left.emit()

    def fit_letters(self) -> None:
        """Reserve space for the last number of the horizontal axis, unless names are there."""
        named = "right" in self.frame.axes
        self.frame.setContentsMargins(0, 4, 0 if named else 0.8 * label_overhang(), 0)

    def getViewBox(self) -> pg.ViewBox:
        """The view of the data."""
        return self.frame.view

    def getAxis(self, side: str) -> pg.AxisItem:
        """The axis at ``left``, ``right``, ``top`` or ``bottom``. KeyError if there is none."""
        return self.frame.axes[side]

    def addItem(self, item: QGraphicsItem, *, ignoreBounds: bool = False) -> None:
        """Add an item to the data; with ``ignoreBounds`` it does not affect the visible range."""
        self.frame.view.addItem(item, ignoreBounds=ignoreBounds)

    def removeItem(self, item: QGraphicsItem) -> None:
        """Remove an item."""
        self.frame.view.removeItem(item)


def room_at_end(view: pg.ViewBox, span: float, pixels: float) -> float:
    """How much longer than ``span`` an axis must be to have ``pixels`` free at its end."""
    share = min((pixels + _FREE) / max(view.width(), 1.0), _MOST)
    return span * share / (1 - share)
