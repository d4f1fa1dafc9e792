"""The help pages of every language say what the English ones say now."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest
from PySide6.QtCore import QCollator, QLocale, QUrl
from PySide6.QtWidgets import QWidget

from ace_gui.gui.dialogs.help_dialog import BLOCK, PAGES, HelpDialog, anchor_of, page
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.widgets.fields.parameter import ParameterField
from ace_gui.gui.widgets.labels.terms import OF_PARAMETERS, term_of
from ace_gui.gui.words import tr
from ace_gui.paths import resource_path

CODE: Final = re.compile(r"`[^`]+`")
LINK: Final = re.compile(r"\]\(([^)]+)\)")
NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*(?:e-?\d+)?")
LETTERS: Final = re.compile(r"[A-Za-zäöüÄÖÜß0-9\s|*#.,:;?+_()\[\]{}`'„“–…→-]*")


def english_text(name: str) -> str:
    return resource_path(f"help/{name}.md").read_text("utf-8")


def german_text(name: str) -> str:
    return resource_path(f"help/de/{name}.md").read_text("utf-8").rpartition("<!--")[0]


def prose(text: str) -> str:
    """Without code and the targets of links."""
    return LINK.sub("]", CODE.sub(" ", BLOCK.sub(" ", text)))


def formulas(text: str) -> set[str]:
    """Words with signs that no plain text has."""
    words = (word.strip(".,:;()*") for word in prose(text).replace("’", "'").split())
    return {word for word in words if not LETTERS.fullmatch(word)}


def columns(text: str) -> list[int]:
    """Of every line of a table, its cells."""
    return [line.replace(r"\|", "").count("|") for line in text.splitlines() if line[:1] == "|"]


def test_every_page_is_there() -> None:
    assert {file.stem for file in resource_path("help/de").iterdir()} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_no_page_is_older_than_the_english_one(name: str, making: ModuleType) -> None:
    digest = making.digest_in(Path(resource_path(f"help/de/{name}.md")))
    message = f"{name}.md has changed: python packaging/make_translations.py says how"
    assert digest == making.digest(english_text(name)), message


def test_a_change_of_the_words_is_noticed_and_one_of_a_block_is_taken_over(
    making: ModuleType,
) -> None:
    text = "Words.\n\n```sh\nace-gui\n```\n"
    assert making.digest(text) == making.digest(text.replace("ace-gui", "ace"))
    assert making.digest(text) != making.digest(text.replace("Words", "Other words"))


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_the_same_parts(name: str) -> None:
    english, german = english_text(name), german_text(name)
    levels = [re.findall(r"^#+", BLOCK.sub("", each), re.M) for each in (english, german)]
    assert levels[0] == levels[1]
    assert len(BLOCK.findall(english)) == len(BLOCK.findall(german))
    assert columns(BLOCK.sub("", english)) == columns(german)
    starts = [re.findall(r"^(?:\d+\.|-) ", BLOCK.sub("", each), re.M) for each in (english, german)]
    assert starts[0] == starts[1]


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_the_same_code_figures_and_formulas(name: str) -> None:
    english, german = BLOCK.sub("", english_text(name)), BLOCK.sub("", german_text(name))
    spans = [Counter(" ".join(c.split()) for c in CODE.findall(each)) for each in (english, german)]
    assert spans[0] == spans[1]
    numbers = [NUMBER.findall(prose(each)) for each in (english, german)]
    assert Counter(n.replace(",", ".") for n in numbers[1]) == Counter(numbers[0])
    assert formulas(german) == formulas(english)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_where_the_english_ones_lead(name: str) -> None:
    there = [LINK.findall(BLOCK.sub("", each)) for each in (english_text(name), german_text(name))]
    assert Counter(t.partition("#")[0] for t in there[0]) == Counter(
        t.partition("#")[0] for t in there[1]
    )
    for target in there[1]:
        if "://" not in target and "#" in target:
            other, _, heading = target.partition("#")
            assert heading in headings(other.removesuffix(".md") or name), target


def headings(name: str) -> list[str]:
    return [anchor_of(line) for line in german_text(name).splitlines() if line.startswith("#")]


def test_the_glossary_is_in_the_order_of_its_alphabet() -> None:
    terms = [line[3:] for line in german_text("glossary").splitlines() if line.startswith("## ")]
    order = QCollator(QLocale("de_DE"))
    assert all(order.compare(first, second) < 0 for first, second in pairwise(terms))


def test_the_window_shows_the_pages_of_its_language(german: None, qtbot) -> None:
    dialog = HelpDialog()
    qtbot.addWidget(dialog)
    assert dialog.pages.item(0).text() == "Eigene Modelle"
    dialog.open_page("recipes")
    shown = dialog.text.toPlainText()
    assert "merge_method: ace" in shown
    assert BLOCK.findall(page("recipes")) == BLOCK.findall(english_text("recipes"))
    dialog.text.anchorClicked.emit(QUrl("glossary.md#obergrenze-δ"))
    assert dialog.text.textCursor().block().text() == "Obergrenze δ"
    assert "<!--" not in "".join(map(page, PAGES))


def test_a_page_that_is_not_translated_is_english(german: None, monkeypatch, tmp_path) -> None:
    (tmp_path / "help").mkdir()
    (tmp_path / "help" / "start.md").write_text("# Your own models\n", "utf-8")
    monkeypatch.setattr(
        "ace_gui.gui.dialogs.help_dialog.resource_path", lambda name: tmp_path / name
    )
    assert page("start") == "# Your own models\n"


def test_f1_finds_every_term(german: None, loaded: MainWindow) -> None:
    workspace = loaded.workspace
    for _, tabs in workspace.panels_with_tabs():
        for index in range(tabs.count()):
            tabs.content(index)
    pointed = {term_of(widget) for widget in workspace.findChildren(QWidget)} - {""}
    assert {"Heterogenität γ", "Spektrum", "Ridge ε", "Obergrenze δ", "Regime"} <= pointed
    for term in pointed | set(map(tr, OF_PARAMETERS.values())):
        assert anchor_of(term) in headings("glossary"), term


def test_f1_explains_what_has_the_focus(german: None, loaded: MainWindow) -> None:
    loaded.activateWindow()
    fields: Iterator[ParameterField] = iter(loaded.findChildren(ParameterField))
    next(each for each in fields if each.field.name == "tau").control.setFocus()
    loaded.actions_.help.trigger()
    (dialog,) = loaded.findChildren(HelpDialog)
    assert dialog.text.textCursor().block().text() == "Schwelle τ"
    dialog.close()
