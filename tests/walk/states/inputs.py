"""From the empty window to the first merge, then settings that change the form."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from PySide6.QtWidgets import QScrollArea

from ace_gui.errors import CheckpointError
from ace_gui.gui.panels.health_panel import HealthPanel
from ace_gui.gui.panels.layer.covariances_panel import CovariancesPanel
from ace_gui.gui.panels.layer_views import LearningView
from ace_gui.gui.picture import Studio
from ace_gui.gui.plots.learning_plot import FIGURES, LOSSES
from ace_gui.gui.shell.layout.cards import VIEWS
from ace_gui.gui.shell.tours.tutorial import Tour
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.chosen.layer_rules import overridden
from ace_gui.paths import Sample
from ace_gui.recipe import Override
from ace_gui.recipe.values import After, Cap
from tests.walk.states.doing import (
    Step,
    change,
    choose_method,
    each_tab,
    opened,
    turn_to,
    until_ready,
)

_LONG: Final = "vit-small-patch16-224-in21k-finetuned-on-handwritten-digits-of-many-alphabets-epoch"
_NORMS: Final = Override(role="norm", blocks="0-1", disposition="base")


def empty(studio: Studio, recipe: Path) -> Iterator[Step]:
    """Nothing is open."""
    window = studio.window
    yield "welcome", window
    window.opener.scan_folders([recipe.parent], None)
    scan = window.opener.scanned
    assert scan is not None
    studio.wait(lambda: not window.engine.is_busy, window.engine.idle)
    yield "a scan", scan
    scan.close()


def before_merging(studio: Studio, recipe: Path) -> Iterator[Step]:
    """The recipe is open, and nothing is chosen or merged."""
    window, workspace = studio.window, studio.window.workspace
    studio.open(recipe)
    yield "opened", window
    yield from each_tab("nothing chosen", workspace.inspector.tabs, window, tables=False)
    yield from each_tab("nothing merged", workspace.heterogeneity.tabs, window, tables=False)
    tabs = workspace.show_scores().tabs
    yield from each_tab("nothing scored", tabs, window, tables=False)
    workspace.show_methods()
    yield "methods to compare", window
    workspace.show_space(0)
    yield from _many(studio)
    yield from _checks(studio)
    yield from _broken(studio)


def _checks(studio: Studio) -> Iterator[Step]:
    """Warnings about an expert that does not fit, then an error as well."""
    window, session = studio.window, studio.window.session
    last = len(session.draft.inputs.experts)
    with tempfile.TemporaryDirectory() as name:
        odd = Path(name) / "digits-again"
        shutil.copytree(session.draft.inputs.experts[0].path, odd)
        config = json.loads((odd / "config.json").read_text(encoding="utf-8"))
        config["layer_norm_eps"] = 0.5
        (odd / "config.json").write_text(json.dumps(config), encoding="utf-8")
        window.conductor.add_experts([odd])
        until_ready(studio, lambda: bool(session.checks.worries))
        window.actions_.merge.trigger()
        yield "warnings before merging", window
        session.limit_memory(1_000_000)
        window.actions_.merge.trigger()
        yield "errors before merging", window
        window.notice.details_button.setChecked(True)
        yield "errors in detail", window
        session.limit_memory(None)
        window.conductor.change(window.session.draft.inputs.without_experts([last]))
        until_ready(studio, lambda: not session.checks.worries)
    window.notice.hide()


def _many(studio: Studio) -> Iterator[Step]:
    """Eight experts, some with names longer than any place for them, and an override."""
    window, session = studio.window, studio.window.session
    before, left = session.draft.inputs, window.workspace.left
    folded = left.is_folded
    with tempfile.TemporaryDirectory() as name:
        copies = [Path(name) / f"{_LONG}-{number}" for number in range(len(before.experts), 8)]
        for copy in copies:
            shutil.copytree(before.experts[0].path, copy)
        many = replace(before.with_experts(copies), overrides=(_NORMS,))
        change(studio, many)
        left.fold(False)
        yield "eight experts", window
        left.fold(True)
        yield "eight experts, folded", window
        left.fold(folded)
        change(studio, before)


def _broken(studio: Studio) -> Iterator[Step]:
    window = studio.window
    sentence = "“interrupted-download” holds no tensors; download it again or remove it."
    window.show_error(CheckpointError(sentence))
    yield "an error", window
    window.notice.hide()


def first_merge(studio: Studio, recipe: Path, during: Callable[[Step], None]) -> Iterator[Step]:
    """Led by the tutorial where the recipe is its sample."""
    window = studio.window
    if recipe == Sample.IMAGES.recipe:
        window.conductor.close()
        yield "recent projects", window
        yield from _tutorial(studio, recipe, during)
        window.workspace.show_space(0)
        yield "merged", window
    else:
        yield from only_merge(studio, during)


def only_merge(studio: Studio, during: Callable[[Step], None]) -> Iterator[Step]:
    """The first merge without the tutorial."""
    _merge(studio, during)
    studio.select_most_heterogeneous()
    yield "merged", studio.window


def _tutorial(studio: Studio, recipe: Path, during: Callable[[Step], None]) -> Iterator[Step]:
    """Each step shown, then done as a person would."""
    tour = studio.window.help.begin_tutorial()
    while tour.is_running:
        number = tour.step_index + 1
        yield f"tutorial, step {number}", studio.window
        _do(studio, tour, number, recipe, during)
        if tour.is_running and tour.step_index + 1 == number:  # a step to read
            tour.mark.next.click()


def _do(
    studio: Studio, tour: Tour, number: int, recipe: Path, during: Callable[[Step], None]
) -> None:
    """What the step with this number asks for."""
    window = studio.window
    match number:
        case 1:
            studio.open(recipe)
        case 2:
            studio.select_most_heterogeneous()
        case 4:
            _merge(studio, during)
        case 6:
            window.header.workspaces.choose(1)
            window.header.workspaces.chosen.emit(1)
        case 7:
            window.scoring.evaluate()
            studio.wait(lambda: tour.step_index + 1 > number, window.scoring.changed)


def _merge(studio: Studio, during: Callable[[Step], None]) -> None:
    """Merge, and call ``during`` once when half of the tensors are done."""
    activity, left = studio.window.session.activity, [during]

    def watch() -> None:
        progress = activity.progress
        merging = progress is not None and progress.state is State.MERGING
        if left and merging and progress is not None and 2 * progress.done >= progress.total:
            left.pop()(("merging", studio.window))

    activity.progressed.connect(watch)
    studio.merge()
    activity.progressed.disconnect(watch)


SMALL_RIDGE = 1e-9
"""With it the published variant moves the sample far more than its experts did."""


def choices(studio: Studio) -> Iterator[Step]:
    """Each kind of choice; at the end the settings of the merge are back."""
    window, session = studio.window, studio.window.session
    before = session.draft.inputs
    published = before.with_method("ace")
    yield from _overrides(studio)
    change(studio, replace(before, after=After(cap=Cap())))
    yield "a cap", window
    change(studio, published.with_parameter("epsilon", SMALL_RIDGE))
    yield "settings changed", window
    studio.merge()
    window.workspace.cards.bring(VIEWS)
    turn_to(window.workspace.heterogeneity.tabs, HealthPanel)
    yield "health warns", window
    change(studio, published.with_parameter("variant", "automatic"))
    yield "the automatic variant", window
    window.workspace.heterogeneity.tabs.setCurrentIndex(0)
    change(studio, before)


def _overrides(studio: Studio) -> Iterator[Step]:
    window, session = studio.window, studio.window.session
    values = {row.name for row in session.layers.merged if row.role == "value"}
    rules = overridden(session, values, Override(merge_method="ties", disposition="merge"))
    rules = (*rules, Override(role="norm", blocks="0-1", disposition="base"))
    window.conductor.change(replace(window.session.draft.inputs, overrides=rules))
    plan = lambda: session.draft.plan  # noqa: E731
    until_ready(studio, lambda: plan() is not None and plan().recipe.overrides == rules)
    for area in window.workspace.left.findChildren(QScrollArea):
        area.ensureWidgetVisible(window.workspace.method.overrides)
    layers = window.workspace.layers
    if values:
        layers.table.scrollTo(layers.model.index_of(min(values)))
    yield "overrides", window
    yield from opened("an override", lambda: window.dialogs.edit_override(0))
    window.conductor.change(replace(window.session.draft.inputs, overrides=()))
    until_ready(studio, lambda: not session.draft.inputs.overrides)


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
