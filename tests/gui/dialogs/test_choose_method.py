"""Choosing the merge method: the families, finding, what is said of each, taking one."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QLabel, QWidget

from ace_gui.engine.capabilities import method_info
from ace_gui.engine.contract.events import MergeEstimated
from ace_gui.engine.contract.jobs import CompareJob, EstimateJob
from ace_gui.formatting import counted
from ace_gui.gui.dialogs.method_dialogs import FIRST, SHELF, ChooseMethodDialog
from ace_gui.gui.shell.window_frame import Space
from ace_gui.gui.state.settings import RecentProject
from ace_gui.gui.theme import current_theme
from ace_gui.methods import METHODS, families
from ace_gui.recipe.recommended import NAME, TITLE
from tests.gui.fakes import ACE, ENGINE, LINEAR, merged

EVERY = tuple(map(method_info, METHODS))


def methods_in(dialog: ChooseMethodDialog) -> list[QModelIndex]:
    """The methods in the list, family by family."""
    model = dialog.tree.model()
    families = [model.index(row, 0) for row in range(model.rowCount())]
    return [
        model.index(row, 0, family) for family in families for row in range(model.rowCount(family))
    ]


@pytest.fixture
def dialog(opened) -> ChooseMethodDialog:
    """Every method there is, ACE in force, two experts loaded."""
    dialog = ChooseMethodDialog(EVERY, "ace", 2, opened)
    dialog.show()
    return dialog


def listed(dialog: ChooseMethodDialog) -> dict[str, list[str]]:
    """The titles in the list, by family."""
    by_family: dict[str, list[str]] = {}
    for index in methods_in(dialog):
        by_family.setdefault(index.parent().data(), []).append(index.data())
    by_family.pop(FIRST, None)
    return by_family


def said(dialog: ChooseMethodDialog) -> str:
    page = dialog.about.widget()
    texts = [label.text() for label in page.findChildren(QLabel)]
    texts += [widget.accessibleName() for widget in page.findChildren(QWidget)]  # what is drawn
    return "\n".join(texts).replace("\u200b", "")  # places to wrap


def test_every_method_stands_under_its_family(dialog, qtmodeltester):
    expected = {title: [m.title for m in family] for title, family in families().items()}
    assert listed(dialog) == expected
    qtmodeltester.check(dialog.tree.model())


def test_the_method_in_force_is_selected_and_explained(dialog):
    assert dialog.method.name == "ace"
    ace = METHODS["ace"]
    assert all(text in said(dialog) for text in (ace.summary, ace.formula, "Ridge ε", "1e-5"))


def test_typing_finds_a_method_at_once(dialog):
    assert dialog.focusWidget() is dialog.filter


def test_names_in_the_help_of_a_parameter_have_no_backticks(dialog):
    dialog.select("ties")
    assert "“rescale”" in said(dialog)


def test_the_family_of_the_method_in_force_is_in_view(dialog):
    family = dialog.tree.currentIndex().parent()
    assert dialog.tree.viewport().rect().contains(dialog.tree.visualRect(family))


def test_methods_are_found_by_name_word_and_author(dialog, qtbot):
    for words, titles in {
        "arc between": {"SLERP", "SLERP from the base"},
        "iso_": {"Iso-C", "Iso-CTS"},
        "Matena": {"Fisher averaging"},
        "nobody at all": set(),
        "bilities": set(),
        "xu, h. wu": {"ACE-Merging"},
        "published": {"ACE-Merging"},
        "ACE, published": {"ACE-Merging"},
    }.items():
        dialog.filter.clear()
        qtbot.keyClicks(dialog.filter, words)
        assert {title for family in listed(dialog).values() for title in family} == titles
        assert dialog.use.isEnabled() == bool(titles)
        assert (dialog.method.title if dialog.method else None) in (titles or {None})
        assert ("No method matches." in said(dialog)) is (not titles)
        assert dialog.count.text() == counted(len(titles), "method", "methods")


def test_the_recommended_merge_is_not_found_by_variants_of_its_method(opened, qtbot):
    opened.session.set_engine(replace(ENGINE, methods=(method_info("ace"), LINEAR)))
    draft = opened.session.draft
    dialog = ChooseMethodDialog((*draft.recommended, *draft.methods), "recommended", 5, opened)
    qtbot.addWidget(dialog)
    dialog.filter.setText("published")
    assert dialog.method.name == "ace"


def test_what_does_not_fit_the_experts_is_said(opened, qtbot):
    dialog = ChooseMethodDialog(EVERY, "slerp", 5, opened)
    qtbot.addWidget(dialog)
    assert "2 experts only; 5 are loaded now." in said(dialog)
    fitting = ChooseMethodDialog(EVERY, "slerp", 2, opened)
    qtbot.addWidget(fitting)
    assert "2 experts only" in said(fitting)
    assert "loaded now" not in said(fitting)
    any_number = ChooseMethodDialog((replace(ACE, least=1, most=None),), "ace", 5, opened)
    qtbot.addWidget(any_number)
    assert "loaded now" not in said(any_number)


def test_the_keyboard_finds_and_takes_one(dialog, qtbot):
    qtbot.keyClicks(dialog.filter, "nuslerp")
    qtbot.keyClick(dialog.filter, Qt.Key.Key_Down)
    with qtbot.waitSignal(dialog.chosen) as chosen:
        qtbot.keyClick(dialog, Qt.Key.Key_Return)
    assert chosen.args == ["nuslerp"]
    assert not dialog.isVisible()


def test_the_window_takes_the_method(opened, qtbot):
    opened.actions_.choose_method.trigger()
    (dialog,) = opened.findChildren(ChooseMethodDialog)
    qtbot.keyClicks(dialog.filter, LINEAR.title)
    dialog.use.click()
    assert opened.session.draft.inputs.method == "linear"


def test_without_an_engine_there_is_nothing_to_choose(window):
    assert not window.actions_.choose_method.isEnabled()
    assert window.dialogs.choose_method() is None


def test_each_method_says_how_good_it_is_on_the_sample_or_why_it_cannot_be_used(opened, qtbot):
    dialog = ChooseMethodDialog(EVERY, "ace", 5, opened, {"ace": "Needs about 84 MB"})
    qtbot.addWidget(dialog)
    role = Qt.ItemDataRole.AccessibleTextRole
    spoken = {index.data(): index.data(role) for index in methods_in(dialog)}
    assert spoken["ACE-Merging"] == "ACE-Merging, mean on the sample 0.807"
    assert spoken["SLERP"] == "SLERP, 2 experts only"
    assert spoken["NearSwap"] == "NearSwap, one expert only"
    assert dialog.cost.text() == "Needs about 84 MB"
    dialog.filter.setText("weight averaging")
    assert dialog.cost.text() == ""  # what another one needs is not known


def test_the_list_is_drawn_with_a_bar_as_long_as_its_mean(dialog):
    """The better of two methods has more ink in its row, right of the names; a bar gives way to
    a name that would be cut."""

    def ink(name: str) -> int:
        dialog.select(name)
        dialog.select("emr")  # what is looked at is not what is selected
        index = next(
            method_index
            for method_index in methods_in(dialog)
            if method_index.data() == METHODS[name].title
        )
        dialog.tree.scrollTo(index)
        position = dialog.tree.visualRect(index)
        middle = position.center().y()
        image = dialog.tree.viewport().grab().toImage()
        axis = QColor(current_theme().axis)
        return sum(image.pixelColor(x, middle) == axis for x in range(position.right()))

    assert ink("model_stock") < ink("linear") < ink("tsv_m")
    dialog.tree.setFixedWidth(170)
    assert ink("linear") == 0


def test_the_recommended_merge_is_the_first_and_the_published_variant_one_click_away(opened):
    draft = opened.session.draft
    published = METHODS["ace"].title
    for title, recommended in ((TITLE, True), (published, False), (TITLE, True)):
        opened.actions_.choose_method.trigger()
        dialog = opened.findChildren(ChooseMethodDialog)[-1]
        titles = [title for family in listed(dialog).values() for title in family]
        assert titles[:2] == [TITLE, published]
        family = dialog.tree.model().index(0 if recommended else 1, 0)
        dialog.tree.setCurrentIndex(dialog.tree.model().index(0, 0, family))
        assert dialog.method.title == title
        dialog.use.click()
        assert draft.inputs.method == "ace"
        assert draft.inputs.is_recommended == recommended


def test_the_list_and_the_panel_call_a_variant_the_same(opened):
    opened.session.set_engine(replace(ENGINE, methods=(method_info("ace"), LINEAR)))
    conductor = opened.conductor
    conductor.change(opened.session.draft.inputs.with_method("ace"))
    for variant, label in ((None, "ACE, published"), ("automatic", "ACE, automatic")):
        conductor.set_parameter("variant", variant)
        opened.actions_.choose_method.trigger()
        dialog = opened.findChildren(ChooseMethodDialog)[-1]
        titles = [title for family in listed(dialog).values() for title in family]
        assert titles[:2] == [TITLE, label]
        assert dialog.method.name == "ace"
        assert dialog.use.text() == f"&Use {label}"
        assert opened.workspace.method._title.text() == label
        assert RecentProject.of(opened.session, Path("a.yaml")).method == label
        dialog.reject()


def test_the_recommended_merge_is_described_by_its_own_values(opened):
    draft = opened.session.draft
    draft.set_methods((method_info("ace"),))
    (shown_one,) = draft.recommended
    defaults = {field.name: field.default for field in shown_one.fields}
    assert defaults["variant"] == "automatic"
    assert "alpha" in defaults
    assert not {"epsilon", "tau"} & defaults.keys()
    assert shown_one.formula != METHODS["ace"].formula


def test_a_front_shelf_comes_before_the_families(dialog):
    model = dialog.tree.model()
    shelf = model.index(0, 0)
    assert shelf.data() == FIRST
    titles = [model.index(row, 0, shelf).data() for row in range(model.rowCount(shelf))]
    assert titles == [METHODS[name].title for name in SHELF if name in METHODS]
    assert set(SHELF) - set(METHODS) == {NAME}
    assert dialog.count.text() == f"{len(METHODS)} methods", "none is counted twice"


def test_the_shelf_is_compared_by_one_button(opened, worker, qtbot):
    opened.actions_.choose_method.trigger()
    (dialog,) = opened.findChildren(ChooseMethodDialog)
    dialog.compare.click()
    assert opened.header.workspaces.current == Space.COMPARE
    job = worker.jobs[worker.newest(CompareJob)]
    assert {variant.recipe.merge_method for variant in job.variants} == {"ace", "linear"}


def test_the_description_has_the_colour_of_the_dialog(dialog, qtbot):
    def ground() -> QColor:
        image = dialog.grab().toImage()
        corner = dialog.about.rect().bottomRight()
        return image.pixelColor(dialog.about.mapTo(dialog, corner - QPoint(30, 10)))

    before = ground()
    dialog.filter.setText("ties")
    qtbot.wait(20)
    assert ground() == before == QColor(current_theme().card)


def test_what_an_earlier_merge_took_is_the_estimate_for_the_next(loaded, worker):
    merged(loaded, worker, seconds=83.0)
    loaded.actions_.choose_method.trigger()
    (dialog,) = loaded.findChildren(ChooseMethodDialog)
    assert "1:23" in dialog.cost.text()


def test_the_time_of_a_method_that_was_not_merged_is_estimated_by_trials(loaded, worker, qtbot):
    loaded.actions_.choose_method.trigger()
    (dialog,) = loaded.findChildren(ChooseMethodDialog)

    def estimated_methods() -> list[str]:
        return [job.recipe.merge_method for job in worker.jobs_of(EstimateJob)]

    dialog.select("linear")
    dialog.select("ace")
    dialog.select("linear")
    qtbot.waitUntil(lambda: estimated_methods().count("linear") == 1)
    number = worker.newest(EstimateJob)
    assert worker.jobs[number].recipe.merge_method == "linear"
    worker.say(MergeEstimated(seconds=60.0), job=number)
    assert "1:00" in dialog.cost.text()
    dialog.select("ace")
    assert number in worker.withdrawn
    assert "1:00" not in dialog.cost.text()
    dialog.select("linear")
    qtbot.waitUntil(lambda: "1:00" in dialog.cost.text())
    assert estimated_methods().count("linear") == 1, "known by now"
    dialog.reject()
