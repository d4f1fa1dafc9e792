"""What the experts' own data show: covariances, and a method that learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ace_gui.gui.panels.layer.covariances_panel import CovariancesPanel
from ace_gui.gui.panels.layer_views import LearningView
from ace_gui.gui.picture import Studio
from ace_gui.gui.plots.learning_plot import FIGURES, LOSSES
from ace_gui.gui.state.activity import State
from tests.walk.states.doing import Step, change, choose_method, turn_to

STEPS: Final = 12
"""Enough for curves, not for a good merge."""


def covariances(studio: Studio) -> Iterator[Step]:
    """ACE's covariances and those of the inputs: without data, while measuring, measured."""
    window, session = studio.window, studio.window.session
    tasks = session.draft.inputs.tasks
    if session.draft.inputs.base is None or session.draft.inputs.recipe().without_calibration:
        return
    panel = turn_to(window.workspace.inspector.tabs, CovariancesPanel)
    assert isinstance(panel, CovariancesPanel)
    session.draft.set_tasks(())
    yield "covariances: no data", window
    session.draft.set_tasks(tasks)
    measuring, activity = window.scoring.covariances, session.activity
    measuring.start()
    studio.wait(lambda: activity.progress is not None, activity.progressed)
    yield "covariances: measuring", window
    studio.wait(lambda: not measuring.is_running, measuring.changed)
    yield "covariances", window
    window.workspace.inspector.tabs.setCurrentIndex(0)


def learning(studio: Studio) -> Iterator[Step]:
    """While AdaMerging learns, and afterwards: the loss, and the coefficients."""
    window, session = studio.window, studio.window.session
    if session.draft.inputs.recipe().without_calibration:
        return
    own, learnt, activity = session.draft.inputs.method, session.results.learning, session.activity
    choose_method(studio, "adamerging")
    change(studio, session.draft.inputs.with_parameter("steps", STEPS))
    window.merge.start()
    steps = lambda: max(map(len, learnt.figures.values()), default=0)  # noqa: E731
    studio.wait(lambda: steps() >= STEPS // 2, learnt.changed)
    view = turn_to(window.workspace.heterogeneity.tabs, LearningView)
    assert isinstance(view, LearningView)
    yield "learning", window
    studio.wait(lambda: not activity.is_running(State.MERGING), activity.changed)
    for shown in (LOSSES, FIGURES):
        view.plot.shown.choose(shown)  # type: ignore[attr-defined]
        yield f"learnt: {shown}", window
    window.workspace.heterogeneity.tabs.setCurrentIndex(0)
    choose_method(studio, own)
