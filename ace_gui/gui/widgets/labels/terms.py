"""Which term of the glossary explains what a part of the window shows: F1 there opens it."""

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
    """F1 with the focus in the widget opens this term of the glossary."""
    widget.setProperty(_TERM, term)


def term_of(widget: QWidget | None) -> str:
    """The term that explains the widget, or what it lies in; empty where none does."""
    while widget is not None:
        term = widget.property(_TERM)
        if term:
            return str(term)
        widget = widget.parentWidget()
    return ""
