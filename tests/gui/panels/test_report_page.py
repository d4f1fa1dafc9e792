"""The page of the report says what the report on this merge will hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.figures.findings import LayerReport, Regime
from ace_gui.gui.panels.report_page import ReportPage
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session
from ace_gui.recipe.tasks import Task
from tests.gui.fakes import adopt_two, finished_merge
from tests.helpers.windows import in_view


def said(page: ReportPage) -> str:
    labels = page.chapters.findChildren(QLabel)
    return " | ".join(label.text() for label in labels if label.isVisible()).replace("\u200b", "")


def test_what_is_known_of_each_chapter(session: Session, qtbot: QtBot) -> None:
    adopt_two(session)
    page = in_view(qtbot, ReportPage(session, QAction("Report")), width=900, height=600)
    assert page.nothing.isVisible()
    assert not said(page)
    run = MergeRun(
        recipe=session.draft.inputs.recipe(),
        parameters=session.draft.resolved_parameters(),
        store=Path("/cache/store"),
    )
    for name, regime in (("a", Regime.HETEROGENEOUS), ("b", Regime.HOMOGENEOUS)):
        warnings = ("Beware.",) if name == "a" else ()
        run.reports[name] = LayerReport(name=name, gamma=0.5, regime=regime, warnings=warnings)
    session.results.start_merge(run)
    assert page.nothing.isVisible(), "an unfinished merge has no report"
    session.results.finish_merge(finished_merge())
    assert not page.nothing.isVisible()
    text = said(page)
    assert "cola, sst2; every parameter" in text
    assert "1 of 2 matrices is heterogeneous" in text
    assert "1 matrix has a warning" in text
    assert "none: the recipe names no tasks" in text
    session.draft.set_tasks((Task(data=Path("cola.csv")),))
    assert "on 1 task, compared" in said(page)
    run.accuracies = {"cola": 0.5, "sst2": 0.75}
    session.results.runs.changed.emit()
    assert "a mean of .625" in said(page)


def test_a_method_without_regimes(session: Session, qtbot: QtBot) -> None:
    adopt_two(session)
    page = in_view(qtbot, ReportPage(session, QAction("Report")), width=900, height=600)
    recipe = replace(session.draft.inputs.recipe(), merge_method="linear")
    run = MergeRun(recipe=recipe, store=Path("/cache/store"), finished=finished_merge())
    run.reports |= {name: LayerReport(name=name) for name in ("a", "b")}
    session.results.start_merge(run)
    text = said(page)
    assert "2 matrices, all treated alike" in text
    assert "no matrix has a warning" in text
