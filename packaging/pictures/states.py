"""Pictures of every state of the window."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from choices import choice_pictures
from PySide6.QtWidgets import QMenu, QWidget
from score_places import score_pictures
from tabs import tab_pictures

from ace_gui.errors import CheckpointError
from ace_gui.gui.picture import Studio
from ace_gui.gui.state.activity import State
from ace_gui.gui.theme import Scheme


def take_pictures(recipe: Path, folder: Path, scheme: Scheme) -> list[Path]:
    """A picture of every state of the window, in ``folder``. Raises WorkbenchError."""
    folder.mkdir(parents=True, exist_ok=True)
    studio = Studio(scheme)
    taken: list[Path] = []

    def take(name: str, widget: QWidget | None = None) -> None:
        file = folder / f"{name}-{scheme}.png"
        taken.append(studio.take(widget or studio.window, file))

    def take_halfway() -> None:
        layers = studio.window.workspace.layers
        layers.model.flush()
        layers.table.scrollTo(
            layers.tree.index_of(layers.model.name_at(layers.model.rowCount() // 2))
        )
        take("merging")

    try:
        studio.settle()
        take("empty")
        studio.open(recipe)
        studio.settle()
        take("loaded")
        _checks_pictures(studio, take)
        _merge(studio, take_halfway)
        studio.select_most_heterogeneous()
        studio.settle()
        take("merged")
        score_pictures(studio, take)
        tab_pictures(studio, take)
        choice_pictures(studio, take)
        _export_picture(studio, take, folder)
        _runs_pictures(studio, take)
        _error_picture(studio, take)
    finally:
        studio.close()
    return taken


def _merge(studio: Studio, halfway: Callable[[], None]) -> None:
    """Merge, and call ``halfway`` once when half of the tensors are done."""
    activity, waiting = studio.window.session.activity, [halfway]

    def watch() -> None:
        progress = activity.progress
        merging = progress is not None and progress.state is State.MERGING
        if waiting and merging and progress is not None and 2 * progress.done >= progress.total:
            waiting.pop()()

    activity.progressed.connect(watch)
    studio.merge()
    activity.progressed.disconnect(watch)


def _checks_pictures(studio: Studio, take: Callable[[str, QWidget | None], None]) -> None:
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
        studio.wait(
            lambda: bool(session.checks.worries) and session.layers.is_analysed,
            session.layers.learnt,
        )
        window.actions_.merge.trigger()
        studio.settle()
        take("checks-warnings", None)
        session.limit_memory(1_000_000)
        window.actions_.merge.trigger()
        studio.settle()
        take("checks-errors", None)
        session.limit_memory(None)
        window.conductor.remove_experts([last])
        studio.wait(
            lambda: not session.checks.worries and session.layers.is_analysed, session.layers.learnt
        )
    window.notice.hide()
    window.workspace.inspector.tabs.setCurrentIndex(0)


def _runs_pictures(studio: Studio, take: Callable[[str, QWidget | None], None]) -> None:
    """The list of runs, what can be undone, what is asked before leaving, and the clean-up."""
    window, session = studio.window, studio.window.session
    window.conductor.set_parameter("tau", 0.5)
    studio.wait(lambda: session.can_merge and not window.engine.is_busy, window.engine.idle)
    studio.merge()
    runs = window.workspace.runs
    window.runs.rename(session.results.runs.all[-1], "less refined")
    runs.list.setCurrentIndex(runs.model.index(1))
    studio.settle()
    take("runs", None)
    edit = next(entry.menu() for entry in window.menuBar().actions() if entry.text() == "&Edit")
    if isinstance(edit, QMenu):
        edit.popup(window.mapToGlobal(window.rect().topLeft()))
        studio.settle()
        take("undo", edit)
        edit.close()
    window.project.before_leaving(lambda: None)
    studio.settle()
    take("save-changes", window.project.box)
    if window.project.box is not None:
        window.project.box.reject()
    window.dialogs.clean_up_runs()
    studio.settle()
    take("clean-up", window.dialogs.clean_up)
    if window.dialogs.clean_up is not None:
        window.dialogs.clean_up.reject()


def _export_picture(
    studio: Studio, take: Callable[[str, QWidget | None], None], folder: Path
) -> None:
    studio.window.dialogs.open_export()
    dialog = studio.window.dialogs.export
    if dialog is not None:
        dialog.folder.setText(str(folder.absolute() / "merged-model"))
        studio.settle()
        take("export", dialog)
        dialog.reject()


def _error_picture(studio: Studio, take: Callable[[str, QWidget | None], None]) -> None:
    with tempfile.TemporaryDirectory() as name:
        broken = Path(name) / "interrupted-download"
        broken.mkdir()
        (broken / "model.safetensors").touch()
        studio.window.conductor.add_experts([broken])
        with contextlib.suppress(CheckpointError):
            studio.wait(lambda: False, studio.window.engine.idle)
    studio.settle()
    take("error", None)
