"""The plots of all layers as tabs: γ, roles, energies, learning curves."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from PySide6.QtWidgets import QWidget

from ace_gui.gui.models.layer_figures import MergedLayers
from ace_gui.gui.models.list_models import expert_colours
from ace_gui.gui.plots.frame.base_plot import restyle_plots
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.gamma_map_plot import RoleMapPlot
from ace_gui.gui.plots.gamma_plot import GammaPlot
from ace_gui.gui.plots.layers_plot import EnergiesAlongPlot
from ace_gui.gui.plots.merge_plots import LearningPlot
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Tokens
from ace_gui.gui.widgets.labels import explain
from ace_gui.gui.widgets.layout import down
from ace_gui.gui.widgets.lazy import Following, LazyTabs

_PlotOfLayers = GammaPlot | RoleMapPlot | EnergiesAlongPlot
NO_EXPERTS: Final = "Add experts to see where they disagree."
NO_LAYERS: Final = "No tensor here is merged by the method."


class LayersView(Following):
    """A plot of all layers, and its table."""

    def __init__(self, plot: _PlotOfLayers, session: Session, layers: MergedLayers) -> None:
        super().__init__()
        self.session, self.layers, self.plot = session, layers, plot
        self.view = PlotWithTable(plot)
        self.setLayout(down(self.view))
        self.setFocusProxy(self.view)
        plot.layer_selected.connect(session.select)
        self.view.row_chosen.connect(self._select_row)
        self.follow(layers.replaced, layers.figures_changed, session.draft.changed)
        self.follow(session.draft.tau_changed, session.selection_changed)

    def refresh(self) -> None:
        """Show the layers with all that is known of them."""
        figures, session = self.layers.figures, self.session
        plan, name = session.draft.plan, session.selection
        if plan is None or not plan.experts or not figures.names:
            self.plot.clear(NO_LAYERS if plan is not None and plan.experts else NO_EXPERTS)
            return
        if not isinstance(self.plot, EnergiesAlongPlot):
            self.plot.set_tau(session.draft.tau)
        self.plot.show_layers(figures, expert_colours(session))
        self.plot.select(name)
        self.view.select(self.plot.row_of(name))

    def _select_row(self, row: int) -> None:
        if not isinstance(self.plot, RoleMapPlot):  # there, a row is a block
            self.session.select(self.plot.name_at(row))


class HeterogeneityPanel(QWidget):
    """``plot``: γ along the model, in the first tab."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        explain(self, "Heterogeneity γ")
        layers = MergedLayers(session, self)
        self.plot = GammaPlot()
        self.plot.tau_changed.connect(session.draft.preview_tau)
        self.plot.tau_committed.connect(partial(session.parameter_wanted.emit, "tau"))
        self.tabs = LazyTabs("All layers", self)
        self.tabs.setObjectName("heterogeneity")

        def add(title: str, tip: str, make: Callable[[], _PlotOfLayers]) -> None:
            self.tabs.add(title, tip, lambda: LayersView(make(), session, layers))

        tip = "γ of every layer along the model; drag the line to change τ"
        add("Heterogeneity γ", tip, lambda: self.plot)
        add("By role", "γ by block and role: a row is a role across the depth", RoleMapPlot)
        add("Energies", "How far each expert moved every layer from the base", EnergiesAlongPlot)
        self.setLayout(down(self.tabs, margins=(8, 2, 8, 4)))

    def restyle(self, theme: Tokens) -> Generator[None, None, None]:
        yield from restyle_plots(self, theme)


class LearningView(Following):
    """The session's learning curves."""

    delay = 200

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.plot, self._session = LearningPlot(), session
        view = PlotWithTable(self.plot)
        self.setLayout(down(view))
        self.setFocusProxy(view)
        self.follow(session.results.learning.changed, session.draft.changed)

    def refresh(self) -> None:
        known, colours = self._session.results.learning, expert_colours(self._session)
        tasks = {task.title: task.expert or task.title for task in self._session.draft.inputs.tasks}
        by_task = {name: colours[own] for name, own in tasks.items() if own in colours}
        self.plot.show_steps(known.losses, known.figures, known.curve, colours | by_task)
