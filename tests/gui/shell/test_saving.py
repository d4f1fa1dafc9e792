"""Saving: into the project's file where that loses nothing, never in the program's folders."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QMessageBox

from ace_gui.engine.contract.events import JobDone, PlanReady
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.text import short_name
from ace_gui.paths import Sample, sessions_folder
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe
from ace_gui.recipe.values import Task
from tests.gui.fakes import BASE, COLA, SST2, TWO, FakeWorker, answer, plan

TASK = Task(name="cola", data=Path("/data/cola.csv"), expert="cola")
OURS = {"plain": "", "tuned": "# Tuned by ACE workbench: 3 merges, best score 0.8.\n"}


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if "import_module" in thread.name:
            thread.join(30)


def reopen(window: MainWindow, worker: FakeWorker, file: Path) -> None:
    """Open a project's file, then change a parameter."""
    window.opener.open_paths([file])
    worker.say(PlanReady(plan=plan(load_recipe(file))), JobDone())
    window.conductor.set_parameter("tau", 0.7)


def dialog_of(window: MainWindow) -> QFileDialog | None:
    return next((dialog for dialog in window.findChildren(QFileDialog) if dialog.isVisible()), None)


def close_models(window: MainWindow, answer: QMessageBox.StandardButton | None = None) -> None:
    window.actions_.close_models.trigger()
    if answer is not None:
        assert window.project.box is not None
        window.project.box.button(answer).click()


def leave_with_task(window: MainWindow) -> Path:
    """Close models with a task; the file of their project."""
    window.session.draft.set_tasks((TASK,))
    window.project._tasks = (TASK,)
    close_models(window)
    (file,) = Settings().recent
    return file


WAYS = {
    "opened": lambda window: window.opener.open_paths([BASE, COLA, SST2]),
    "in another order": lambda window: window.opener.open_paths([BASE, SST2, COLA]),
    "scanned": lambda window: window.opener._take_scanned(BASE, [COLA, SST2]),
}


@pytest.mark.parametrize("way", WAYS)
def test_models_of_an_earlier_project_continue_it_if_the_person_wants(opened, worker, way):
    file = leave_with_task(opened)
    jobs = len(worker.jobs)
    WAYS[way](opened)
    assert len(worker.jobs) == jobs, "nothing is opened before the answer"
    assert short_name(file) in opened.opener.box.text()
    answer(opened.opener.box, "Continue")
    worker.say(PlanReady(plan=plan(load_recipe(file))), JobDone())
    assert opened.project.file == file
    assert opened.session.draft.planned.tasks == (TASK,)


def test_a_new_project_of_the_same_models_keeps_the_one_that_was_left(opened, worker):
    first = leave_with_task(opened)
    opened.opener.open_paths([BASE, COLA, SST2])
    answer(opened.opener.box, "New project")
    worker.say(PlanReady(plan=plan(TWO.recipe())), JobDone())
    close_models(opened)
    assert load_recipe(first).tasks == (TASK,)
    assert len(Settings().recent) == 2


def test_without_an_answer_nothing_is_opened(opened, worker):
    leave_with_task(opened)
    jobs = len(worker.jobs)
    opened.opener.open_paths([BASE, COLA, SST2])
    answer(opened.opener.box, "Cancel")
    assert len(worker.jobs) == jobs
    assert opened.session.draft.inputs.base is None


@pytest.mark.parametrize("models", [[BASE], [BASE, COLA], [COLA, BASE, SST2]])
def test_other_models_are_opened_without_a_question(opened, worker, models):
    leave_with_task(opened)
    opened.opener.open_paths(models)
    assert opened.opener.box is None


def test_a_project_among_the_recent_ones_is_saved_without_a_question(opened, worker):
    close_models(opened)
    (file,) = Settings().recent
    assert file.is_relative_to(sessions_folder())
    reopen(opened, worker, file)
    opened.actions_.save_recipe.trigger()
    assert dialog_of(opened) is None
    assert load_recipe(file).parameters == {"tau": 0.7}
    assert not opened.project.is_modified


@pytest.mark.parametrize("first_line", OURS)
def test_a_file_of_this_program_is_saved_without_a_question(opened, worker, tmp_path, first_line):
    file = tmp_path / "mine.yaml"
    file.write_text(OURS[first_line] + dump_recipe(TWO.recipe(), tmp_path))
    reopen(opened, worker, file)
    opened.actions_.save_recipe.trigger()
    assert dialog_of(opened) is None
    assert load_recipe(file).parameters == {"tau": 0.7}


def test_a_file_with_comments_of_a_person_is_not_written_over(opened, worker, tmp_path):
    file = tmp_path / "mine.yaml"
    text = "# why these models\n" + dump_recipe(TWO.recipe(), tmp_path)
    file.write_text(text)
    reopen(opened, worker, file)
    opened.actions_.save_recipe.trigger()
    dialog = dialog_of(opened)
    assert dialog is not None
    dialog.reject()
    assert file.read_text() == text


@pytest.mark.parametrize("kind", ["recent", "sample", "models"])
def test_no_dialog_begins_in_a_folder_of_the_program(opened, worker, kind):
    hidden = [sessions_folder()]
    if kind == "recent":
        close_models(opened)
        reopen(opened, worker, Settings().recent[0])
    elif kind == "sample":
        opened.project.open((Sample.IMAGES.recipe,))
        hidden.append(Sample.IMAGES.recipe.parent)
    opened.actions_.save_recipe_as.trigger()
    dialog = dialog_of(opened)
    assert dialog is not None
    assert Path(dialog.directory().absolutePath()) not in hidden
    (proposed,) = map(Path, dialog.selectedFiles())
    assert proposed.parent not in hidden
    dialog.reject()


def test_a_recent_project_is_saved_by_itself(opened, worker):
    close_models(opened)
    (file,) = Settings().recent
    reopen(opened, worker, file)
    assert not opened.isWindowModified()
    close_models(opened)
    assert opened.project.box is None, "nobody is asked"
    assert load_recipe(file).parameters == {"tau": 0.7}
    assert Settings().recent == (file,), "it is kept in its own file"
    assert replace(load_recipe(file), parameters={}) == TWO.recipe()


@pytest.mark.parametrize("answer", ["Save", "Discard"])
def test_a_file_of_the_person_is_changed_only_if_they_say_so(opened, worker, tmp_path, answer):
    file = tmp_path / "mine.yaml"
    file.write_text(dump_recipe(TWO.recipe(), tmp_path))
    before = file.read_text()
    reopen(opened, worker, file)
    assert opened.isWindowModified()
    close_models(opened, QMessageBox.StandardButton[answer])
    changed = load_recipe(file).parameters == {"tau": 0.7}
    assert changed == (answer == "Save")
    assert changed or file.read_text() == before
    recent, before_it = Settings().recent
    assert recent == file
    assert load_recipe(before_it).parameters == {}, "what is discarded is not kept elsewhere"
