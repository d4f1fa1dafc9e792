"""The names of single points, next to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QFont

# isort: split
import pyqtgraph as pg

_GAP: Final = 11.0  # px between a point and its name
_LEVELS: Final = (0.5, 1.5, -0.5, 2.5, -1.5)  # vertical anchors of a name
_SYMBOL: Final = 5.0  # px: radius of a symbol


def place_names(
    names: Sequence[pg.TextItem],
    view: pg.ViewBox,
    symbols_S2: NDArray[np.float64],
    taken: list[QRectF],
) -> None:
    """Put each name where it covers the fewest of the symbols and nothing that is ``taken``.

    Names that would be cut or overlap are hidden, unless they are strong; the pointer and the
    table show them.
    """
    (across, up), whole = view.viewPixelSize(), view.sceneBoundingRect()
    if not (across > 0 and up > 0):  # not laid out yet
        return
    zero = view.mapViewToScene(QPointF(0, 0))
    symbols_S2 = symbols_S2 / (across, -up) + (zero.x(), zero.y())
    strong = {name for name in names if name.textItem.font().weight() > QFont.Weight.Medium}
    for name in sorted(names, key=lambda name: name not in strong):
        point, size = view.mapViewToScene(name.pos()), name.textItem.boundingRect()
        gap = _GAP / max(1.0, size.width())
        choices = []
        for level in _LEVELS:
            for side in (-gap, 1 + gap):
                left, top = point.x() - side * size.width(), point.y() - level * size.height()
                box = size.translated(left, top)
                cut, covers = _cut(box, whole), any(map(box.intersects, taken))
                cost = cut, _inside(symbols_S2, box), covers
                choices.append((cost, cut > 0 or covers, box, (side, level)))
        _, faulty, box, anchor = min(choices, key=lambda choice: choice[0])
        name.setAnchor(anchor)
        name.setVisible(name in strong or not faulty)
        if name.isVisible():
            taken.append(box)


def _cut(box: QRectF, whole: QRectF) -> float:
    """The pixels by which a box extends beyond the whole."""
    across = max(whole.left() - box.left(), box.right() - whole.right())
    return max(0.0, across, whole.top() - box.top(), box.bottom() - whole.bottom())


def _inside(points_S2: NDArray[np.float64], box: QRectF) -> int:
    """The number of symbols that a box covers, in pixels; NaN is never covered."""
    low, high = np.array([[box.left(), box.top()], [box.right(), box.bottom()]])
    return int(((points_S2 >= low - _SYMBOL) & (points_S2 <= high + _SYMBOL)).all(axis=1).sum())
