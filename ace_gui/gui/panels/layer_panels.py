"""Panels about the selected layer: spectra, entries, energies (ACE, Fig. 2 and 3), directions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property, partial
from typing import ClassVar, Final, TypeVar

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QLabel, QStackedWidget

from ace_gui.engine.contract.findings import LayerDistribution, LayerSpectrum, LayerSubspaces
from ace_gui.engine.contract.matrix_figures import MARKS, leading, model_cosines, spectral_figures
from ace_gui.engine.contract.matrix_panels import is_turned
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.formatting import counted, number_text
from ace_gui.gui.control.layer_queries import Kind
from ace_gui.gui.models.list_models import expert_colours
from ace_gui.gui.plots.frame.base_plot import Plot, PlotWithTable
from ace_gui.gui.plots.frame.export_image import ask_for_picture
from ace_gui.gui.plots.frame.spec import PlotCurve
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.plots.layers_plot import slot_of
from ace_gui.gui.plots.one_layer_plots import (
    GAUSSIAN_TAIL,
    TAIL,
    AlignmentPlot,
    EnergiesPlot,
    ExpertMatrixPlot,
    HistogramPlot,
    tail_share,
)
from ace_gui.gui.plots.spectrum_plot import SpectrumPlot
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import sentence_case
from ace_gui.gui.widgets.controls import Choice
from ace_gui.gui.widgets.labels import explain, muted_label
from ace_gui.gui.widgets.layout import Part, Stacked, across, down, on_visibility_change
from ace_gui.gui.widgets.lazy import Following
from ace_gui.gui.widgets.tables import FigureRow, FigureSheet

_LEARNS_FIRST: Final = "This method learns from data first: merge to see the result."


class LayerPanel(Following):
    """A panel that follows the session's selection while it is visible.

    ``finding``: the kind of finding to request from the engine, or None. Subclasses implement
    ``refresh``.
    """

    finding: ClassVar[Kind | None] = None

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        if self.finding is not None:
            on_visibility_change(self, partial(session.finding_wanted.emit, self.finding))
        self.follow(session.selection_changed, session.draft.changed)
        for learnt in (session.layers.learnt, session.results.findings.changed):
            learnt.connect(self._learn)

    def set_busy(self, busy: bool) -> None:
        for plot in self.findChildren(Plot):
            plot.set_busy(busy)

    def show_missing(self, plot: SpecPlot, row: PlanRow, figures: str) -> None:
        """Show why a layer has no result, or that it is being computed."""
        if not self.session.layers.has_spectrum(row):
            plot.clear(f"No {figures}: {row.reason}.")
        elif self.session.must_learn:
            plot.clear(_LEARNS_FIRST)
        else:
            plot.expect()

    @property
    def row(self) -> PlanRow | None:
        name = self.session.selection
        if name:
            return self.session.layers.row(name)
        return None

    def _learn(self, name: str) -> None:
        if name in ("", self.session.selection):
            self.plan_refresh()


_SHOWN: Final = 4  # displayed figures in a row; the copied table has all of them


class SheetPanel(LayerPanel):
    """A plot above a table of its figures. ``below``: the parts of a line below them. Subclasses
    implement ``figures``."""

    def __init__(
        self,
        session: Session,
        plot: SpectrumPlot | HistogramPlot | ExpertMatrixPlot,
        name: str,
        *,
        most_shown: int | None = None,
        turned: bool = True,
        below: Sequence[Part] = (),
    ) -> None:
        super().__init__(session)
        plot.name_outside()
        self.view = PlotWithTable(plot)
        self.sheet = FigureSheet(name, turned=turned)
        self._count = most_shown
        plot.changed.connect(self._show_figures)
        line = across(*below, margins=(8, 0, 8, 4)) if below else down()
        self.setLayout(down((Stacked(self.view, self.sheet), 1), line, gap=0))

    def figures(self) -> tuple[Sequence[str], list[FigureRow], list[str]]:
        """The curves' titles, their figures, and their colours."""
        raise NotImplementedError

    def _show_figures(self) -> None:
        titles, rows, colours = self.figures()
        self.sheet.setVisible(bool(titles))
        if titles:
            self.sheet.show_figures(titles, rows, colours, count=self._count)


