"""A model's answer: label shares, or text as it is generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from ace_gui.gui.control.operations.try_operation import ModelAnswer
from ace_gui.gui.text import plain, sentence_case
from ace_gui.gui.theme.swatch import SWATCH, paint_swatch
from ace_gui.gui.widgets.labels.named_bars import Bar, NamedBars
from ace_gui.gui.widgets.labels.plain_label import ElidedLabel, heading, muted_label, plain_label
from ace_gui.gui.widgets.layout.arrangement import across, down

MOST: Final = 6
"""Number of labels shown."""


class AnswerCard(QWidget):
    """``role``: base, expert or merge."""

    def __init__(self, role: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._role = role
        self.swatch = _Swatch(self)
        self.title = ElidedLabel(self)
        self.bars = NamedBars(self)
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setAccessibleName(f"Answer of the model: {role}")
        self.state = muted_label("", self)
        self.error = plain_label("", self)
        self.error.setProperty("kind", "bad")
        head = across(self.swatch, heading(sentence_case(role), self), (self.title, 1))
        parts = (head, self.state, self.error, self.bars, (self.text, 1), None)
        self.setLayout(down(*parts, margins=(8, 6, 8, 8)))
        self.show_answer(None, "", "")

    def show_answer(self, answer: ModelAnswer | None, name: str, colour: str) -> None:
        """Show the answer of the model ``name``; None: it has not been asked, or not answered
        yet."""
        self.title.set_full_text(name)
        self.swatch.show_colour(colour)
        shares = () if answer is None else answer.shares
        text = "" if answer is None else answer.earlier + answer.text
        self.bars.setVisible(bool(shares))
        self.bars.show_bars(_likeliest(shares), colour)
        self.text.setVisible(bool(text))
        self._write(plain(text))
        self.error.setText("" if answer is None else plain(answer.error))
        self.error.setVisible(bool(answer is not None and answer.error))
        waits = answer is not None and not answer.is_done
        self.state.setText(
            "writing …" if answer is not None and answer.text else "loading the model …"
        )
        self.state.setVisible(waits)

    def _write(self, text: str) -> None:
        """Append only new text, so that selection and scroll position stay."""
        before = self.text.toPlainText()
        if text == before:
            return
        if before and text.startswith(before):
            self.text.moveCursor(self.text.textCursor().MoveOperation.End)
            self.text.insertPlainText(text[len(before) :])
        else:
            self.text.setPlainText(text)


def _likeliest(shares: Sequence[tuple[str, float]]) -> list[Bar]:
    """The likeliest labels, the first one in bold."""
    return [
        Bar(label, share, f"{100 * share:.1f} %", strong=index == 0)
        for index, (label, share) in enumerate(shares[:MOST])
    ]


class _Swatch(QWidget):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._colour = ""
        self.setFixedSize(SWATCH, SWATCH)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def show_colour(self, colour: str) -> None:
        self._colour = colour
        self.setVisible(bool(colour))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        paint_swatch(QPainter(self), QRectF(self.rect()), self._colour)
