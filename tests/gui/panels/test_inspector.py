"""The inspector's panels: they follow the selection, ask for what is looked at, and show it."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QStyle, QWidget
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import JobCancelled, JobDone, JobFailed
from ace_gui.engine.contract.findings import (
    LayerDifference,
    LayerDistribution,
    LayerStatistics,
    LayerSubspaces,
)
from ace_gui.engine.contract.jobs import DifferenceJob, DistributionJob, SpectrumJob, SubspacesJob
from ace_gui.errors import EngineError
from ace_gui.gui.panels.compare_page import TWO_MERGES, ComparePanel
from ace_gui.gui.panels.layer_panels import (
    DistributionPanel,
    SpectraPanel,
    SubspacesPanel,
    SubspaceView,
)
from ace_gui.gui.plots.frame.base_plot import NOT_COMPUTED
from ace_gui.gui.plots.frame.export_image import PictureDialog, PictureFormat, grab_plot
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.results import FINDINGS_KEPT, TRIALS_KEPT, Findings, Runs
from ace_gui.gui.state.run_names import run_titles
from ace_gui.gui.widgets.tables import FigureSheet
from ace_gui.recipe.values import Task
from tests.gui.fakes import (
    ACE,
    COLA,
    GAMMAS,
    LINEAR,
    SST2,
    FakeWorker,
    expert_spectra,
    finished_merge,
    finished_tensor,
    recipe,
    spectrum,
    started,
    task_score,
)

QUERY = "layer.0.q"
KEY = "layer.10.q"

Panel = TypeVar("Panel")


def turn_to(window: MainWindow, kind: type[Panel]) -> Panel:
    """Show the inspector's tab with this panel."""
    tabs = window.workspace.inspector.tabs
    for index in range(tabs.count()):
        panel = tabs.content(index)
        if isinstance(panel, kind):
            tabs.setCurrentIndex(index)
            return panel
    raise AssertionError(kind)


def select(window: MainWindow, worker: FakeWorker, qtbot: QtBot, kind: type) -> int:
    """Select the query; the number of the job of this kind that is then asked for."""
    window.session.select(QUERY)
    qtbot.waitUntil(lambda: bool(worker.jobs_of(kind)))
    return worker.newest(kind)


def subspaces(name: str) -> LayerSubspaces:
    return LayerSubspaces(
        name=name,
        experts=("cola", "sst2"),
        alignment=np.array([1.0, 0.5]),
        alignment_right=np.array([1.0, 0.4]),
        overlap=np.array([[1, 0.25], [0.25, 1]]),
        rank=1,
    )


def distribution(name: str) -> LayerDistribution:
    experts = ("cola", "sst2")
    return LayerDistribution(
        name=name,
        edges=np.linspace(-1, 1, 4),
        counts={expert: np.array([1, 10, 1]) for expert in experts},
        outside=dict.fromkeys(experts, 0),
        means=dict.fromkeys(experts, 0.0),
        deviations=dict.fromkeys(experts, 0.3),
        excess=dict.fromkeys(experts, 1.0),
    )


# What is asked


def test_only_the_panel_in_view_asks_and_only_once(loaded, worker, qtbot):
    select(loaded, worker, qtbot, SpectrumJob)
    qtbot.wait(100)
    assert not worker.jobs_of(SubspacesJob)
    turn_to(loaded, SubspacesPanel)
    qtbot.waitUntil(lambda: bool(worker.jobs_of(SubspacesJob)))
    assert worker.jobs_of(SubspacesJob)[0].row.name == QUERY
    number = worker.newest(SubspacesJob)
    worker.say(subspaces(QUERY), JobDone(), job=number)
    loaded.session.select(KEY)
    loaded.session.select(QUERY)
    qtbot.wait(150)
    assert len(worker.jobs_of(SubspacesJob)) == 1  # remembered, and the other only passed by


