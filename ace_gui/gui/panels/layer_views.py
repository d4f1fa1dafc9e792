"""The plots of all layers as tabs: γ, roles, energies, learning curves."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from ace_gui.gui.models.experts_model import expert_colours
from ace_gui.gui.models.merged_layers import LayerFigures, MergedLayers
from ace_gui.gui.plots.along_model.energies_along_plot import EnergiesAlongPlot
from ace_gui.gui.plots.along_model.gamma_map_plot import RoleMapPlot
from ace_gui.gui.plots.along_model.gamma_plot import GammaPlot
from ace_gui.gui.plots.frame.base_plot import restyle_plots
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.learning_plot import LearningPlot
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Tokens
from ace_gui.gui.widgets.labels.terms import explain
from ace_gui.gui.widgets.layout.arrangement import down
from ace_gui.gui.widgets.layout.lazy_tabs import LazyTabs

_PlotOfLayers = GammaPlot | RoleMapPlot | EnergiesAlongPlot


class LayersView(PlotWithTable):
    """A plot of all layers. Its owner calls ``load``, ``update_figures`` and ``follow`` while it is
    visible. Subclasses pass their plot the layers and the figures that it needs.

    ``tau_committed`` carries τ if the view lets the user move it.
    """

    tau_committed = Signal(float)

    def __init__(self, plot: _PlotOfLayers, session: Session, layers: MergedLayers) -> None:
        super().__init__(plot)
        self.session, self.layers, self.layers_plot = session, layers, plot
        self._loaded: LayerFigures | None = None
        self._colours: dict[str, str] = {}
        plot.layer_selected.connect(session.select)
        self.row_chosen.connect(lambda row: session.select(self.name_at(row)))

    def load(self) -> None:
        """Show the layers with all that is known of them."""
        figures, colours = self.layers.figures, expert_colours(self.session)
        if why_not := self.why_empty():
            self._loaded = None
            self.layers_plot.clear(why_not)
            return
        if figures is not self._loaded or colours != self._colours:
            self._loaded, self._colours = figures, colours
            self.set_layers(figures, colours)
        self.set_tau(self.session.draft.tau)
        self.update_figures()
        self.follow()

    def update_figures(self) -> None:
        """Update what is known of the layers."""
        if self._loaded is not None:
            self.set_figures(self.layers.figures)

    def set_layers(self, figures: LayerFigures, colours: dict[str, str]) -> None:
        """Pass the layers to the plot."""
        raise NotImplementedError

    def set_figures(self, figures: LayerFigures) -> None:
        """Pass the layers' figures to the plot."""
        raise NotImplementedError

    def set_tau(self, tau: float) -> None:
        """Split the layers at τ, if the view does that."""

    def follow(self) -> None:
        """Mark the selected layer."""
        name = self.session.selection
        self.layers_plot.select(name)
        self.select(self.row_of(name))

    def why_empty(self) -> str:
        """The reason why there is nothing to show, or an empty string."""
        plan = self.session.draft.plan
        if plan is None or not plan.experts:
            return "Add experts to see where they disagree."
        return "" if self.layers.figures.names else "No tensor here is merged by the method."

    def name_at(self, row: int) -> str | None:
        """The layer in a row of the table; None if a row is not one layer."""
        return self.layers.figures.names[row]

    def row_of(self, name: str | None) -> int | None:
        """The row of a layer in the table."""
        names = self.layers.figures.names
        return names.index(name) if name in names else None


class GammaView(LayersView):
    """γ of every layer along the model."""

    def __init__(self, plot: GammaPlot, session: Session, layers: MergedLayers) -> None:
        super().__init__(plot, session, layers)
        self._plot = plot
        plot.tau_changed.connect(session.draft.preview_tau)
        plot.tau_committed.connect(self.tau_committed)

    def set_layers(self, figures: LayerFigures, colours: dict[str, str]) -> None:  # noqa: ARG002
        self._plot.set_layers(figures.names, figures.roles, figures.blocks)

    def set_tau(self, tau: float) -> None:
        self._plot.set_tau(tau)

    def set_figures(self, figures: LayerFigures) -> None:
        self._plot.set_figures(figures.gamma_L, figures.mean_log_L)


