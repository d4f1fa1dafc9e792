"""The distribution of the entries of the selected layer's task vectors (ACE, Fig. 3)."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.figures.findings import LayerDistribution
from ace_gui.gui.panels.layer.layer_panel import LayerPanel, expert_colours
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.one_layer.gaussian import GAUSSIAN_TAIL, TAIL, tail_share
from ace_gui.gui.plots.one_layer.histogram_plot import HistogramPlot
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.layout.arrangement import fill_with_stack
from ace_gui.gui.widgets.tables.figure_sheet import FigureRow, FigureSheet


class DistributionPanel(LayerPanel):
    """A ``HistogramPlot`` with a table of figures."""

    finding = LayerDistribution

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.plot = HistogramPlot()
        self.plot.name_outside()
        self.view = PlotWithTable(self.plot, self.plot.columns)
        self.sheet = FigureSheet("Figures of the distributions", turned=True)
        self.plot.changed.connect(self._show_figures)
        fill_with_stack(self, self.view, self.sheet)
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

    def _show_figures(self) -> None:
        found, colours = self.plot.distribution, expert_colours(self.session)
        self.sheet.setVisible(found is not None)
        if found is not None:
            shown = [colours.get(name, "#808080") for name in found.counts]
            self.sheet.show_figures(list(found.counts), figure_rows(found), shown)


def figure_rows(found: LayerDistribution) -> list[FigureRow]:
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
            tip="Mean of ((x − mean) / deviation)⁴, less 3: 0 for a Gaussian; larger: a sharper "
            "peak and heavier tails.",
            values=list(found.excess.values()),
        ),
        FigureRow(
            title=f"beyond {TAIL:.0f} deviations",
            tip=(
                "Share of the entries further than three deviations from the mean; of a Gaussian "
                f"{GAUSSIAN_TAIL:.2%}. More: a few entries changed far more than the rest."
            ),
            values=tails,
            percent=True,
        ),
    ]
