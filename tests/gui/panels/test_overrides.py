"""Overrides in the window: the layers' menu, the list, the dialog."""

from dataclasses import replace
from itertools import product

import pytest
from PySide6.QtCore import QItemSelectionModel
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import JobDone, PlanReady
from ace_gui.engine.contract.jobs import PlanJob
from ace_gui.engine.contract.plan import Disposition, RowOverride
from ace_gui.gui.dialogs.method_dialogs import OverrideDialog
from ace_gui.gui.models.layer_columns import OUTCOME
from ace_gui.gui.panels.layers_panel import ALL, MERGED
from ace_gui.gui.state.draft import Expert, Inputs
from ace_gui.gui.state.planned_layers import open_to_override, overridden, reset
from ace_gui.gui.state.session import Session
from ace_gui.recipe import Override
from ace_gui.recipe.values import After, Cap
from tests.gui.fakes import BASE, COLA, ENGINE, ROWS, SST2, adopt_two, plan, recipe

QUERIES = frozenset({"layer.0.q", "layer.2.q"})
AVERAGE = Override(disposition="average")


@pytest.fixture
def loaded(session) -> Session:
    session.set_engine(ENGINE)
    adopt_two(session)
    return session


def dialog_of(session: Session, qtbot: QtBot, rule: Override | None) -> OverrideDialog:
    dialog = OverrideDialog(session, rule, None)
    qtbot.addWidget(dialog)
    return dialog


def choose(menu: QMenu, *titles: str) -> None:
    """Trigger the entry that these titles lead to."""
    for title in titles:
        action = next(a for a in menu.actions() if a.text().replace("&", "") == title)
        menu = action.menu() or menu
    action.trigger()


def test_only_what_takes_part_can_be_overridden(loaded):
    everything = {row.name for row in ROWS}
    assert open_to_override(loaded.layers, everything) == everything - {"head"}


def test_a_whole_role_is_named_as_such(loaded):
    rules = overridden(loaded.layers, QUERIES, AVERAGE)
    assert rules == (Override(role="query", disposition="average"),)


def test_a_later_choice_takes_the_place_of_an_earlier_one(loaded):
    first = overridden(loaded.layers, QUERIES, AVERAGE)
    loaded.draft.keep(replace(loaded.draft.inputs, overrides=first))
    again = overridden(loaded.layers, QUERIES, Override(disposition="base"))
    assert again == (Override(role="query", disposition="base"),)
    narrower = overridden(loaded.layers, {"layer.2.q"}, Override(disposition="base"))
    assert narrower == (*first, Override(blocks="2", disposition="base"))


def test_reset_takes_a_layer_out_of_a_wider_rule(loaded):
    loaded.draft.keep(
        replace(loaded.draft.inputs, overrides=overridden(loaded.layers, QUERIES, AVERAGE))
    )
    (rule,) = reset(loaded.layers, {"layer.2.q"})
    assert rule.holds_for("layer.0.q", "query", 0)
    assert not rule.holds_for("layer.2.q", "query", 2)


def test_rules_make_another_recipe(loaded):
    before = loaded.draft.recipe_key()
    analysed = loaded.layers.analysis_key
    loaded.draft.keep(
        replace(loaded.draft.inputs, overrides=(Override(role="key", disposition="base"),))
    )
    assert loaded.draft.recipe_key() != before
    assert loaded.layers.analysis_key != analysed
    assert {loaded.draft.recipe_key(): 1}  # spectra are kept under it


def test_weights_follow_their_expert():
    rule = Override(role="query", weights={"cola": 0.5, "sst2": 2.0})
    inputs = replace(Inputs(base=BASE).with_experts([COLA, SST2]), overrides=(rule,))
    renamed = inputs.with_expert(0, Expert(path=COLA, name="grammar", colour=0))
    assert renamed.overrides[0].weights == {"grammar": 0.5, "sst2": 2.0}
    assert renamed.without_experts([1]).overrides[0].weights == {"grammar": 0.5}
    assert renamed.without_experts([0]).without_experts([0]).overrides == ()


def test_the_menu_of_selected_layers_makes_a_rule(opened, worker):
    layers = opened.workspace.layers
    select = QItemSelectionModel.SelectionFlag
    for name in QUERIES:
        index = layers.model.index_of(name)
        layers.table.selectionModel().select(index, select.Select | select.Rows)
    assert set(layers.selected) == QUERIES
    choose(layers.menu(), "Merge with", "Means and arcs", "Weight averaging")
    rule = Override(role="query", merge_method="linear", disposition="merge")
    assert opened.session.draft.inputs.overrides == (rule,)
    assert worker.jobs[worker.newest(PlanJob)].recipe.overrides == (rule,)


def test_an_overridden_layer_shows_its_method_and_can_be_reset(opened, worker):
    rule = Override(role="key", merge_method="linear")
    opened.conductor.change(replace(opened.session.draft.inputs, overrides=(rule,)))
    override = RowOverride(method="linear", parameters={}, weights=(1.0, 1.0), rules=(0,))
    rows = tuple(replace(row, override=override) if row.role == "key" else row for row in ROWS)
    planned = plan(recipe(COLA, SST2, overrides=(rule,)), rows=rows)
    worker.say(PlanReady(plan=planned), JobDone(), job=worker.newest(PlanJob))
    layers = opened.workspace.layers
    listed = opened.workspace.method.overrides
    assert layers.model.index_of("layer.10.q", OUTCOME.index).data() == "◆ Weight averaging"
    assert listed.list.item(0).text() == "key (1)\n→ Weight averaging"
    rows = opened.session.layers.rows
    assert opened.session.layers.merged == [r for r in rows if r.role == "query"]
    layers.table.go_to("layer.10.q")
    choose(layers.menu(), "Reset")
    assert opened.session.draft.inputs.overrides == ()


