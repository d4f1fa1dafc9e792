"""The first use of a term on a page of the help is a link: to the glossary, or to its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ace_gui.paths import resource_path

TERMS = {
    "Adapter": r"[Aa]dapters?",
    "Base": r"[Bb]ases?",
    "Block": r"[Bb]locks?",
    "Head": r"[Hh]eads?",
    "LoRA": r"LoRA",
    "Module": r"[Mm]odules?",
    "Plan": r"[Pp]lans?",
    "Pooler": r"[Pp]oolers?",
    "Role": r"[Rr]oles?",
    "Scope": r"[Ss]copes?",
    "Shelf": r"[Ss]helf",
    "Slice": r"[Ss]lices?",
    "Stage": r"[Ss]tages?",
    "T": r"T",
}
"""Titles in the glossary, and how they are written."""

ABOUT = {
    "adapters": {"Adapter", "LoRA"},
    "modules": {"Module"},
    "slices": {"Slice", "Stage"},
}
"""Pages that explain a term themselves."""

PAGES = [
    page
    for page in sorted(resource_path("help").glob("*.md"))
    if page.stem not in ("glossary", "reference")
]
HIDDEN = re.compile(r"```[\s\S]*?```|`[^`\n]*`|^#.*$|\]\([^)\n]*\)", re.MULTILINE)
"""What is no running text: code, headings, and the targets of links."""


def running_text(page: str) -> str:
    """The page with spaces in the place of what is no running text."""
    return HIDDEN.sub(lambda match: re.sub(r"[^\n\]]", " ", match[0]), page)


def first_use(page: str, written: str) -> int | None:
    """Where a term is used first; None if that is in a link, or nowhere."""
    text = running_text(page)
    use = re.search(rf"(?<![\w-])(?:{written})(?![\w-])", text)
    if use is None:
        return None
    opened = text.rfind("[", 0, use.start())
    closed = text.rfind("]", 0, use.start())
    return None if opened > closed else use.start()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_first_use_of_a_term_is_a_link(page: Path):
    text = page.read_text(encoding="utf-8")
    missing = {}
    for title, written in TERMS.items():
        place = first_use(text, written)
        if place is not None and title not in ABOUT.get(page.stem, ()):
            missing[title] = text[place : place + 40]
    assert not missing


def test_the_terms_are_in_the_glossary():
    headings = re.findall(r"^## (.*)$", resource_path("help/glossary.md").read_text(), re.MULTILINE)
    assert TERMS.keys() <= set(headings)


def test_a_first_use_without_a_link_is_noticed():
    assert first_use("# The base\n`base` and a base", r"[Bb]ases?") == 24
    assert first_use("A [base](x.md#base), the base", r"[Bb]ases?") is None
    assert first_use("A [word](base.md), the base", r"[Bb]ases?") == 23
