from dataclasses import fields, replace

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QToolButton

from ace_gui.engine.capabilities import method_info
from ace_gui.engine.contract.after_fields import AFTER_FIELDS, value_of, with_value
from ace_gui.gui.panels.method_panel import OPTIONS, MethodPanel
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.widgets.form import ParameterField
from ace_gui.methods import METHODS
from ace_gui.recipe.distillation import Distillation, Trained
from ace_gui.recipe.recommended import TITLE
from ace_gui.recipe.values import After, Cap, Poolers, Task, Vocabulary
from tests.gui.fakes import BASE, COLA, ENGINE, EPSILON, FRACTION, TAU, field, plan, recipe


@pytest.fixture
def panel(session, qtbot) -> MethodPanel:
    panel = MethodPanel(session, QAction("Method…"))
    qtbot.addWidget(panel)
    panel.show()
    return panel


@pytest.fixture
def filled(panel, session) -> MethodPanel:
    session.set_engine(ENGINE)
    session.adopt(Inputs(base=BASE).with_experts([COLA]), plan(recipe(COLA)))
    return panel


def test_before_the_engine_is_up_it_says_so(panel, session):
    for starts in (True, False):
        labels = [label.text() for label in panel.findChildren(QLabel) if label.isVisible()]
        assert any("Starting the engine" in text for text in labels) is starts
        session.set_engine(ENGINE)


def option(panel: MethodPanel, name: str) -> QComboBox:
    return panel.options.fields[name].control


def test_the_fields_stand_in_one_column(filled, qtbot):
    filled.setFixedWidth(278)  # what the left column leaves next to its scroll bar
    filled.resize(278, 1200)
    filled.more.unfold()
    qtbot.wait(20)
    rows = [*filled.fields.values(), *filled.options.fields.values(), *filled.after.fields.values()]
    controls = [row.control for row in rows if row.isVisible()]
    lefts = {control.mapTo(filled, control.rect().topLeft()).x() for control in controls}
    assert len(lefts) == 1
    for control in controls:
        assert control.mapTo(filled, control.rect().topRight()).x() < 278


def test_with_the_defaults_there_are_neither_hints_nor_rare_fields(filled):
    """What one changes is in view; what one reads once is in tooltips."""
    texts = [label.text() for label in filled.findChildren(QLabel) if label.isVisible()]
    assert not any(len(text) > 30 for text in texts), texts
    assert not filled.options.isVisible()
    assert ENGINE.methods[0].summary in filled.findChild(QLabel, "method").toolTip()


@pytest.mark.parametrize("choice", OPTIONS, ids=lambda choice: choice.name)
def test_every_value_of_an_option_can_be_chosen_and_is_shown(filled, session, qtbot, choice):
    for text, value in choice.values.items():
        defaults = Inputs()
        assert choice.edited(defaults, text, defaults) == replace(defaults, **{choice.name: value})
        session.draft.keep(replace(session.draft.inputs, **{choice.name: value}))
        assert option(filled, choice.name).currentText() == text
    for text, value in choice.values.items():
        with qtbot.waitSignal(session.inputs_wanted) as signal:
            option(filled, choice.name).setCurrentText(text)
        assert signal.args == [replace(session.draft.inputs, **{choice.name: value})]
        session.draft.keep(signal.args[0])


def test_a_seed_is_offered_where_numbers_are_drawn(filled, session, qtbot):

    def seed() -> QLineEdit:
        return filled.options.fields["seed"].control

    assert "seed" not in filled.options.fields
    drawing = replace(ENGINE.methods[0], name="dare", seeded=True)
    session.set_engine(replace(ENGINE, methods=(*ENGINE.methods, drawing)))
    session.draft.keep(replace(session.draft.inputs, method="dare", seed=2**40))
    assert seed().isVisible()
    assert seed().text() == str(2**40)
    seed().setText("-1")
    seed().editingFinished.emit()
    assert seed().text() == str(2**40), "nonsense changes nothing"
    seed().setText("7")
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        seed().editingFinished.emit()
    assert signal.args[0].seed == 7
    session.draft.keep(replace(session.draft.inputs, method="ace"))
    assert "seed" not in filled.options.fields