class RoleMapView(LayersView):
    """γ by block and role."""

    def __init__(self, session: Session, layers: MergedLayers) -> None:
        self._plot = RoleMapPlot()
        super().__init__(self._plot, session, layers)

    def set_layers(self, figures: LayerFigures, colours: dict[str, str]) -> None:  # noqa: ARG002
        self._plot.set_layers(figures.names, figures.roles, figures.blocks)

    def set_tau(self, tau: float) -> None:
        self._plot.set_tau(tau)

    def set_figures(self, figures: LayerFigures) -> None:
        self._plot.set_figures(figures.gamma_L)

    def name_at(self, row: int) -> str | None:  # noqa: ARG002  (a row is a block)
        return self.session.selection

    def row_of(self, name: str | None) -> int | None:
        return self._plot.row_of(name)


class EnergiesView(LayersView):
    """The energies of every expert along the model."""

    def __init__(self, session: Session, layers: MergedLayers) -> None:
        self._plot = EnergiesAlongPlot()
        super().__init__(self._plot, session, layers)

    def why_empty(self) -> str:
        return ""

    def set_layers(self, figures: LayerFigures, colours: dict[str, str]) -> None:
        self._plot.set_layers(figures.names, figures.roles, figures.blocks, colours)

    def set_figures(self, figures: LayerFigures) -> None:
        self._plot.set_figures(figures.energies_LT)

    def name_at(self, row: int) -> str | None:
        return self._plot.name_at(row)

    def row_of(self, name: str | None) -> int | None:
        return self._plot.row_of(name)


class HeterogeneityPanel(QWidget):
    """Keeps the visible view in step with the session; the others update when shown.

    ``tau_committed`` carries τ when the user releases it.
    """

    tau_committed = Signal(float)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        explain(self, "Heterogeneity γ")
        self._session = session
        self._layers = MergedLayers(session, self)
        self.plot = GammaPlot()
        self.tabs = LazyTabs("All layers", self)
        self.tabs.setObjectName("heterogeneity")
        self.tabs.made.connect(self._take_up)
        self._fill()
        self.setLayout(down(self.tabs, margins=(8, 2, 8, 4)))
        self.tabs.currentChanged.connect(self.reload)
        self._layers.replaced.connect(self.reload)
        self._layers.figures_changed.connect(
            lambda: self._update_view(lambda view: view.update_figures())
        )
        session.draft.tau_changed.connect(
            lambda tau: self._update_view(lambda view: view.set_tau(tau))
        )
        session.selection_changed.connect(lambda: self._update_view(lambda view: view.follow()))
        self.reload()

    def restyle(self, theme: Tokens) -> Generator[None, None, None]:
        """Restyle what is visible, over several turns."""
        yield from restyle_plots(self, theme)

    def reload(self) -> None:
        """Show the session's layers in the visible view."""
        self._update_view(lambda view: view.load())

    def _update_view(self, what: Callable[[LayersView], None]) -> None:
        """Call the visible view, if it shows layers and exists already."""
        view = self.tabs.shown
        if isinstance(view, LayersView):
            what(view)

    def _fill(self) -> None:
        session, layers, add = self._session, self._layers, self.tabs.add
        tip = "γ of every layer along the model; drag the line to change τ"
        add("Heterogeneity γ", tip, lambda: GammaView(self.plot, session, layers))
        tip = "γ by block and role: a row is a role across the depth"
        add("By role", tip, lambda: RoleMapView(session, layers))
        tip = "How far each expert moved every layer from the base"
        add("Energies", tip, lambda: EnergiesView(session, layers))

    def _take_up(self, view: QWidget) -> None:
        if isinstance(view, LayersView):
            view.tau_committed.connect(self.tau_committed)
        if view is self.tabs.shown:
            self.reload()


REFRESH: Final = 200  # ms between updates of growing curves


class LearningView(PlotWithTable):
    """Follows the session's learning curves while it is visible."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        self._steps = LearningPlot()
        super().__init__(self._steps, parent)
        self._session = session
        self._drawing = QTimer(self, singleShot=True, interval=REFRESH)
        self._drawing.timeout.connect(self.refresh)
        session.results.learning.changed.connect(self._plan_drawing)
        session.draft.changed.connect(self._plan_drawing)
        self.refresh()

    def refresh(self) -> None:
        """Draw the known steps."""
        known, colours = self._session.results.learning, expert_colours(self._session)
        tasks = {task.title: task.expert or task.title for task in self._session.draft.inputs.tasks}
        by_task = {name: colours[own] for name, own in tasks.items() if own in colours}
        self._steps.show_steps(known.losses, known.figures, known.curve, colours | by_task)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def _plan_drawing(self) -> None:
        if self.isVisible() and not self._drawing.isActive():
            self._drawing.start()
