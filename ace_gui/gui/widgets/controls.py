"""Buttons, actions of a widget, segments, choices and fields, with their accessible names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, TypeVar

from PySide6.QtCore import QEvent, QRectF, QSignalBlocker, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QColor,
    QHideEvent,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFrame,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QSpinBox,
    QStyle,
    QStyleOptionComboBox,
    QToolButton,
    QWidget,
)

from ace_gui.gui.text import quoted, tooltip
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.painting import RADIUS, rounded
from ace_gui.gui.widgets.layout import across, on_font_change

PROGRESS_WIDTH: Final = 168  # px: a button with "12 of 24 · 0:04 left" keeps this width


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
) -> QPushButton:
    """A button that Enter in a field does not press. ``name``: if the text says too little."""
    button = QPushButton(text)
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


class FoldButton(QToolButton):
    """Folds a part of the window and unfolds it again. ``what``: the part, as in "Fold …".

    ``upwards``: the part folds towards what is above it.
    """

    def __init__(self, what: str, pressed: Callable[[], object], *, upwards: bool) -> None:
        super().__init__()
        self._what = what
        arrows = [Qt.ArrowType.UpArrow, Qt.ArrowType.DownArrow]
        self._arrow_of_fold, self._arrow_of_unfold = arrows if upwards else arrows[::-1]
        self.clicked.connect(lambda _=False: pressed())
        self.show_folded(False)

    def show_folded(self, folded: bool) -> None:
        """Say what the next press does."""
        if folded:
            words = f"Unfold {self._what}"
            arrow = self._arrow_of_unfold
        else:
            words = f"Fold {self._what}"
            arrow = self._arrow_of_fold
        named(self, words, words)
        self.setArrowType(arrow)


def widget_action(
    widget: QWidget,
    text: str,
    act: Callable[[], object],
    key: QKeySequence.StandardKey | str = "",
    tip: str = "",
) -> QAction:
    """An action of a widget; its key works while the widget or one inside it has the focus."""
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
    """A button that also shows progress. ``share``: the filled part, 0 to 1; None: no progress."""

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
        """Show a button again, without progress."""
        self.share = None
        self.setText(text)
        self.setAccessibleName(text.removesuffix("…"))
        self.setToolTip(tip)

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        if self.share is None:
            return hint
        return QSize(max(hint.width(), PROGRESS_WIDTH), hint.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.share is None:
            super().paintEvent(event)
            return
        theme = current_theme()
        rect = QRectF(self.rect())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QPainterPath()
        outline.addRoundedRect(rect, RADIUS, RADIUS)
        painter.setClipPath(outline)
        done = QRectF(rect.left(), rect.top(), rect.width() * self.share, rect.height())
        undone = QRectF(done.right(), rect.top(), rect.width() - done.width(), rect.height())
        for part, ground, ink in (
            (done, theme.accent, theme.on_accent),
            (undone, theme.tint, theme.accent_on_tint),
        ):
            painter.setClipRect(part, Qt.ClipOperation.ReplaceClip)
            painter.fillPath(outline, QColor(ground))
            painter.setPen(QColor(ink))
            painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, self.text())
        if self.hasFocus():
            painter.setClipping(False)
            rounded(painter, rect, border="text", width=2.0)


class Segments(QFrame):
    """Buttons in a row, one of which is chosen. ``chosen`` carries the index that the user chose.

    The chosen segment takes the focus; left and right move between segments.
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
        policy = Qt.FocusPolicy
        button.toggled.connect(
            lambda on: button.setFocusPolicy(policy.StrongFocus if on else policy.ClickFocus)
        )
        button.setFocusPolicy(policy.ClickFocus)
        button.setChecked(index == 0)
        return button

    @property
    def current(self) -> int:
        """The index of the chosen segment."""
        return self._group.checkedId()

    def segment(self, index: int) -> QAbstractButton:
        """The button of a segment."""
        return self._group.button(index)

    def choose(self, index: int) -> None:
        """Choose a segment without a signal."""
        self._group.button(index).setChecked(True)

    def set_title(self, index: int, title: str) -> None:
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


Option = str | tuple[str, str]


_STEP_MS: Final = 60
_STEPS: Final = 30  # there and back


class ProgressBar(QProgressBar):
    """A bar of which a third moves to and fro while the total is unknown.

    ``place``: where this third is, from 0 at the left to 1 at the right.
    """

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setTextVisible(False)
        self.setAccessibleName(name)
        self.place = 0.0
        self._step = 0
        self._timer = QTimer(self, interval=_STEP_MS)
        self._timer.timeout.connect(self._move_on)

    def show_share(self, done: int, total: int) -> None:
        """Show how much is done; ``total`` 0 if it is unknown."""
        self.setRange(0, total)
        if total:
            self.setValue(done)
        self._follow()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._follow()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def _follow(self) -> None:
        """Move if the total is unknown and somebody can see it."""
        moves = self.maximum() == 0 and self.isVisible()
        if moves != self._timer.isActive():
            (self._timer.start if moves else self._timer.stop)()

    def _move_on(self) -> None:
        self._step = (self._step + 1) % _STEPS
        self.place = 1 - abs(2 * self._step / _STEPS - 1)
        self.update()


_SHORTEST: Final = 28  # letters that are shown at least


