"""Helpers for the window's texts: plain, short or breakable texts for labels, and numbers."""

from __future__ import annotations

import html
import os.path
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtGui import Qt

from ace_gui import formatting
from ace_gui.errors import WorkbenchError

_ZERO_WIDTH_SPACE = "\u200b"
_DOT: Final = re.compile(r"(?<=\w)\.(?=[^\W\d])")  # only before a letter, so not in a number
_NAME: Final = re.compile(r"`([^`\n]+)`")
TIP_WIDTH: Final = 64  # characters per line of a tooltip

_NOT_IN_NAMES: Final = re.compile(r'[\\/:*?"<>|\x00-\x1f]')
ENDING: Final = ".ace.yaml"
"""Extension of recipes named by this program; any YAML file can be one."""


def plain(text: str) -> str:
    """The text without control and direction characters, which names may contain; newlines stay."""
    # a quick check for the usual case, because tables ask for every cell
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        character
        for character in text
        if character == "\n" or unicodedata.category(character) not in ("Cc", "Cf")
    )


def quoted(sentence: str) -> str:
    """A message with names in quotation marks instead of Markdown's backticks."""
    return _NAME.sub("“\\1”", sentence)


def breakable(text: str, *, names: bool = False) -> str:
    """The ``plain`` text with line-break hints inside long paths. ``names``: also inside names."""
    text = plain(text)
    if names:
        text = _DOT.sub(f".{_ZERO_WIDTH_SPACE}", text)
    for character in "/\\_":
        text = text.replace(character, character + _ZERO_WIDTH_SPACE)
    return text


def tooltip(text: str) -> str:
    """The argument for setToolTip that shows a text literally and wrapped, also one with markup.

    It is plain text where Qt recognises it as such, because screen readers read a tooltip as the
    description of a widget that has none.
    """
    lines = [textwrap.wrap(line, TIP_WIDTH) or [""] for line in plain(text).split("\n")]
    wrapped = "\n".join(part for line in lines for part in line)
    if not Qt.mightBeRichText(wrapped):
        return wrapped
    return f"<p style='white-space: pre-wrap'>{html.escape(wrapped)}</p>"


def shared_prefix(names: Sequence[str]) -> str:
    """The common dotted prefix of all names: ``vit.encoder.layer.``, or an empty string."""
    shared = os.path.commonprefix(list(names))  # noqa: RUF071 (cut back to a dot below)
    return shared[: shared.rfind(".") + 1]


def sentence_case(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def short_name(recipe: Path) -> str:
    """The name of a recipe, which is its file name without extensions."""
    if recipe.name.endswith(ENDING):
        return recipe.name.removesuffix(ENDING)
    return recipe.stem


def file_name(text: str) -> str:
    """The text as a file name that is valid on any system, with at most 80 characters."""
    return _NOT_IN_NAMES.sub("-", text)[:80].strip(" .")


def error_details(error: WorkbenchError) -> str:
    """An error's details besides its sentence, one per line."""
    lines_by_label = {
        "kind": type(error).__name__,
        "path": str(error.path) if error.path else "",
        "tensor": error.tensor or "",
        "key": error.key or "",
        "shapes": ", ".join(f"{who}: {list(shape)}" for who, shape in error.shapes.items()),
    }
    lines = [f"{label}: {value}" for label, value in lines_by_label.items() if value]
    return "\n".join([*lines, *([error.details] if error.details else [])])


def short_score_text(score: float) -> str:
    """A mean score in short form: ".807"."""
    return f"{score:.3f}".removeprefix("0")


def value_text(value: float | bool | str) -> str:
    """A parameter's value as text: ``0.3``, ``1e-5``, ``yes``, a choice."""
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    return formatting.value_text(value)


def gamma_text(gamma: float) -> str:
    """γ or τ as text: "0.413", or with an exponent where three decimals would be zeros."""
    if 10 <= gamma < 100:
        return f"{gamma:.1f}"
    if 5e-4 <= gamma < 10:
        return f"{gamma:.3f}"
    return formatting.number_text(gamma, 2)
