"""All that is wrong with a window, a dialog or a menu as it is now, and its picture."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRectF, QSize
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from tests.walk import faults, painted, reached, readable

_RECORDER = painted.Recorder()


def look_at(root: QWidget, room: QSize) -> tuple[QImage, list[str]]:
    """Its picture, and one line a fault, on a screen of ``room``."""
    picture, texts = _RECORDER.grab(root)
    covers = [each for each in root.findChildren(QWidget) if faults.is_free(each)]
    seen = [text for text in texts if not _is_covered(text, covers, root)]
    labels = [text for text in painted.labels(root) if not _is_covered(text, covers, root)]
    found = [
        *faults.faults_in(root, room),
        *painted.faults_of(seen),
        *readable.faults_of(picture, [*seen, *labels]),
        *reached.faults_in(root),
    ]
    return picture, found


def _is_covered(text: painted.Painted, covers: list[QWidget], root: QWidget) -> bool:
    """Whether a message lies over it."""
    return any(
        cover.isVisible()
        and not cover.isAncestorOf(text.by)
        and QRectF(cover.rect()).translated(cover.mapTo(root, QPoint(0, 0))).intersects(text.seen)
        for cover in covers
    )
