"""ACE's claim in the window over the real engine: measured, shown, remembered, and merged with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

import ace_gui
from ace_gui.engine.contract.jobs import CovariancesJob
from ace_gui.gui.app import Workbench
from ace_gui.gui.panels.inspector import CovariancesPanel
from ace_gui.gui.state.activity import ActivityState
from ace_gui.paths import Sample
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe
from tests.helpers.windows import PATIENCE


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """The sample with two of its experts."""
    sample = load_recipe(Sample.IMAGES.recipe)
    few = replace(sample, models=sample.models[:2], tasks=sample.tasks[:2])
    file = tmp_path / "recipe.yaml"
    file.write_text(dump_recipe(few, tmp_path), encoding="utf-8")
    return file


def test_the_experts_inputs_are_measured_shown_and_merged_with(
    bench: Workbench, recipe: Path, qtbot: QtBot
) -> None:
    window = bench.window
    session = bench.window.session
    window.resize(1280, 1000)  # room for the inspector beside the layers
    window.opener.open_paths([recipe])
    qtbot.waitUntil(lambda: session.layers.is_analysed, timeout=4 * PATIENCE)
    tabs = window.workspace.inspector.tabs
    index = next(n for n in range(tabs.count()) if isinstance(tabs.content(n), CovariancesPanel))
    panel = tabs.content(index)
    assert isinstance(panel, CovariancesPanel)
    session.select(session.layers.most_heterogeneous)
    tabs.setCurrentIndex(index)
    qtbot.waitUntil(lambda: panel.button.text() == "Measure and compare", timeout=PATIENCE)
    panel.button.click()
    measuring = window.scoring.covariances
    qtbot.waitUntil(lambda: not measuring.is_running, timeout=4 * PATIENCE)
    assert measuring.error == ""

    by_library = ace_gui.inspect(recipe, covariances=True, device="cpu").covariances
    expected = {(match.name, match.expert): match for match in by_library}
    by_layer = session.results.findings.matches(session.draft.measured_key())
    in_window = [match for matches in by_layer.values() for match in matches]
    assert {(match.name, match.expert): match for match in in_window} == expected
    assert len(by_layer) == len(session.layers.merged) == 24
    sheet = {column.title: list(column.values) for column in panel.sheet.columns}
    row = expected[session.selection, "digits"]
    assert sheet["digits"] == [row.overlap, row.chance, row.centred, row.others, row.cosine]
    pair = [expected[session.selection, name] for name in ("digits", "shapes")]
    agree = sum(match.centred > match.others for match in pair)
    assert panel.plot.caption.full_text.startswith(f"{agree} of 2 estimates match their")

    session.results.findings.clear()  # as in a later window: what was measured is still known
    session.select(session.layers.merged[3].name)
    qtbot.waitUntil(lambda: bool(panel.plot.isVisible()), timeout=PATIENCE)
    assert not window.engine.running(CovariancesJob)

    panel.use.click()
    qtbot.waitUntil(lambda: session.can_merge and not window.engine.is_busy, timeout=PATIENCE)
    window.actions_.merge.trigger()
    qtbot.waitUntil(lambda: session.state is ActivityState.MERGED, timeout=4 * PATIENCE)
    assert session.results.merge.recipe.parameters == {"variant": "measured"}
