"""Buttons, actions of a widget, the button that shows progress, segments to choose from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QColor,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPainterPath,
    QPaintEvent,
)
from PySide6.QtWidgets import QButtonGroup, QFrame, QPushButton, QToolButton, QWidget

from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import RADIUS
from ace_gui.gui.widgets.layout.arrangement import across

PROGRESS_WIDTH: Final = 168  # px: "12 of 24 · 0:04 left" does not move while it counts


def action_button(
    action: QAction, text: str, parent: QWidget | None = None, *, kind: str = "secondary"
) -> QPushButton:
    """A button that triggers ``action`` and follows its enabled state; ``kind``: its look."""
    button = _ActionButton(action, text, parent)
    button.setFont(face(Face.STRONG if kind == "primary" else Face.BUTTON))
    button.setProperty("kind", kind)
    button.setAccessibleName(text.removesuffix("…"))
    return button


def push_button(
    text: str,
    pressed: Callable[[], object],
    *,
    kind: str = "",
    tip: str = "",
    name: str = "",
    role: Face | None = None,
    parent: QWidget | None = None,
) -> QPushButton:
    """A button that Enter in a field does not press. ``name``: if the text says too little."""
    button = QPushButton(text, parent)
    if kind:
        button.setProperty("kind", kind)
    if role is not None or kind in ("tinted", "primary"):
        button.setFont(face(role or Face.STRONG))
    button.setAccessibleName(name or text.replace("&", "").removesuffix("…"))
    button.setToolTip(tip)
    button.setAutoDefault(False)
    button.clicked.connect(lambda _=False: pressed())
    return button


def tool_button(text: str, tip: str, pressed: Callable[[], object] | None = None) -> QToolButton:
    """A small button, named by its tooltip."""
    button = QToolButton()
    button.setText(text)
    button.setAccessibleName(tip)
    button.setToolTip(tip)
    if pressed is not None:
        button.clicked.connect(lambda _=False: pressed())
    return button


def widget_action(
    widget: QWidget,
    text: str,
    act: Callable[[], object],
    key: QKeySequence.StandardKey | str = "",
    tip: str = "",
) -> QAction:
    """An action of a widget, by this key while it or a widget in it has the focus."""
    action = QAction(text, widget)
    if tip:
        action.setToolTip(tip)
    if key:
        action.setShortcut(QKeySequence(key))
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    action.triggered.connect(lambda _=False: act())
    widget.addAction(action)
    return action


class _ActionButton(QPushButton):
    def __init__(self, action: QAction, text: str, parent: QWidget | None) -> None:
        super().__init__(text, parent)
        self._action = action
        self.clicked.connect(lambda _=False: action.trigger())
        action.changed.connect(self._follow)
        self._follow()

    def _follow(self) -> None:
        self.setToolTip(self._action.toolTip())
        self.setEnabled(self._action.isEnabled())


class ProgressButton(QPushButton):
    """``share`` None: an ordinary button; else the progress, 0 to 1, filled from the left."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFont(face(Face.STRONG))
        self.share: float | None = None

    def show_progress(self, share: float, text: str) -> None:
        """Show progress; pressing the button does nothing."""
        self.share = min(max(share, 0.0), 1.0)
        self.setText(text)
        self.setAccessibleName(f"Progress: {text}")
        self.update()

    def show_action(self, text: str, tip: str) -> None:
        """Be a button again."""
        self.share = None
        self.setText(text)
        self.setAccessibleName(text.removesuffix("…"))
        self.setToolTip(tip)

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        return (
            hint if self.share is None else QSize(max(hint.width(), PROGRESS_WIDTH), hint.height())
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.share is None:
            super().paintEvent(event)
            return
        theme, rect = current_theme(), QRectF(self.rect())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QPainterPath()
        outline.addRoundedRect(rect, RADIUS, RADIUS)
        painter.setClipPath(outline)
        done = QRectF(rect.left(), rect.top(), rect.width() * self.share, rect.height())
        rest = QRectF(done.right(), rect.top(), rect.width() - done.width(), rect.height())
        for part, ground, ink in (
            (done, theme.accent, theme.on_accent),
            (rest, theme.tint, theme.accent_on_tint),
        ):
            painter.setClipRect(part, Qt.ClipOperation.ReplaceClip)
            painter.fillPath(outline, QColor(ground))
            painter.setPen(QColor(ink))
            painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, self.text())


class Segments(QFrame):
    """``chosen`` carries the index of the segment that the user chose.

    The chosen one takes the focus; left and right move between segments.
    """

    chosen = Signal(int)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "segments")
        self.setAccessibleName(name)
        self._group = QButtonGroup(self)
        self._group.idClicked.connect(self.chosen)
        self._row = across(margins=(2, 2, 2, 2), gap=0)
        self.setLayout(self._row)

    def add(self, title: str, tip: str) -> QPushButton:
        """Append a segment; the first one is chosen."""
        button = QPushButton(title, self)
        button.setFont(face(Face.BUTTON))
        button.setCheckable(True)
        button.setToolTip(tip)
        button.setAccessibleName(title)
        index = len(self._group.buttons())
        self._group.addButton(button, index)
        self._row.addWidget(button)
        button.setChecked(index == 0)
        return button

    @property
    def current(self) -> int:
        """The index of the chosen one."""
        return self._group.checkedId()

    def choose(self, index: int) -> None:
        """Choose one without a signal."""
        self._group.button(index).setChecked(True)

    def set_title(self, index: int, title: str) -> None:
        """Set the text of a segment."""
        button = self._group.button(index)
        button.setText(title)
        button.setAccessibleName(title)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        index = self.current + step
        button = self._group.button(index)
        if step == 0 or button is None or not button.isEnabled():
            super().keyPressEvent(event)
            return
        button.setFocus(Qt.FocusReason.OtherFocusReason)
        button.click()
