"""Undo and redo of what a person chooses."""

from dataclasses import replace
from pathlib import Path

import pytest

from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.history import UndoHistory, change_text
from ace_gui.gui.state.session import Session
from ace_gui.recipe import Override
from tests.gui.fakes import COLA, ENGINE, TWO, Clock, adopt_two, plan

NEW = Path("/models/mnli")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(session: Session, clock: Clock) -> UndoHistory:
    session.set_engine(ENGINE)
    adopt_two(session)
    made = UndoHistory(session.draft, session, clock=clock)
    made.wanted.connect(lambda inputs: adopt(session, inputs))
    return made


def adopt(session: Session, inputs: Inputs) -> None:
    session.draft.propose(inputs)
    session.adopt(inputs, plan(inputs.recipe()))


def test_every_edit_is_undone_and_done_again(history, session):
    edits = [
        TWO.with_expert(0, replace(TWO.experts[0], name="grammar")),
        TWO.with_expert(1, replace(TWO.experts[1], weight=0.5)),
        TWO.with_experts([NEW]),
        TWO.without_experts([0]),
        replace(TWO, method="linear"),
        replace(TWO, overrides=(Override(role="norm", disposition="base"),)),
        replace(TWO, scope="authors-vit"),
        replace(TWO, base=NEW),
    ]
    for edit in edits:
        adopt(session, edit)
    assert history.stack.count() == len(edits)
    for before in (*reversed(edits[:-1]), TWO):
        history.stack.undo()
        assert session.draft.inputs == before
    assert not history.stack.canUndo()
    assert history.stack.isClean()
    for edit in edits:
        history.stack.redo()
        assert session.draft.inputs == edit
    assert history.stack.count() == len(edits)


def test_one_number_typed_is_one_step(history, session, clock):
    for value in (0.5, 0.55, 0.551):
        session.draft.set_parameter("tau", value)
    clock.now = 10.0
    session.draft.set_parameter("tau", 0.9)
    assert history.stack.count() == 2
    assert history.stack.undoText() == "change of tau"
    history.stack.undo()
    assert session.draft.inputs.touched == {"tau": 0.551}
    history.stack.undo()
    assert session.draft.inputs == TWO


def test_a_number_typed_back_is_no_step(history, session):
    session.draft.set_parameter("tau", 0.5)
    session.draft.set_parameter("tau", None)
    assert history.stack.isClean()


def test_a_step_that_cannot_be_undone_is_taken_back(session):
    session.set_engine(ENGINE)
    adopt_two(session)
    history = UndoHistory(session.draft, session)
    history.wanted.connect(session.draft.propose)
    after = TWO.with_experts([NEW])
    adopt(session, after)
    history.stack.undo()
    assert session.draft.inputs == TWO
    session.draft.reject()  # a model is gone
    assert session.draft.inputs == after
    assert history.stack.index() == 1
    assert history.stack.undoText() == "adding mnli"
    history.stack.undo()
    adopt(session, TWO)
    assert history.stack.index() == 0
    assert history.stack.redoText() == "adding mnli"


def test_nothing_is_undone_beyond_what_was_opened(history, session):
    session.draft.set_parameter("tau", 0.5)
    history.reset()
    assert not history.stack.canUndo()
    session.draft.set_parameter("tau", 0.6)
    session.close()
    assert not history.stack.canUndo()


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (TWO.with_experts([NEW]), "adding mnli"),
        (TWO.with_experts([NEW, NEW / "2"]), "adding 2 experts"),
        (TWO.without_experts([0]), "removing cola"),
        (TWO.with_expert(0, replace(TWO.experts[0], name="g")), "renaming cola"),
        (TWO.with_expert(0, replace(TWO.experts[0], weight=2.0)), "weight of cola"),
        (TWO.with_expert(0, replace(TWO.experts[0], path=NEW)), "change of experts"),
        (replace(TWO, method="linear"), "change to Weight averaging"),
        (TWO.with_parameter("epsilon", 1.0), "change of Ridge ε"),
        (replace(TWO, base=COLA), "change of the base model"),
        (replace(TWO, seed=7), "change of options"),
    ],
)
def test_changes_have_names(after, text):
    titles = {"linear": "Weight averaging"}
    labels = {"epsilon": "Ridge ε"}
    assert change_text(TWO, after, titles, labels) == text