class SpectraPanel(SheetPanel):
    """A ``SpectrumPlot`` with a table of figures."""

    finding = LayerSpectrum

    def __init__(self, session: Session) -> None:
        self.plot = SpectrumPlot()
        self.by_block = self.plot.add_block_action(self._compute_blocks)
        super().__init__(session, self.plot, "Figures of the spectra", most_shown=_SHOWN)
        explain(self, "Spectrum")
        self.plot.setAccessibleName("Spectrum of the selected layer")
        self._show_figures()

    def refresh(self) -> None:
        row = self.row
        session = self.session
        if row is None:
            self.plot.clear("Select a layer to see its singular values.")
            return
        spectrum = session.spectrum(row.name)
        experts = session.expert_spectra(row.name)
        if spectrum is not None:
            self.plot.show_spectrum(spectrum, expert_colours(session))
        elif experts is not None and session.layers.has_spectrum(row):
            awaited = not session.must_learn
            self.plot.show_experts(experts, expert_colours(session), awaited=awaited)
        else:
            self.show_missing(self.plot, row, "spectrum")
        self.by_block.setEnabled(spectrum is not None)

    def _compute_blocks(self) -> None:
        """Compute the spectra of this matrix in every block, then ask where to save the picture."""
        if self.row is not None:
            slot = slot_of(self.row.name)
        else:
            slot = ""
        rows = [row for row in self.session.layers.merged if slot_of(row.name) == slot]
        self.plot.set_busy(True)
        self.session.spectra_wanted.emit(rows, self._save_blocks)

    def _save_blocks(self, spectra: Sequence[LayerSpectrum]) -> None:
        self.plot.set_busy(False)
        if spectra:
            ask_for_picture(self.plot.by_block(spectra, expert_colours(self.session)), self)

    def figures(self) -> tuple[list[str], list[FigureRow], list[str]]:
        curves = self.plot.curves()
        if curves:
            rows = figure_rows(curves)
        else:
            rows = []
        return [curve.end for curve in curves], rows, [curve.colour for curve in curves]


def figure_rows(curves: Sequence[PlotCurve]) -> list[FigureRow]:
    """The figures of each spectrum, with their definitions."""
    figures = [spectral_figures(curve.y) for curve in curves]
    top = leading(len(curves[0].y))
    size = len(curves[0].y)
    rows = [
        FigureRow(
            "energy in top 5 %",
            f"Share of Σσ² in the {top} largest of {size} directions.",
            [f.top_energy for f in figures],
            percent=True,
        ),
        FigureRow(
            "effective rank",
            "exp of the entropy of σᵢ/Σσ (Roy and Vetterli, 2007): the effective "
            "number of directions, from 1 to all of them, equally strong.",
            [f.effective_rank for f in figures],
        ),
        FigureRow(
            "stable rank",
            "‖W‖² / σ₁²: the energy, counted in units of the strongest direction.",
            [f.stable_rank for f in figures],
        ),
        FigureRow(
            "condition number",
            "σ₁ over the smallest σ above 10⁻⁷·σ₁; smaller values are rounding errors.",
            [f.condition for f in figures],
        ),
        FigureRow("nuclear norm", "‖W‖_* = Σσᵢ", [f.nuclear for f in figures]),
        FigureRow("Frobenius norm", "‖W‖ = √Σσᵢ²", [f.frobenius for f in figures]),
    ]
    for index, share in enumerate(f"{100 * mark:.0f} %" for mark in MARKS):
        tip = f"The fewest leading directions that hold {share} of the energy Σσ²."
        values = [float(f.directions[index]) for f in figures]
        rows.append(FigureRow(f"directions for {share}", tip, values))
    return rows


class DistributionPanel(SheetPanel):
    """A ``HistogramPlot`` with a table of figures."""

    finding = LayerDistribution

    def __init__(self, session: Session) -> None:
        self.plot = HistogramPlot()
        super().__init__(session, self.plot, "Figures of the distributions")
        self._show_figures()

    def refresh(self) -> None:
        row = self.row
        session = self.session
        if row is None or not row.experts:
            message = "Select a layer to see how its changes are distributed."
            self.plot.clear(message if row is None else "No expert has this tensor.")
            return
        key = session.draft.models_key()
        distribution = session.results.findings.get(LayerDistribution, row.name, key)
        if distribution is not None:
            self.plot.show_distribution(distribution, expert_colours(session))
        else:
            self.plot.expect()

    def figures(self) -> tuple[list[str], list[FigureRow], list[str]]:
        distribution = self.plot.distribution
        colours = expert_colours(self.session)
        if distribution is None:
            return [], [], []
        ink_names = [colours.get(name, "control") for name in distribution.counts]
        return list(distribution.counts), distribution_rows(distribution), ink_names


def distribution_rows(distribution: LayerDistribution) -> list[FigureRow]:
    """The figures of every expert's entries, with explanations."""
    means = distribution.means
    deviations = distribution.deviations
    tails = [
        tail_share(
            distribution.edges, counts, distribution.outside[name], means[name], deviations[name]
        )
        for name, counts in distribution.counts.items()
    ]
    return [
        FigureRow("mean", "Mean of the entries of ΔW.", list(means.values())),
        FigureRow(
            "deviation", "Standard deviation of the entries of ΔW.", list(deviations.values())
        ),
        FigureRow(
            "excess kurtosis",
            "Mean of ((x − mean) / deviation)⁴, minus 3. It is 0 for a Gaussian, and "
            "larger with a sharper peak and heavier tails.",
            list(distribution.excess.values()),
        ),
        FigureRow(
            f"beyond {TAIL:.0f} deviations",
            "Share of the entries more than three deviations from the mean. A Gaussian has "
            f"{GAUSSIAN_TAIL:.2%}; with more, a few entries changed far more than the rest.",
            tails,
            percent=True,
        ),
    ]