def test_heads_alone_offer_nothing(opened):
    layers = opened.workspace.layers
    layers.show_only(ALL)
    layers.table.go_to("head")
    assert not any(action.isEnabled() for action in layers.menu().actions())


def test_a_rule_is_removed_from_the_list(opened):
    rules = (AVERAGE, Override(role="key", disposition="base"))
    rules = tuple(replace(rule, role="key") for rule in rules)
    opened.conductor.change(replace(opened.session.draft.inputs, overrides=rules))
    listed = opened.workspace.method.overrides
    listed.list.setCurrentRow(0)
    listed.remove.click()
    assert [rule.disposition for rule in opened.session.draft.inputs.overrides] == ["base"]


def test_the_dialog_makes_a_rule_by_role_and_blocks(loaded, qtbot):
    dialog = dialog_of(loaded, qtbot, None)
    ok = dialog.ok
    assert not ok.isEnabled()
    dialog.role.setCurrentText("query")
    dialog.blocks.setText("1-")
    dialog.outcome.choose("ace")
    assert dialog.verdict.text() == f"1 of {len(ROWS)} tensors"
    dialog.form.fields["tau"].edited.emit(0.7)
    with qtbot.waitSignal(dialog.rule_made) as made:
        ok.click()
    rule = Override(role="query", blocks="1-", merge_method="ace", disposition="merge")
    assert made.args == [replace(rule, parameters={"tau": 0.7})]


@pytest.mark.parametrize(
    ("text", "cap"), [("as in the recipe", None), ("none", False), ("at δ", Cap(delta=0.5))]
)
def test_a_rule_has_a_cap_of_its_own_or_takes_the_recipes_away(loaded, qtbot, text, cap):
    rule = Override(role="key", merge_method="linear", after=After(cap=Cap(delta=0.5)))
    dialog = dialog_of(loaded, qtbot, rule)
    assert dialog.after.fields["after.cap"].control.value() == 0.5
    dialog.after.fields["cap"].control.setCurrentText(text)
    assert dialog.rule() == Override(
        role="key", merge_method="linear", disposition="merge", after=After(cap=cap)
    )
    dialog.outcome.choose("average")
    assert dialog.rule().after == After()  # it is for what a method merges


def test_a_rule_says_what_is_done_after_the_method(loaded, qtbot):
    dialog = dialog_of(loaded, qtbot, Override(role="key"))
    dialog.after.fields["after.spectrum"].control.setValue(0.5)
    dialog.after.fields["after.depth[1]"].control.setValue(2.0)
    expected = Override(role="key", after=After(spectrum=0.5, depth=(1.0, 2.0)))
    assert dialog.rule() == expected
    again = dialog_of(loaded, qtbot, expected)
    assert again.after.fields["after.spectrum"].control.value() == 0.5


@pytest.mark.parametrize(("blocks", "words"), [("x", "blocks such as"), ("9", "0 of")])
def test_the_dialog_says_why_it_cannot_be_accepted(loaded, qtbot, blocks, words):
    dialog = dialog_of(loaded, qtbot, AVERAGE)
    dialog.blocks.setText(blocks)
    assert words in dialog.verdict.text()
    assert not dialog.ok.isEnabled()


@pytest.mark.parametrize(
    "rule",
    [
        Override(role="key", blocks="10", merge_method="linear", disposition="merge"),
        Override(role="key", parameters={"tau": 0.9}),  # the recipe's method
    ],
)
def test_the_dialog_opens_with_the_rule(loaded, qtbot, rule):
    assert dialog_of(loaded, qtbot, rule).rule() == rule


def test_the_regime_follows_a_threshold_of_the_layers_own(loaded):
    rules = (Override(role="key", parameters={"tau": 0.9}),)
    override = RowOverride(method="ace", parameters={"tau": 0.9}, weights=(1.0, 1.0), rules=(0,))
    rows = tuple(replace(row, override=override) if row.role == "key" else row for row in ROWS)
    loaded.adopt(
        replace(loaded.draft.inputs, overrides=rules),
        plan(recipe(COLA, SST2, overrides=rules), rows=rows),
    )
    assert {row.disposition for row in rows} >= {Disposition.MERGED}
    taus = [loaded.draft.tau_of(row) for row in rows if row.block is not None]
    assert taus == [0.3, 0.3, 0.9, 0.3]


def test_what_the_filters_hide_is_counted_and_shown_on_demand(opened):
    layers = opened.workspace.layers
    for text, role, category in product(("", "layer.0", "nothing"), ("", "key"), (MERGED, ALL)):
        layers.text.setText(text)
        layers.role.choose(role)
        layers.show_only(category)
        hidden = layers.model.total - len(layers.model.shown)
        assert layers.left_out.isVisible() is (hidden > 0)
        assert layers.show_all.isVisible() is (hidden > 0)
        if hidden:
            assert layers.left_out.text().split()[0] == str(hidden)
            layers.show_all.click()
        assert len(layers.model.shown) == layers.model.total
        assert not layers.left_out.isVisible()