def test_more_options_are_folded_until_one_is_unusual(filled, session):
    assert not filled.more.is_open
    assert not option(filled, "vocabulary").isVisible()
    # A seed is of no use to a method that draws nothing.
    session.draft.keep(replace(session.draft.inputs, seed=9))
    assert not filled.more.is_open
    session.draft.keep(replace(session.draft.inputs, vocabulary=Vocabulary.TOKENS))
    assert option(filled, "vocabulary").isVisible()
    filled.more.findChildren(QToolButton)[0].click()
    session.draft.keep(replace(session.draft.inputs, method="linear"))
    assert not filled.more.is_open  # it is the person's again
    session.draft.keep(replace(session.draft.inputs, out_dtype="bfloat16"))
    assert filled.more.is_open


def test_untouched_parameters_say_where_their_value_comes_from(filled, session):
    control = filled.fields["epsilon"].control
    assert "default for this family" in control.toolTip()
    session.draft.set_parameter("epsilon", 1e-3)
    assert "default for this family" not in control.toolTip()
    assert control.value() == 1e-3


def test_editing_and_resetting_are_asked_for_and_showing_is_not(filled, session, qtbot):
    with qtbot.waitSignal(session.parameter_wanted) as signal:
        filled.fields["k_frac"].control.setValue(0.5)
    assert signal.args == ["k_frac", 0.5]
    reset = filled.fields["k_frac"].findChild(QToolButton)
    with qtbot.waitSignal(session.parameter_wanted) as signal:
        reset.click()
    assert signal.args == ["k_frac", None]
    with qtbot.assertNotEmitted(session.parameter_wanted):
        session.draft.set_parameter("k_frac", 0.9)
        session.draft.preview_tau(0.8)
    assert filled.fields["tau"].control.value() == 0.8


def test_the_scopes_are_those_of_the_engine(filled, session, qtbot):
    scope = option(filled, "scope")
    assert [scope.itemText(index) for index in range(2)] == ["default", "authors-vit"]
    assert "As the authors did." in scope.toolTip()
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        scope.setCurrentText("authors-vit")
    assert signal.args[0].scope == "authors-vit"


@pytest.mark.parametrize("method", ["ace", "linear"])
def test_every_method_can_have_a_cap(filled, session, qtbot, method):
    session.draft.keep(replace(session.draft.inputs, method=method))
    filled.more.unfold()
    cap, delta = (filled.after.fields[name] for name in ("cap", "after.cap"))
    assert (cap.control.currentText(), delta.isVisible()) == ("none", False)
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        cap.control.setCurrentText("at δ")
    assert signal.args[0] == replace(session.draft.inputs, after=After(cap=Cap()))
    session.draft.keep(signal.args[0])
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        delta.control.setValue(0.25)
    assert signal.args[0].recipe().after.cap == Cap(delta=0.25)
    session.draft.keep(signal.args[0])
    assert (delta.isVisible(), delta.control.value()) == (True, 0.25)
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        delta.findChild(QToolButton).click()  # back to the default δ
    assert signal.args[0].after.cap == Cap()
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        cap.control.setCurrentText("none")
    assert signal.args[0].after.cap is None


@pytest.mark.parametrize("one_head", [0.0, 0.05])
def test_a_cap_by_heads_keeps_its_second_value(filled, session, qtbot, one_head):
    """The form shows the cap of the recommended merge, and leaves its value for one head."""
    cap, delta = (filled.after.fields[name] for name in ("cap", "after.cap"))
    chosen = After(cap=Cap(delta=0.2, one_head=one_head))
    session.draft.keep(replace(session.draft.inputs, after=chosen))
    assert (cap.control.currentText(), delta.control.value()) == ("at δ, by heads", 0.2)
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        delta.control.setValue(0.25)
    assert signal.args[0].after.cap == Cap(delta=0.25, one_head=one_head)
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        cap.control.setCurrentText("at δ")
    assert signal.args[0].after.cap == Cap()
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        cap.control.setCurrentText("at δ, by heads")
    assert signal.args[0].after.cap == Cap(one_head=0.0)


