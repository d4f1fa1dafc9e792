"""The window over the real engine process: open, compare, merge, look, export, load."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from ace_gui.gui.app import Workbench
from ace_gui.gui.models.layer_columns import GAMMA
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import ActivityState
from tests.helpers.models import Family, roberta_family
from tests.helpers.windows import PATIENCE


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    """A base and three experts with heads of their own."""
    return roberta_family(tmp_path_factory.mktemp("family"))


def open_family(window: MainWindow, family: Family, qtbot: QtBot) -> None:
    window.opener.open_paths([family.base])
    qtbot.waitUntil(lambda: window.session.draft.plan is not None, timeout=PATIENCE)
    window.conductor.add_experts(family.experts.values())
    qtbot.waitUntil(lambda: window.session.layers.is_analysed, timeout=PATIENCE)
    # These random moves are further from the base than any fine-tune, and the window says so.
    assert {check.title for check in window.session.checks.worries} == {"Distance from the base"}
    window.session.checks.accept()


def merge(window: MainWindow, qtbot: QtBot) -> None:
    window.actions_.merge.trigger()
    qtbot.waitUntil(lambda: window.session.state is ActivityState.MERGED, timeout=PATIENCE)


def test_from_checkpoints_on_disk_to_a_model_that_loads(
    bench: Workbench, family: Family, qtbot: QtBot, tmp_path: Path
) -> None:
    window = bench.window
    session = window.session
    open_family(window, family, qtbot)
    model = window.workspace.layers.model
    gammas = [GAMMA.text(layer) for layer in model.shown]
    assert sum(any(map(str.isdigit, gamma)) for gamma in gammas) == len(session.layers.merged)

    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "model.safetensors").touch()
    window.conductor.add_experts([broken])
    qtbot.waitUntil(lambda: "empty" in window.notice.sentence.text(), timeout=PATIENCE)
    assert window.notice.isVisible()
    assert window.workspace.experts.model.rowCount() == len(family.experts)

    beats: list[ActivityState] = []
    timer = QTimer()
    timer.timeout.connect(lambda: beats.append(session.state))
    timer.start(5)
    merge(window, qtbot)
    timer.stop()
    assert (
        ActivityState.MERGING in beats
    )  # a blocked loop has none; how long it pauses: see the benchmarks
    window.actions_.top_layer.trigger()
    name = session.selection
    qtbot.waitUntil(lambda: session.spectrum(name) is not None, timeout=PATIENCE)
    assert set(session.spectrum(name).experts) == set(family.experts)

    window.dialogs.open_export()
    dialog = window.dialogs.export
    dialog.folder.setText(str(tmp_path / "merged"))
    dialog.form.fields["dtype"].control.setCurrentText("bfloat16")
    with qtbot.waitSignal(window.output.exported, timeout=PATIENCE):
        dialog.export_button.click()
    qtbot.waitUntil(lambda: session.state is ActivityState.MERGED, timeout=PATIENCE)
    dialog.reject()
    check_loads(tmp_path / "merged")
    assert len(list((tmp_path / "merged" / "heads").iterdir())) == len(family.experts)


def check_loads(folder: Path) -> None:
    import torch
    from transformers import AutoModelForMaskedLM

    model, report = AutoModelForMaskedLM.from_pretrained(
        folder, output_loading_info=True, dtype="auto"
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.dtype == torch.bfloat16


def test_a_killed_engine_is_told_and_the_session_goes_on(
    bench: Workbench, family: Family, qtbot: QtBot
) -> None:
    window = bench.window
    open_family(window, family, qtbot)
    with qtbot.waitSignal(window.session.problem, timeout=PATIENCE):
        window.actions_.merge.trigger()
        os.kill(bench.worker.engine_pid, signal.SIGKILL)
    assert "stopped by the system" in window.notice.sentence.text()
    assert window.workspace.experts.model.rowCount() == len(family.experts)
    merge(window, qtbot)
    assert window.session.merge_is_current
