"""A project has a name that can be edited, and nothing of another is overwritten by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from ace_gui.engine.contract.events import JobDone, PlanReady
from ace_gui.gui.control.persistence import Sessions, move_project
from ace_gui.gui.control.project_notes import notes_file, read_notes
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.paths import Sample, sessions_folder
from ace_gui.recipe.recipe_file import load_recipe
from tests.gui.fakes import FakeWorker, plan


def type_name(window: MainWindow, name: str) -> None:
    field = window.workspace.project_name
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, name)
    QTest.keyClick(field, Qt.Key.Key_Return)


def test_a_name_is_kept_with_the_project(loaded):
    field = loaded.workspace.project_name
    assert field.text() == "models"
    type_name(loaded, "my merge")
    assert loaded.project.name == field.text() == "my merge"
    assert "my merge" in loaded.windowTitle()
    loaded.conductor.close()
    (project,) = loaded.settings.recent
    assert project.name == "my merge.ace.yaml"
    assert project.is_file()


def test_escape_and_an_empty_name_change_nothing(loaded):
    field = loaded.workspace.project_name
    type_name(loaded, "   ")
    assert loaded.project.name == field.text() == "models"
    field.setFocus()
    QTest.keyClicks(field, "other")
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert field.text() == "models"


def test_a_kept_project_moves_and_others_stay(loaded):
    folder = sessions_folder()
    folder.mkdir(parents=True)
    first = folder / "one.ace.yaml"
    second = folder / "two.ace.yaml"
    first.write_text("first")
    second.write_text("other")
    moved = move_project(first, "two")
    assert moved == folder / "two 2.ace.yaml"
    assert (moved.read_text(), second.read_text()) == ("first", "other")
    assert move_project(moved, "two 2") == moved
    loaded.settings.remember(moved)
    loaded.project.file = moved
    loaded.project.rename("three")
    assert loaded.project.file == folder / "three.ace.yaml"
    assert loaded.settings.recent[0] == loaded.project.file
    loaded.project.file = None


@pytest.mark.parametrize("file", [Sample.TEXT.recipe, Path("/models/own.yaml")])
def test_the_name_of_a_file_that_the_user_keeps_is_read_only(loaded, file):
    loaded.project.file = file
    loaded.project.changed.emit()
    assert loaded.workspace.project_name.isReadOnly()
    loaded.project.rename("other")
    assert loaded.project.file == file
    loaded.project.file = None


# Notes


def write_notes(window: MainWindow, text: str) -> None:
    head = window.workspace.project_head
    head.button.click()
    QTest.keyClicks(head.notes, text)


def reopened(window: MainWindow, worker: FakeWorker, file: Path) -> str:
    """The notes that are shown after a file is opened."""
    window.opener.open_paths([file])
    worker.say(PlanReady(plan=plan(load_recipe(file))), JobDone())
    return window.workspace.project_head.notes.toPlainText()


def test_notes_stay_with_the_project_and_follow_its_name(loaded, worker):
    write_notes(loaded, "the second one is better")
    type_name(loaded, "my merge")
    loaded.conductor.close()
    (file,) = loaded.settings.recent
    assert reopened(loaded, worker, file) == "the second one is better"
    assert not loaded.workspace.project_head.notes.isHidden(), "they are seen at once"
    type_name(loaded, "its new name")
    moved = loaded.project.file
    loaded.conductor.close()
    assert reopened(loaded, worker, moved) == "the second one is better"
    assert "better" not in moved.read_text(), "the recipe has none"


def test_a_project_without_notes_leaves_no_file_for_them(loaded):
    write_notes(loaded, "x")
    loaded.workspace.project_head.notes.clear()
    loaded.conductor.close()
    (file,) = loaded.settings.recent
    assert not notes_file(file).exists()


def test_notes_on_a_file_of_the_user_are_in_the_programs_folder(loaded, worker, tmp_path):
    file = tmp_path / "own.yaml"
    loaded.opener.write_recipe(file)
    write_notes(loaded, "for the paper")
    loaded.conductor.close()
    assert {path.name for path in tmp_path.iterdir() if "own" in path.name} == {"own.yaml"}
    assert notes_file(file).parent == sessions_folder()
    assert reopened(loaded, worker, file) == "for the paper"


def test_notes_survive_a_crash(loaded):
    write_notes(loaded, "not lost")
    loaded.sessions.write()
    loaded.sessions._background.waitForDone()
    loaded.sessions._lock.unlock()
    (project,) = Sessions(loaded.session).recover()
    assert read_notes(project) == "not lost"
