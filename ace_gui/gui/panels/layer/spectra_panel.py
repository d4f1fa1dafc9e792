"""The selected layer's singular values and their summary figures (ACE, Fig. 2 left)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.figures.findings import LayerSpectrum
from ace_gui.engine.contract.figures.spectral_figures import (
    MARKS,
    SpectralFigures,
    leading,
    spectral_figures,
)
from ace_gui.gui.panels.layer.layer_panel import LEARNS_FIRST, LayerPanel, expert_colours
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.one_layer.spectrum_curves import Spectrum, short_label
from ace_gui.gui.plots.one_layer.spectrum_plot import SpectrumPlot
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.labels.terms import explain
from ace_gui.gui.widgets.layout.arrangement import fill_with_stack
from ace_gui.gui.widgets.tables.figure_sheet import FigureRow, FigureSheet

_SHOWN: Final = 4  # figures in a row; the copied table has all


class SpectraPanel(LayerPanel):
    """A ``SpectrumPlot`` with a table of figures."""

    finding = LayerSpectrum

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        explain(self, "Spectrum")
        self.plot = SpectrumPlot()
        self.plot.name_outside()
        self.plot.setAccessibleName("Spectrum of the selected layer")
        self.view = PlotWithTable(self.plot, self.plot.columns)
        self.sheet = FigureSheet("Figures of the spectra", turned=True)
        self.plot.changed.connect(self._show_figures)
        fill_with_stack(self, self.view, self.sheet)
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

    def _show_figures(self) -> None:
        curves = self.plot.curves()
        self.sheet.setVisible(bool(curves))
        if curves:
            entries = [curve.entry for curve in curves]
            titles = [short_label(entry.label) for entry in entries]
            colours = [entry.colour for entry in entries]
            self.sheet.show_figures(titles, figure_rows(curves), colours, shown=_SHOWN)


def figure_rows(curves: Sequence[Spectrum]) -> list[FigureRow]:
    """The figures of each spectrum, with their definitions."""
    figures = [spectral_figures(curve.values) for curve in curves]
    top = leading(len(curves[0].values))
    rows = [
        FigureRow(
            title="energy in top 5 %",
            tip=f"Share of Σσ² in the {top} largest of {len(curves[0].values)} directions.",
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
