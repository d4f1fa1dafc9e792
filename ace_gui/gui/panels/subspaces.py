"""Directions of the selected layer: before and after refinement, and from expert to expert."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from ace_gui.engine.findings import LayerSubspaces
from ace_gui.engine.plan import PlanRow
from ace_gui.engine.similarity import model_cosines
from ace_gui.gui.panels.layer_panel import LayerPanel
from ace_gui.gui.plots.alignment import AlignmentPlot
from ace_gui.gui.plots.controls import Choice
from ace_gui.gui.plots.matrix import ExpertMatrixPlot
from ace_gui.gui.session import Session
from ace_gui.gui.widgets.plot_with_table import PlotWithTable


class Look(StrEnum):
    """What is compared; the value is what people choose."""

    REFINEMENT = "before and after refinement"
    OVERLAP = "experts' leading directions"
    COSINES = "experts' changes, this layer"
    MODEL = "experts' changes, whole model"


_TIPS: Final = {
    Look.REFINEMENT: "|cosine| of the singular vectors of W_pre and of the merged change",
    Look.OVERLAP: "‖U₁ᵀU₂‖² / K: share of one expert's K leading left directions that lie in "
    "the other's; 0: none, 1: the same",
    Look.COSINES: "Cosine of the experts' task vectors in this layer; 1: the same direction, 0: "
    "nothing in common, −1: opposite",
    Look.MODEL: "Cosine of the experts' task vectors over every layer that two of them have",
}


class SubspacesPanel(LayerPanel):
    """One of four looks at a time."""

    finding = LayerSubspaces

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.look = Choice("What is compared", {k: (k.value, _TIPS[k]) for k in Look}, self)
        self.look.chosen.connect(self.refresh)
        self.alignment = AlignmentPlot()
        self.overlap = ExpertMatrixPlot("Overlap of the experts' leading directions")
        self.cosines = ExpertMatrixPlot("Cosines of the experts' task vectors")
        self._stack = QStackedWidget()
        for plot in (self.alignment, self.overlap, self.cosines):
            self._stack.addWidget(PlotWithTable(plot, plot.columns))
        label = QLabel("&Compare", self)
        label.setBuddy(self.look)
        head = QHBoxLayout()
        head.setContentsMargins(8, 6, 8, 0)
        head.setSpacing(8)
        head.addWidget(label)
        head.addWidget(self.look, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(head)
        layout.addWidget(self._stack, 1)

    def refresh(self) -> None:
        shown = {Look.REFINEMENT: 0, Look.OVERLAP: 1}
        self._stack.setCurrentIndex(shown.get(self.look.current, 2))
        row = self.row
        if self.look.current is Look.MODEL:
            self._show_model()
        elif row is None:
            for plot in (self.alignment, self.overlap, self.cosines):
                plot.clear("Select a layer to compare directions.")
        elif self.look.current is Look.COSINES:
            self._show_cosines(row)
        else:
            self._show_subspaces(row)

    def _show_subspaces(self, row: PlanRow) -> None:
        session = self.session
        found = session.findings.get(LayerSubspaces, row.name, session.recipe_key())
        if found is not None:
            self.alignment.show_alignment(found)
            caption = (
                f"{found.rank} of {min(row.shape)} directions of each; two random subspaces "
                f"would share {found.rank / row.shape[row.transposed]:.2f}."
            )
            self.overlap.show_matrix(
                row.name, found.experts, found.overlap, meaning="overlap", caption=caption
            )
        elif not session.has_spectrum(row):
            for plot in (self.alignment, self.overlap):
                plot.clear(f"No directions: {row.reason}.")

    def _show_cosines(self, row: PlanRow) -> None:
        statistics = self.session.statistics.get(row.name)
        if statistics is None or statistics.cosines is None:
            self.cosines.clear("The cosines appear here once the experts are compared.")
            return
        names = tuple(statistics.energies)
        self.cosines.show_matrix(row.name, names, statistics.cosines, meaning="cosine")

    def _show_model(self) -> None:
        session = self.session
        known = [s for s in session.statistics.values() if s.cosines is not None]
        if not known:
            self.cosines.clear("The cosines appear here once the experts are compared.")
            return
        names = session.inputs.names
        caption = f"Over {len(known)} tensors." if session.is_analysed else "Still comparing."
        values = model_cosines(known, names)
        self.cosines.show_matrix("Whole model", names, values, meaning="cosine", caption=caption)
