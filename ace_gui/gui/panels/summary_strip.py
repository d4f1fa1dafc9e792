"""The strip above the layers: what a merge found and did, in words, and what to do next."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame

from ace_gui.engine.contract.figure_content import FigureContent
from ace_gui.engine.contract.merge_summary import (
    MergeSummary,
    Paragraph,
    Words,
    summary_of,
    text_of,
)
from ace_gui.engine.contract.scored import BASE, EXPERTS
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.state.activity import MergeRun, start_once
from ace_gui.gui.state.results import mean_score
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import breakable, plain
from ace_gui.gui.theme import Face
from ace_gui.gui.widgets.controls import FoldButton
from ace_gui.gui.widgets.labels import heading, linked_label, plain_label
from ace_gui.gui.widgets.layout import GAP, across, down, pane

_DELAY: Final = 60  # ms: many figures arrive at once
_BESIDE: Final = 52  # in text lines: the least width for the paragraphs beside each other
_LOW: Final = 32  # in text lines: in a lower window the strip is folded at first
_LOW_WITH_VIEWS: Final = 46  # the same, where the views of all layers need room, too
_FOLDED: Final = "the summary of this merge"


class SummaryStrip(QFrame):
    """The summary of the window's finished merge, hidden without one.

    ``chosen`` carries the names of the tensors of a link, ``step_wanted`` a NextStep.
    ``needs_fit``: whether it is folded depends on the window again.
    """

    chosen = Signal(object)
    step_wanted = Signal(object)
    needs_fit = Signal()

    def __init__(self, session: Session, healths: Healths) -> None:
        super().__init__()
        self.setProperty("kind", "card")
        self._session = session
        self._wants_folded: bool | None = None
        self._warned = 0
        """The number of tensors with a warning."""

        self._run: MergeRun | None = None
        """The merge that is shown."""

        self.summary: MergeSummary | None = None
        self.title = heading("")
        self.fold_button = FoldButton(_FOLDED, self._toggle, upwards=True)
        self.parts = [_Part(self._follow_link) for _ in range(3)]
        self._row = across(*((part, 1) for part in self.parts), gap=GAP)
        self._body = pane(self._row)
        head = across((self.title, 1), self.fold_button)
        self.setLayout(down(head, self._body, margins=(16, 8, 12, 10), gap=6))
        self._timer = QTimer(self, singleShot=True, interval=_DELAY)
        self._timer.timeout.connect(self.refresh)
        results = session.results
        for changed in (results.changed, results.scores.changed, session.draft.changed):
            changed.connect(self._update_soon)
        session.layers.learnt.connect(self._update_soon)
        healths.warned.connect(self._count_warned)
        self._fold(False)
        self.refresh()

    def _count_warned(self, warned: int) -> None:
        self._warned = warned
        self._update_soon()

    def _update_soon(self, *_: object) -> None:
        run = self._session.results.merge
        if run is not self._run or run is None:
            self.refresh()
        else:
            start_once(self._timer)

    def fit(self, height: int, *, beside_views: bool = False) -> None:
        """Fold in a low window, unless the user has decided.

        ``height``: of the window, in px. ``beside_views``: the views of all layers are unfolded.
        """
        lines = _LOW_WITH_VIEWS if beside_views else _LOW
        if self._wants_folded is None:
            self._fold(height < lines * self.fontMetrics().height())

    @property
    def is_folded(self) -> bool:
        """Whether only the title is shown."""
        return self._body.isHidden()

    @property
    def wants_folded(self) -> bool | None:
        """What the user has decided; None: nothing yet."""
        return self._wants_folded

    def set_folded(self, folded: bool | None) -> None:
        """Show the title alone, or everything; None: it depends on the window's height."""
        self._wants_folded = folded
        if folded is not None:
            self._fold(folded)
        else:
            self.needs_fit.emit()

    def _fold(self, folded: bool) -> None:
        self._body.setVisible(not folded)
        self.fold_button.show_folded(folded)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the paragraphs below each other if they would be too narrow."""
        super().resizeEvent(event)
        is_wide = event.size().width() >= _BESIDE * self.fontMetrics().height()
        direction = QBoxLayout.Direction
        self._row.setDirection(direction.LeftToRight if is_wide else direction.TopToBottom)

    def refresh(self) -> None:
        """Show the finished merge of the window; other settings than its own change nothing."""
        session = self._session
        run = self._session.results.merge
        if run is None or run.finished is None:
            self._run = None
            self.summary = None
            self.setVisible(False)
            return
        plan = session.draft.plan
        if plan is None or not session.merge_is_current:
            self.setVisible(run is self._run)
            return
        self._run = run
        store = str(run.store)
        known = session.results.scores
        scores = []
        for model in (BASE, EXPERTS, store):
            scores += [replace(score, model=model) for score in known.line(model).values()]
        content = FigureContent(
            plan=plan, statistics=session.layers.statistics, reports=run.reports, scores=scores
        )
        summary = summary_of(
            content,
            store,
            seconds=run.finished.seconds,
            mean=mean_score(run),
            warned=self._warned,
        )
        self._show(summary)
        self.setVisible(True)

    def _show(self, summary: MergeSummary) -> None:
        if summary == self.summary:
            return
        self.summary = summary
        self.title.setText(plain(summary.title))
        for index, (part, (title, paragraph)) in enumerate(
            zip(self.parts, summary.parts, strict=True)
        ):
            part.show_paragraph(title, paragraph, f"{index}")

    def _toggle(self) -> None:
        self.set_folded(not self.is_folded)

    def _follow_link(self, address: str) -> None:
        if self.summary is None:
            return
        part, _, place = address.partition(".")
        words = self.summary.parts[int(part)][1][int(place)]
        if words.step is not None:
            self.step_wanted.emit(words.step)
        else:
            self.chosen.emit(words.tensors)


class _Part(QFrame):
    """A paragraph with its heading. ``follow`` gets the address of a link: part and place."""

    def __init__(self, follow: Callable[[str], object]) -> None:
        super().__init__()
        self.setProperty("kind", "sunk")
        self.heading = plain_label(kind="secondary", role=Face.CAPTION_STRONG)
        self.text = linked_label(follow)
        self.setLayout(down(self.heading, self.text, None, margins=(12, 8, 12, 8), gap=4))

    def show_paragraph(self, title: str, paragraph: Paragraph, part: str) -> None:
        self.heading.setText(title)
        self.text.setText("".join(_html(words, f"{part}.{n}") for n, words in enumerate(paragraph)))
        self.text.setAccessibleName(f"{title}: {plain(text_of(paragraph))}")


def _html(words: Words, address: str) -> str:
    text = html.escape(breakable(words.text))
    if words.tensors or words.step is not None:
        return f'<a href="{address}" style="text-decoration: none">{text}</a>'
    return text
