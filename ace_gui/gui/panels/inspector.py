"""A close look at the selected layer, and at what was checked before the merge."""

from __future__ import annotations

from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from ace_gui.engine.plan import PlanRow
from ace_gui.gui.panels.accuracies import AccuraciesPanel
from ace_gui.gui.panels.preflight import PreflightPanel
from ace_gui.gui.plots.energies import EnergiesPlot
from ace_gui.gui.plots.spectrum import SpectrumPlot
from ace_gui.gui.session import Session
from ace_gui.gui.text import shape_text
from ace_gui.gui.theme import Theme, current_theme, icon
from ace_gui.gui.widgets.labels import muted_label


class InspectorPanel(QWidget):
    """Follows the session's selection, and shows the checks when something new is wrong."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._facts = muted_label("", self)
        self.tabs = QTabWidget(self)
        self.tabs.setObjectName("inspector")
        self.tabs.setAccessibleName("Inspector")
        self.tabs.setDocumentMode(True)
        self.spectrum = SpectrumPlot(self)
        self.spectrum.setAccessibleName("Spectrum of the selected layer")
        self.energies = EnergiesPlot(self)
        self.energies.setAccessibleName("Energies of the selected layer")
        self.tabs.addTab(self.spectrum, "Spectrum")
        self.tabs.addTab(self.energies, "Energies")
        self.tabs.setTabToolTip(0, "Singular values of the experts' task vectors and of the merge")
        self.tabs.setTabToolTip(1, "How far every expert moved this layer from the base: ‖ΔW‖²")
        self.preflight = PreflightPanel(session, self)
        self.tabs.addTab(self.preflight, "Checks")
        self.tabs.setTabToolTip(2, "What was looked at before the merge, and how it came out")
        self._worries: frozenset[object] = frozenset()
        self._accuracies: AccuraciesPanel | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 4)
        layout.addWidget(self._facts)
        layout.addWidget(self.tabs, 1)
        session.selection_changed.connect(self.refresh)
        session.inputs_changed.connect(self._show_plots)
        session.plan_changed.connect(self.refresh)
        session.spectrum_changed.connect(self._update)
        session.layer_changed.connect(self._update)
        session.checks_changed.connect(self._show_worries)
        self.refresh()
        self._show_worries()

    def set_theme(self, theme: Theme) -> None:
        """Restyle the plots; the experts' colours are the theme's."""
        self.spectrum.set_theme(theme)
        self.energies.set_theme(theme)
        self.preflight.set_theme(theme)
        self._show_worries()
        self._show_plots()

    def set_busy(self, busy: bool) -> None:
        """A spectrum is on its way."""
        self.spectrum.set_busy(busy)

    def show_accuracies(self) -> None:
        """One more tab, with the sample's held-out accuracies."""
        if self._accuracies is None:
            self._accuracies = AccuraciesPanel(self._session, self)
            self.tabs.addTab(self._accuracies, "Sample")
            tip = "Held-out accuracy of the sample's models"
            self.tabs.setTabToolTip(self.tabs.count() - 1, tip)

    def show_checks(self) -> None:
        """Turn to the checks."""
        self.tabs.setCurrentWidget(self.preflight)

    def _show_worries(self) -> None:
        """Say on the tab how many warnings there are; turn to it when there are others."""
        worries = self._session.worries
        index = self.tabs.indexOf(self.preflight)
        self.tabs.setTabText(index, f"Checks ({len(worries)})" if worries else "Checks")
        name = worries[0].verdict.value if worries else ""
        self.tabs.setTabIcon(index, icon(name) if name else QIcon())
        found = frozenset(check.key for check in worries)
        if found - self._worries:
            self.show_checks()
        self._worries = found

    def refresh(self) -> None:
        """Show the selected layer."""
        self._show_facts()
        self._show_plots()

    def _row(self) -> PlanRow | None:
        name = self._session.selection
        return self._session.row(name) if name else None

    def _update(self, name: str) -> None:
        if name == self._session.selection:
            self.refresh()

    def _show_facts(self) -> None:
        row = self._row()
        if row is None:
            self._facts.setText("Choose a layer in the table or in the plot below.")
            return
        outcome = f"{row.disposition.value}: {row.reason}"
        self._facts.setText(" · ".join([row.role, shape_text(row.shape), row.dtype, outcome]))

    def _show_plots(self) -> None:
        row = self._row()
        if row is None:
            self.spectrum.clear("Select a layer to see its singular values.")
            self.energies.clear("Select a layer to see the experts' energies.")
            return
        colours = self._colours()
        statistics = self._session.statistics.get(row.name)
        if statistics is None:
            self.energies.clear(self._no_figures(row))
        else:
            self.energies.show_energies(row.name, statistics.energies, colours)
        spectrum = self._session.spectrum(row.name)
        if spectrum is not None:
            self.spectrum.show_spectrum(spectrum, colours)
        elif not self._session.has_spectrum(row):
            self.spectrum.clear(f"No spectrum: {row.reason}.")

    def _no_figures(self, row: PlanRow) -> str:
        if not row.experts:
            return "No expert has this tensor."
        return "The experts' energies appear here once they are compared."

    def _colours(self) -> dict[str, str]:
        inputs, theme = self._session.inputs, current_theme()
        return {
            name: theme.expert_colour(expert.colour)
            for name, expert in zip(inputs.names, inputs.experts, strict=True)
        }
