"""The glossary term of each part of the window, opened by F1."""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QWidget

_TERM: Final = "term"
OF_PARAMETERS: Final = {
    "epsilon": "Ridge ε",
    "alpha": "Ridge share α",
    "tau": "Threshold τ",
    "k_frac": "Refinement",
    "refine": "Refinement",
    "delta": "Cap δ",
    "variant": "Automatic variant",
    "scaling": "Task vector",
    "density": "Density",
}
"""The parameters of methods that the glossary explains."""


def explain(widget: QWidget, term: str) -> None:
    """Make F1 open this glossary term while the widget has the focus."""
    widget.setProperty(_TERM, term)


def term_of(widget: QWidget | None) -> str:
    """The term of the widget or of its nearest parent with one; empty if there is none."""
    while widget is not None:
        term = widget.property(_TERM)
        if term:
            return str(term)
        widget = widget.parentWidget()
    return ""