def test_what_was_asked_is_withdrawn_when_the_selection_moves_on(loaded, worker, qtbot):
    turn_to(loaded, DistributionPanel)
    first = select(loaded, worker, qtbot, DistributionJob)
    loaded.session.select(KEY)
    qtbot.waitUntil(lambda: first in worker.withdrawn)
    worker.say(distribution(QUERY), job=first)  # too late to be heard
    key = loaded.session.draft.models_key()
    assert loaded.session.results.findings.get(LayerDistribution, QUERY, key) is None
    turn_to(loaded, SpectraPanel)
    second = worker.newest(DistributionJob)
    qtbot.waitUntil(lambda: second in worker.withdrawn)


def test_a_distribution_holds_whatever_the_method_is(loaded, worker, qtbot):
    panel = turn_to(loaded, DistributionPanel)
    job = select(loaded, worker, qtbot, DistributionJob)
    worker.say(distribution(QUERY), JobDone(), job=job)
    loaded.session.draft.set_parameter("epsilon", 1e-3)
    qtbot.wait(150)
    assert panel.plot.message() is None
    assert len(worker.jobs_of(DistributionJob)) == 1
    assert things(panel.sheet)[0] == "cola"
    assert panel.sheet.isVisible()
    figures = {column.title: list(column.values) for column in panel.sheet.columns}
    assert figures["cola"][:3] == [0.0, 0.3, 1.0], "mean, deviation, excess kurtosis"


def test_an_inquiry_that_fails_is_told_and_not_repeated(loaded, worker, qtbot):
    panel = turn_to(loaded, DistributionPanel)
    job = select(loaded, worker, qtbot, DistributionJob)
    before = panel.plot.message()
    qtbot.waitUntil(lambda: panel.plot.message() == "Computing…", timeout=2000)
    with qtbot.waitSignal(loaded.session.problem):
        worker.say(JobFailed(error=EngineError("Something is wrong.")), job=job)
    assert panel.plot.message() == before, "it waits for nothing"
    qtbot.wait(150)
    assert len(worker.jobs_of(DistributionJob)) == 1


@pytest.mark.parametrize(
    ("kind", "job"),
    [
        (SpectraPanel, SpectrumJob),
        (SubspacesPanel, SubspacesJob),
        (DistributionPanel, DistributionJob),
    ],
)
def test_no_panel_asks_for_a_layer_next_to_the_selected_one(loaded, worker, qtbot, kind, job):
    panel = turn_to(loaded, kind)
    if isinstance(panel, SubspacesPanel):
        panel.view_choice.choose(SubspaceView.REFINEMENT)
    assert "Select" in panel.plot.message()
    loaded.session.select(QUERY)
    assert panel.plot.message() == NOT_COMPUTED
    number = select(loaded, worker, qtbot, job)
    qtbot.waitUntil(lambda: panel.plot.message() == "Computing…", timeout=2000)
    panel.refresh()
    assert panel.plot.message() == "Computing…"
    worker.say(JobCancelled(), job=number)
    assert panel.plot.message() == NOT_COMPUTED
    loaded.session.select(None)
    assert "Select" in panel.plot.message()


def test_a_lost_engine_ends_the_waiting(loaded, worker, qtbot):
    turn_to(loaded, SubspacesPanel)
    select(loaded, worker, qtbot, SubspacesJob)
    ends = lambda kind, awaited: kind is LayerSubspaces and not awaited  # noqa: E731
    with qtbot.waitSignal(loaded.queries.awaited, check_params_cb=ends):
        worker.engine_lost.emit(EngineError("The engine is gone."))


def test_findings_are_remembered_up_to_a_bound(qapp):
    findings = Findings()
    for index in range(FINDINGS_KEPT + 1):
        findings.record((index,), subspaces(QUERY))
    assert findings.get(LayerSubspaces, QUERY, (0,)) is None
    assert findings.get(LayerSubspaces, QUERY, (1,)) is not None
    assert findings.get(LayerDistribution, QUERY, (1,)) is None


# What is shown


def take(parent: QWidget, file: Path) -> None:
    """Choose a file in the dialog that is open."""
    (dialog,) = [d for d in parent.findChildren(QFileDialog) if d.isVisible()]
    dialog.filesSelected.emit([str(file)])
    dialog.done(0)


