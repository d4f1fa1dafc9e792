"""The plots of all layers as tabs: γ, roles, energies, learning curves."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from ace_gui.gui.models.experts_model import expert_colours
from ace_gui.gui.models.merged_layers import MergedLayers
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
NO_EXPERTS: Final = "Add experts to see where they disagree."
NO_LAYERS: Final = "No tensor here is merged by the method."


class LayersView(PlotWithTable):
    """A plot of all layers. Its owner calls the other methods while it is visible."""

    def __init__(self, plot: _PlotOfLayers, session: Session, layers: MergedLayers) -> None:
        super().__init__(plot)
        self.session, self.layers, self.layers_plot = session, layers, plot
        plot.layer_selected.connect(session.select)
        self.row_chosen.connect(self._select_row)

    def load(self) -> None:
        """Show the layers with all that is known of them."""
        figures, plan = self.layers.figures, self.session.draft.plan
        if plan is None or not plan.experts or not figures.names:
            self.layers_plot.clear(NO_LAYERS if plan is not None and plan.experts else NO_EXPERTS)
            return
        self.set_tau(self.session.draft.tau)
        self.layers_plot.show_layers(figures, expert_colours(self.session))
        self.follow()

    def set_tau(self, tau: float) -> None:
        """Split the layers at τ, if the plot does that."""
        if not isinstance(self.layers_plot, EnergiesAlongPlot):
            self.layers_plot.set_tau(tau)

    def follow(self) -> None:
        name = self.session.selection
        self.layers_plot.select(name)
        self.select(self.layers_plot.row_of(name))

    def _select_row(self, row: int) -> None:
        if not isinstance(self.layers_plot, RoleMapPlot):  # there, a row is a block
            self.session.select(self.layers_plot.name_at(row))


class HeterogeneityPanel(QWidget):
    """Keeps the visible view in step with the session; the others update when shown."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        explain(self, "Heterogeneity γ")
        layers = MergedLayers(session, self)
        self.plot = GammaPlot()
        self.plot.tau_changed.connect(session.draft.preview_tau)
        self.plot.tau_committed.connect(partial(session.parameter_wanted.emit, "tau"))
        self.tabs = LazyTabs("All layers", self)
        self.tabs.setObjectName("heterogeneity")
        self.tabs.made.connect(lambda view: self.reload() if view is self.tabs.shown else None)

        def add(title: str, tip: str, make: Callable[[], _PlotOfLayers]) -> None:
            self.tabs.add(title, tip, lambda: LayersView(make(), session, layers))

        tip = "γ of every layer along the model; drag the line to change τ"
        add("Heterogeneity γ", tip, lambda: self.plot)
        add("By role", "γ by block and role: a row is a role across the depth", RoleMapPlot)
        add("Energies", "How far each expert moved every layer from the base", EnergiesAlongPlot)
        self.setLayout(down(self.tabs, margins=(8, 2, 8, 4)))
        update = self._update_view
        self.tabs.currentChanged.connect(self.reload)
        layers.replaced.connect(self.reload)
        layers.figures_changed.connect(self.reload)
        session.draft.tau_changed.connect(lambda tau: update(lambda view: view.set_tau(tau)))
        session.selection_changed.connect(lambda: update(lambda view: view.follow()))
        self.reload()

    def restyle(self, theme: Tokens) -> Generator[None, None, None]:
        yield from restyle_plots(self, theme)

    def reload(self) -> None:
        self._update_view(lambda view: view.load())

    def _update_view(self, what: Callable[[LayersView], None]) -> None:
        """Call the visible view, if it shows layers and exists already."""
        view = self.tabs.shown
        if isinstance(view, LayersView):
            what(view)


REFRESH: Final = 200  # ms between updates of growing curves


class LearningView(PlotWithTable):
    """Follows the session's learning curves while it is visible."""

    def __init__(self, session: Session) -> None:
        self._steps = LearningPlot()
        super().__init__(self._steps)
        self._session = session
        self._drawing = QTimer(self, singleShot=True, interval=REFRESH)
        self._drawing.timeout.connect(self.refresh)
        session.results.learning.changed.connect(self._plan_drawing)
        session.draft.changed.connect(self._plan_drawing)
        self.refresh()

    def refresh(self) -> None:
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
