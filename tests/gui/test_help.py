"""The help pages in the window."""

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from ace_gui.gui.dialogs.help_dialog import PAGES, HelpDialog, page
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.paths import resource_path


def test_every_page_is_listed_and_shown(qtbot) -> None:
    dialog = HelpDialog()
    qtbot.addWidget(dialog)
    assert {path.stem for path in resource_path("help").glob("*.md")} == set(PAGES)
    for row, name in enumerate(PAGES):
        dialog.pages.setCurrentRow(row)
        title = page(name).partition("\n")[0].removeprefix("# ")
        assert dialog.pages.currentItem().text() == title
        assert dialog.text.toPlainText().startswith(title)


def test_links_turn_the_page_or_open_a_browser(qtbot, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    dialog = HelpDialog()
    qtbot.addWidget(dialog)
    dialog.text.anchorClicked.emit(QUrl("limits.md"))
    assert dialog.text.toPlainText().startswith("Limits")
    dialog.text.anchorClicked.emit(QUrl("https://arxiv.org/abs/2603.02945"))
    dialog.text.anchorClicked.emit(QUrl("elsewhere.txt"))
    assert opened == ["https://arxiv.org/abs/2603.02945"]


def test_links_between_pages_lead_somewhere() -> None:
    import re

    for name in PAGES:
        for target in re.findall(r"\]\(([^)]+)\)", page(name)):
            if "://" not in target:
                assert target.removesuffix(".md") in PAGES, (name, target)


def test_the_menu_opens_it(window: MainWindow) -> None:
    window.actions_.help.trigger()
    (dialog,) = window.findChildren(HelpDialog)
    assert dialog.isVisible()
    dialog.close()
