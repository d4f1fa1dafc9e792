"""The strip above the layers after a merge."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from ace_gui.engine.contract.merge_summary import MergeSummary, NextStep, Words
from ace_gui.gui.panels.checks_and_health import HealthPanel
from ace_gui.gui.panels.tasks_tab import TasksTab
from ace_gui.gui.shell.window_frame import Space
from tests.gui.fakes import finished_tensor, merged


@pytest.fixture
def strip(loaded, worker):
    """The strip of a finished merge."""
    merged(loaded, worker, finished_tensor("layer.10.q"))
    return loaded.workspace.summary


def test_it_comes_with_a_merge_and_goes_with_it(loaded, worker):
    strip = loaded.workspace.summary
    assert not strip.isVisible()
    merged(loaded, worker, finished_tensor("layer.10.q"))
    assert strip.isVisible()
    assert strip.title.text() == "Two experts merged: 3 matrices in 0:01"
    loaded.runs.delete(loaded.session.results.runs.all)
    assert not strip.isVisible()


def test_other_settings_leave_it_and_another_merge_replaces_it(loaded, worker, strip):
    first = strip.summary
    loaded.conductor.set_parameter("tau", 0.95)
    assert strip.isVisible()
    assert strip.summary == first
    merged(loaded, worker, finished_tensor("layer.10.q"), seconds=7.0)
    assert strip.title.text().endswith("0:07")


def test_a_link_selects_its_tensors(loaded, strip):
    places = (Words(text="Two", tensors=("layer.0.q", "layer.2.q")),)
    strip._show(MergeSummary(title="", differences=places, changes=(), quality=()))
    strip.parts[0].text.linkActivated.emit("0.0")
    assert loaded.session.selection == "layer.0.q"
    assert loaded.workspace.layers.selected == ["layer.0.q", "layer.2.q"]


@pytest.mark.parametrize(
    ("step", "space", "page"),
    [
        (NextStep.TRY, Space.TRY, None),
        (NextStep.EVALUATE, Space.SCORES, None),
        (NextStep.ADD_DATA, Space.SCORES, TasksTab),
        (NextStep.HEALTH, Space.LAYERS, HealthPanel),
    ],
)
def test_a_link_goes_on_to_the_next_step(loaded, strip, step, space, page):
    words = Words(text="Go", step=step)
    strip._show(MergeSummary(title="", differences=(), changes=(), quality=(words,)))
    strip.parts[2].text.linkActivated.emit("2.0")
    workspace = loaded.workspace
    assert loaded.header.workspaces.current == space
    if page is TasksTab:
        assert isinstance(workspace.scores.tabs.current, TasksTab)
    elif page is HealthPanel:
        assert isinstance(workspace.heterogeneity.tabs.current, HealthPanel)


def test_it_folds_and_stays_folded(loaded, worker, strip):
    QTest.mouseClick(strip.fold_button, Qt.MouseButton.LeftButton)
    assert strip.is_folded
    assert not strip.parts[0].isVisible()
    assert "Unfold" in strip.fold_button.accessibleName()
    loaded.workspace.save_layout(loaded.settings)
    strip.set_folded(False)
    loaded.workspace.restore_layout(loaded.settings)
    assert strip.is_folded


def test_names_from_models_are_no_markup(strip):
    words = Words(text="<b>one</b> & two")
    summary = MergeSummary(title="", differences=(words,), changes=(), quality=())
    strip._show(replace(summary, title="<i>"))
    assert "&lt;b&gt;" in strip.parts[0].text.text()
