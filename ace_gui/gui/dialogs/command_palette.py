"""All commands, found by a few characters of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRectF,
    QSize,
    Qt,
    QTimer,
)
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QStandardItem,
    QStandardItemModel,
)
from PySide6.QtWidgets import (
    QDialog,
    QLineEdit,
    QListView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from ace_gui.gui.models.list_models import VALUE, item_of, show_values
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.drawn_controls import state_is
from ace_gui.gui.theme.painting import rounded, write
from ace_gui.gui.widgets.controls import named
from ace_gui.gui.widgets.labels import muted_label
from ace_gui.gui.widgets.layout import down

_Index = QModelIndex | QPersistentModelIndex
# quality of a match with a word; lower is better
_BEGINS = 0
_WITHIN = 1
_SCATTERED = 2
_OUTSIDE_TITLE: Final = 4  # quality of a match with the start of a word outside the title
_SAYS_MUCH: Final = 4  # minimum length for a match in the tooltip


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of the window."""

    title: str
    """As in its menu."""
    menu: str
    """The menu or part of the window."""
    run: Callable[[], object]
    """Carries it out."""
    shortcut: str = ""
    """Its keys; empty without any."""
    tip: str = ""
    """What it does."""
    why: str = ""
    """Why it is disabled; empty if it is not."""


def matching(commands: Iterable[Command], typed: str) -> list[Command]:
    """The commands that match every word of ``typed``, the best first, and disabled ones last.

    A word matches a word of the title that starts with it, contains it, or contains its characters
    in order (``mrg``: Merge). Otherwise it must be the start of a word of the menu, or if it is
    longer, of the tooltip.
    """
    words = typed.casefold().split()
    fitting = ((_misfit(words, command), command) for command in commands)
    ranked = [(fit, command) for fit, command in fitting if fit is not None]
    return [command for _, command in sorted(ranked, key=lambda pair: (bool(pair[1].why), pair[0]))]


def _misfit(typed: Sequence[str], command: Command) -> int | None:
    """How badly a command matches: 0 if every word starts a title word, None if it does not."""
    title = command.title.casefold().split()
    index = command.menu.casefold().split()
    tip = command.tip.casefold().split()
    total = 0
    for word in typed:
        fits = [fit for fit in (_word_misfit(word, text) for text in title) if fit is not None]
        words = [*index, *(tip if len(word) >= _SAYS_MUCH else ())]
        fits += [_OUTSIDE_TITLE for text in words if text.startswith(word)]
        if not fits:
            return None
        total += min(fits)
    return total


def _word_misfit(typed: str, word: str) -> int | None:
    if word.startswith(typed):
        return _BEGINS
    if typed in word:
        return _WITHIN
    characters = iter(word)
    if (
        len(typed) > 1
        and word.startswith(typed[0])
        and all(letter in characters for letter in typed)
    ):
        return _SCATTERED
    return None


_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_WIDTH: Final = 42  # in text lines
_ROWS: Final = 9  # visible entries
_PADDING: Final = 10.0  # px
_OF_WINDOW: Final = 0.92
_MOVES: Final = {
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_PageUp: -_ROWS,
    Qt.Key.Key_PageDown: _ROWS,
}


