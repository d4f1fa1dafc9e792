"""The Compare page: several methods, or two finished merges."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from ace_gui.gui.control.operations.method_comparison import MethodComparison
from ace_gui.gui.panels.compare.compare_methods_panel import CompareMethodsPanel
from ace_gui.gui.panels.compare.two_merges_panel import ComparePanel
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.fields.segments import Segments
from ace_gui.gui.widgets.layout.arrangement import across, down
from ace_gui.gui.widgets.layout.card import card

METHODS, TWO_MERGES = range(2)
LOOKS: Final = (
    ("Methods", "Merge with several methods or values, and compare the results"),
    ("Two merges", "Two finished merges layer by layer"),
)


class ComparePage(QWidget):
    """``methods`` merges with several methods. ``looked_at`` carries whether a finding is
    wanted."""

    looked_at = Signal(object, bool)

    def __init__(
        self, session: Session, comparison: MethodComparison, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self.methods = CompareMethodsPanel(session, comparison)
        self.methods.pair_wanted.connect(self.compare)
        self._panel: ComparePanel | None = None
        self.looks = Segments("What to compare", self)
        for title, tip in LOOKS:
            self.looks.add(title, tip)
        self.looks.chosen.connect(self.show_look)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.methods)
        content = QWidget()
        head = across(self.looks, None, margins=(8, 4, 8, 0))
        content.setLayout(down(head, (self._pages, 1)))
        self.setLayout(down(card(content)))

    @property
    def panel(self) -> ComparePanel:
        """The comparison of two merges, created on first use."""
        if self._panel is None:
            self._panel = ComparePanel(self._session)
            self._panel.looked_at.connect(self.looked_at)
            self._pages.addWidget(self._panel)
        return self._panel

    def show_look(self, index: int) -> None:
        """Show the methods, or two merges."""
        self.looks.choose(index)
        self._pages.setCurrentWidget(self.panel if index == TWO_MERGES else self.methods)

    def compare(self, first: MergeRun, second: MergeRun) -> None:
        """Show these two merges."""
        self._session.results.comparison.compare(first, second)
        self.show_look(TWO_MERGES)
