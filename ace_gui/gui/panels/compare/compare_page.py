"""The page of comparisons: several methods against each other, or two finished merges."""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from ace_gui.gui.control.operations.method_comparison import MethodComparison
from ace_gui.gui.panels.compare.compare_methods_panel import CompareMethodsPanel
from ace_gui.gui.panels.compare.two_merges_panel import ComparePanel
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.fields.segments import Segments
from ace_gui.gui.widgets.layout.card import card
from ace_gui.gui.words import later, tr

METHODS, TWO_MERGES = range(2)
LOOKS: Final = (
    (later("Methods"), later("Merge by several methods, or with several values, and compare them")),
    (later("Two merges"), later("Two finished merges layer by layer")),
)


class ComparePage(QWidget):
    """``methods`` merges by several; ``panel`` shows two merges side by side."""

    def __init__(
        self, session: Session, comparison: MethodComparison, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self.methods = CompareMethodsPanel(session, comparison)
        self.methods.pair_wanted.connect(self.compare)
        self.panel = ComparePanel(session)
        self.looks = Segments(tr("What to compare"), self)
        for title, tip in LOOKS:
            self.looks.add(tr(title), tr(tip))
        self.looks.chosen.connect(self.show_look)
        self._pages = QStackedWidget()
        for page in (self.methods, self.panel):
            self._pages.addWidget(page)
        content = QWidget()
        head = QHBoxLayout()
        head.setContentsMargins(8, 4, 8, 0)
        head.addWidget(self.looks)
        head.addStretch(1)
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(head)
        column.addWidget(self._pages, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(card(content))

    def show_look(self, place: int) -> None:
        """Show the methods, or two merges."""
        self.looks.choose(place)
        self._pages.setCurrentIndex(place)

    def compare(self, first: MergeRun, second: MergeRun) -> None:
        """Show these two."""
        self._session.results.comparison.compare(first, second)
        self.show_look(TWO_MERGES)
