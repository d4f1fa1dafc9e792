"""The curves of a method that learns: what is drawn, its table, colours, and the tab around it."""

import numpy as np
import pytest
from PySide6.QtCore import Qt

from ace_gui.engine.contract.events import LearningProgress
from ace_gui.gui.plots.merge_plots import FIGURES, LearningPlot, running_mean
from ace_gui.gui.state.results import LearningCurves
from ace_gui.gui.theme import DARK, LIGHT
from tests.gui.fakes import COLA, ENGINE, GAMMAS, SST2, analysed, load, started

LOSSES = {"sst2": [2.0, 1.0, 0.5], "cola": [1.0, 1.0, 4.0]}
LAMBDAS = {"sst2": [0.3, 0.31, 0.32], "cola": [0.3, 0.29, 0.28]}


def reported(first: int, losses: dict, figures: dict, done: int = 3) -> LearningProgress:
    return LearningProgress(
        title="learning with AdaMerging",
        done=done,
        total=1000,
        first=first,
        losses={name: tuple(loss) for name, loss in losses.items()},
        figures={name: tuple(figure) for name, figure in figures.items()},
        curve="mean coefficient λ",
    )


def test_new_steps_take_the_place_of_those_from_there_on():
    curves = LearningCurves()
    curves.take(reported(0, {"a": [3, 2, 1]}, {"x": [1, 2, 3]}))
    curves.take(reported(3, {"a": [0.5]}, {"x": [4]}))
    assert curves.losses == {"a": [3, 2, 1, 0.5]}
    curves.take(reported(2, {"a": [9, 9]}, {"x": [9, 9]}))  # resumed from an earlier checkpoint
    assert curves.figures == {"x": [1, 2, 9, 9]}
    curves.take(reported(0, {"b": [7]}, {"y": [7]}))  # another expert, by itself
    assert curves.losses == {"a": [3, 2, 9, 9], "b": [7]}
    curves.clear()
    assert curves.is_empty


def test_a_running_mean_is_of_so_many_steps_and_of_fewer_at_the_beginning():
    values = np.random.default_rng(0).normal(size=50)
    expected = [values[max(0, n - 19) : n + 1].mean() for n in range(50)]
    assert np.allclose(running_mean(values), expected)
    assert running_mean(np.zeros(0)).size == 0


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_the_plot_has_a_line_a_task_or_an_expert_and_the_table_every_step(qtbot, theme):
    plot = LearningPlot()
    qtbot.addWidget(plot)
    assert plot.message() is not None
    plot.set_theme(theme)
    colours = {"sst2": "expert 0", "cola": "expert 1"}
    plot.show_steps(LOSSES, LAMBDAS, "mean coefficient λ", colours)
    assert plot.message() is None
    assert plot.title.full_text == "Loss of every task"
    x, y = plot.items["sst2"].getOriginalDataset()
    assert list(x) == [1, 2, 3]
    assert np.allclose(y, [2.0, 1.5, 3.5 / 3])
    plot.shown.choose(FIGURES)
    assert plot.title.full_text == "Mean coefficient λ"
    assert np.allclose(plot.items["cola"].getOriginalDataset()[1], LAMBDAS["cola"])
    assert "cola: 0.2800 at step 3" in plot.accessibleDescription()
    columns = {column.title: list(column.values) for column in plot.columns()}
    assert columns["step"] == [1, 2, 3]
    assert columns["loss of cola"] == [1.0, 1.0, 4.0]
    assert columns["sst2"] == LAMBDAS["sst2"]


def test_the_tab_comes_with_the_first_step_and_grows(window, worker, qtbot):
    worker.say(ENGINE, job=0)
    window.conductor.open([COLA.parent / "recipe.yaml"])
    load(worker, COLA, SST2)
    worker.say(*analysed(GAMMAS))
    tabs = window.workspace.heterogeneity.tabs
    index = next(n for n in range(tabs.count()) if tabs.tabText(n) == "Learning")
    assert not tabs.isTabVisible(index)
    window.merge.start()
    worker.say(reported(0, LOSSES, LAMBDAS))
    assert tabs.isTabVisible(index)
    header = window.header.primary
    header.refresh()
    assert header.message.text() == "Learning with AdaMerging"
    assert header.main.text() == "3 of 1000"
    tabs.setCurrentIndex(index)
    view = tabs.content(index)
    view.refresh()
    assert view.plot.message() is None
    worker.say(reported(3, {"sst2": [0.1], "cola": [0.1]}, {"sst2": [0.4], "cola": [0.2]}, done=4))
    qtbot.waitUntil(lambda: len(view.plot.columns()[0].values) == 4, timeout=5000)
    view.setFocus()
    qtbot.keyClick(view.plot, Qt.Key.Key_Tab)
    worker.say(started())
    assert tabs.isTabVisible(index)  # what was learned stays to be looked at