class EnergiesPanel(LayerPanel):
    """An ``EnergiesPlot`` of the selected layer, and γ with and without the weights' scale."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        explain(self, "Energy")
        self.plot = EnergiesPlot()
        self.plot.name_outside()
        self.plot.setAccessibleName("Energies of the selected layer")
        self.view = PlotWithTable(self.plot)
        self.figures = muted_label()
        self.setLayout(down(self.view, self.figures))

    def refresh(self) -> None:
        row = self.row
        if row is None:
            statistics = None
        else:
            statistics = self.session.layers.statistics.get(row.name)
        self.figures.setVisible(statistics is not None and statistics.log_variance is not None)
        if row is None:
            self.plot.clear("Select a layer to see the experts' energies.")
        elif statistics is not None:
            self.plot.show_energies(row.name, statistics.energies, expert_colours(self.session))
            figures = {"γ": statistics.gamma, "Var ln E": statistics.log_variance}
            figures["mean ln E"] = statistics.mean_log_energy
            texts = (f"{n} {number_text(v, 3)}" for n, v in figures.items() if v is not None)
            self.figures.setText("   ".join(texts))
        elif not row.experts:
            self.plot.clear("No expert has this tensor.")
        else:
            self.plot.clear("The experts' energies appear here once they are compared.")


_NOT_COMPARED: Final = "The cosines appear here once the experts are compared."
_P = TypeVar("_P", AlignmentPlot, ExpertMatrixPlot)


class SubspaceView(StrEnum):
    """The comparisons, with their displayed texts as values."""

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
        self.view_choice.chosen.connect(self._choose)
        self._is_chosen = False
        """Whether the user has chosen what is compared."""

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

    def _choose(self, *_: object) -> None:
        self._is_chosen = True
        self.refresh()

    def _propose(self, row: PlanRow | None) -> None:
        """Show the first comparison that has something to show, until the user chooses one."""
        if self._is_chosen:
            return
        view = SubspaceView.REFINEMENT
        if row is None:
            view = SubspaceView.MODEL
        else:
            key = self.session.draft.recipe_key()
            subspaces = self.session.results.findings.get(LayerSubspaces, row.name, key)
            if subspaces is not None and not is_turned(subspaces):
                view = SubspaceView.OVERLAP
        with QSignalBlocker(self.view_choice):
            self.view_choice.choose(view)

    def refresh(self) -> None:
        row = self.row
        self._propose(row)
        self._stack.setCurrentWidget(self._views[self.plot])
        if self.view_choice.current is SubspaceView.MODEL:
            self._show_model()
        elif row is None:
            self.plot.clear("Select a layer to compare directions.")
        elif self.view_choice.current is SubspaceView.COSINES:
            self._show_cosines(row)
        else:
            self._show_subspaces(row)

    def _add(self, plot: _P) -> _P:
        plot.name_outside()  # the inspector's header or the choice shows the name
        self._views[plot] = PlotWithTable(plot)
        self._stack.addWidget(self._views[plot])
        return plot

    def _show_subspaces(self, row: PlanRow) -> None:
        session = self.session
        subspaces = session.results.findings.get(
            LayerSubspaces, row.name, session.draft.recipe_key()
        )
        if subspaces is not None:
            self.alignment.show_alignment(subspaces)
            caption = (
                f"{subspaces.rank} of {min(row.shape)} directions of each; two random subspaces "
                "would "
                f"share {subspaces.rank / row.shape[row.transposed]:.2f}."
            )
            self.overlap.show_matrix(
                row.name, subspaces.experts, subspaces.overlap, meaning="overlap", caption=caption
            )
        else:
            self.show_missing(self.plot, row, "directions")

    def _show_cosines(self, row: PlanRow) -> None:
        statistics = self.session.layers.statistics.get(row.name)
        if statistics is None or statistics.cosines is None:
            self.cosines.clear(_NOT_COMPARED)
            return
        names = tuple(statistics.energies)
        self.cosines.show_matrix(row.name, names, statistics.cosines, meaning="cosine")

    def _show_model(self) -> None:
        session = self.session
        with_cosines = [s for s in session.layers.statistics.values() if s.cosines is not None]
        if not with_cosines:
            self.cosines.clear(_NOT_COMPARED)
            return
        names = session.draft.inputs.names
        caption = "Still comparing."
        if session.layers.is_analysed:
            caption = counted(len(with_cosines), "Over %n tensor.", "Over %n tensors.")
        values = model_cosines(with_cosines, names)
        self.cosines.show_matrix("Whole model", names, values, meaning="cosine", caption=caption)
