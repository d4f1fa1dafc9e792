"""The answers of several models beside each other, and the choice of the models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QSizePolicy, QWidget

from ace_gui.engine.contract.plan import Plan
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.operations import ModelAnswer
from ace_gui.gui.panels.job_page import problem_label, show_problem
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.widgets.controls import ElidedCheckBox, push_button, read_only
from ace_gui.gui.widgets.labels import (
    Bar,
    ElidedLabel,
    NamedBars,
    Swatch,
    heading,
    muted_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout import FlowLayout, across, clear_layout, down

MOST: Final = 6
"""Maximum number of displayed labels."""

NOT_ASKED: Final = "Not asked yet."

EXPERTS_AT_FIRST: Final = 4
"""Experts that are ticked before the user has chosen: more answers are too narrow to read."""

_ROOM: Final = 2.0
"""The free memory that a model needs to be loaded beside others, as a multiple of its size."""


def experts_at_first(plan: Plan, others: int, free: int) -> tuple[int, str]:
    """How many experts are ticked at first beside ``others``, and why not all of them.

    ``free``: bytes for models.

    Models stay in memory between two questions as long as there is room. The sentence is empty if
    all are ticked.
    """
    count = len(plan.experts)
    size = sum(4 * math.prod(row.shape) for row in plan.rows if row.in_base)
    at_once = math.floor(free / max(size, 1) - _ROOM) + 1
    room = max(at_once - others, 1)
    ticked = min(count, EXPERTS_AT_FIRST, room)
    if ticked == count:
        return ticked, ""
    if room < min(count, EXPERTS_AT_FIRST):
        return ticked, (
            f"{ticked} of {count} experts are ticked: each model takes about {human_bytes(size)} "
            f"of {human_bytes(free)} free, and those beyond that are loaded anew for "
            "every question."
        )
    return ticked, (
        f"{ticked} of {count} experts are ticked: more answers beside each other are too narrow "
        "to read."
    )


@dataclass(frozen=True, kw_only=True)
class AskedModel:
    """A model that can be asked."""

    key: str
    """``base``, an expert's name, or the path of a merge's store."""

    role: str
    """base, expert or merge."""

    name: str
    """The expert's name or the merge's title; empty for the base."""

    colour: str
    """The name of its colour."""

    @property
    def title(self) -> str:
        """The name among others."""
        return self.name or self.role


class ModelChoices(QWidget):
    """A tick for each model that can be asked. ``changed``: the user ticked another."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._models: tuple[AskedModel, ...] = ()
        self._ticks: dict[str, ElidedCheckBox] = {}
        self._touched: dict[str, bool] = {}
        self._flow = FlowLayout(self, spacing=12)
        self.setAccessibleName("Models to ask")

    @property
    def chosen(self) -> list[AskedModel]:
        """The ticked models, in order."""
        return [model for model in self._models if self._ticks[model.key].isChecked()]

    def offer(self, models: Sequence[AskedModel], defaults: Mapping[str, bool]) -> None:
        """Offer models. What the user ticked stays; ``defaults``: whether others are ticked."""
        if tuple(models) != self._models:
            self._models = tuple(models)
            clear_layout(self._flow)
            self._ticks = {}
            for model in models:
                tick = ElidedCheckBox(plain(model.title))
                tick.setAccessibleName(f"Ask {model.title}")
                tick.setToolTip(tooltip(model.title))
                tick.toggled.connect(lambda on, key=model.key: self._note(key, on))
                self._ticks[model.key] = tick
                self._flow.addWidget(tick)
        for key, tick in self._ticks.items():
            with QSignalBlocker(tick):
                tick.setChecked(self._touched.get(key, defaults.get(key, False)))

    def _note(self, key: str, on: bool) -> None:
        self._touched[key] = on
        self.changed.emit()


class AnswerCard(QWidget):
    """The answer of one model. ``best``: in a blind comparison, the user prefers this answer."""

    best = Signal()

    def __init__(self, model: AskedModel) -> None:
        super().__init__()
        self.model = model
        self.swatch = Swatch()
        self.role = heading("")
        self.title = ElidedLabel()
        self.question = secondary_label()
        self.bars = NamedBars()
        self.text = read_only(f"Answer of the model: {model.role}")
        self.state = muted_label()
        self.waiting = secondary_label()
        self.waiting.setAlignment(Qt.AlignmentFlag.AlignCenter)
        needs_no_room = QSizePolicy.Policy.Ignored
        self.waiting.setSizePolicy(QSizePolicy.Policy.Preferred, needs_no_room)
        self.error = problem_label()
        self.facts = muted_label()
        self.copy = push_button("Copy", self._copy, kind="link", name=f"Copy: {model.title}")
        self.prefer = push_button("This one is best", self.best.emit, kind="tinted")
        head = across(self.swatch, self.role, (self.title, 1))
        told = (self.question, self.state, self.error, self.bars)
        parts = (head, *told, (self.waiting, 100), (self.text, 100))
        foot = across((self.facts, 1), self.copy)
        self.setLayout(down(*parts, None, foot, self.prefer, margins=(8, 6, 8, 8)))
        self._answer: ModelAnswer | None = None
        self.show_answer(None, "", "", NOT_ASKED)
        self.name_it()
        self.offer_choice(False)

    def name_it(self, instead: str = "") -> None:
        """Show the model's name, or another ``instead``."""
        model = self.model
        self.role.setText(instead or model.role.capitalize())
        self.title.set_full_text("" if instead else model.name)
        self.swatch.show_colour("" if instead else model.colour)
        name = instead or model.title
        self.text.setAccessibleName(f"Answer of the model: {name}")
        self.prefer.setAccessibleName(f"This one is best: {name}")
        self.copy.setAccessibleName(f"Copy: {name}")

    def offer_choice(self, offered: bool) -> None:
        """Whether the answer can be chosen as the best."""
        self.prefer.setVisible(offered)

    def show_answer(
        self, answer: ModelAnswer | None, question: str, colour: str, waiting: str
    ) -> None:
        """Show the answer, or, if that is None, what it is ``waiting`` for.

        ``question``: what a chat answers.
        """
        self._answer = answer
        self.waiting.setText(waiting)
        self.waiting.setVisible(answer is None)
        shares = () if answer is None else answer.shares
        if answer is None:
            text = ""
        else:
            text = answer.earlier + answer.text
        self.question.setText(plain(question))
        self.question.setVisible(bool(question) and answer is not None)
        self.bars.setVisible(bool(shares))
        bars = []
        for index, (label, share) in enumerate(shares[:MOST]):
            bars.append(Bar(label, share, f"{100 * share:.1f} %", strong=index == 0))
        self.bars.show_bars(bars, colour)
        self.text.setVisible(bool(text))
        self._write(plain(text))
        show_problem(self.error, "" if answer is None else answer.error)
        writes = answer is not None and bool(answer.text)
        self.state.setText("writing …" if writes else "loading the model …")
        self.state.setVisible(answer is not None and not answer.is_done)
        self.facts.setText("" if answer is None else answer.facts)
        self.facts.setVisible(bool(self.facts.text()))
        self.copy.setVisible(answer is not None and answer.is_done and bool(answer.text))

    def _write(self, text: str) -> None:
        """Append only new text, so that selection and scroll position stay."""
        present = self.text.toPlainText()
        if present and text.startswith(present):
            self.text.moveCursor(self.text.textCursor().MoveOperation.End)
            self.text.insertPlainText(text[len(present) :])
        elif text != present:
            self.text.setPlainText(text)

    def _copy(self) -> None:
        if self._answer is not None:
            QGuiApplication.clipboard().setText(self._answer.text)
