"""The Routing tab: which expert handled which examples, layer by layer, and the cost."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSplitter, QVBoxLayout, QWidget

from ace_gui.engine.contract.scored.routes import TaskRoutes
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.operations.routing_operation import RoutingOperation
from ace_gui.gui.panels.scores.merges import merges_of
from ace_gui.gui.panels.scores.score_cells import expert_colour
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.labels.plain_label import heading, plain_label, secondary_label
from ace_gui.gui.widgets.layout.card import GAP, card
from ace_gui.gui.widgets.tables.figure_sheet import FigureRow, FigureSheet

LIMIT: Final = 100
"""Examples per task: enough to know a share to a few hundredths."""

WHAT: Final = (
    "Merges by SMILE, Twin-Merging, FREE-Merging and WEMoE send each example to experts. Here they "
    "run on the recipe's tasks, and every row shows the experts' shares."
)


class RoutingTab(QWidget):
    """Top: shares by task, averaged over the layers. Bottom: by layer for one task."""

    def __init__(
        self, session: Session, routing: RoutingOperation, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._routing = session, routing
        self.merge = Choice("Merge whose routes are shown", _none())
        self.button = QPushButton("Compute")
        self.button.setProperty("kind", "tinted")
        self.button.setFont(face(Face.STRONG))
        self.said = plain_label("", self)
        self.cost = secondary_label("", self)
        self.tasks = FigureSheet("Shares of the experts by task", self, kind="task")
        self.task = Choice("Task whose layers are shown", {"": ("–", "")})
        self.layers = FigureSheet("Shares of the experts by layer", self, kind="layer")
        self._lay_out()
        self.button.clicked.connect(lambda _=False: self._press())
        self.task.chosen.connect(self._show_layers)
        routing.changed.connect(self.refresh)
        for changed in (session.draft.changed, session.results.runs.changed):
            changed.connect(self.refresh)
        self.refresh()

    def _lay_out(self) -> None:
        head, row = QWidget(), QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(heading("Routing", head), 1)
        row.addWidget(self.merge)
        row.addWidget(self.button)
        column = QVBoxLayout(head)
        column.setContentsMargins(8, 6, 8, 8)
        column.setSpacing(8)
        column.addLayout(row)
        for widget in (secondary_label(WHAT, head), self.said, self.cost):
            column.addWidget(widget)
        column.addStretch(1)
        below = QWidget()
        inner = QVBoxLayout(below)
        inner.setContentsMargins(8, 6, 8, 8)
        inner.setSpacing(8)
        inner.addWidget(self.task, 0, Qt.AlignmentFlag.AlignLeft)
        inner.addWidget(self.layers, 1)
        sheets = QSplitter(Qt.Orientation.Horizontal)
        sheets.setChildrenCollapsible(False)
        sheets.setHandleWidth(GAP)
        sheets.addWidget(card(self.tasks))
        sheets.addWidget(card(below))
        self._sheets = sheets
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(GAP)
        layout.addWidget(card(head))
        layout.addWidget(sheets, 1)

    def _press(self) -> None:
        if self._routing.is_running:
            self._routing.stop()
        elif self.merge.current:
            self._routing.start(Path(self.merge.current), LIMIT)

    def recolour(self) -> None:
        """Update the experts' colours after a change of the scheme."""
        self.refresh()

    def refresh(self) -> None:
        """Update the choices and the results."""
        routing = self._routing
        stores = {str(run.store) for run in routing.merges}
        merges = [each for each in merges_of(self._session) if each.key in stores]
        options: dict[Hashable, tuple[str, str]]
        options = {each.key: (each.title, each.title) for each in reversed(merges)}
        self.merge.offer(options or _none())
        running, why = routing.is_running, routing.obstacle
        self.button.setText("Stop" if running else "Compute")
        self.button.setAccessibleName("Stop computing" if running else "Compute the routes")
        self.button.setEnabled(running or not why)
        self.button.setToolTip("" if running else tooltip(why))
        routes = routing.routes or ()
        self.said.setText(plain(routing.error or why or self._sentence()))
        self.said.setVisible(bool(self.said.text()))
        self.cost.setText(_cost(routes))
        self.cost.setVisible(bool(routes))
        self._sheets.setVisible(bool(routes))
        self.tasks.show_figures(*_sheet(routes), self._colours(routes))
        names: dict[Hashable, tuple[str, str]] = {each.task: (each.task, "") for each in routes}
        self.task.offer(names or {"": ("–", "")})
        self._show_layers()

    def _sentence(self) -> str:
        routes = self._routing.routes
        if routes is None:
            return ""
        if not routes:
            return "This merge has no router."
        own = [each for each in routes if each.owner in each.experts]
        most = [each for each in own if _largest(each) == each.owner]
        return f"{len(most)} of {len(own)} tasks mainly use their own expert."

    def _show_layers(self) -> None:
        routes = self._routing.routes or ()
        one = next((each for each in routes if each.task == self.task.current), None)
        if one is None:
            return
        rows = [
            FigureRow(title=layer, tip=layer, values=shares, percent=True)
            for layer, shares in zip(one.layers, one.share_LT, strict=True)
        ]
        self.layers.show_figures(one.experts, rows, self._colours([one]))

    def _colours(self, routes: Sequence[TaskRoutes]) -> list[str]:
        experts = routes[0].experts if routes else ()
        return [expert_colour(self._session.draft.inputs, name)[0] for name in experts]


def _none() -> dict[Hashable, tuple[str, str]]:
    return {"": ("no merge with a router", "")}


def _largest(each: TaskRoutes) -> str:
    return max(zip(each.mean_T, each.experts, strict=True))[1]


def _sheet(routes: Sequence[TaskRoutes]) -> tuple[Sequence[str], list[FigureRow]]:
    tip = "The share of each expert, averaged over the layers and the examples."
    rows = [FigureRow(title=e.task, tip=tip, values=e.mean_T, percent=True) for e in routes]
    return (routes[0].experts if routes else ()), rows


def _cost(routes: Sequence[TaskRoutes]) -> str:
    if not routes:
        return ""
    count = sum(each.n for each in routes)
    own, bare = (
        1000 * sum(getattr(each, name) * each.n for each in routes) / count
        for name in ("seconds", "plain_seconds")
    )
    return (
        f"The modules take {human_bytes(routes[0].module_bytes)} more than the weights, and an "
        f"example {own:.1f} ms instead of {bare:.1f} ms without them, of {count} examples."
    )
