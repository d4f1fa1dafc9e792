"""The panels of the window and how they share its room."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QSplitter, QVBoxLayout, QWidget

from ace_gui.gui.control.layer_queries import Kind
from ace_gui.gui.control.what_if import WhatIf
from ace_gui.gui.models.layer_health import Healths
from ace_gui.gui.panels.experts_panel import ExpertsPanel
from ace_gui.gui.panels.health_panel import HealthPanel
from ace_gui.gui.panels.heterogeneity_panel import HeterogeneityPanel
from ace_gui.gui.panels.layer.inspector import InspectorPanel
from ace_gui.gui.panels.layer.layer_panel import LayerPanel
from ace_gui.gui.panels.layers_panel import LayersPanel
from ace_gui.gui.panels.method_panel import MethodPanel
from ace_gui.gui.panels.two_merges_panel import ComparePanel
from ace_gui.gui.panels.what_if_panel import WhatIfPanel
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import Theme

_SIZES = {"columns": [270, 1170], "left": [300, 500], "rows": [490, 300], "top": [740, 430]}


@dataclass(frozen=True, kw_only=True)
class Panels:
    """What stands in the workspace, and the layers' health that two of them show."""

    experts: ExpertsPanel
    method: MethodPanel
    healths: Healths
    layers: LayersPanel
    inspector: InspectorPanel
    heterogeneity: HeterogeneityPanel


def workspace_in_steps(
    session: Session, what_if: WhatIf, change_base: Callable[[], object], add_experts: QAction
) -> Generator[None, None, Workspace]:
    """Make a workspace panel by panel, for a window that goes on answering meanwhile."""
    experts, method = ExpertsPanel(session, change_base, add_experts), MethodPanel(session)
    yield
    healths = Healths(session)
    layers = LayersPanel(session, healths)
    yield
    inspector = InspectorPanel(session)
    yield
    heterogeneity = HeterogeneityPanel(session)
    yield
    panels = Panels(
        experts=experts,
        method=method,
        healths=healths,
        layers=layers,
        inspector=inspector,
        heterogeneity=heterogeneity,
    )
    return Workspace(session, what_if, panels)


class Workspace(QWidget):
    """Experts over method on the left; layers beside the inspector, over the views of all layers.

    ``trial_accepted``: what is tried on a layer shall become the recipe; ``inputs_edited`` carries
    Inputs that a panel of the model offers. ``finding_wanted`` says
    of a kind of finding whether a panel in view shows it.
    """

    trial_accepted = Signal()
    inputs_edited = Signal(object)
    finding_wanted = Signal(object, bool)

    def __init__(self, session: Session, what_if: WhatIf, panels: Panels) -> None:
        super().__init__()
        self.experts, self.method = panels.experts, panels.method
        self.healths, self.layers = panels.healths, panels.layers
        self.inspector, self.heterogeneity = panels.inspector, panels.heterogeneity
        self.healths.setParent(self)
        self.experts.checks_wanted.connect(self.inspector.show_checks)
        self.inspector.finding_wanted.connect(self.finding_wanted)
        self._add_lower_tabs(session, what_if)
        self._lay_out()

    def _lay_out(self) -> None:
        vertical, horizontal = Qt.Orientation.Vertical, Qt.Orientation.Horizontal
        left = _splitter("left", vertical, self.experts, self.method)
        top = _splitter("top", horizontal, self.layers, self.inspector)
        rows = _splitter("rows", vertical, top, self.heterogeneity)
        columns = _splitter("columns", horizontal, left, rows)
        self._splitters = (columns, left, rows, top)
        columns.setStretchFactor(1, 1)
        top.setStretchFactor(0, 2)
        top.setStretchFactor(1, 1)
        rows.setStretchFactor(0, 1)
        left.setMinimumWidth(250)
        self.inspector.setMinimumWidth(300)
        self.layers.setMinimumWidth(320)
        self.heterogeneity.setMinimumHeight(12 * self.fontMetrics().height())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(columns)
        self.reset_layout()

    def _add_lower_tabs(self, session: Session, what_if: WhatIf) -> None:
        add = self.heterogeneity.tabs.add

        def make_health() -> HealthPanel:
            panel = HealthPanel(session, self.healths)
            panel.inputs_edited.connect(self.inputs_edited)
            return panel

        add(
            "Health",
            "Which layers are out of the ordinary, and what one can do",
            make_health,
        )

        def make_what_if() -> WhatIfPanel:
            panel = WhatIfPanel(session, what_if)
            panel.apply_wanted.connect(self.trial_accepted)
            return panel

        add("What if", "Try other values on the selected layer before you take them", make_what_if)

        def make_comparison() -> ComparePanel:
            panel = ComparePanel(session)
            panel.looked_at.connect(self.finding_wanted)
            return panel

        self._compare_tab = add("Compare", "Two finished merges side by side", make_comparison)

    def show_comparison(self) -> None:
        """Bring the two merges that are compared to the front."""
        self.heterogeneity.tabs.setCurrentIndex(self._compare_tab)

    def restyle(self, theme: Theme) -> Generator[None, None, None]:
        """Restyle the plots, and whatever shows an expert's colour, in several turns."""
        self.experts.set_theme(theme)
        yield
        yield from self.inspector.restyle(theme)
        yield from self.heterogeneity.restyle(theme)

    def set_awaited(self, kind: Kind, awaited: bool) -> None:
        """A finding of this kind is on its way, or no longer."""
        for panel in self.findChildren(LayerPanel):
            if panel.finding is kind:
                panel.set_busy(awaited)

    def reset_layout(self) -> None:
        """The layout of the first start."""
        for splitter in self._splitters:
            splitter.setSizes(_SIZES[splitter.objectName()])

    def restore_layout(self, settings: Settings) -> None:
        """The layout of the last time."""
        for splitter in self._splitters:
            state = settings.layout(splitter.objectName())
            if not state.isEmpty():
                splitter.restoreState(state)

    def save_layout(self, settings: Settings) -> None:
        """Remember the layout."""
        for splitter in self._splitters:
            settings.save_layout(splitter.objectName(), splitter.saveState())


def _splitter(name: str, orientation: Qt.Orientation, *widgets: QWidget) -> QSplitter:
    splitter = QSplitter(orientation)
    splitter.setObjectName(name)
    splitter.setChildrenCollapsible(False)
    splitter.setHandleWidth(5)
    for widget in widgets:
        if isinstance(widget, QSplitter):
            splitter.addWidget(widget)
            continue
        frame = QFrame()
        frame.setFrameShape(QFrame.Shape.StyledPanel)
        inner = QVBoxLayout(frame)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.addWidget(widget)
        splitter.addWidget(frame)
    return splitter
