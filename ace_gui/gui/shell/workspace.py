"""The panels of the window and how they share its room."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from ace_gui.gui.control.layer_queries import Kind
from ace_gui.gui.control.what_if import WhatIf
from ace_gui.gui.models.layer_health import Healths
from ace_gui.gui.panels.compare_page import ComparePage
from ace_gui.gui.panels.experts_panel import ExpertsPanel
from ace_gui.gui.panels.health_panel import HealthPanel
from ace_gui.gui.panels.heterogeneity_panel import HeterogeneityPanel
from ace_gui.gui.panels.layer.inspector import InspectorPanel
from ace_gui.gui.panels.layer.layer_panel import LayerPanel
from ace_gui.gui.panels.layers_panel import LayersPanel
from ace_gui.gui.panels.method_panel import MethodPanel
from ace_gui.gui.panels.report_page import ReportPage
from ace_gui.gui.panels.what_if_panel import WhatIfPanel
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import Tokens, icon
from ace_gui.gui.widgets.card import GAP, card

LAYERS, COMPARE, REPORT = range(3)
_SIZES = {"columns": [288, 1280], "rows": [610, 304], "top": [880, 396]}


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
    session: Session, what_if: WhatIf, change_base: Callable[[], object], actions: Actions
) -> Generator[None, None, Workspace]:
    """Make a workspace panel by panel, for a window that goes on answering meanwhile."""
    experts = ExpertsPanel(session, change_base, actions.add_experts)
    method = MethodPanel(session, actions.choose_method)
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
    return Workspace(session, what_if, panels, actions)


class Workspace(QWidget):
    """The inputs on the left, and beside them one page of results at a time.

    The pages, in the order of the header's ``WORKSPACES``: the layers beside the inspector, over
    the views of all layers; the merges compared; the report. ``space_shown`` carries the place of
    the one that is shown. ``trial_accepted``: what is tried on a layer shall become the recipe;
    ``inputs_edited`` carries Inputs that a panel of the model offers. ``finding_wanted`` says of a
    kind of finding whether a panel in view shows it.
    """

    trial_accepted = Signal()
    inputs_edited = Signal(object)
    finding_wanted = Signal(object, bool)
    space_shown = Signal(int)

    def __init__(self, session: Session, what_if: WhatIf, panels: Panels, actions: Actions) -> None:
        super().__init__()
        self.experts, self.method = panels.experts, panels.method
        self.healths, self.layers = panels.healths, panels.layers
        self.inspector, self.heterogeneity = panels.inspector, panels.heterogeneity
        self.healths.setParent(self)
        self.experts.checks_wanted.connect(self._show_checks)
        self.inspector.finding_wanted.connect(self.finding_wanted)
        self._add_lower_tabs(session, what_if)
        self._makers: dict[int, Callable[[], QWidget]] = {
            COMPARE: lambda: self._make_comparison(session, actions),
            REPORT: lambda: ReportPage(actions.report),
        }
        self._lay_out()

    def _lay_out(self) -> None:
        vertical, horizontal = Qt.Orientation.Vertical, Qt.Orientation.Horizontal
        cards = [card(panel) for panel in (self.layers, self.inspector, self.heterogeneity)]
        top = _splitter("top", horizontal, *cards[:2])
        rows = _splitter("rows", vertical, top, cards[2])
        self._left = self._make_left()
        for place, tabs in ((1, self.inspector.tabs), (2, self.heterogeneity.tabs)):
            tabs.set_corner(self._maximiser(cards[place], (*cards, top)))
        self._spaces = QStackedWidget()
        self._spaces.addWidget(rows)
        for _ in self._makers:
            self._spaces.addWidget(QWidget())
        columns = _splitter("columns", horizontal, self._left, self._spaces)
        self._splitters = (columns, rows, top)
        columns.setStretchFactor(1, 1)
        top.setStretchFactor(0, 2)
        top.setStretchFactor(1, 1)
        rows.setStretchFactor(0, 1)
        self.inspector.setMinimumWidth(20 * self.fontMetrics().height())
        self.layers.setMinimumWidth(320)
        self.heterogeneity.setMinimumHeight(12 * self.fontMetrics().height())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(columns)
        self.reset_layout()

    def _make_left(self) -> QWidget:
        """What goes in lies on the ground, without a frame."""
        left = QWidget()
        left.setMinimumWidth(round(16.5 * left.fontMetrics().height()))
        layout = QVBoxLayout(left)
        layout.setContentsMargins(4, 0, 4, 0)
        layout.setSpacing(GAP)
        layout.addWidget(self.experts)
        layout.addWidget(self.method, 1)
        return left

    def show_inputs(self, shown: bool) -> None:
        """Show the left column, or give its room to the results."""
        self._left.setVisible(shown)

    def _maximiser(self, chosen: QWidget, cards: Sequence[QWidget]) -> QToolButton:
        """A button that shows one card alone, and all of them again."""
        button = QToolButton(self)
        button.setCheckable(True)
        button.setIcon(icon("expand"))
        button.setAccessibleName("Maximise this panel")
        button.setToolTip("Show this panel alone, or all of them again")

        def alone(on: bool) -> None:
            button.setIcon(icon("shrink" if on else "expand"))
            for each in cards:
                each.setVisible(not on or each is chosen or each.isAncestorOf(chosen))

        button.toggled.connect(alone)
        return button

    def show_space(self, place: int) -> None:
        """Show a page, made when it is first looked at."""
        make = self._makers.pop(place, None)
        if make is not None:
            empty = self._spaces.widget(place)
            self._spaces.insertWidget(place, make())
            if empty is not None:
                self._spaces.removeWidget(empty)
                empty.deleteLater()
        self._spaces.setCurrentIndex(place)
        self.space_shown.emit(place)

    def _make_comparison(self, session: Session, actions: Actions) -> QWidget:
        self.comparison = ComparePage(session, actions.compare)
        self.comparison.panel.looked_at.connect(self.finding_wanted)
        return self.comparison

    def _show_checks(self) -> None:
        self.show_space(LAYERS)
        self.inspector.show_checks()

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

    def show_comparison(self) -> None:
        """Bring the two merges that are compared to the front."""
        self.show_space(COMPARE)

    def restyle(self, theme: Tokens) -> Generator[None, None, None]:
        """Restyle the plots, and whatever shows an expert's colour, in several turns."""
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
    splitter.setHandleWidth(GAP)
    for widget in widgets:
        splitter.addWidget(widget)
    return splitter
