"""How far every expert moved the selected layer from the base model."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from ace_gui.engine.contract.figures.findings import LayerStatistics
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.formatting import number_text
from ace_gui.gui.panels.layer.layer_panel import LayerPanel, expert_colours
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.one_layer.energies_plot import EnergiesPlot
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.labels.plain_label import muted_label
from ace_gui.gui.widgets.labels.terms import explain


class EnergiesPanel(LayerPanel):
    """An ``EnergiesPlot`` of the selected layer."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        explain(self, "Energy")
        self.plot = EnergiesPlot()
        self.plot.name_outside()
        self.plot.setAccessibleName("Energies of the selected layer")
        self.view = PlotWithTable(self.plot, self.plot.columns)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.view)
        self.figures = muted_label("")
        layout.addWidget(self.figures)

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