class ElidedCheckBox(QCheckBox):
    """Its text is elided in the middle where there is no room for all of it."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text.replace("&", "&&"), parent)
        self._full = text
        self.setAccessibleName(text)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """The size with the complete text."""
        return self._size_with(self.fontMetrics().horizontalAdvance(self._full))

    def minimumSizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        shortest = _SHORTEST * metrics.averageCharWidth()
        return self._size_with(min(shortest, metrics.horizontalAdvance(self._full)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._elide()

    def _elide(self) -> None:
        if not self.isVisible():  # it has no width of its own yet
            return
        room = self.width() - self._size_with(0).width() + 1  # widths are rounded
        metrics = self.fontMetrics()
        text = self._full
        if metrics.horizontalAdvance(text) > room:
            text = metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, room)
        self.setText(text.replace("&", "&&"))

    def _size_with(self, width: int) -> QSize:
        size = super().sizeHint()
        words = self.text().replace("&&", "&")
        size.setWidth(size.width() - self.fontMetrics().horizontalAdvance(words) + width)
        return size


class Choice(QComboBox):
    """A choice among a few values, each with a title, or with a title and a tooltip.

    ``chosen`` is emitted after a change.
    """

    chosen = Signal()

    def __init__(self, name: str, options: Mapping[Any, Option]) -> None:
        super().__init__()
        self._options: Mapping[Any, Option] = {}
        self.setAccessibleName(name)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.currentIndexChanged.connect(self._emit_chosen)
        self.offer(options)

    def offer(self, options: Mapping[Any, Option]) -> None:
        """Set one or more options without a signal. The current one stays chosen if it is among
        them; otherwise the first is chosen."""
        if options == self._options:
            return
        if self._options:
            chosen = self.current
        else:
            chosen = None
        with QSignalBlocker(self):
            self.clear()
            self._options = dict(options)
            for index, option in enumerate(options.values()):
                text, tip = (option, "") if isinstance(option, str) else option
                self.addItem(text)
                self.setItemData(index, tooltip(tip), Qt.ItemDataRole.ToolTipRole)
            self.setCurrentIndex(self.options.index(chosen) if chosen in options else 0)
        self._explain()

    @property
    def options(self) -> tuple[Hashable, ...]:
        return tuple(self._options)

    @property
    def current(self) -> Any:
        """The chosen value."""
        return self.options[self.currentIndex()]

    def choose(self, value: Hashable) -> None:
        """Choose ``value``. ``ValueError`` if it is not offered."""
        self.setCurrentIndex(self.options.index(value))

    def changeEvent(self, event: QEvent) -> None:
        """Measure the text again in another font: Qt keeps the least size of the first one."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            super().changeEvent(QEvent(QEvent.Type.StyleChange))
            self.updateGeometry()

    def initStyleOption(self, option: QStyleOptionComboBox) -> None:
        """Elide long texts in the middle, because names of runs differ at the end."""
        super().initStyleOption(option)
        part = QStyle.SubControl.SC_ComboBoxEditField
        control = QStyle.ComplexControl.CC_ComboBox
        room = self.style().subControlRect(control, option, part, self).width()
        middle = Qt.TextElideMode.ElideMiddle
        option.currentText = self.fontMetrics().elidedText(option.currentText, middle, room)

    def _emit_chosen(self) -> None:
        self._explain()
        self.chosen.emit()

    def _explain(self) -> None:
        self.setToolTip(self.itemData(self.currentIndex(), Qt.ItemDataRole.ToolTipRole))


def head_button(
    text: str, tip: str, pressed: Callable[[], object] | None = None, picture: str = ""
) -> QToolButton:
    """A small button next to a plot's title; ``picture``: its icon instead of the text."""
    button = tool_button(text, tip, pressed)
    if picture:
        button.setIcon(icon(picture))
    button.setAccessibleName(text)
    button.setAccessibleDescription(tip)
    return button


_Widget = TypeVar("_Widget", bound=QWidget)


def named(widget: _Widget, name: str, tip: str = "") -> _Widget:
    """The widget with this name and tooltip."""
    widget.setAccessibleName(name)
    widget.setToolTip(tooltip(tip))
    return widget


def mark_wrong(control: QWidget, fault: str, help: str) -> None:
    """Mark an input as wrong, for a reason that a screen reader says instead of its ``help``.

    ``fault``: the reason; empty if it is not wrong.
    """
    for widget in (control, *control.findChildren(QLineEdit)):
        widget.setProperty("invalid", bool(fault))
        widget.update()
    control.setAccessibleDescription(quoted(fault or help))


def count_field(
    name: str, most: int, *, least: int = 0, value: int = 0, special: str = ""
) -> QSpinBox:
    """A field for a whole number. ``special``: the text that it shows for ``least``."""
    box = named(QSpinBox(minimum=least, maximum=most, value=value), name)
    box.setSpecialValueText(special)
    return box


def amount_field(
    name: str,
    low: float,
    high: float,
    value: float,
    *,
    suffix: str = "",
    decimals: int = 1,
    special: str = "",
) -> QDoubleSpinBox:
    """A field for a number with a unit. ``special``: the text that it shows for ``low``."""
    box = named(QDoubleSpinBox(decimals=decimals, suffix=suffix), name)
    box.setRange(low, high)
    box.setValue(value)
    box.setSpecialValueText(special)
    return box


def search_field(name: str, hint: str) -> QLineEdit:
    """A field that filters a list. ``hint``: the text that it shows while it is empty."""
    field = named(QLineEdit(placeholderText=hint, clearButtonEnabled=True), name)
    field.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition).setText("Search")
    return field


def read_only(name: str, lines: int = 0, role: Face | None = None) -> QPlainTextEdit:
    """A text to read and copy. ``lines``: the height in lines of text, 0 for any."""
    text = named(QPlainTextEdit(readOnly=True, tabChangesFocus=True), name)
    if role is not None:
        text.setFont(face(role))
    if lines:
        on_font_change(text, lambda metrics: text.setFixedHeight(metrics.lineSpacing() * lines + 8))
    return text
