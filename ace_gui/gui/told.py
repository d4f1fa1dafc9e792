"""What the engine says, in the language of the window.

The engine speaks English. What it declares is looked up as it stands. A sentence with figures is
recognised by its form, ``{count} tensors are dropped.``, and the form is translated; what
stands in its places may be a sentence again. What is in no form stays English.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from PySide6.QtCore import QCoreApplication

from ace_gui.gui.words import local
from ace_gui.paths import resource_path

CONTEXT: Final = "engine"
"""Of what the engine says, in the files of the languages."""

CHOICES: Final = "choices"
"""Of roles, jobs and the choices of parameters: words that names of models may be, too."""

LANGUAGE: Final = "this language"
"""A text of which each file has its language's code in the place of a translation."""

_PLACE: Final = re.compile(r"\{(\w+)\}")
_NUMBER: Final = re.compile(r"[−\d.×/]+(e-?\d+)?( ?([kMGT]?B|%|s))?")


class _Form(NamedTuple):
    pattern: re.Pattern[str]
    said: str
    is_whole: bool
    """It ends as a sentence does; of several sentences no other form is."""


def told(sentence: str) -> str:
    """A sentence, title or word of the engine, as far as it is known in the person's language."""
    code = language()
    if not code or not sentence:
        return sentence
    choice = QCoreApplication.translate(CHOICES, sentence)
    return _translated(sentence, code) if choice == sentence else choice


def language() -> str:
    """The code of the window's language; empty: English."""
    code = QCoreApplication.translate(CONTEXT, LANGUAGE)
    return "" if code == LANGUAGE else code


def told_list(parts: str) -> str:
    """The same of parts with commas between, of which some are a name and its value."""
    return ", ".join(map(_part, parts.split(", ")))


def _part(part: str) -> str:
    said = told(part)
    name, between, value = part.partition(" ")
    return f"{name} {_part(value)}" if between and said == part else said


@lru_cache(maxsize=4096)
def _translated(sentence: str, code: str) -> str:
    if not sentence or _NUMBER.fullmatch(sentence):
        return local(sentence)
    known = QCoreApplication.translate(CONTEXT, sentence)
    if known != sentence:
        return known
    if (known := QCoreApplication.translate(CONTEXT, f"{sentence}.")) != f"{sentence}.":
        return known.removesuffix(".")  # it is said inside another sentence
    first, between, rest = sentence.partition(". ")
    for pattern, said, is_whole in _forms(code):
        if (is_whole or not between) and (found := pattern.fullmatch(sentence)):
            parts = found.groupdict().items()
            return said.format(
                **{
                    name: told_list(part) if name.startswith("join") else _translated(part, code)
                    for name, part in parts
                }
            )
    return f"{_translated(f'{first}.', code)} {_translated(rest, code)}" if between else sentence


@lru_cache(maxsize=1)
def _forms(code: str) -> tuple[_Form, ...]:
    """The forms of a language: sentences first, and those with the most text of their own."""
    from xml.etree import ElementTree  # only where a language needs it

    file = resource_path(f"languages/{code}.ts")
    root = ElementTree.parse(file).getroot()
    context = next(c for c in root.iter("context") if c.findtext("name") == CONTEXT)
    found = {
        m.findtext("source", ""): m.findtext("translation", "") for m in context.iter("message")
    }
    forms = [form for form in filter(_PLACE.search, found) if found[form]]
    forms.sort(key=lambda form: (not form.endswith("."), -len(_PLACE.sub("", form))))
    return tuple(_Form(_pattern(form), found[form], form.endswith(".")) for form in forms)


def _pattern(form: str) -> re.Pattern[str]:
    parts = _PLACE.split(form)
    literal = [re.escape(part) for part in parts[::2]]
    names = [rf"(?P<{name}>(?:(?!\. ).)*?)" for name in parts[1::2]]
    return re.compile("".join(a + b for a, b in zip(literal, [*names, ""], strict=True)), re.S)
