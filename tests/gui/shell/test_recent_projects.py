"""The first page: what was open before, and what is known of the sample before it is open."""

import importlib.util
import json
import time
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QFileDialog

from ace_gui.engine.contract.jobs import LoadRecipeJob
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.panels.welcome_page import (
    RecentRow,
    SamplePictures,
    last_use,
    sample_bars,
    summary_of,
)
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.known_scores import sample_figures
from ace_gui.gui.state.settings import RecentProject, Settings
from ace_gui.gui.widgets.labels import ElidedLabel
from ace_gui.paths import resource_path, sessions_folder
from ace_gui.recipe import recommended
from tests.gui.fakes import FakeWorker

HOSTILE = (
    "[" * 100_000,
    '{"a": ' * 50_000,
    "9" * 5000,
    '{"%s": {"left": 1e308, "bytes": -1, "mean": NaN, "colours": [1e9, "x"]}}',
    '{"%s": {"left": "x", "bytes": {}, "mean": [], "colours": {}}}',
    '{"%s": {"left": -1e18, "bytes": 1e400, "colours": [[[]]]}}',
    '{"%s": [], "x": null}',
    "\udcff\x00",
    "",
)
"""What may stand in a damaged file of settings."""

DAY = 86_400


def recent_project(path: Path, **values: object) -> RecentProject:
    fields = {
        "architecture": "BertForSequenceClassification",
        "method": "ACE-Merging",
        "colours": (0, 2),
        "bytes": 3_900_000_000,
        "left": time.time(),
    }
    return RecentProject(path=path, **{**fields, **values})  # type: ignore[arg-type]


def rows(window: MainWindow) -> list[RecentRow]:
    return [row for row in window.welcome.recent.findChildren(RecentRow) if not row.isHidden()]


def test_a_project_is_noted_as_it_was_when_it_was_left(loaded, tmp_path):
    loaded.opener.write_recipe(tmp_path / "mine.yaml")
    plan = loaded.session.draft.plan
    assert plan is not None
    loaded.actions_.close_models.trigger()
    (noted,) = Settings().recent_projects
    assert noted.path == tmp_path / "mine.yaml"
    assert noted.architecture == plan.base.architecture
    assert noted.colours == (0, 1)
    assert noted.bytes == plan.base.bytes + sum(expert.bytes for expert in plan.experts)
    assert not noted.is_merged
    assert abs(noted.left - time.time()) < 60
    (row,) = rows(loaded)
    assert not row.is_lost


@pytest.mark.parametrize(
    ("values", "end"),
    [
        ({}, "not merged yet"),
        ({"is_merged": True}, "merged"),
        ({"is_merged": True, "mean": 0.8071}, "mean .807"),
        ({"is_merged": True, "mean": 0.8071, "is_exported": True}, "exported"),
    ],
)
def test_a_row_says_what_is_in_it_and_how_far_it_came(values, end):
    project = recent_project(Path("/a/glue.ace.yaml"), **values)
    assert summary_of(project) == f"Bert · 2 experts · ACE-Merging · {end}"


def test_the_recommended_merge_is_noted_by_its_name(loaded, tmp_path):
    session = loaded.session
    session.draft.keep(session.draft.inputs.recommended())
    assert RecentProject.of(session, tmp_path).method == recommended.TITLE


def test_a_row_of_usual_width_shows_all_of_a_name_and_a_summary(qtbot, tmp_path):
    path = tmp_path / "handwritten-digits-on-vit-small.ace.yaml"
    path.touch()
    row = RecentRow(recent_project(path, method="ACE, recommended", bytes=10**9), first=True)
    qtbot.addWidget(row)
    row.resize(401, row.sizeHint().height())  # in a window of 1280 pixels
    row.show()
    labels = row.findChildren(ElidedLabel)
    assert [label.text() for label in labels] == [label.full_text for label in labels]


def test_where_nothing_was_noted_the_folder_is_named():
    assert summary_of(RecentProject(path=Path("/a/b/glue.yaml"))) == str(Path("/a/b"))


def test_the_last_use_is_told_by_the_day():
    project = Path("/a/glue.yaml")
    now = time.time()
    assert last_use(recent_project(project, left=now)).startswith("today ")
    assert last_use(recent_project(project, left=now - DAY)).startswith("yesterday ")
    assert last_use(recent_project(project, left=now - 800 * DAY)).endswith(
        time.strftime("%Y", time.localtime(now - 800 * DAY))
    )
    assert last_use(RecentProject(path=project)) == ""  # there is no such file


