"""Singular directions of the selected layer: before and after refinement, and between experts."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Final, TypeVar

from PySide6.QtWidgets import QLabel, QStackedWidget

from ace_gui.engine.contract.findings import LayerSubspaces
from ace_gui.engine.contract.matrix_figures import model_cosines
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.formatting import counted
from ace_gui.gui.panels.layer.layer_panel import LayerPanel
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.one_layer_plots import AlignmentPlot, ExpertMatrixPlot
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import sentence_case
from ace_gui.gui.widgets.controls import Choice
from ace_gui.gui.widgets.labels import explain
from ace_gui.gui.widgets.layout import across, down

_NOT_COMPARED: Final = "The cosines appear here once the experts are compared."
_P = TypeVar("_P", AlignmentPlot, ExpertMatrixPlot)


class SubspaceView(StrEnum):
    """The comparisons. The value is the displayed text."""

    REFINEMENT = "before and after refinement"
    OVERLAP = "experts' leading directions"
    COSINES = "experts' changes, this layer"
    MODEL = "experts' changes, whole model"


_TIPS: Final = {
    SubspaceView.REFINEMENT: "|cosine| of the singular vectors of W_pre and of the merged change",
    SubspaceView.OVERLAP: (
        "‖U₁ᵀU₂‖² / K: share of one expert's K leading left directions that lie in "
        "the other's; 0: none, 1: the same"
    ),
    SubspaceView.COSINES: (
        "Cosine of the experts' task vectors in this layer; 1: the same direction, 0: "
        "nothing in common, −1: opposite"
    ),
    SubspaceView.MODEL: "Cosine of the experts' task vectors over all layers that both have",
}


class SubspacesPanel(LayerPanel):
    """Shows one of four comparisons at a time."""

    finding = LayerSubspaces

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        explain(self, "Subspace")
        views = {view: (sentence_case(view.value), _TIPS[view]) for view in SubspaceView}
        self.view_choice = Choice("What is compared", views)
        self.view_choice.chosen.connect(self.refresh)
        self._stack = QStackedWidget()
        self._views: dict[AlignmentPlot | ExpertMatrixPlot, PlotWithTable] = {}
        self.alignment = AlignmentPlot()
        self._add(self.alignment)
        label = QLabel("&Compare")
        label.setBuddy(self.view_choice)
        head = across(label, (self.view_choice, 1), margins=(8, 6, 8, 0))
        self.setLayout(down(head, (self._stack, 1), gap=0))

    # Created when there is something to show, because creating a plot is slow.

    @cached_property
    def overlap(self) -> ExpertMatrixPlot:
        """Overlap of the experts' leading directions."""
        return self._add(ExpertMatrixPlot("Overlap of the experts' leading directions"))

    @cached_property
    def cosines(self) -> ExpertMatrixPlot:
        """Cosines between the experts' task vectors, in one layer or in the whole model."""
        return self._add(ExpertMatrixPlot("Cosines of the experts' task vectors"))

    @property
    def plot(self) -> AlignmentPlot | ExpertMatrixPlot:
        match self.view_choice.current:
            case SubspaceView.REFINEMENT:
                return self.alignment
            case SubspaceView.OVERLAP:
                return self.overlap
        return self.cosines

    def refresh(self) -> None:
        self._stack.setCurrentWidget(self._views[self.plot])
        row = self.row
        if self.view_choice.current is SubspaceView.MODEL:
            self._show_model()
        elif row is None:
            self.plot.clear("Select a layer to compare directions.")
        elif self.view_choice.current is SubspaceView.COSINES:
            self._show_cosines(row)
        else:
            self._show_subspaces(row)

    def _add(self, plot: _P) -> _P:
        plot.name_outside()  # shown in the inspector's header or in the choice
        self._views[plot] = PlotWithTable(plot)
        self._stack.addWidget(self._views[plot])
        return plot

    def _show_subspaces(self, row: PlanRow) -> None:
        session = self.session
        found = session.results.findings.get(LayerSubspaces, row.name, session.draft.recipe_key())
        if found is not None:
            self.alignment.show_alignment(found)
            caption = (
                f"{found.rank} of {min(row.shape)} directions of each; two random subspaces would "
                f"share {found.rank / row.shape[row.transposed]:.2f}."
            )
            self.overlap.show_matrix(
                row.name, found.experts, found.overlap, meaning="overlap", caption=caption
            )
        else:
            self.show_missing(self.plot, row, "directions")

    def _show_cosines(self, row: PlanRow) -> None:
        found = self.session.layers.statistics.get(row.name)
        if found is None or found.cosines is None:
            self.cosines.clear(_NOT_COMPARED)
            return
        names = tuple(found.energies)
        self.cosines.show_matrix(row.name, names, found.cosines, meaning="cosine")

    def _show_model(self) -> None:
        session = self.session
        known = [s for s in session.layers.statistics.values() if s.cosines is not None]
        if not known:
            self.cosines.clear(_NOT_COMPARED)
            return
        names = session.draft.inputs.names
        caption = "Still comparing."
        if session.layers.is_analysed:
            caption = counted(len(known), "Over %n tensor.", "Over %n tensors.")
        values = model_cosines(known, names)
        self.cosines.show_matrix("Whole model", names, values, meaning="cosine", caption=caption)
