"""Guided use of the sample: the tutorial with its coach marks, and the demo that runs by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, SignalInstance
from PySide6.QtWidgets import QWidget

from ace_gui.gui.panels.scores_page import ScoresTab
from ace_gui.gui.shell.base_window import Window
from ace_gui.gui.shell.window_frame import Space
from ace_gui.gui.shell.window_layout import INSPECTOR, LAYERS, VIEWS
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.widgets.coach_mark import CoachMark
from ace_gui.gui.widgets.labels import DrawingLabel
from ace_gui.paths import Sample, resource_path


@dataclass(frozen=True, kw_only=True)
class TourStep:
    """A step of a tour.

    ``target``: returns its control. ``begin``: makes the control visible. ``done``: returns whether
    the step is done; without it the user confirms the step. ``picture``: creates the picture below
    the sentence.
    """

    sentence: str
    target: Callable[[], QWidget | None]
    begin: Callable[[], object] = lambda: None
    done: Callable[[], bool] | None = None
    picture: Callable[[], QWidget] | None = None


class Tour(QObject):
    """Shows ``steps`` over ``window``. A ``watched`` signal means that a step may be done."""

    def __init__(
        self, window: QWidget, steps: Sequence[TourStep], watched: Sequence[SignalInstance] = ()
    ) -> None:
        super().__init__(window)
        self.mark = CoachMark(window)
        self._steps = tuple(steps)
        self._watched = tuple(watched)
        self.step_index = -1
        self.mark.next_wanted.connect(self._go_on)
        self.mark.end_wanted.connect(self.end)
        for signal in self._watched:
            signal.connect(self._look)
        self._go_on()

    @property
    def is_running(self) -> bool:
        return 0 <= self.step_index < len(self._steps)

    def end(self) -> None:
        if not self.is_running:
            return
        self.step_index = len(self._steps)
        self.mark.leave()
        for signal in self._watched:
            signal.disconnect(self._look)
        self.deleteLater()

    def _look(self, *_: object) -> None:
        if self.is_running and self._is_done():
            self._go_on()

    def _is_done(self) -> bool:
        done = self._steps[self.step_index].done
        return done is not None and done()

    def _go_on(self) -> None:
        """Go to the next step that is not done yet."""
        self.step_index += 1
        while self.is_running and self._is_done():
            self.step_index += 1
        if not self.is_running:
            self.step_index = len(self._steps) - 1
            self.end()
            return
        step = self._steps[self.step_index]
        last = self.step_index == len(self._steps) - 1
        step.begin()
        counted = f"Step {self.step_index + 1} of {len(self._steps)}"
        if last:
            onward = "Done"
        elif step.done is None:
            onward = "Next"
        else:
            onward = "Skip"
        if step.picture is None:
            picture = None
        else:
            picture = step.picture()
        self.mark.point(step.target(), counted, step.sentence, onward, picture)


def tutorial(window: Window) -> Tour:
    """Start the tutorial in a window, whatever is open in it."""
    session = window.session
    watched = (
        session.activity.changed,
        session.draft.changed,
        session.layers.learnt,
        session.selection_changed,
        session.results.changed,
        session.results.scores.changed,
        window.header.workspaces.chosen,
    )
    return Tour(window, [*_merging(window), *_judging(window)], watched)


def _show(window: Window, index: int) -> None:
    workspace = window.workspace
    workspace.show_space(0)
    workspace.cards.bring(index)
    if index != LAYERS:
        if index == INSPECTOR:
            panel = workspace.inspector
        else:
            panel = workspace.heterogeneity
        panel.tabs.setCurrentIndex(0)


def _merging(window: Window) -> list[TourStep]:
    session = window.session
    begin = window.welcome.sample.begin

    def is_open() -> bool:
        return window.project.file == Sample.IMAGES.recipe and session.layers.is_analysed

    return [
        TourStep(
            sentence="Press Merge the sample, or Try the sample in the menu File. It has a small "
            "model and five models fine-tuned from it.",
            target=lambda: begin if begin.isVisible() else None,
            done=is_open,
        ),
        TourStep(
            sentence="In the table Layers, open a block and choose one of its matrices. γ measures "
            "how unequally the experts changed a matrix: a little on the left, strongly on the "
            "right.",
            picture=lambda: DrawingLabel(
                resource_path("pictures/gamma.svg").read_text(encoding="utf-8"),
                "Spectra of three experts: with a small γ, and with a large one",
            ),
            begin=lambda: _show(window, LAYERS),
            target=lambda: window.workspace.layers.table,
            done=lambda: session.selection is not None,
        ),
        TourStep(
            sentence="The plot γ along the model shows every matrix. The recommended merge treats "
            "all alike. ACE as published refines those above a threshold τ.",
            begin=lambda: _show(window, VIEWS),
            target=lambda: window.workspace.heterogeneity,
        ),
        TourStep(
            sentence="Press Merge. It takes a few seconds and changes no file.",
            target=lambda: window.header.primary.main,
            done=lambda: session.results.is_merged,
        ),
        TourStep(
            sentence="The tab Spectrum shows singular values of the chosen matrix: of each "
            "expert's change, and of the merged one. Ctrl+G goes to the matrix with the largest γ.",
            begin=lambda: _show(window, INSPECTOR),
            target=lambda: window.workspace.inspector,
        ),
    ]


def _judging(window: Window) -> list[TourStep]:
    def scores() -> QWidget | None:
        from ace_gui.gui.panels.scores_page import ScoresTab

        tab = window.workspace.show_scores().show_tab(ScoresTab)
        return next((b for b in (tab.no_scores.button, tab.evaluate) if b.isVisible()), tab)

    def evaluated() -> bool:
        merge = window.session.results.merge
        return merge is not None and bool(merge.accuracies)

    return [
        TourStep(
            sentence="How good is the merge? Open Scores.",
            target=lambda: window.header.workspaces.segment(Space.SCORES),
            done=lambda: window.header.workspaces.current == Space.SCORES,
        ),
        TourStep(
            sentence="Press Evaluate. It scores base, experts and merge on held-out data of the "
            "sample's tasks.",
            target=scores,
            done=evaluated,
        ),
        TourStep(
            sentence="Export… writes the merged model as a folder. For your own models, the steps "
            "are the same: open a base, add experts, merge, export.",
            target=lambda: window.header.primary.main,
        ),
    ]


COMPARED: Final = ("linear", "ace")
"""Methods to compare with the recommended merge, each with its defaults."""


class DemoTour(QObject):
    """Does what a user would do in the window, as long as the sample is open."""

    def __init__(self, window: Window, recipe: Path) -> None:
        super().__init__(window)
        self._window = window
        self._recipe = recipe
        self._steps = self._perform()
        self._is_due = next(self._steps)
        session = window.session
        for signal in (session.activity.changed, session.layers.learnt, window.comparison.changed):
            signal.connect(self._go_on)
        window.opener.open_paths([recipe])

    def _go_on(self) -> None:
        if self._is_due():
            self._is_due = lambda: False  # while the step is performed
            self._is_due = next(self._steps, lambda: False)
            self._go_on()

    def _perform(self) -> Iterator[Callable[[], bool]]:
        """The steps. Each ``yield`` returns the function that says whether the next step is due."""
        window = self._window
        session = self._window.session

        def is_in(state: ActivityState) -> bool:
            # The recipe may not be open yet, or the person may have opened something else.
            is_open = window.project.file == self._recipe
            return is_open and session.state is state and session.layers.is_analysed

        yield (
            lambda: is_in(ActivityState.READY) or is_in(ActivityState.MERGED)
        )  # an earlier demo may have merged
        if not session.results.is_merged:
            window.merge.start()
        yield lambda: is_in(ActivityState.MERGED)
        session.select(session.layers.most_heterogeneous)
        window.workspace.show_scores().show_tab(ScoresTab)
        inputs = session.draft.inputs
        window.comparison.start([inputs.with_method(name).recipe() for name in COMPARED])
        yield lambda: not window.comparison.is_running  # at once if nothing could be merged
        window.scoring.evaluate()
        yield lambda: not session.activity.is_running(ActivityState.SCORING)
        if session.results.merge is not None:
            window.notice.offer(
                "The sample is merged and evaluated. Its layers show what the merge did to each "
                "matrix; Export writes the model.",
                {"Show the layers": lambda: window.workspace.show_space(0)},
            )
        self.deleteLater()
