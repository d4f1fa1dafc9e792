"""The plots of all layers as tabs: heterogeneity, and other views that are added."""

from __future__ import annotations

from collections.abc import Callable, Generator

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ace_gui.gui.models.merged_layers import MergedLayers
from ace_gui.gui.panels.layer_views import (
    EnergiesView,
    GammaView,
    LayersView,
    RoleMapView,
)
from ace_gui.gui.plots.along_model.gamma_plot import GammaPlot
from ace_gui.gui.plots.frame.base_plot import restyle_plots
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Tokens
from ace_gui.gui.widgets.labels.terms import explain
from ace_gui.gui.widgets.layout.lazy_tabs import LazyTabs


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
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 2, 8, 4)
        layout.addWidget(self.tabs)
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
        add(
            "Heterogeneity γ",
            "γ of every layer along the model; drag the line to change τ",
            lambda: GammaView(self.plot, session, layers),
        )
        add(
            "By role",
            "γ by block and role: a row is a role across the depth",
            lambda: RoleMapView(session, layers),
        )
        add(
            "Energies",
            "How far each expert moved every layer from the base",
            lambda: EnergiesView(session, layers),
        )

    def _take_up(self, view: QWidget) -> None:
        if isinstance(view, LayersView):
            view.tau_committed.connect(self.tau_committed)
        if view is self.tabs.shown:
            self.reload()