class CommandPalette(QDialog):
    """The dialog closes before the command runs, so that the window has the focus again."""

    def __init__(self, commands: Sequence[Command], window: QWidget) -> None:
        super().__init__(window, Qt.WindowType.Popup)
        self.setWindowTitle("Commands")
        self.setProperty("kind", "card-dialog")
        self._commands = tuple(commands)
        self.model = QStandardItemModel(self)
        self.field = named(QLineEdit(placeholderText="What do you want to do?"), "Command")
        self.field.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.list = named(QListView(), "Commands found")
        self.list.setModel(self.model)
        self.list.setItemDelegate(_CommandCell(self.list))
        self.list.setUniformItemSizes(True)
        self.list.setMouseTracking(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setFocusProxy(self.field)  # its arrow keys work here as well
        self.description = muted_label()
        parts = (self.field, self.list, self.description)
        self.setLayout(down(*parts, margins=(8, 8, 8, 8), gap=6))
        self.field.installEventFilter(self)
        self.field.textChanged.connect(self._find)
        self.field.returnPressed.connect(lambda: self._take(self.list.currentIndex()))
        self.list.clicked.connect(self._take)
        self.list.selectionModel().currentChanged.connect(self._describe)
        self._find("")
        self._place(window)
        self.field.setFocus()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a frame, because the window behind has the same background."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setPen(QPen(QColor(current_theme().control), 1.0))
        painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))
        painter.end()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            step = _MOVES.get(Qt.Key(event.key()))
            if step is not None:
                row = max(self.list.currentIndex().row() + step, 0)
                row = min(row, self.model.rowCount() - 1)
                self.list.setCurrentIndex(self.model.index(row, 0))
                return True
        return super().eventFilter(watched, event)

    def _find(self, typed: str) -> None:
        show_values(self.model, matching(self._commands, typed), _item)
        self.list.setCurrentIndex(self.model.index(0, 0))
        self._describe()

    def _describe(self, *_: object) -> None:
        """Describe below the list what the command does or why it is disabled."""
        command = self.list.currentIndex().data(VALUE)
        if isinstance(command, Command):
            self.description.setText(command.why or command.tip or " ")
            self.field.setAccessibleDescription(
                str(self.list.currentIndex().data(Qt.ItemDataRole.AccessibleTextRole))
            )
        else:
            self.description.setText("No command matches; try another word.")

    def _take(self, index: QModelIndex) -> None:
        command = index.data(VALUE)
        if isinstance(command, Command) and not command.why:
            self.accept()
            parent = self.parentWidget()
            QTimer.singleShot(0, parent or self, lambda: command.run())

    def _place(self, window: QWidget) -> None:
        """Place the dialog at the top centre of the window."""
        line = self.fontMetrics().height()
        width = min(_WIDTH * line, round(_OF_WINDOW * window.width()))
        rows = _ROWS * self.list.sizeHintForRow(0) + 4
        self.list.setFixedHeight(min(rows, round(0.6 * window.height())))
        self.setFixedWidth(width)
        self.move(window.mapToGlobal(QPoint((window.width() - width) // 2, 3 * line)))


def _item(command: Command) -> QStandardItem:
    parts = (command.title, command.menu, command.shortcut, command.why)
    return item_of(command.title, command, spoken=", ".join(filter(None, parts)))


class _CommandCell(QStyledItemDelegate):
    """A command with its name, its menu, and its shortcut at the right; muted if disabled."""

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: ARG002
        return QSize(0, round(QFontMetricsF(face(Face.BODY)).height() + _PADDING))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        command = index.data(VALUE)
        theme = current_theme()
        rect = QRectF(option.rect)
        if not isinstance(command, Command):
            return
        chosen = state_is(option, "Selected")
        if chosen:
            ground = theme.tint
        elif state_is(option, "MouseOver"):
            ground = theme.hover
        else:
            ground = ""
        if ground:
            rounded(painter, rect.adjusted(1, 1, -1, -1), ground)
        if chosen:
            quiet = theme.text2
        else:
            quiet = theme.text3
        rect = rect.adjusted(_PADDING, 0, -_PADDING, 0)
        caption = face(Face.CAPTION)
        body = face(Face.BODY)
        right = write(painter, rect, command.shortcut, caption, quiet, align=_RIGHT)
        room = rect.adjusted(0, 0, -right - _PADDING, 0)
        if command.why:
            ink = quiet
        else:
            ink = theme.text
        used = write(painter, room, command.title, body, ink)
        where = room.adjusted(used + _PADDING, 0, 0, 0)
        if where.width() > 0:
            write(painter, where, command.why or command.menu, caption, quiet)
