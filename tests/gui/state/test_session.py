import math
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMetaMethod

from ace_gui.engine.contract.plan import EVERYTHING, Check, CheckVerdict, Disposition
from ace_gui.gui.state.activity import ActivityState, MergeRun
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.planned_layers import model_order
from ace_gui.gui.state.session import Session, checks_of
from ace_gui.recipe.values import NonFinite
from tests.gui.fakes import (
    BASE,
    COLA,
    ENGINE,
    GAMMAS,
    ROWS,
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
        recipe=session.draft.inputs.recipe(),
        parameters=session.draft.resolved_parameters(),
        store=Path("/cache/store"),
    )


def test_a_rejected_proposal_leaves_what_was_loaded(loaded):
    loaded.draft.propose(loaded.draft.inputs.with_experts([Path("/models/broken")]))
    assert len(loaded.draft.inputs.experts) == 3
    loaded.draft.reject()
    assert loaded.draft.inputs == TWO
    assert loaded.draft.plan is not None
    assert loaded.layers.statistics


def test_a_parameter_set_meanwhile_survives_a_rejected_proposal(loaded):
    loaded.draft.propose(loaded.draft.inputs.with_experts([Path("/models/broken")]))
    loaded.draft.set_parameter("epsilon", 1e-3)
    loaded.draft.reject()
    assert loaded.draft.inputs == TWO.with_parameter("epsilon", 1e-3)


def test_states_by_importance(loaded):
    assert loaded.state is ActivityState.READY
    loaded.activity.begin(ActivityState.ANALYSING)
    loaded.activity.begin(ActivityState.MERGING)
    assert loaded.state is ActivityState.MERGING
    assert not loaded.can_merge
    loaded.activity.end(ActivityState.MERGING)
    assert loaded.state is ActivityState.ANALYSING
    loaded.activity.end(ActivityState.ANALYSING)
    loaded.results.start_merge(run_of(loaded))
    loaded.results.finish_merge(finished_merge())
    assert loaded.state is ActivityState.MERGED
    assert loaded.can_export


def test_statistics_stay_with_their_experts_and_fall_with_them(loaded):
    linear = replace(TWO, method="linear")
    loaded.adopt(linear, plan(recipe(COLA, SST2, merge_method="linear")))
    assert loaded.layers.is_analysed
    cola_only = TWO.without_experts([1])
    loaded.adopt(cola_only, plan(recipe(COLA)))
    assert not loaded.layers.statistics
    assert not loaded.layers.is_analysed


def test_gamma_is_asked_for_again_where_another_method_merges_more(session):
    linear = replace(TWO, method="linear")
    few = tuple(replace(row, disposition=Disposition.AVERAGED) for row in ROWS[:2])
    session.adopt(linear, plan(recipe(COLA, SST2, merge_method="linear"), rows=(*few, *ROWS[2:])))
    session.finish_analysis()
    assert session.layers.is_analysed
    adopt_two(session)
    assert not session.layers.is_analysed


def test_without_a_threshold_nothing_is_above_it(session):
    linear = replace(TWO, method="linear")
    session.adopt(linear, plan(recipe(COLA, SST2, merge_method="linear"), parameters={}))
    assert session.draft.tau == math.inf


def test_renaming_an_expert_renames_its_figures(loaded):
    inputs = loaded.draft.inputs
    renamed = inputs.with_expert(0, replace(inputs.experts[0], name="grammar"))
    loaded.adopt(renamed, plan(renamed.recipe()))
    assert set(loaded.layers.statistics["layer.0.q"].energies) == {"grammar", "sst2"}
    assert loaded.layers.is_analysed


def test_the_threshold_as_dragged_then_set_then_left_to_the_method(loaded, qtbot):
    with qtbot.waitSignal(loaded.draft.tau_changed):
        loaded.draft.preview_tau(0.7)
    assert loaded.draft.tau == 0.7
    assert "tau" not in loaded.draft.inputs.touched
    loaded.draft.set_parameter("tau", 0.6)
    assert loaded.draft.tau == 0.6
    loaded.draft.set_parameter("tau", None)
    assert loaded.draft.tau == 0.3


