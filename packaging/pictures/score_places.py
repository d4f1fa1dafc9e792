"""Pictures of the places of the Scores workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from PySide6.QtWidgets import QWidget

from ace_gui.gui.panels.scores.examples_place import ExamplesPlace
from ace_gui.gui.panels.scores.scores_page import EXAMPLES, SCORES, TASKS, TRY, TUNE, ScoresPage
from ace_gui.gui.panels.scores.try_place import TryPlace
from ace_gui.gui.panels.scores.tune_place import TunePlace
from ace_gui.gui.picture import Studio

Take = Callable[[str, QWidget | None], None]
EXAMPLES_USED: Final = 80
"""Of each task: pictures need no more."""


def score_pictures(studio: Studio, take: Take) -> None:
    """Tasks, scores, examples, trying and tuning, for the recipe's tasks."""
    window, session = studio.window, studio.window.session
    before = session.draft.inputs.tasks
    if not before:
        return
    session.draft.set_tasks(tuple(replace(task, limit=EXAMPLES_USED) for task in before))
    page = window.workspace.show_scores()
    page.show_place(TASKS)
    known, scoring = session.results.scores, window.scoring
    studio.wait(lambda: all(map(known.described, known.tasks)), known.changed)
    studio.settle()
    take("scores-tasks", None)
    scoring.evaluate()
    studio.wait(lambda: not scoring.is_running, scoring.changed)
    page.show_place(SCORES)
    studio.settle()
    take("scores-scores", None)
    _examples(studio, take, page)
    _tuning(studio, take, page)
    session.draft.set_tasks(before)
    window.workspace.show_space(0)


def _examples(studio: Studio, take: Take, page: ScoresPage) -> None:
    place = page.show_place(EXAMPLES)
    assert isinstance(place, ExamplesPlace)
    studio.settle()
    studio.wait(lambda: not studio.window.scoring.is_running, studio.window.scoring.changed)
    studio.settle()
    take("scores-examples", None)
    place.detail.try_button.click()
    trying = studio.window.scoring.trying
    studio.wait(lambda: not trying.is_running, trying.changed)
    assert isinstance(page.show_place(TRY), TryPlace)
    studio.settle()
    take("scores-try-it", None)


def _tuning(studio: Studio, take: Take, page: ScoresPage) -> None:
    place = page.show_place(TUNE)
    assert isinstance(place, TunePlace)
    place.merges.setValue(5)
    place.limit.setValue(EXAMPLES_USED)
    place.button.click()
    tuning = studio.window.scoring.tuning
    studio.wait(lambda: not tuning.is_running, tuning.changed)
    studio.settle()
    take("scores-tune", None)
