"""The Scores workspace over the real engine, on the sample of images: from data to a value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

import ace_gui
from ace_gui.engine.contract.scored import EXPERTS, AnswerVerdict, Tuned, TunePoint
from ace_gui.gui.app import Workbench
from ace_gui.gui.panels.examples_tab import ExamplesTab
from ace_gui.gui.panels.scores_page import ScoresPage, ScoresTab
from ace_gui.gui.panels.tasks_tab import TasksTab
from ace_gui.gui.panels.tune_tab import TuneTab
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import ActivityState
from ace_gui.paths import Sample
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe
from ace_gui.recipe.recommended import TITLE
from tests.helpers.windows import PATIENCE


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """The sample with two of its tasks, and few examples."""
    sample = load_recipe(Sample.IMAGES.recipe)
    tasks = tuple(replace(task, limit=30) for task in sample.tasks[:2])
    file = tmp_path / "recipe.yaml"
    file.write_text(dump_recipe(replace(sample, tasks=tasks), tmp_path), encoding="utf-8")
    return file


def test_from_tasks_to_scores_examples_trying_and_a_tuned_value(
    bench: Workbench, recipe: Path, qtbot: QtBot, tmp_path: Path
) -> None:
    window = bench.window
    session = bench.window.session
    window.opener.open_paths([recipe])
    qtbot.waitUntil(lambda: session.layers.is_analysed, timeout=4 * PATIENCE)
    page = window.workspace.show_scores()
    known_scores = session.results.scores
    tasks = page.show_tab(TasksTab)
    assert isinstance(tasks, TasksTab)
    qtbot.waitUntil(lambda: all(map(known_scores.described, known_scores.tasks)), timeout=PATIENCE)
    assert [tasks.list.item(row).text() for row in (0, 1)] == [
        "digits\nimage-classification · 30 examples",
        "shapes\nimage-classification · 30 examples",
    ]

    window.actions_.merge.trigger()
    qtbot.waitUntil(lambda: session.state is ActivityState.MERGED, timeout=PATIENCE)
    scores = page.show_tab(ScoresTab)
    assert isinstance(scores, ScoresTab)
    scores.evaluate.click()
    qtbot.waitUntil(lambda: known_scores.is_complete(EXPERTS), timeout=PATIENCE)
    store = str(session.results.merge.store)
    qtbot.waitUntil(lambda: known_scores.is_complete(store), timeout=PATIENCE)
    scores.refresh()
    assert scores.title.text().startswith(f"{TITLE} keeps ")
    by_library = ace_gui.evaluate(recipe, device="cpu")
    for score in by_library.scores:
        model = EXPERTS if score.own else score.model
        assert known_scores.line(model)[score.task].score == score.score
    qtbot.waitUntil(lambda: not window.scoring.is_running, timeout=PATIENCE)

    _try_a_listed_example(window, page, Path(store), qtbot)
    _tune_the_scaling(window, page, tmp_path / "tuned.yaml", qtbot)


def _try_a_listed_example(window: MainWindow, page: ScoresPage, store: Path, qtbot: QtBot) -> None:
    known_scores = window.session.results.scores
    examples = page.show_tab(ExamplesTab)
    assert isinstance(examples, ExamplesTab)
    listings = lambda: known_scores.examples(store, with_base=False)  # noqa: E731
    qtbot.waitUntil(lambda: set(listings()) == {"digits", "shapes"}, timeout=PATIENCE)
    lost = sum(listing.counts[AnswerVerdict.LOST] for listing in listings().values())
    gained = sum(listing.counts[AnswerVerdict.GAINED] for listing in listings().values())
    merged = known_scores.line(str(store))
    drop = sum(known_scores.line(EXPERTS)[t].score - merged[t].score for t in merged)
    assert lost - gained == pytest.approx(30 * drop)
    assert examples.list.rows.rowCount() == lost > 0

    listed = examples.list.examples[0].comparison
    examples.detail.try_button.click()
    assert window.workspace.trying.isVisible()
    operation = window.scoring.trying
    qtbot.waitUntil(
        lambda: len(operation.by_model) == 3 and not operation.is_running, timeout=PATIENCE
    )
    best = {model: answer.shares[0][0] for model, answer in operation.by_model.items()}
    assert best[str(store)] == listed.answer  # what the list says is what the model says
    assert best["digits"] == listed.other == listed.example.label
    window.workspace.show_scores()


def _tune_the_scaling(window: MainWindow, page: ScoresPage, out: Path, qtbot: QtBot) -> None:
    tune = page.show_tab(TuneTab)
    assert isinstance(tune, TuneTab)
    for name, (tick, low, high) in tune.ranges.rows.items():
        tick.setChecked(name == "scaling")
        if name == "scaling":
            low.setValue(0.01)
            high.setValue(0.5)
    tune.merges.setValue(2)
    tune.button.click()
    qtbot.waitUntil(lambda: not window.scoring.tuning.is_running, timeout=PATIENCE)
    assert window.scoring.tuning.error == ""
    assert len(window.scoring.tuning.all(TunePoint)) == 2
    tune.use.click()
    qtbot.waitUntil(lambda: not window.engine.is_busy, timeout=PATIENCE)
    window.opener.write_recipe(out)
    assert out.read_text(encoding="utf-8").startswith("# Tuned by ACE workbench: scaling ")
    tuned = load_recipe(out)
    assert (
        tuned.parameters["scaling"] == window.scoring.tuning.last(Tuned).best.parameters["scaling"]
    )
    assert [task.title for task in tuned.tasks] == ["digits", "shapes"]