def things(sheet: FigureSheet) -> list[str]:
    """What the rows of a turned sheet are called."""
    figures = sheet.model()
    down = Qt.Orientation.Vertical
    return [figures.headerData(row, down).strip() for row in range(figures.rowCount())]


def test_the_spectrums_figures_stand_under_it(loaded, worker, qtbot, tmp_path):
    panel = turn_to(loaded, SpectraPanel)
    assert not panel.sheet.isVisible()
    job = select(loaded, worker, qtbot, SpectrumJob)
    worker.say(expert_spectra(QUERY), job=job)
    assert things(panel.sheet) == ["cola", "sst2"], "before the merge"
    worker.say(spectrum(QUERY), JobDone(), job=job)
    assert panel.sheet.isVisible()
    assert things(panel.sheet) == ["merged", "cola", "sst2"]
    figures = panel.sheet.model()
    across = Qt.Orientation.Horizontal
    tip = Qt.ItemDataRole.ToolTipRole
    assert all(figures.headerData(i, across, tip) for i in range(figures.columnCount()))
    assert figures.headerData(0, across) == "energy in\ntop 5 %"
    names = panel.sheet.verticalHeader()
    margin = names.style().pixelMetric(QStyle.PixelMetric.PM_HeaderMargin, None, names)
    assert names.sectionSize(0) - 2 * margin >= names.fontMetrics().height(), "letters are cut"
    assert figures.columnCount() == 4, "side by side without a scroll bar"
    assert panel.sheet.columns[1].values[4] == pytest.approx(6), "what is copied has all: Σσ"
    copy, save = panel.sheet.actions()
    copy.trigger()
    assert "nuclear norm\t6.0\t6.0\t3.0" in QGuiApplication.clipboard().text().splitlines()
    file = tmp_path / "figures.csv"
    save.trigger()
    take(panel.sheet, file)
    with file.open(encoding="utf-8", newline="") as opened:
        table = {row[0]: row[1:] for row in csv.reader(opened)}
    assert [float(value) for value in table["Frobenius norm"]] == pytest.approx(
        [np.sqrt(14), np.sqrt(14), np.sqrt(14) / 2], rel=1e-15
    )


def test_the_spectra_of_every_block_are_computed_and_saved_as_one_picture(
    loaded, worker, qtbot, tmp_path
):
    panel = turn_to(loaded, SpectraPanel)
    job = select(loaded, worker, qtbot, SpectrumJob)
    worker.say(expert_spectra(QUERY), job=job)
    assert not panel.by_block.isEnabled(), "this merge has no spectrum yet"
    worker.say(spectrum(QUERY), JobDone(), job=job)
    action = panel.by_block
    action.trigger()
    worker.say(JobCancelled(), job=worker.newest(SpectrumJob))
    assert not panel.findChildren(PictureDialog)
    action.trigger()
    computed = []
    while not panel.findChildren(PictureDialog):
        number = worker.newest(SpectrumJob)
        computed.append(worker.jobs[number].row.name)
        worker.say(spectrum(computed[-1]), JobDone(), job=number)
    assert computed == ["layer.2.q", KEY]  # that of the chosen block is known
    panel.findChild(PictureDialog).reject()
    grid = panel.plot.by_block([spectrum(name) for name in (QUERY, KEY)], {})
    qtbot.addWidget(grid)
    assert [panel.title.full_text for panel in grid.panels] == ["Block 0", "Block 10"]
    assert len({tuple(panel.canvas.getViewBox().viewRange()[1]) for panel in grid.panels}) == 1
    assert grid.legend.entries()
    grab_plot(grid, tmp_path / "blocks.svg", PictureFormat(width=170, height=120))
    assert "Block 10" in (tmp_path / "blocks.svg").read_text(encoding="utf-8")
    titles = (tmp_path / "blocks.csv").read_text(encoding="utf-8").splitlines()[0]
    assert titles.startswith("i,")
    assert all(name in titles for name in (QUERY, KEY))