@pytest.mark.parametrize("name", [field.name for field in AFTER_FIELDS])
def test_what_is_done_after_the_method_has_a_field(filled, session, qtbot, name):
    assert not filled.more.is_open
    field = filled.after.fields[name]
    after = After(scale=0.7, depth=(0.5, 1.5), cap=Cap())
    session.draft.keep(replace(session.draft.inputs, after=after))
    assert filled.more.is_open
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        field.control.setValue(0.25)
    expected = with_value(after, name, 0.25)
    assert value_of(expected, name) == 0.25
    assert signal.args[0] == replace(session.draft.inputs, after=expected)
    session.draft.keep(signal.args[0])
    assert field.control.value() == 0.25
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        field.findChild(QToolButton).click()
    assert value_of(signal.args[0].after, name) in (None, 1.0)
    assert signal.args[0].after == with_value(expected, name, None)


def test_the_automatic_variant_leads_its_form_and_has_one_cap(filled, session):
    session.set_engine(replace(ENGINE, methods=(method_info("ace"),)))
    session.draft.set_parameter("variant", "automatic")
    assert not filled.after.fields["cap"].isVisible()
    session.draft.keep(replace(session.draft.inputs, after=After(cap=Cap(delta=0.05))))
    assert filled.after.fields["cap"].isVisible()


def test_what_is_known_of_layers_depends_on_fused_matrices_and_the_vocabulary(filled, session):
    inputs = session.draft.inputs
    chosen = replace(inputs, split_fused=True, vocabulary=Vocabulary.TOKENS)
    before = session.draft.recipe_key(), session.layers.analysis_key
    session.adopt(chosen, plan(chosen.recipe()))
    assert not set(before) & {session.draft.recipe_key(), session.layers.analysis_key}
    assert Inputs.from_recipe(chosen.recipe()).recipe() == chosen.recipe()


@pytest.mark.parametrize(
    ("info", "value"),
    [
        (EPSILON, 2e-4),
        (TAU, 0.7),
        (FRACTION, 0.25),
        (field("n", kind="int", default=3, low=1.0, high=9.0), 5),
        (field("b", kind="bool", default=True, low=None), False),
        (field("s", kind="str", default="x", low=None), "hello"),
        (field("c", kind="str", default="a", low=None, choices=("a", "b")), "b"),
    ],
)
def test_every_kind_of_field_shows_what_it_is_given(qtbot, info, value):
    made = ParameterField(info)
    qtbot.addWidget(made)
    made.show_value(value, "", touched=True)
    control = made.control
    if isinstance(control, QComboBox):
        content: object = control.currentText()
    else:
        read = [name for name in ("isChecked", "value", "text") if hasattr(control, name)]
        content = getattr(control, read[0])()
    assert content == value
    assert control.accessibleName() == info.label


def test_a_field_has_its_range_and_offers_presets(qtbot):
    ranged = ParameterField(FRACTION)
    made = ParameterField(EPSILON)
    for field_ in (ranged, made):
        qtbot.addWidget(field_)
    ranged.control.setValue(7.0)
    assert ranged.control.value() == 1.0
    menus = [button.menu() for button in made.findChildren(QToolButton) if button.menu()]
    action = menus[0].actions()[0]
    assert "GPT-2" in action.text()
    with qtbot.waitSignal(made.edited) as signal:
        action.trigger()
    assert signal.args == [4e-2]


def test_the_form_has_a_control_for_every_parameter_of_every_method(panel, session):
    session.set_engine(replace(ENGINE, methods=tuple(map(method_info, METHODS))))
    for name, method in METHODS.items():
        session.draft.keep(replace(session.draft.inputs, method=name))
        assert list(panel.fields) == [field.name for field in fields(method.parameters)]


