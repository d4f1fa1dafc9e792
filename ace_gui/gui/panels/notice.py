"""Errors, warnings and information: a sentence, buttons, and collapsed details."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QWidget

from ace_gui.errors import WorkbenchError
from ace_gui.gui.state.activity import Level
from ace_gui.gui.text import breakable, error_details, plain, quoted
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.controls import push_button, read_only, tool_button
from ace_gui.gui.widgets.labels import IconLabel, plain_label
from ace_gui.gui.widgets.layout import FlowLayout, across, down

_ICON = 16  # px
_DETAIL_LINES = 8


_ON_TOAST: Final = {
    Level.INFO: "toast_action",
    Level.WARNING: "toast_warn",
    Level.ERROR: "toast_bad",
}


class Notice(QFrame):
    """Shows a message until it is dismissed or replaced; hidden without one.

    ``floats``: it is a toast over the window. ``shown`` is emitted after each new message.
    ``passes``: the message needs no answer and may disappear by itself.
    """

    shown = Signal()

    def __init__(self, parent: QWidget | None = None, *, floats: bool = False) -> None:
        super().__init__(parent)
        self._floats = floats
        self.setProperty("kind", "toast" if floats else "sunk")
        self.setAccessibleName("Message")
        self.level = Level.INFO
        self.passes = True
        self._icon = IconLabel(_ICON, parent=self)
        self._icon.setAccessibleName("Kind of message")
        self.sentence = plain_label(kind="on-toast" if floats else "")
        self.sentence.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.answers: list[QPushButton] = []
        self._answers = FlowLayout(spacing=4)
        tip = "Show or hide the details"
        self.details_button = push_button("Details", lambda: None, kind="link", tip=tip, name=tip)
        self.details_button.setCheckable(True)
        tip = "Copy the message and its details"
        self.copy = push_button("Copy", self._copy_text, kind="link", tip=tip, name=tip)
        self.dismiss = tool_button("", "Dismiss this message", self.hide)
        self.dismiss.setIcon(icon("cancel", "toast_text" if floats else "text2"))
        self.details = read_only("Details of the message", _DETAIL_LINES)
        self._lay_out()
        self.details_button.toggled.connect(self.details.setVisible)
        self.hide()

    @property
    def message_text(self) -> str:
        """The sentence without its line-break hints."""
        return plain(self.sentence.text())

    def show_error(self, error: WorkbenchError) -> None:
        """Show an error's sentence, with file, tensor and shapes under Details."""
        self.show_message(Level.ERROR, error.sentence, error_details(error))

    def ask(
        self, level: Level, sentence: str, details: str, answers: Mapping[str, Callable[[], object]]
    ) -> None:
        """Show a message with a button for each answer. ``answers``: functions by title."""
        self.show_message(level, sentence, details, answers, passes=False)
        self.answers[0].setFocus()

    def offer(self, sentence: str, offers: Mapping[str, Callable[[], object]]) -> None:
        """Show news with buttons. It takes no focus, and disappears like other news."""
        self.show_message(Level.INFO, sentence, answers=offers)

    def show_message(
        self,
        level: Level,
        sentence: str,
        details: str = "",
        answers: Mapping[str, Callable[[], object]] | None = None,
        *,
        passes: bool | None = None,
    ) -> None:
        """Show a message. By default, only one of the level INFO passes."""
        sentence = quoted(sentence)
        self.level = level
        if passes is None:
            self.passes = level is Level.INFO
        else:
            self.passes = passes
        self.sentence.setText(breakable(sentence, names=True))
        self.sentence.setAccessibleName(f"{level.title.lower()}: {plain(sentence)}")
        self.details.setPlainText(plain(details))
        self.details_button.setChecked(False)
        self.details.hide()
        self._forget_answers()
        for text, action in (answers or {}).items():
            button = push_button(text, partial(self._answer, action), kind="link")
            self._answers.addWidget(button)
            self.answers.append(button)
        self.details_button.setVisible(bool(details))
        self.copy.setVisible(level is not Level.INFO)
        picture = level.title.lower()
        self._icon.show_icon(icon(picture, _ON_TOAST[level] if self._floats else ""))
        self.show()
        self.shown.emit()

    def _lay_out(self) -> None:
        line = across((self.sentence, 1), gap=10)
        line.insertWidget(0, self._icon, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(self.dismiss, 0, Qt.AlignmentFlag.AlignTop)
        for button in (self.details_button, self.copy):
            self._answers.addWidget(button)
        below = across((self._answers, 1), margins=(_ICON - 2, 0, 0, 0))  # under the sentence
        self.setLayout(down(line, below, self.details, margins=(14, 12, 10, 10)))

    def _answer(self, action: Callable[[], object]) -> None:
        self._forget_answers()
        self.hide()
        action()

    def _forget_answers(self) -> None:
        for button in self.answers:
            self._answers.removeWidget(button)
            button.hide()
            button.deleteLater()
        self.answers = []

    def _copy_text(self) -> None:
        text = f"{self.message_text}\n\n{self.details.toPlainText()}".strip()
        QGuiApplication.clipboard().setText(text)
