"""Panels of one plot about the selected layer: spectra, entries, energies (ACE, Fig. 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ace_gui.engine.contract.figures.findings import (
    LayerDistribution,
    LayerSpectrum,
    LayerStatistics,
)
from ace_gui.engine.contract.figures.spectral_figures import (
    MARKS,
    SpectralFigures,
    leading,
    spectral_figures,
)
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.formatting import number_text
from ace_gui.gui.models.experts_model import expert_colours
from ace_gui.gui.panels.layer.layer_panel import LEARNS_FIRST, LayerPanel
from ace_gui.gui.plots.along_model.layer_plot import slot_of
from ace_gui.gui.plots.frame.base_plot import ask_for_picture
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.frame.spec import Curve
from ace_gui.gui.plots.one_layer.energies_plot import EnergiesPlot
from ace_gui.gui.plots.one_layer.histogram_plot import (
    GAUSSIAN_TAIL,
    TAIL,
    HistogramPlot,
    tail_share,
)
from ace_gui.gui.plots.one_layer.spectrum_plot import SpectrumPlot
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.labels.plain_label import muted_label
from ace_gui.gui.widgets.labels.terms import explain
from ace_gui.gui.widgets.layout.arrangement import down, fill_with_stack
from ace_gui.gui.widgets.tables.figure_sheet import FigureRow, FigureSheet

_SHOWN: Final = 4  # figures in a row; the copied table has all


class SheetPanel(LayerPanel):
    """A plot above a table of its figures. Subclasses implement ``figures``."""

    def __init__(
        self, session: Session, plot: SpectrumPlot | HistogramPlot, name: str, shown: int | None
    ) -> None:
        super().__init__(session)
        plot.name_outside()
        self.view = PlotWithTable(plot)
        self.sheet, self._shown = FigureSheet(name, turned=True), shown
        plot.changed.connect(self._show_figures)
        fill_with_stack(self, self.view, self.sheet)

    def figures(self) -> tuple[list[str], list[FigureRow], list[str]]:
        """The curves' titles, their figures, and their colours."""
        raise NotImplementedError

    def _show_figures(self) -> None:
        titles, rows, colours = self.figures()
        self.sheet.setVisible(bool(titles))
        if titles:
            self.sheet.show_figures(titles, rows, colours, shown=self._shown)


class SpectraPanel(SheetPanel):
    """A ``SpectrumPlot`` with a table of figures."""

    finding = LayerSpectrum

    def __init__(self, session: Session) -> None:
        self.plot = SpectrumPlot()
        self.by_block = self.plot.add_block_action(self._compute_blocks)
        super().__init__(session, self.plot, "Figures of the spectra", _SHOWN)
        explain(self, "Spectrum")
        self.plot.setAccessibleName("Spectrum of the selected layer")
        self._show_figures()

    def refresh(self) -> None:
        row = self.row
        if row is None:
            self.plot.clear("Select a layer to see its singular values.")
            return
        spectrum = self.session.spectrum(row.name)
        experts = self.session.expert_spectra(row.name)
        if spectrum is not None:
            self.plot.show_spectrum(spectrum, expert_colours(self.session))
        elif not self.session.layers.has_spectrum(row):
            self.plot.clear(f"No spectrum: {row.reason}.")
        elif self.session.must_learn and experts is None:
            self.plot.clear(LEARNS_FIRST)
        elif experts is not None:
            colours, awaited = expert_colours(self.session), not self.session.must_learn
            self.plot.show_experts(experts, colours, awaited=awaited)
        else:
            self.plot.expect()
        self.by_block.setEnabled(spectrum is not None)

    def _compute_blocks(self) -> None:
        """Ask for the spectra of this matrix in every block, and then where to save them."""
        slot = slot_of(self.row.name) if self.row is not None else ""
        rows = [row for row in self.session.layers.merged if slot_of(row.name) == slot]
        self.plot.set_busy(True)
        self.session.spectra_wanted.emit(rows, self._save_blocks)

    def _save_blocks(self, spectra: Sequence[LayerSpectrum]) -> None:
        self.plot.set_busy(False)
        if spectra:
            ask_for_picture(self.plot.by_block(spectra, expert_colours(self.session)), self)

    def figures(self) -> tuple[list[str], list[FigureRow], list[str]]:
        curves = self.plot.curves()
        rows = figure_rows(curves) if curves else []
        return [curve.end for curve in curves], rows, [curve.colour for curve in curves]