def test_a_merge_is_current_only_for_what_it_was_made_from(loaded):
    loaded.results.start_merge(run_of(loaded))
    assert loaded.can_resume
    loaded.results.finish_merge(finished_merge())
    assert loaded.merge_is_current
    loaded.draft.set_parameter("tau", 0.3)  # said explicitly, but the same
    assert loaded.merge_is_current
    loaded.draft.set_parameter("tau", 0.9)
    assert not loaded.merge_is_current
    assert loaded.can_export


def test_spectra_are_kept_by_layer_and_recipe(loaded):
    loaded.results.findings.record(loaded.draft.recipe_key(), spectrum("layer.0.q"))
    loaded.draft.set_parameter("tau", 0.9)
    assert loaded.spectrum("layer.0.q") is None
    loaded.draft.set_parameter("tau", 0.3)
    assert loaded.spectrum("layer.0.q") is not None


def test_only_tensors_of_the_plan_can_be_selected(loaded, qtbot):
    with qtbot.waitSignal(loaded.selection_changed):
        loaded.select("layer.0.q")
    with qtbot.assertNotEmitted(loaded.selection_changed):
        loaded.select("layer.0.q")
        loaded.select("no such tensor")


def test_the_same_plan_again_changes_neither_rows_nor_inputs_nor_selection(loaded, qtbot):
    loaded.select("layer.0.q")
    rows = loaded.layers.rows
    with qtbot.assertNotEmitted(loaded.selection_changed):
        adopt_two(loaded)
    assert loaded.draft.inputs == TWO
    assert loaded.layers.rows is rows


def test_a_plan_of_another_method_has_rows_of_its_own(loaded):
    rows = loaded.layers.rows
    average = recipe(COLA, SST2, merge_method="average")
    loaded.adopt(Inputs.from_recipe(average), plan(average))
    assert loaded.layers.rows == rows
    assert loaded.layers.rows is not rows


def test_closing_unloads_everything_but_the_engine(loaded):
    loaded.close()
    assert loaded.state is ActivityState.EMPTY
    assert loaded.engine == ENGINE
    assert loaded.draft.inputs == Inputs().recommended()


def test_what_becomes_of_nan_is_part_of_the_merge_and_of_the_comparison(session):
    inputs = Inputs(base=BASE).with_experts([COLA])
    session.adopt(inputs, plan(recipe(COLA)))
    before = session.draft.recipe_key(), session.layers.analysis_key
    session.draft.propose(replace(inputs, non_finite=NonFinite.KEEP_BASE))
    assert session.draft.recipe_key() != before[0]
    assert session.layers.analysis_key != before[1]


def test_every_signal_of_another_plan_finds_all_parts_up_to_date(loaded):
    loaded.select("layer.2.q")
    states: list[tuple[object, ...]] = []

    def look(*_: object) -> None:
        draft = loaded.draft
        layers = loaded.layers
        assert draft.plan is not None
        rows = layers.rows == model_order(draft.plan.rows)
        planned = rows and draft.plan.recipe == draft.inputs.recipe()
        checks = checks_of(draft.plan, None, None)
        states.append((planned, layers.statistics, loaded.selection, loaded.checks.all == checks))

    for part in (loaded, loaded.draft, loaded.layers, loaded.checks, loaded.results):
        meta = part.metaObject()
        for index in range(meta.methodOffset(), meta.methodCount()):
            if meta.method(index).methodType() is QMetaMethod.MethodType.Signal:
                getattr(part, meta.method(index).name().data().decode()).connect(look)
    warned = (
        Check(
            subject=EVERYTHING, title="Disk", verdict=CheckVerdict.WARNING, sentence="It is full."
        ),
    )
    loaded.adopt(
        replace(TWO.without_experts([1]), method="linear"),
        plan(recipe(COLA, merge_method="linear"), ROWS[:2], checks=warned),
    )
    assert len(states) >= 3  # the checks, the draft and its threshold, the selection
    assert states == [(True, {}, None, True)] * len(states)
