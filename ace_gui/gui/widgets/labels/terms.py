"""Which term of the glossary explains what a part of the window shows: F1 there opens it."""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QWidget

from ace_gui.gui.words import later

_TERM: Final = "term"
OF_PARAMETERS: Final = {
    "epsilon": later("Ridge ε"),
    "alpha": later("Ridge share α"),
    "tau": later("Threshold τ"),
    "k_frac": later("Refinement"),
    "refine": later("Refinement"),
    "delta": later("Cap δ"),
    "variant": later("Automatic variant"),
    "scaling": later("Task vector"),
    "density": later("Density"),
}
"""The parameters of methods that the glossary explains."""


def explain(widget: QWidget, term: str) -> None:
    """F1 with the focus in the widget opens this term of the glossary, as ``tr`` gives it."""
    widget.setProperty(_TERM, term)


def term_of(widget: QWidget | None) -> str:
    """The term that explains the widget, or what it lies in; empty where none does."""
    while widget is not None:
        term = widget.property(_TERM)
        if term:
            return str(term)
        widget = widget.parentWidget()
    return ""