def figure_rows(curves: Sequence[Curve]) -> list[FigureRow]:
    """The figures of each spectrum, with their definitions."""
    figures = [spectral_figures(curve.y) for curve in curves]
    top = leading(len(curves[0].y))
    rows = [
        FigureRow(
            title="energy in top 5 %",
            tip=f"Share of Σσ² in the {top} largest of {len(curves[0].y)} directions.",
            values=[f.top_energy for f in figures],
            percent=True,
        ),
        _row(
            "effective rank",
            "exp of the entropy of σᵢ/Σσ (Roy and Vetterli, 2007): the effective "
            "number of directions, from 1 to all of them, equally strong.",
            [f.effective_rank for f in figures],
        ),
        _row(
            "stable rank",
            "‖W‖² / σ₁²: the energy, counted in units of the strongest direction.",
            [f.stable_rank for f in figures],
        ),
        _row(
            "condition number",
            "σ₁ over the smallest σ above 10⁻⁷·σ₁; smaller values are rounding errors.",
            [f.condition for f in figures],
        ),
        _row("nuclear norm", "‖W‖_* = Σσᵢ", [f.nuclear for f in figures]),
        _row("Frobenius norm", "‖W‖ = √Σσᵢ²", [f.frobenius for f in figures]),
    ]
    return [*rows, *_directions(figures)]


def _row(title: str, tip: str, values: Sequence[float]) -> FigureRow:
    return FigureRow(title=title, tip=tip, values=values)


def _directions(figures: Sequence[SpectralFigures]) -> list[FigureRow]:
    return [
        _row(
            f"directions for {share * 100:.0f} %",
            f"The fewest leading directions that hold {share * 100:.0f} % of the energy Σσ².",
            [float(f.directions[index]) for f in figures],
        )
        for index, share in enumerate(MARKS)
    ]


class DistributionPanel(SheetPanel):
    """A ``HistogramPlot`` with a table of figures."""

    finding = LayerDistribution

    def __init__(self, session: Session) -> None:
        self.plot = HistogramPlot()
        super().__init__(session, self.plot, "Figures of the distributions", None)
        self._show_figures()

    def refresh(self) -> None:
        row, session = self.row, self.session
        if row is None or not row.experts:
            message = "Select a layer to see how its changes are distributed."
            self.plot.clear(message if row is None else "No expert has this tensor.")
            return
        key = session.draft.models_key()
        found = session.results.findings.get(LayerDistribution, row.name, key)
        if found is not None:
            self.plot.show_distribution(found, expert_colours(session))
        else:
            self.plot.expect()

    def figures(self) -> tuple[list[str], list[FigureRow], list[str]]:
        found, colours = self.plot.distribution, expert_colours(self.session)
        if found is None:
            return [], [], []
        shown = [colours.get(name, "#808080") for name in found.counts]
        return list(found.counts), distribution_rows(found), shown


def distribution_rows(found: LayerDistribution) -> list[FigureRow]:
    """The figures of every expert's entries, with explanations."""
    tails = [
        tail_share(
            found.edges,
            found.counts[name],
            found.outside[name],
            found.means[name],
            found.deviations[name],
        )
        for name in found.counts
    ]
    return [
        FigureRow(
            title="mean",
            tip="Mean of the entries of ΔW.",
            values=list(found.means.values()),
        ),
        FigureRow(
            title="deviation",
            tip="Standard deviation of the entries of ΔW.",
            values=list(found.deviations.values()),
        ),
        FigureRow(
            title="excess kurtosis",
            tip="Mean of ((x − mean) / deviation)⁴, minus 3. It is 0 for a Gaussian, and "
            "larger with a sharper peak and heavier tails.",
            values=list(found.excess.values()),
        ),
        FigureRow(
            title=f"beyond {TAIL:.0f} deviations",
            tip=(
                "Share of the entries more than three deviations from the mean. A Gaussian has "
                f"{GAUSSIAN_TAIL:.2%}; with more, a few entries changed far more than the rest."
            ),
            values=tails,
            percent=True,
        ),
    ]


class EnergiesPanel(LayerPanel):
    """An ``EnergiesPlot`` of the selected layer."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        explain(self, "Energy")
        self.plot = EnergiesPlot()
        self.plot.name_outside()
        self.plot.setAccessibleName("Energies of the selected layer")
        self.view = PlotWithTable(self.plot)
        self.figures = muted_label("")
        self.setLayout(down(self.view, self.figures))

    def refresh(self) -> None:
        row = self.row
        self.figures.setVisible(False)
        if row is None:
            self.plot.clear("Select a layer to see the experts' energies.")
            return
        statistics = self.session.layers.statistics.get(row.name)
        if statistics is None:
            self.plot.clear(_no_figures(row))
        else:
            self.plot.show_energies(row.name, statistics.energies, expert_colours(self.session))
            self.figures.setText(_scale_text(statistics))
            self.figures.setVisible(statistics.log_variance is not None)


def _scale_text(found: LayerStatistics) -> str:
    """Heterogeneity with and without the scale of the weights."""
    figures = (
        ("γ", found.gamma),
        ("Var ln E", found.log_variance),
        ("mean ln E", found.mean_log_energy),
    )
    return "   ".join(f"{name} {number_text(v, 3)}" for name, v in figures if v is not None)


def _no_figures(row: PlanRow) -> str:
    if not row.experts:
        return "No expert has this tensor."
    return "The experts' energies appear here once they are compared."
