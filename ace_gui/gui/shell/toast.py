"""The floating message: news at the lower left, questions below the button that asked them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import (
    QEasingCurve,
    QEvent,
    QObject,
    QPoint,
    QPropertyAnimation,
    QRect,
    QSize,
    QTimer,
)
from PySide6.QtWidgets import QApplication, QWidget

from ace_gui.gui.panels.notice import Notice

WIDTH: Final = 272  # px, scaled with the font size
STAYS: Final = 6_000  # ms; errors, warnings and questions stay until they are dismissed
_SLIDE: Final = 160  # ms
_MARGIN: Final = 8  # px


class Toast(QObject):
    """Places a notice over ``ground``, slides it in, and hides simple messages after a while.

    The timer stops while the pointer is over it. ``subject``: what questions are about, and so do
    not cover.
    """

    def __init__(
        self, notice: Notice, ground: QWidget, subject: Callable[[], QWidget | None]
    ) -> None:
        super().__init__(ground)
        self._notice, self._ground, self._subject = notice, ground, subject
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
        low, right = ground.height() - height - _MARGIN, ground.width() - width - _MARGIN
        subject = self._subject()
        if subject is not None and subject.isVisible() and subject.window() is ground.window():
            left_of_subject = subject.mapTo(ground, QPoint()).x() - width - _MARGIN
            right = left_of_subject if left_of_subject > ground.width() // 3 else right
        corners = QPoint(_MARGIN, low), QPoint(right, _MARGIN), QPoint(_MARGIN, _MARGIN)
        if not notice.passes:  # what is answered stands where it was asked
            corners = corners[1:] + corners[:1]
        edited = self._edited()
        areas = [QRect(corner, QSize(width, height)) for corner in corners]
        free = [area for area in areas if not area.intersects(edited)]
        notice.setGeometry((free or areas)[0])

    def _edited(self) -> QRect:
        """Where the person types or has just chosen something, if that is in the window."""
        focused, ground = QApplication.focusWidget(), self._ground
        if (
            focused is None
            or not ground.isAncestorOf(focused)
            or focused.window() != ground.window()
        ):
            return QRect()
        if self._notice.isAncestorOf(focused):
            return QRect()
        return QRect(focused.mapTo(ground, QPoint()), focused.size())