@pytest.mark.parametrize(
    "broken", ["", "[1]", "{", '{"%s": {"colours": "red", "bytes": [], "x": 1}}']
)
def test_what_is_noted_wrongly_is_left_out(tmp_path, broken):
    settings = Settings()
    settings.remember(tmp_path / "r.yaml")
    noted = broken.replace("%s", str(tmp_path / "r.yaml"))
    settings.store.setValue("recent-projects", noted)
    assert settings.recent_projects == (RecentProject(path=tmp_path / "r.yaml"),)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_damaged_settings_keep_no_window_from_opening(text, own_settings, tmp_path):
    recipe = tmp_path / "a.ace.yaml"
    recipe.write_text("x", encoding="utf-8")
    value = text.replace("%s", str(recipe))
    for key in (
        "recent-projects",
        "engine/memory",
        "engine/threads",
        "engine/scratches",
        "runs/days",
        "window/font_scale",
        "window/geometry",
        "folders/export",
        "window/scheme",
    ):
        QSettings().setValue(key, value)
    Settings().remember(recipe)
    made = MainWindow(FakeWorker(), Settings(), MergeStores(tmp_path / "merges"))
    made.show()
    assert len(rows(made)) == 1
    made.close_unasked()
    made.deleteLater()


def test_a_recipe_that_is_gone_can_be_located(opened, worker, qtbot, tmp_path):
    here = tmp_path / "here.yaml"
    gone = tmp_path / "gone.yaml"
    here.write_text("x", encoding="utf-8")
    Settings().remember(gone)
    opened.recent_projects.refresh()
    (row,) = rows(opened)
    assert row.is_lost
    row.click()
    (dialog,) = opened.findChildren(QFileDialog)
    with qtbot.waitSignal(dialog.finished):
        dialog.selectFile(str(here))
        dialog.accept()
    assert worker.jobs[worker.newest(LoadRecipeJob)].paths == (here,)
    assert Settings().recent == (here,)


@pytest.fixture
def crashed(own_settings: None) -> Path:
    """What a window left that did not end well."""
    leftover = sessions_folder() / f"{'f00d' * 8}.running.ace.yaml"
    leftover.parent.mkdir(parents=True, exist_ok=True)
    leftover.write_text("x", encoding="utf-8")
    return leftover


def test_a_crash_is_told_once_and_its_project_stays_among_the_recent_ones(
    crashed, window, tmp_path
):
    assert not window.notice.isHidden()
    (project,) = Settings().recent
    assert project.name.startswith("project, recovered 20")
    window.close_unasked()
    for _ in range(3):
        later = MainWindow(FakeWorker(), Settings(), MergeStores(tmp_path / "later"))
        later.show()
        assert later.notice.isHidden()
        assert later.actions_.reopen.isEnabled()
        assert Settings().recent == (project,)
        later.close_unasked()
        later.deleteLater()


def test_what_offers_a_crashed_session_goes_once_it_is_reopened(crashed, opened, worker):
    opened.recent_projects.show_crash("Fatal Python error: Aborted")
    opened.recent_projects.refresh()
    assert not opened.notice.isHidden()
    opened.actions_.reopen.trigger()
    (path,) = worker.jobs[worker.newest(LoadRecipeJob)].paths
    assert path.name.startswith("project, recovered 20")
    assert opened.notice.isHidden()


def test_the_pictures_are_those_of_the_held_out_data(qtbot):
    pictures = SamplePictures()
    qtbot.addWidget(pictures)
    strip = pictures.strip
    tasks = sample_figures().tasks
    with np.load(resource_path("sample/heldout.npz")) as held_out:
        for index, task in enumerate(tasks):
            image = held_out[f"{task}_images"][0]
            side = len(image)
            pixels = [
                [strip.pixelColor(index * side + x, y).red() for x in range(side)]
                for y in range(side)
            ]
            assert pixels == image.tolist(), task


def test_the_intervals_of_the_two_ace_merges_overlap_as_the_card_says():
    bars = {bar.title: bar for bar in sample_bars()}
    published = bars["ACE, published"]
    best = bars[recommended.TITLE]
    for bar in bars.values():
        error = float(bar.text.partition("± ")[2])
        assert bar.error == pytest.approx(1.96 * error, rel=0.06)
    assert abs(published.share - best.share) < min(published.error, best.error)


def test_the_figures_are_those_of_the_help():
    """Which other tests hold to what the commands print."""
    file = Path(__file__).parents[3] / "packaging/sample/make_figures.py"
    spec = importlib.util.spec_from_file_location("make_figures", file)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = json.loads(resource_path(script.FIGURES).read_text(encoding="utf-8"))
    assert written == script.figures()
    figures = sample_figures()
    assert figures.base < figures.methods["linear"] < figures.methods["ace"] < figures.experts