def test_the_experts_spectra_hold_whatever_the_recipe_is(loaded, worker, qtbot):
    panel = turn_to(loaded, SpectraPanel)
    first = select(loaded, worker, qtbot, SpectrumJob)
    worker.say(expert_spectra(QUERY), job=first)
    loaded.session.select(KEY)
    qtbot.waitUntil(lambda: first in worker.withdrawn)
    worker.say(spectrum(QUERY), job=first)  # too late to be heard
    assert loaded.session.spectrum(QUERY) is None
    qtbot.waitUntil(lambda: worker.newest(SpectrumJob) != first)
    worker.say(expert_spectra(KEY), spectrum(KEY), JobDone(), job=worker.newest(SpectrumJob))
    loaded.session.draft.set_parameter("epsilon", 1e-3)
    loaded.session.select(QUERY)
    keys = [curve.key for curve in panel.plot.curves()]
    assert keys == ["expert cola", "expert sst2"]
    assert panel.plot.title.full_text == QUERY


def test_subspaces_show_four_looks(loaded, worker, qtbot):
    panel = turn_to(loaded, SubspacesPanel)
    job = select(loaded, worker, qtbot, SubspacesJob)
    worker.say(subspaces(QUERY), JobDone(), job=job)
    assert ": 1 of " in panel.alignment.caption.full_text
    panel.view_choice.choose(SubspaceView.OVERLAP)
    assert "cola and sst2: 0.25." in panel.overlap.caption.full_text
    assert "would share 0.25" in panel.overlap.caption.full_text  # 1 of 4 outputs
    panel.view_choice.choose(SubspaceView.COSINES)
    assert panel.cosines.message()  # not known yet
    panel.view_choice.choose(SubspaceView.MODEL)
    assert panel.cosines.message()


def test_cosines_over_the_model_are_weighed_by_energy(loaded):
    session = loaded.session
    for name, energies, cosine in ((QUERY, (1.0, 4.0), 0.5), (KEY, (9.0, 1.0), -0.1)):
        session.layers.record_statistics(
            LayerStatistics(
                name=name,
                energies=dict(zip(("cola", "sst2"), energies, strict=True)),
                cosines=np.array([[1, cosine], [cosine, 1]]),
            )
        )
    panel = turn_to(loaded, SubspacesPanel)
    panel.view_choice.choose(SubspaceView.MODEL)
    expected = (0.5 * 1 * 2 - 0.1 * 3 * 1) / np.sqrt((1 + 9) * (4 + 1))
    assert panel.cosines.columns()[2].values[0] == pytest.approx(expected)
    session.select(QUERY)
    panel.view_choice.choose(SubspaceView.COSINES)
    assert panel.cosines.columns()[2].values[0] == 0.5


def test_a_tensor_without_spectrum_says_why(loaded):
    for kind in (SpectraPanel, SubspacesPanel):
        panel = turn_to(loaded, kind)
        loaded.session.select("layer.0.q.bias")
        plot = panel.plot if isinstance(panel, SpectraPanel) else panel.alignment
        assert "matrix of a linear layer" in str(plot.message())


def test_the_layers_are_copied_as_they_are_shown(loaded):
    layers = loaded.workspace.layers
    session = loaded.session
    session.layers.record_statistics(replace(session.layers.statistics[KEY], log_variance=0.25))
    layers.text.setText("layer.10")
    (copy,) = [a for a in layers.table.actions() if a.text() == "Copy table"]
    copy.trigger()
    titles, *rows = [line.split("\t") for line in QGuiApplication.clipboard().text().splitlines()]
    assert [row[0] for row in rows] == [KEY]
    assert rows[0][titles.index("γ")] == str(GAMMAS[KEY])
    assert rows[0][titles.index("Var ln E")] == "0.25"
    assert rows[0][titles.index("‖ΔW‖² sst2")] == "2.0"


