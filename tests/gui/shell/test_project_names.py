"""A project has a name that can be edited, and nothing of another is overwritten by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from ace_gui.gui.control.persistence import move_project
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.paths import Sample, sessions_folder


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
    (kept,) = loaded.settings.recent
    assert kept.name == "my merge.ace.yaml"
    assert kept.is_file()


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
    other = folder / "two.ace.yaml"
    first.write_text("first")
    other.write_text("other")
    moved = move_project(first, "two")
    assert moved == folder / "two 2.ace.yaml"
    assert (moved.read_text(), other.read_text()) == ("first", "other")
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