def test_only_the_fields_of_the_chosen_variant_are_shown(filled, session):
    """The variant leads the form, and has γ without a threshold where it knows no regimes."""
    session.set_engine(replace(ENGINE, methods=(method_info("ace"),)))
    assert next(iter(filled.fields)) == "variant"

    def visible_fields() -> set[str]:
        return {name for name, field in filled.fields.items() if field.isVisible()}

    common = {"variant", "scaling"}
    assert visible_fields() == common | {"epsilon", "tau", "k_frac", "refine"}
    session.draft.keep(session.draft.inputs.with_parameter("variant", "automatic"))
    assert visible_fields() == common | {"alpha", "delta"}
    assert session.draft.tau == float("inf")
    session.draft.keep(session.draft.inputs.with_parameter("variant", None))
    assert visible_fields() == common | {"epsilon", "tau", "k_frac", "refine"}
    assert session.draft.tau == 0.3


def test_the_panel_says_that_the_merge_is_the_recommended_one(filled, session):
    def titles() -> set[str]:
        return {label.text() for label in filled.findChildren(QLabel)}

    assert TITLE not in titles()
    session.draft.keep(session.draft.inputs.recommended())
    assert TITLE in titles()


def test_a_dot_marks_what_differs_from_the_recommended_merge(filled, session, qtbot):
    def marked() -> set[str]:
        fields = (filled.parameters.fields, filled.options.fields, filled.after.fields)
        dots = {n: f.findChild(QToolButton) for field in fields for n, f in field.items()}
        return {name for name, dot in dots.items() if not dot.isHidden()}

    recommended = session.draft.inputs.recommended()
    session.draft.keep(recommended)
    assert marked() == set()
    session.draft.keep(replace(recommended, after=replace(recommended.after, spectrum=0.7)))
    assert marked() == {"after.spectrum"}
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        filled.after.fields["after.spectrum"].findChild(QToolButton).click()
    assert signal.args == [recommended]
    session.draft.keep(replace(recommended, poolers=Poolers.MERGE))
    assert marked() == {"poolers"}
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        filled.options.fields["poolers"].findChild(QToolButton).click()
    assert signal.args == [recommended]


def calibrated(session) -> Inputs:
    """The inputs, with unlabelled inputs of every expert's task."""
    tasks = (Task(data=COLA / "scored.csv", expert="cola", calibration=COLA / "inputs.csv"),)
    return replace(session.draft.inputs, tasks=tasks)


def test_aligning_is_offered_if_every_expert_has_inputs(filled, session, qtbot):
    assert not filled.alignment.isVisible()
    session.draft.set_tasks(calibrated(session).tasks)
    assert filled.alignment.isVisible()
    align, steps = (filled.alignment.fields[name] for name in ("align", "steps"))
    assert not steps.isVisible()
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        align.control.setCurrentText("with the experts")
    assert signal.args[0] == replace(session.draft.inputs, distil=Distillation())
    session.draft.keep(signal.args[0])
    assert steps.isVisible()
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        steps.control.setValue(80)
    assert signal.args[0].recipe().distil == Distillation(steps=80)
    session.draft.keep(signal.args[0])
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        align.control.setCurrentText("no")
    assert signal.args[0].distil is False


def test_a_learning_rate_of_the_recipe_stays_when_steps_change(filled, session, qtbot):
    chosen = Distillation(learning_rate=0.01, batch=4, train=Trained.ALL)
    session.draft.keep(replace(calibrated(session), distil=chosen))
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        filled.alignment.fields["inputs"].control.setValue(100)
    assert signal.args[0].distil == replace(chosen, inputs=100)


def test_an_alignment_without_inputs_stays_visible(filled, session):
    """The plan's checks say what is missing."""
    session.draft.keep(replace(session.draft.inputs, distil=Distillation()))
    assert filled.alignment.isVisible()
