"""The drawing area of a plot: a view of the data with axes around it.

pyqtgraph's ``PlotItem`` creates a hidden menu of some ninety widgets per plot, which is slow to
create and must follow every palette change. This class only has its layout.
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGraphicsGridLayout, QGraphicsItem, QSizePolicy

# isort: split
import pyqtgraph as pg

from ace_gui.gui.plots.frame.axes import QuantityAxis, label_overhang

_PLACES: Final = {"bottom": (3, 1), "left": (2, 0), "right": (2, 2)}
_VIEW: Final = (2, 1)
_FREE: Final = 8  # px next to the text at an axis end
_LOW: Final = 15  # in text lines: a lower plot has no horizontal axis title
_MOST: Final = 0.6  # the part of the axis that such text takes


class _View(pg.ViewBox):
    """A view box that leaves the right mouse button to the context menu."""

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        if event.button() == Qt.MouseButton.RightButton:
            event.ignore()
        else:
            super().mouseDragEvent(event, axis)


class Canvas(pg.GraphicsView):
    """No menu and no buttons of pyqtgraph's own. ``left``: the pointer is elsewhere now.

    ``grid``: a layout with the view in its middle; a colour scale may join it. ``in_picture``: a
    picture always has the title of the horizontal axis, which else leaves a low plot to the data.
    """

    left = Signal()

    def __init__(self, bottom: pg.AxisItem, left: pg.AxisItem) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.enableMouse(False)
        self.in_picture = False
        self._view, self._axes = _View(enableMenu=False), dict[str, pg.AxisItem]()
        self.grid = QGraphicsGridLayout()
        self.grid.setContentsMargins(1, 1, 1, 1)
        self.grid.setSpacing(0)
        self.grid.addItem(self._view, *_VIEW)
        self.grid.setRowStretchFactor(_VIEW[0], 1)
        self.grid.setColumnStretchFactor(_VIEW[1], 1)
        self.frame = pg.GraphicsWidget()
        self.frame.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.frame.setLayout(self.grid)
        self.add_axis("bottom", bottom)
        self.add_axis("left", left)
        self.setCentralItem(self.frame)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.setFrameShape(self.Shape.NoFrame)
        # a cached background would be a bitmap in SVG
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        # pyqtgraph does this while painting, which would cause a complete second paint.
        self._view.sigStateChanged.connect(self.scene().prepareForPaint)

    def add_axis(self, side: str, axis: pg.AxisItem) -> None:
        """Put an axis at its side: ``left``, ``right`` or ``bottom``."""
        axis.linkToView(self._view)
        axis.setFlag(QGraphicsItem.GraphicsItemFlag.ItemNegativeZStacksBehindParent)
        axis.setZValue(-1)  # grid lines belong behind the data
        self.grid.addItem(axis, *_PLACES[side])
        self._axes[side] = axis
        self.fit_letters()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        if event is not None:  # pyqtgraph's own call
            self.fit_height(event.size().height())
        super().resizeEvent(event)

    def fit_height(self, height: int) -> None:
        """Show or hide the title of the horizontal axis."""
        axis = self._axes["bottom"]
        if isinstance(axis, QuantityAxis):
            low = height < _LOW * self.fontMetrics().height()
            axis.set_low(low and not self.in_picture)

    def viewportEvent(self, event: QEvent) -> bool:
        """A plot shows values itself; Qt's own tooltips of items, all empty, would hide them."""
        return event.type() == QEvent.Type.ToolTip or super().viewportEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.left.emit()

    def fit_letters(self) -> None:
        """Reserve space for the last number of the horizontal axis, unless names are there."""
        after = 0 if "right" in self._axes else 0.8 * label_overhang()
        self.frame.setContentsMargins(0, 4, after, 0)

    def getViewBox(self) -> pg.ViewBox:
        """The view of the data."""
        return self._view

    def getAxis(self, side: str) -> pg.AxisItem:
        """The axis at ``left``, ``right`` or ``bottom``. KeyError if there is none."""
        return self._axes[side]

    def addItem(self, item: QGraphicsItem) -> None:
        """Add an item to the data; it does not affect the visible range."""
        self._view.addItem(item, ignoreBounds=True)

    def removeItem(self, item: QGraphicsItem) -> None:
        """Remove an item."""
        self._view.removeItem(item)


def room_at_end(length: float, span: float, pixels: float) -> float:
    """How much longer than ``span`` an axis of this length must be to have ``pixels`` free."""
    share = min((pixels + _FREE) / max(length, 1.0), _MOST)
    return span * share / (1 - share)
