from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from ace_gui.gui.state.activity import MergeRun, State
from ace_gui.gui.state.inputs import Inputs
from ace_gui.gui.state.session import Session
from ace_gui.recipe.values import NonFinite
from tests.gui.fakes import (
    BASE,
    COLA,
    ENGINE,
    GAMMAS,
    SST2,
    TWO,
    adopt_two,
    finished_merge,
    plan,
    recipe,
    record_gammas,
    spectrum,
)


@pytest.fixture
def loaded(session: Session) -> Session:
    session.set_engine(ENGINE)
    adopt_two(session)
    record_gammas(session, GAMMAS)
    session.finish_analysis()
    return session


def run_of(session: Session) -> MergeRun:
    return MergeRun(
        recipe=session.inputs.recipe(), key=session.recipe_key(), store=Path("/cache/store")
    )


def test_an_empty_session_can_do_nothing(session: Session) -> None:
    assert session.state is State.EMPTY
    assert not session.can_merge
    assert not session.can_export


def test_a_rejected_proposal_leaves_what_was_loaded(loaded: Session) -> None:
    loaded.propose(loaded.inputs.with_experts([Path("/models/broken")]))
    assert len(loaded.inputs.experts) == 3
    loaded.reject()
    assert loaded.inputs == TWO
    assert loaded.plan is not None
    assert loaded.statistics


def test_a_parameter_set_meanwhile_survives_a_rejected_proposal(loaded: Session) -> None:
    loaded.propose(loaded.inputs.with_experts([Path("/models/broken")]))
    loaded.set_parameter("epsilon", 1e-3)
    loaded.reject()
    assert loaded.inputs == TWO.with_parameter("epsilon", 1e-3)


def test_states_by_importance(loaded: Session) -> None:
    assert loaded.state is State.READY
    loaded.begin(State.ANALYSING)
    loaded.begin(State.MERGING)
    assert loaded.state is State.MERGING
    assert not loaded.can_merge
    loaded.end(State.MERGING)
    assert loaded.state is State.ANALYSING
    loaded.end(State.ANALYSING)
    loaded.start_merge(run_of(loaded))
    loaded.finish_merge(finished_merge())
    assert loaded.state is State.MERGED
    assert loaded.can_export


def test_statistics_stay_with_their_experts_and_fall_with_them(loaded: Session) -> None:
    linear = replace(TWO, method="linear")
    loaded.adopt(linear, plan(recipe(COLA, SST2, merge_method="linear")))
    assert loaded.is_analysed
    one = TWO.without_experts([1])
    loaded.adopt(one, plan(recipe(COLA)))
    assert not loaded.statistics
    assert not loaded.is_analysed


def test_gamma_is_asked_for_again_after_a_method_that_has_none(session: Session) -> None:
    linear = replace(TWO, method="linear")
    session.adopt(linear, plan(recipe(COLA, SST2, merge_method="linear")))
    session.finish_analysis()
    adopt_two(session)
    assert not session.is_analysed


def test_renaming_an_expert_renames_its_figures(loaded: Session) -> None:
    renamed = loaded.inputs.with_expert(0, replace(loaded.inputs.experts[0], name="grammar"))
    loaded.adopt(renamed, plan(renamed.recipe()))
    assert set(loaded.statistics["layer.0.q"].energies) == {"grammar", "sst2"}
    assert loaded.is_analysed


def test_the_threshold_as_dragged_then_set_then_left_to_the_method(
    loaded: Session, qtbot: QtBot
) -> None:
    with qtbot.waitSignal(loaded.tau_changed):
        loaded.preview_tau(0.7)
    assert loaded.tau == 0.7
    assert "tau" not in loaded.inputs.touched
    loaded.set_parameter("tau", 0.6)
    assert loaded.tau == 0.6
    loaded.set_parameter("tau", None)
    assert loaded.tau == 0.3


def test_a_merge_is_current_only_for_what_it_was_made_from(loaded: Session) -> None:
    loaded.start_merge(run_of(loaded))
    assert loaded.can_resume
    loaded.finish_merge(finished_merge())
    assert loaded.merge_is_current
    loaded.set_parameter("tau", 0.3)  # said explicitly, but the same
    assert loaded.merge_is_current
    loaded.set_parameter("tau", 0.9)
    assert not loaded.merge_is_current
    assert loaded.can_export


def test_spectra_are_kept_by_layer_and_recipe(loaded: Session) -> None:
    loaded.findings.record(loaded.recipe_key(), spectrum("layer.0.q"))
    loaded.set_parameter("tau", 0.9)
    assert loaded.spectrum("layer.0.q") is None
    loaded.set_parameter("tau", 0.3)
    assert loaded.spectrum("layer.0.q") is not None


def test_only_tensors_of_the_plan_can_be_selected(loaded: Session, qtbot: QtBot) -> None:
    with qtbot.waitSignal(loaded.selection_changed):
        loaded.select("layer.0.q")
    with qtbot.assertNotEmitted(loaded.selection_changed):
        loaded.select("layer.0.q")
        loaded.select("no such tensor")


def test_the_same_plan_again_changes_neither_rows_nor_inputs_nor_selection(
    loaded: Session, qtbot: QtBot
) -> None:
    loaded.select("layer.0.q")
    rows = loaded.rows
    told = [loaded.inputs_changed, loaded.selection_changed]
    with qtbot.assertNotEmitted(told[0]), qtbot.assertNotEmitted(told[1]):
        adopt_two(loaded)
    assert loaded.rows is rows


def test_a_plan_of_another_method_has_rows_of_its_own(loaded: Session) -> None:
    rows = loaded.rows
    other = recipe(COLA, SST2, merge_method="average")
    loaded.adopt(Inputs.from_recipe(other), plan(other))
    assert loaded.rows == rows
    assert loaded.rows is not rows


def test_the_most_heterogeneous_layer(loaded: Session) -> None:
    assert loaded.most_heterogeneous == "layer.10.q"


def test_closing_unloads_everything_but_the_engine(loaded: Session) -> None:
    loaded.close()
    assert loaded.state is State.EMPTY
    assert loaded.engine is ENGINE
    assert loaded.inputs == Inputs()


def test_what_becomes_of_nan_is_part_of_the_merge_and_of_the_comparison(session: Session) -> None:
    inputs = Inputs(base=BASE).with_experts([COLA])
    session.adopt(inputs, plan(recipe(COLA)))
    before = session.recipe_key(), session.analysis_key
    session.propose(replace(inputs, non_finite=NonFinite.KEEP_BASE))
    assert session.recipe_key() != before[0]
    assert session.analysis_key != before[1]
