"""The Figures page: what it asks of the engine, shows, and writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog

from ace_gui.engine.contract.events import FigureMade, JobDone, JobFailed
from ace_gui.engine.contract.jobs import FigureJob
from ace_gui.errors import RecipeError
from ace_gui.figures.charts import Axis, Chart, Curve, Panel, PanelKind
from ace_gui.figures.printing import picture
from ace_gui.figures.sheet import Colours, Sheet
from ace_gui.gui.panels.figures_page import FiguresPage
from ace_gui.gui.shell.window_frame import Space
from tests.helpers.windows import timers_rest

CAPTION = "Heterogeneity γ of 3 merged tensors."
PANEL = Panel(
    charts=[
        Chart(
            title="",
            x=Axis(title="x"),
            y=Axis(title="y"),
            curves=[Curve(name="a", points=[(1.0, 2.0), (2.0, 3.0)], ink=0)],
        )
    ],
    caption="curves",
    width=60.0,
)


def made(*files: Path, width: float = 190.0) -> FigureMade:
    drawn = b"" if files else picture([PANEL], Sheet(width=width), ".png", 40)
    return FigureMade(picture=drawn, caption=CAPTION, width=width, height=66.0, files=files)


@pytest.fixture
def page(loaded, worker, qtbot) -> Iterator[FiguresPage]:
    loaded.workspace.show_space(Space.FIGURES)
    yield loaded.workspace.figures
    qtbot.waitUntil(lambda: timers_rest(loaded.engine))
    for number, job in worker.jobs.items():
        if isinstance(job, FigureJob):
            worker.say(JobDone(), job=number)


def change(page: FiguresPage, qtbot, worker, **fields: object) -> FigureJob:
    """Choose values in the form, and return what is then asked for."""
    before = len(worker.jobs_of(FigureJob))
    for name, value in fields.items():
        page.form.edited.emit(name, value)
    qtbot.waitUntil(lambda: len(worker.jobs_of(FigureJob)) > before)
    return worker.jobs_of(FigureJob)[-1]


def test_it_draws_when_it_is_shown(page, worker):
    (job,) = worker.jobs_of(FigureJob)
    assert job.kinds == (PanelKind.GAMMA, PanelKind.SPECTRA)
    assert job.sheet == Sheet()
    assert job.file is None
    assert set(job.statistics) == set(page._session.layers.statistics)
    assert not page.save.isEnabled()
    worker.say(made(), JobDone())
    assert page.caption.toPlainText() == CAPTION
    assert page.paper.accessibleDescription() == CAPTION
    assert page.size_text.text().startswith("190 × 66 mm")
    assert page.save.isEnabled()


def test_nothing_is_drawn_twice(page, worker, qtbot):
    worker.say(made(), JobDone())
    page.refresh()
    page.plan_refresh()
    qtbot.waitUntil(lambda: not page._timer.isActive())
    assert len(worker.jobs_of(FigureJob)) == 1


def test_every_choice_reaches_the_engine(page, worker, qtbot):
    job = change(
        page,
        qtbot,
        worker,
        first="γ by role",
        second="none",
        width="90 mm, one column",
        height=50,
        points=7,
        colours="grey",
        limits=False,
        names=True,
    )
    assert job.kinds == (PanelKind.ROLES,)
    assert job.sheet == Sheet(
        width=90.0, height=50.0, points=7.0, colours=Colours.GREY, limits=False, names=True
    )
    job = change(page, qtbot, worker, height=3)
    assert job.sheet.height == 20.0  # the least that can be printed


def test_the_selected_matrices_can_be_shown(page, loaded, worker, qtbot):
    loaded.session.select("layer.2.q")
    before = len(worker.jobs_of(FigureJob))
    page.take_selected.click()
    qtbot.waitUntil(lambda: len(worker.jobs_of(FigureJob)) > before)
    assert worker.jobs_of(FigureJob)[-1].matrices == ("layer.2.q",)
    assert "one, chosen" in page.matrices.text()
    page.take_usual.click()
    assert worker.jobs_of(FigureJob)[-1].matrices == ()
    change(page, qtbot, worker, second="none")
    assert not page.take_selected.isVisible()


def test_what_cannot_be_drawn_is_said(page, worker, qtbot):
    worker.say(made(), JobDone())
    change(page, qtbot, worker, second="scores")
    worker.say(JobFailed(error=RecipeError("There are no scores.")))
    assert page.problem.text() == "There are no scores."
    assert page.problem.isVisible()
    assert page.caption.toPlainText() == ""
    assert not page.save.isEnabled()
    change(page, qtbot, worker, second="none")
    worker.say(made(), JobDone())
    assert not page.problem.isVisible()


def test_the_caption_is_copied(page, worker):
    worker.say(made(), JobDone())
    page.copy.click()
    assert QGuiApplication.clipboard().text() == CAPTION


@pytest.mark.parametrize(
    ("typed", "written", "replaces"),
    [("a.svg", "a.svg", True), ("a", "a.pdf", False), ("a.b", "a.b", True)],
)
def test_it_is_saved_where_the_person_says(page, worker, tmp_path, typed, written, replaces):
    worker.say(made(), JobDone())
    page.save.click()
    dialog = page.findChild(QFileDialog)
    dialog.filesSelected.emit([str(tmp_path / typed)])
    dialog.reject()
    job = worker.jobs_of(FigureJob)[-1]
    assert job.file == tmp_path / written
    assert job.replaces == ((tmp_path / written,) if replaces else ())
    assert not page.save.isEnabled()
    worker.say(made(job.file, job.file.with_suffix(".csv")), JobDone())
    assert page.saved.text() == f"Written: {written} and {job.file.stem}.csv."
    assert page.caption.toPlainText() == CAPTION
    assert page.save.isEnabled()


def test_a_failed_save_is_said_beside_the_button(page, worker, tmp_path):
    worker.say(made(), JobDone())
    page.save.click()
    dialog = page.findChild(QFileDialog)
    dialog.filesSelected.emit([str(tmp_path / "a.jpg")])
    dialog.reject()
    worker.say(JobFailed(error=RecipeError("Give it another ending.")))
    assert page.saved.text() == "Give it another ending."
    assert page.save.isEnabled()


def test_before_the_experts_are_compared_it_says_so(opened, worker, qtbot):
    opened.workspace.show_space(Space.FIGURES)
    page = opened.workspace.figures
    assert worker.jobs_of(FigureJob) == []
    assert "being compared" in page.problem.text()
    qtbot.waitUntil(lambda: timers_rest(opened.engine))
