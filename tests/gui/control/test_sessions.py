"""What is open outlives the window, however that ends."""

from dataclasses import replace
from pathlib import Path

import pytest

from ace_gui.gui.control.persistence import Sessions, project_name
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.session import Session
from ace_gui.recipe import Override
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import Task
from tests.gui.fakes import COLA, SST2, TWO, adopt_two, plan, recipe


@pytest.fixture
def sessions(session: Session, tmp_path: Path) -> Sessions:
    made = Sessions(session, tmp_path / "sessions")
    adopt_two(session)
    made.write()
    made._background.waitForDone()
    return made


def later(tmp_path: Path) -> Sessions:
    return Sessions(Session(), tmp_path / "sessions")


def test_a_window_that_died_leaves_what_was_open(sessions, tmp_path):
    assert later(tmp_path).recover() == (), "it is still open"
    assert sessions._lock is not None
    sessions._lock.unlock()  # as at the end of the process
    (project,) = later(tmp_path).recover()
    assert project.name.startswith("models, recovered 20")
    assert load_recipe(project) == TWO.recipe()
    assert later(tmp_path).recover() == (), "once is enough"
    sessions.leave(keep=False)


def test_a_window_that_ends_well_leaves_nothing_but_an_unsaved_project(sessions, tmp_path):
    project = sessions.leave(keep=True)
    assert project is not None
    assert project.name == "models.ace.yaml"
    assert load_recipe(project) == TWO.recipe()
    assert [path.name for path in (tmp_path / "sessions").glob("*.yaml")] == [project.name]
    assert later(tmp_path).recover() == ()


def test_nothing_of_a_persons_is_written_over(sessions, session, tmp_path):
    """Neither what cannot be read, nor what is called as a project that is recovered."""
    folder = tmp_path / "sessions"
    files = {"models.ace.yaml": "damaged: [", "notes.running.ace.yaml": "mine"}
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / f"{'a' * 32}.running.ace.yaml").symlink_to(folder / "notes.running.ace.yaml")
    project = sessions.leave(keep=True)
    assert project is not None
    recovered = []
    for number in range(3):
        leftover = folder / f"{number:032x}.running.ace.yaml"
        leftover.write_text(project.read_text())
        recovered += later(tmp_path).recover()
    assert len({project, *recovered}) == 4
    assert all(load_recipe(file) == TWO.recipe() for file in (project, *recovered))
    assert {name: (folder / name).read_text() for name in files} == files


def test_other_models_of_one_folder_take_no_projects_place(sessions, session, tmp_path):
    first = sessions.leave(keep=True)
    assert sessions.leave(keep=True) == first, "the same project"
    inputs = replace(TWO, experts=TWO.experts[:1])
    session.adopt(inputs, plan(inputs.recipe()))
    project = sessions.leave(keep=True)
    assert project is not None
    assert first is not None
    assert project.name == "models 2.ace.yaml"
    assert load_recipe(project) == inputs.recipe()
    assert load_recipe(first).paths == TWO.recipe().paths


TASK = Task(name="cola", data=Path("/data/cola.csv"), expert="cola")
PROJECTS = {
    "a task": replace(TWO, tasks=(TASK,)),
    "a parameter": TWO.with_parameter("tau", 0.7),
    "a method": TWO.with_method("linear"),
    "an override": replace(TWO, overrides=(Override(role="norm", disposition="base"),)),
    "a weight": TWO.with_expert(0, replace(TWO.experts[0], weight=0.5)),
}


@pytest.mark.parametrize("former", PROJECTS)
@pytest.mark.parametrize("opened", ["nothing else", *PROJECTS])
def test_a_project_is_not_written_over_by_another_of_the_same_models(
    session, tmp_path, former, opened
):
    sessions = Sessions(session, tmp_path / "sessions")
    first = PROJECTS[former]
    second = PROJECTS.get(opened, TWO)
    files = []
    for inputs in (first, second, first, second):
        session.adopt(inputs, plan(inputs.recipe()))
        files.append(sessions.leave(keep=True))
    recipes = [load_recipe(file) for file in files if file is not None]
    assert recipes == [first.recipe(), second.recipe()] * 2
    assert [recipe.tasks for recipe in recipes] == [first.tasks, second.tasks] * 2
    assert files[:2] == files[2:], "a project that is the same has one file"


def test_every_change_is_written(session, sessions):
    session.draft.set_parameter("tau", 0.7)
    assert sessions._timer.isActive()
    sessions.write()
    sessions._background.waitForDone()
    assert load_recipe(sessions._file).parameters == {"tau": 0.7}
    sst2_only = TWO.without_experts([0])
    session.adopt(sst2_only, plan(sst2_only.recipe()))
    assert sessions._timer.isActive()
    sessions.leave(keep=False)


@pytest.mark.parametrize("folder", ["a:b?", "x" * 200, "..."])
def test_a_project_in_any_folder_gets_a_file(folder, session, sessions):
    inside = Path("/models", folder)
    inputs = Inputs(base=inside / "base").with_experts([inside / "a"])
    session.adopt(inputs, plan(inputs.recipe()))
    project = sessions.leave(keep=True)
    assert project is not None
    assert load_recipe(project) == inputs.recipe()


@pytest.mark.parametrize(
    ("experts", "name"),
    [
        ((COLA, SST2), "models"),
        ((COLA, Path("/elsewhere/sst2")), "cola, sst2"),
        ((Path("/a/glue-1"), Path("/b/glue-2")), "glue"),
        (tuple(Path(f"/{n}/{n * 3}") for n in "abcde"), "aaa, bbb, ccc and 2 more"),
        ((Path("/a/cola"),), "cola"),
    ],
)
def test_a_project_is_called_by_what_its_experts_share_and_never_as_the_base(experts, name):
    assert project_name(recipe(*experts)) == name
