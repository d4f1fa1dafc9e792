"""The preview of the report says what the report on this merge will hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtWidgets import QDialogButtonBox, QLabel
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.findings import LayerReport, Regime
from ace_gui.engine.contract.plan import Disposition
from ace_gui.gui.dialogs.output_dialogs import ReportDialog
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session
from ace_gui.recipe.values import Task
from tests.gui.fakes import adopt_two, finished_merge


def preview(qtbot: QtBot, session: Session, run: MergeRun) -> str:
    dialog = ReportDialog(session, run, lambda: None, None)
    qtbot.addWidget(dialog)
    labels = dialog.findChildren(QLabel)
    return " | ".join(label.text() for label in labels).replace("\u200b", "")


def test_what_is_known_of_each_chapter(session, qtbot):
    adopt_two(session)
    run = MergeRun(
        recipe=session.draft.inputs.recipe(),
        parameters=session.draft.resolved_parameters(),
        store=Path("/cache/store"),
        finished=finished_merge(),
    )
    for name, regime in (("a", Regime.HETEROGENEOUS), ("b", Regime.HOMOGENEOUS)):
        warnings = ("Beware.",) if name == "a" else ()
        run.reports[name] = LayerReport(name=name, gamma=0.5, regime=regime, warnings=warnings)
    text = preview(qtbot, session, run)
    assert "cola, sst2; every parameter" in text
    assert "1 of 2 matrices is heterogeneous" in text
    assert "1 matrix has a warning" in text
    assert "none: the recipe has no tasks" in text
    session.draft.set_tasks((Task(data=Path("cola.csv")),))
    assert "on 1 task, of base" in preview(qtbot, session, run)
    run.accuracies = {"cola": 0.5, "sst2": 0.75}
    assert "mean .625" in preview(qtbot, session, run)


def test_a_method_without_regimes(session, qtbot):
    adopt_two(session)
    recipe = replace(session.draft.inputs.recipe(), merge_method="linear")
    run = MergeRun(recipe=recipe, store=Path("/cache/store"), finished=finished_merge())
    merged = [row for row in session.layers.rows if row.disposition is Disposition.MERGED]
    run.reports |= {row.name: LayerReport(name=row.name) for row in session.layers.rows}
    text = preview(qtbot, session, run)
    assert len(merged) < len(run.reports)
    assert f"{len(merged)} tensors, all treated alike" in text
    assert "no matrix has a warning" in text


def test_saving_asks_for_a_file_and_cancelling_does_not(session, qtbot):
    adopt_two(session)
    run = MergeRun(recipe=session.draft.inputs.recipe(), store=Path("/cache/store"))
    requests: list[bool] = []
    for role, times in (("Cancel", 0), ("Save", 1)):
        dialog = ReportDialog(session, run, lambda: requests.append(True), None)
        qtbot.addWidget(dialog)
        buttons = dialog.findChild(QDialogButtonBox).buttons()
        next(button for button in buttons if role in button.text().replace("&", "")).click()
        assert len(requests) == times
