"""The views of all merged layers: each a plot with its table."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from ace_gui.gui.models.merged_layers import LayerFigures, MergedLayers
from ace_gui.gui.panels.layer.layer_panel import expert_colours
from ace_gui.gui.plots.along_model.energies_along_plot import EnergiesAlongPlot
from ace_gui.gui.plots.along_model.gamma_map_plot import RoleMapPlot
from ace_gui.gui.plots.along_model.gamma_plot import GammaPlot
from ace_gui.gui.plots.along_model.layer_plot import LayersPlot
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.state.session import Session


class LayersView(PlotWithTable):
    """One view. Its owner calls ``load``, ``update_figures`` and ``follow`` while it is visible.

    ``tau_committed`` carries τ if the view lets the user move it.
    """

    tau_committed = Signal(float)

    def __init__(
        self,
        plot: LayersPlot,
        columns: Callable[[], tuple],
        session: Session,
        layers: MergedLayers,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(plot, columns, parent)
        self.session, self.layers = session, layers
        plot.layer_selected.connect(session.select)
        self.row_chosen.connect(lambda row: session.select(self.name_at(row)))

    def load(self) -> None:
        """Show the layers with all that is known of them."""
        raise NotImplementedError

    def update_figures(self) -> None:
        """Update what is known of the layers."""
        raise NotImplementedError

    def set_tau(self, tau: float) -> None:
        """Split the layers at τ, if the view does that."""

    def follow(self) -> None:
        """Mark the selected layer."""
        name = self.session.selection
        self.layers_plot.select(name)
        self.select(self.row_of(name))

    @property
    def layers_plot(self) -> LayersPlot:
        """The plot."""
        assert isinstance(self.plot, LayersPlot)
        return self.plot

    def name_at(self, row: int) -> str | None:
        """The layer in a row of the table; None if a row is not one layer."""
        return self.layers.figures.names[row]

    def row_of(self, name: str | None) -> int | None:
        """The row of a layer in the table."""
        names = self.layers.figures.names
        return names.index(name) if name in names else None

    def why_no_gamma(self) -> str:
        """The reason why there is no γ, or an empty string."""
        plan = self.session.draft.plan
        if plan is None or not plan.experts:
            return "Add experts to see where they disagree."
        return "" if self.layers.figures.names else "No tensor here is merged by the method."


class HeterogeneityView(LayersView):
    """γ of every layer, split by τ. Subclasses pass their plot the figures that it needs."""

    def __init__(
        self, plot: GammaPlot | RoleMapPlot, session: Session, layers: MergedLayers
    ) -> None:
        super().__init__(plot, plot.columns, session, layers)
        self._heterogeneity = plot
        self._loaded: LayerFigures | None = None

    def load(self) -> None:
        why_not, figures = self.why_no_gamma(), self.layers.figures
        if why_not:
            self._loaded = None
            self._heterogeneity.clear()
            self._heterogeneity.show_message(why_not)
            return
        if figures is not self._loaded:
            self._loaded = figures
            self._heterogeneity.set_layers(figures.names, figures.roles, figures.blocks)
        self._heterogeneity.set_tau(self.session.draft.tau)
        self.update_figures()
        self.follow()

    def update_figures(self) -> None:
        if not self.why_no_gamma():
            self.set_figures()

    def set_figures(self) -> None:
        """Pass the layers' figures to the plot."""
        raise NotImplementedError

    def set_tau(self, tau: float) -> None:
        self._heterogeneity.set_tau(tau)


class GammaView(HeterogeneityView):
    """γ of every layer, along the model or by role."""

    def __init__(self, plot: GammaPlot, session: Session, layers: MergedLayers) -> None:
        super().__init__(plot, session, layers)
        self._plot = plot
        plot.tau_changed.connect(session.draft.preview_tau)
        plot.tau_committed.connect(self.tau_committed)

    def set_figures(self) -> None:
        figures = self.layers.figures
        self._plot.set_figures(figures.gamma_L, figures.mean_log_L)


class RoleMapView(HeterogeneityView):
    """γ by block and role."""

    def __init__(self, session: Session, layers: MergedLayers) -> None:
        plot = RoleMapPlot()
        super().__init__(plot, session, layers)
        self._plot = plot

    def set_figures(self) -> None:
        self._plot.set_figures(self.layers.figures.gamma_L)

    def name_at(self, row: int) -> str | None:  # noqa: ARG002  (a row is a block)
        return self.session.selection

    def row_of(self, name: str | None) -> int | None:
        return self._plot.row_of(name)


class EnergiesView(LayersView):
    """The energies of every expert along the model."""

    def __init__(self, session: Session, layers: MergedLayers) -> None:
        plot = EnergiesAlongPlot()
        super().__init__(plot, plot.columns, session, layers)
        self._plot = plot
        self._loaded: LayerFigures | None = None
        self._colours: dict[str, str] = {}

    def load(self) -> None:
        figures, colours = self.layers.figures, expert_colours(self.session)
        if figures is not self._loaded or colours != self._colours:
            self._loaded, self._colours = figures, colours
            self._plot.set_layers(figures.names, figures.roles, figures.blocks, colours)
        self.update_figures()
        self.follow()

    def update_figures(self) -> None:
        self._plot.set_figures(self.layers.figures.energies_LT)

    def name_at(self, row: int) -> str | None:
        return self._plot.name_at(row)

    def row_of(self, name: str | None) -> int | None:
        return self._plot.row_of(name)
