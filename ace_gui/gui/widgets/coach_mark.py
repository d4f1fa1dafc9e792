"""A bubble that explains a control, and a ring around the control."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QPushButton, QToolButton, QWidget
from shiboken6 import isValid

from ace_gui.gui.theme import Face, current_theme, icon
from ace_gui.gui.theme.painting import rounded
from ace_gui.gui.widgets.labels import plain_label
from ace_gui.gui.widgets.layout import across, down

_WIDTH: Final = 22  # lines of text
_GAP: Final = 10  # px between the bubble and its control
_RING: Final = 4  # px around the control
_FOLLOWS: Final = 100  # ms between updates of the position, as panels appear, collapse and move


class CoachMark(QFrame):
    """A bubble over ``window`` that follows a control. It takes neither focus nor clicks.

    Its buttons emit ``next_wanted`` and ``end_wanted``.
    """

    next_wanted = Signal()
    end_wanted = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._ring = _Ring(window)
        self._target: QWidget | None = None
        self._follow = QTimer(self, interval=_FOLLOWS)
        self._follow.timeout.connect(self._arrange)
        self.setProperty("kind", "toast")
        self.counter = plain_label(wrap=False, kind="on-toast", role=Face.CAPTION)
        self.sentence = plain_label(kind="on-toast")
        self.end = QToolButton(self)
        self.end.setIcon(icon("cancel", "toast_text"))
        self.end.setToolTip("End the tour")
        self.end.setAccessibleName("End the tour")
        self.next = QPushButton(self)
        self.next.setProperty("kind", "link")
        self.end.clicked.connect(lambda _=False: self.end_wanted.emit())
        self.next.clicked.connect(lambda _=False: self.next_wanted.emit())
        self._picture: QWidget | None = None
        head = across((self.counter, 1), self.end)
        foot = across(None, self.next)
        self._column = down(head, self.sentence, foot, margins=(14, 8, 10, 8), gap=4)
        self.setLayout(self._column)
        self.hide()

    def point(
        self,
        target: QWidget | None,
        step: str,
        sentence: str,
        onward: str,
        picture: QWidget | None = None,
    ) -> None:
        """Show a sentence at a control, with a picture below it. ``step``: its number and the
        total; ``onward``: the text of the button."""
        self._target = target
        if self._picture is not None:
            self._picture.hide()
            self._picture.deleteLater()
        self._picture = picture
        if picture is not None:
            self._column.insertWidget(2, picture)
            picture.show()
        self.counter.setText(step)
        self.sentence.setText(sentence)
        self.next.setText(onward)
        self.next.setAccessibleName(onward)
        self.setAccessibleName(f"{step}: {sentence}")
        self._follow.start()
        self.show()
        self._arrange()
        self._ring.raise_()
        self.raise_()
        QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.Alert))

    def leave(self) -> None:
        self._target = None
        self._follow.stop()
        for part in (self._ring, self):
            part.hide()
            part.deleteLater()

    def _arrange(self) -> None:
        """Move to the control. Nothing is repainted if it has not moved."""
        window = self._window
        target = self._target
        width = min(_WIDTH * self.fontMetrics().height(), window.width() - 2 * _GAP)
        size = QSize(width, max(self.heightForWidth(width), self.minimumSizeHint().height()))
        in_window = target is not None and isValid(target) and target.window() is window.window()
        visible = in_window and target is not None and target.isVisibleTo(window)
        self._ring.setVisible(visible)
        if target is None or not visible:
            at = QPoint((window.width() - width) // 2, window.height() - size.height() - 4 * _GAP)
        else:
            where = QRect(target.mapTo(window, QPoint(0, 0)), target.size())
            self._ring.setGeometry(where.adjusted(-_RING, -_RING, _RING, _RING))
            at = next_to(where, size, window.rect())
        self.setGeometry(QRect(at, size))


class _Ring(QWidget):
    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setProperty("kind", "ring")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        ring = QRectF(self.rect())
        rounded(QPainter(self), ring, border=current_theme().accent, width=2.0, corner=8.0)


def next_to(where: QRect, size: QSize, room: QRect) -> QPoint:
    """The position of a bubble: below its control ``where``, above it, next to it, or within it."""
    middle = QRect(QPoint(), size)
    middle.moveCenter(where.center())
    choices = (
        QPoint(middle.left(), where.bottom() + _GAP),
        QPoint(middle.left(), where.top() - _GAP - size.height()),
        QPoint(where.right() + _GAP, middle.top()),
        QPoint(where.left() - _GAP - size.width(), middle.top()),
        QPoint(middle.left(), where.bottom() - size.height() - _GAP),
    )
    for at in choices:
        inside = QPoint(
            min(max(at.x(), _GAP), room.width() - size.width() - _GAP),
            min(max(at.y(), _GAP), room.height() - size.height() - _GAP),
        )
        if not QRect(inside, size).intersects(where):
            return inside
    return inside