def test_the_head_says_in_which_numbers_a_layer_was_computed(loaded, worker):
    reported = "Computed in float32, whose error is 1e-5: less than a fifth of the rounding."
    loaded.session.select(QUERY)
    head = loaded.workspace.inspector.head
    loaded.actions_.merge.trigger()
    done = finished_tensor(QUERY)
    worker.say(started(), replace(done, report=replace(done.report, precision=reported)))
    worker.say(finished_merge(), JobDone())
    assert "less than a fifth" in head.facts.toolTip().replace("\n", " ")
    loaded.session.select(KEY)
    assert "a fifth" not in head.facts.toolTip()


# Comparing merges


def run(method: str, store: str, **parameters: float) -> MergeRun:
    of = recipe(COLA, SST2, merge_method=method, parameters=parameters)
    made = MergeRun(recipe=of, store=Path(store), parameters=parameters)
    made.finished = finished_merge(Path(store))
    return made


def difference(
    name: str, first: float, second: float, norm: float, *, cosine: float = 0.0
) -> LayerDifference:
    return LayerDifference(
        name=name, first_norm=first, second_norm=second, difference_norm=norm, cosine=cosine
    )


def test_only_merged_tensors_are_compared(comparing, worker):
    worker.say(difference("layer.0.q.bias", 1.0, 1.0, 0.0), job=worker.newest(DifferenceJob))
    comparing.refresh()
    names, *_ = comparing.differences.columns()
    assert list(names.values) == [QUERY, KEY]


@pytest.fixture
def comparing(loaded, worker, qtbot) -> ComparePanel:
    """The panel in view, with the differences of two merges known."""
    for made in (run("ace", "/cache/1"), run("ace", "/cache/2", epsilon=0.5)):
        loaded.session.results.runs.add(made)
    loaded.workspace.show_look(TWO_MERGES)
    panel = loaded.workspace.comparison.merges
    qtbot.waitUntil(lambda: bool(worker.jobs_of(DifferenceJob)))
    differences = difference(QUERY, 3.0, 4.0, 5.0), difference(KEY, 1.0, 1.0, 0.0, cosine=1.0)
    worker.say(*differences, JobDone(), job=worker.newest(DifferenceJob))
    qtbot.waitUntil(lambda: panel.differences.message() is None)
    return panel


def test_two_merges_are_compared_layer_by_layer(comparing, worker):
    job = worker.jobs_of(DifferenceJob)[0]
    assert job == DifferenceJob(first=Path("/cache/1"), second=Path("/cache/2"))
    names, relative, cosine, *_ = comparing.differences.columns()
    assert dict(zip(names.values, relative.values, strict=True)) == {
        QUERY: pytest.approx(5 / 3.5),
        KEY: 0,
    }
    assert list(cosine.values) == [0, 1]
    # √(5² + 0²) by the mean of √(3² + 1²) and √(4² + 1²)
    ratio = 5 / ((np.sqrt(10) + np.sqrt(17)) / 2)
    assert comparing.differences.title.full_text.endswith(f"{ratio:.2f}")
    assert comparing.second.currentText() == "epsilon 0.5"


def test_the_selected_layers_spectra_are_asked_for_and_shown(comparing, worker, qtbot):
    comparing.session.select(QUERY)
    qtbot.waitUntil(lambda: len(worker.jobs_of(DifferenceJob)) == 2)
    assert worker.jobs_of(DifferenceJob)[1].row.name == QUERY
    spectra = {"first": np.array([3.0, 1.0]), "second": np.array([4.0, 0.5])}
    layer_difference = replace(difference(QUERY, 3.0, 4.0, 5.0), **spectra)
    worker.say(layer_difference, JobDone(), job=worker.newest(DifferenceJob))
    values = [curve.y.tolist() for curve in comparing.spectra.curves()]
    assert values == [[3.0, 1.0], [4.0, 0.5]]
    labels = [curve.label for curve in comparing.spectra.curves()]
    assert labels == ["1: ACE-Merging", "2: epsilon 0.5"]


