"""The floating message at the lower left, over the inputs and never over results."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEasingCurve, QEvent, QObject, QPoint, QPropertyAnimation, QTimer
from PySide6.QtWidgets import QWidget

from ace_gui.gui.panels.notice import Notice

WIDTH: Final = 272  # px, scaled with the font size
STAYS: Final = 6_000  # ms; errors, warnings and questions stay until they are dismissed
_SLIDE: Final = 160  # ms
_MARGIN: Final = 8  # px


class Toast(QObject):
    """Places a notice over ``ground``, slides it in, and hides simple messages after a while.

    The timer stops while the pointer is over it.
    """

    def __init__(self, notice: Notice, ground: QWidget) -> None:
        super().__init__(ground)
        self._notice, self._ground = notice, ground
        self._clock = QTimer(self, singleShot=True, interval=STAYS)
        self._clock.timeout.connect(notice.hide)
        self._slide = QPropertyAnimation(notice, b"pos", self)
        self._slide.setEasingCurve(QEasingCurve.Type.OutCubic)
        notice.shown.connect(self._show)
        notice.details_button.toggled.connect(lambda _: self._place())
        for watched in (ground, notice):
            watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if watched is self._ground and kind == QEvent.Type.Resize:
            self._place()
        elif watched is self._notice:
            if kind in (QEvent.Type.Enter, QEvent.Type.Hide):
                self._clock.stop()
            elif kind == QEvent.Type.Leave:
                self._wind_up()
            elif kind == QEvent.Type.LayoutRequest:
                self._place()
        return False

    def _show(self) -> None:
        self._wind_up()
        self._place()
        self._notice.raise_()
        end = self._notice.pos()
        self._slide.stop()
        self._slide.setDuration(_SLIDE)
        self._slide.setStartValue(end + QPoint(0, 24))
        self._slide.setEndValue(end)
        self._slide.start()

    def _wind_up(self) -> None:
        if self._notice.passes and self._notice.isVisible():
            self._clock.start()
        else:
            self._clock.stop()

    def _place(self) -> None:
        notice, ground = self._notice, self._ground
        width_of_letter = notice.fontMetrics().averageCharWidth()
        width = min(max(WIDTH, 36 * width_of_letter), ground.width() - 2 * _MARGIN)
        height = max(notice.heightForWidth(width), notice.minimumSizeHint().height())
        height = min(height, ground.height() - 2 * _MARGIN)
        self._slide.stop()
        notice.setGeometry(_MARGIN, ground.height() - height - _MARGIN, width, height)
