"""The inspector: details of the selected layer, and the checks before the merge."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ace_gui.gui.control.operations.covariance_operation import CovarianceOperation
from ace_gui.gui.models.layer_health import Healths
from ace_gui.gui.panels.checks_panel import PreflightPanel
from ace_gui.gui.panels.layer.covariances_panel import CovariancesPanel
from ace_gui.gui.panels.layer.distribution_panel import DistributionPanel
from ace_gui.gui.panels.layer.energies_panel import EnergiesPanel
from ace_gui.gui.panels.layer.layer_head import LayerHead
from ace_gui.gui.panels.layer.layer_panel import LayerPanel
from ace_gui.gui.panels.layer.spectra_panel import SpectraPanel
from ace_gui.gui.panels.layer.subspaces_panel import SubspacesPanel
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Tokens, icon
from ace_gui.gui.widgets.layout.lazy_tabs import LazyTabs

_PANELS = (
    ("Spectrum", "Singular values of the experts' changes and of the merge", SpectraPanel),
    ("Subspaces", "Directions kept by refinement, and shared by experts", SubspacesPanel),
    ("Entries", "How the entries of the experts' changes are distributed", DistributionPanel),
    ("Energies", "How far every expert moved this layer from the base: ‖ΔW‖²", EnergiesPanel),
)


_LOW = 28  # in text lines: a lower inspector leaves the figures of its head to the plots


class InspectorPanel(QWidget):
    """Tabs about the selected layer, and the checks, which come to the front when a new one fails.

    ``finding_wanted`` carries a kind of finding and whether a visible tab shows it.
    ``data_wanted``: the user wants to add calibration data. ``inputs_edited`` carries Inputs that a
    tab offers.
    """

    finding_wanted = Signal(object, bool)
    data_wanted = Signal()
    inputs_edited = Signal(object)

    def __init__(
        self,
        session: Session,
        healths: Healths,
        measuring: CovarianceOperation,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self.head = LayerHead(session, healths, self)
        self.tabs = LazyTabs("Inspector", self)
        self.tabs.setObjectName("inspector")
        self.tabs.made.connect(self._connect_panel)
        for title, tip, kind in _PANELS:
            self.tabs.add(title, tip, partial(kind, session))
        self.tabs.add(
            "Inputs",
            "How well ACE's covariance of this layer matches that of the experts' inputs",
            partial(CovariancesPanel, session, measuring),
        )
        self.preflight = PreflightPanel(session, self)
        tip = "The checks before the merge, and their results"
        self.checks_tab = self.tabs.add("Checks", tip, lambda: self.preflight)
        self.tabs.content(
            self.checks_tab
        )  # created at once, because it comes to the front by itself
        self._worries: frozenset[object] = frozenset()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 4)
        layout.addWidget(self.head)
        layout.addWidget(self.tabs, 1)
        session.checks.changed.connect(self._show_worries)
        self._show_worries()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.head.set_compact(event.size().height() < _LOW * self.fontMetrics().height())
        super().resizeEvent(event)

    @property
    def panel(self) -> QWidget:
        """The visible tab's panel."""
        return self.tabs.current

    def restyle(self, theme: Tokens) -> Generator[None, None, None]:
        """Restyle what is visible, over several turns."""
        for panel in self._panels():
            yield from panel.restyle(theme)

    def show_checks(self) -> None:
        """Show the checks."""
        self.tabs.setCurrentIndex(self.checks_tab)

    def _panels(self) -> list[LayerPanel]:
        return [panel for panel in self.tabs.contents() if isinstance(panel, LayerPanel)]

    def _connect_panel(self, panel: QWidget) -> None:
        if isinstance(panel, LayerPanel):
            panel.looked_at.connect(self.finding_wanted)
        if isinstance(panel, CovariancesPanel):
            panel.data_wanted.connect(self.data_wanted)
            panel.inputs_edited.connect(self.inputs_edited)

    def _show_worries(self) -> None:
        """Show the number of warnings on the tab, and show the tab if they have changed."""
        worries, index = self._session.checks.worries, self.checks_tab
        self.tabs.setTabText(index, f"Checks ({len(worries)})" if worries else "Checks")
        name = worries[0].verdict.value if worries else ""
        self.tabs.setTabIcon(index, icon(name) if name else QIcon())
        found = frozenset(check.key for check in worries)
        if found - self._worries:
            self.show_checks()
        self._worries = found
