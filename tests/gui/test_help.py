"""The help pages in the window."""

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from ace_gui.gui.dialogs.help_dialogs import PAGES, HelpDialog, anchor_of, page
from ace_gui.gui.widgets.form import ParameterField
from ace_gui.gui.widgets.labels import OF_PARAMETERS, term_of
from ace_gui.paths import resource_path
from tests.helpers.windows import in_view


def test_every_page_is_listed_and_shown(qtbot):
    dialog = HelpDialog()
    qtbot.addWidget(dialog)
    assert {path.stem for path in resource_path("help").glob("*.md")} == set(PAGES)
    for row, name in enumerate(PAGES):
        dialog.pages.setCurrentRow(row)
        title = page(name).partition("\n")[0].removeprefix("# ")
        assert dialog.pages.currentItem().text() == title
        assert dialog.text.toPlainText().startswith(title)


def test_links_turn_the_page_or_open_a_browser(qtbot, monkeypatch):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    dialog = HelpDialog()
    qtbot.addWidget(dialog)
    dialog.text.anchorClicked.emit(QUrl("limits.md"))
    assert dialog.text.toPlainText().startswith("Limits")
    dialog.text.anchorClicked.emit(QUrl("https://arxiv.org/abs/2603.02945"))
    dialog.text.anchorClicked.emit(QUrl("elsewhere.txt"))
    assert opened == ["https://arxiv.org/abs/2603.02945"]


def test_links_between_pages_lead_somewhere():
    import re

    for name in PAGES:
        for target in re.findall(r"\]\(([^)]+)\)", page(name)):
            if "://" not in target:
                linked_page, _, heading = target.partition("#")
                assert (linked_page.removesuffix(".md") or name) in PAGES, (name, target)
                assert not heading or heading in headings(linked_page.removesuffix(".md") or name)


def headings(name: str) -> set[str]:
    lines = page(name).splitlines()
    return {anchor_of(line.lstrip("# ")) for line in lines if line.startswith("#")}


def test_a_link_to_a_term_goes_to_it(qtbot):
    dialog = in_view(qtbot, HelpDialog(), width=700, height=420)
    dialog.text.anchorClicked.emit(QUrl("glossary.md#cap-δ"))
    assert dialog.text.textCursor().block().text() == "Cap δ"
    near = dialog.text.verticalScrollBar().value()
    dialog.text.anchorClicked.emit(QUrl("#w_pre"))  # on the page that is shown
    assert dialog.text.textCursor().block().text() == "W_pre"
    assert dialog.text.verticalScrollBar().value() > near > 0


def test_every_term_that_the_window_points_to_is_in_the_glossary(loaded):
    workspace = loaded.workspace
    for tabs in workspace.panels_with_tabs().values():
        for index in range(tabs.count()):
            tabs.content(index)
    pointed = {term_of(widget) for widget in workspace.findChildren(QWidget)} - {""}
    assert {"Heterogeneity γ", "Spectrum", "Ridge ε", "Cap δ", "Regime"} <= pointed
    for term in pointed | set(OF_PARAMETERS.values()):
        assert anchor_of(term) in headings("glossary"), term


def test_f1_explains_what_has_the_focus(loaded, qtbot):
    loaded.activateWindow()
    form = next(
        control
        for control in loaded.findChildren(ParameterField)
        if control.field.name == "epsilon"
    )
    form.control.setFocus()
    loaded.actions_.help.trigger()
    (dialog,) = loaded.findChildren(HelpDialog)
    assert dialog.text.textCursor().block().text() == "Ridge ε"
    dialog.close()