def test_a_merge_that_is_gone_is_no_longer_compared(comparing, worker, qtbot):
    comparing.session.select(QUERY)
    qtbot.waitUntil(lambda: len(worker.jobs_of(DifferenceJob)) == 2)
    comparing.session.results.runs.forget(Path("/cache/2"))
    assert worker.newest(DifferenceJob) in worker.withdrawn
    assert comparing.session.results.comparison.pair is None
    assert comparing.differences.message()


def test_mean_scores_of_both_merges_stand_beside(comparing):
    assert not comparing.scores.isVisible()
    results = comparing.session.results
    draft = comparing.session.draft
    draft.set_tasks((Task(data=Path("a.csv")), Task(data=Path("b.csv"))))
    first, second = (str(run.store) for run in results.runs.all)
    for task, score in (("a", 0.5), ("b", 1.0)):
        of_first = task_score(first, task, score)
        results.scores.record([of_first, replace(of_first, model=second, score=score / 2)])
    assert comparing.scores.text() == "Mean score: " + ", ".join(
        (f"{comparing.first.currentText()} 0.750", f"{comparing.second.currentText()} 0.375")
    )


def test_one_merge_is_not_compared_with_itself(comparing):
    comparing.first.setCurrentIndex(comparing.second.currentIndex())
    assert comparing.differences.message() == "Choose two different merges."


def test_two_merges_begin_with_the_current_one_until_the_user_chooses(loaded, worker, qtbot):
    runs = [run("ace", f"/cache/{n}", epsilon=float(n)) for n in range(1, 4)]
    for made in runs:
        loaded.session.results.runs.add(made)
    loaded.session.results.start_merge(runs[0])
    loaded.workspace.show_look(TWO_MERGES)
    panel = loaded.workspace.comparison.merges
    qtbot.waitUntil(panel.isVisible)
    comparison = loaded.session.results.comparison

    def numbers() -> list[str]:
        return [pair.store.name for pair in comparison.pair]

    assert numbers() == ["3", "1"]
    loaded.session.results.start_merge(runs[1])
    panel.refresh()
    assert numbers() == ["3", "2"]
    panel.first.setCurrentIndex(0)
    assert numbers() == ["1", "2"]
    loaded.session.results.start_merge(runs[2])
    panel.refresh()
    assert numbers() == ["1", "2"], "what the user has chosen stays"


# Runs


def test_trials_are_kept_up_to_a_bound_and_what_was_merged_on_purpose_stays(qapp):
    runs = Runs()
    intended = run("ace", "/cache/wanted")
    trials = [run("ace", f"/cache/{n}", epsilon=float(n + 1)) for n in range(TRIALS_KEPT + 1)]
    for trial in trials:
        trial.kept = False
    assert [old for candidate in (intended, *trials) for old in runs.add(candidate)] == trials[:1]
    again = run("ace", "/cache/again", epsilon=4.0)
    again.kept = False
    trials[3].name = "the fourth"
    trials[3].kept = True
    assert runs.add(again) == (trials[3],)
    assert (again.name, again.kept) == ("the fourth", True)
    assert runs.all == (intended, *trials[1:3], *trials[4:], again)
    assert runs.find(again.key) is again
    again.outdated = True
    assert runs.find(again.key) is None


def test_runs_have_distinct_titles(session):
    made = [run("ace", "/1"), run("linear", "/2"), run("ace", "/3", epsilon=1e-5), run("ace", "/4")]
    assert run_titles(made, (ACE, LINEAR)) == (
        "ACE-Merging (1)",
        "Weight averaging",
        "epsilon 1e-5",
        "ACE-Merging (2)",
    )
    assert run_titles(made[1:2], ()) == ("linear",)
    labelled = replace(ACE, fields=tuple(replace(f, label="Ridge ε") for f in ACE.fields))
    assert run_titles(made[2:3], (labelled,)) == ("ACE-Merging, ε 1e-5",)
    automatic = run("ace", "/5", variant="automatic", epsilon=1e-5)
    assert run_titles([automatic], (labelled,)) == ("ACE, automatic, ε 1e-5",)
