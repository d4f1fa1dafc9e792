"""Which expert the router of a merge chose, as a table below its scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.scored import TaskRoutes
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.operations import RoutingOperation
from ace_gui.gui.models.experts_model import expert_colour
from ace_gui.gui.panels.job_page import RunButton
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain
from ace_gui.gui.widgets.controls import Choice
from ace_gui.gui.widgets.labels import heading, muted_label, secondary_label
from ace_gui.gui.widgets.layout import across, down
from ace_gui.gui.widgets.tables import FigureRow, FigureSheet

LIMIT: Final = 100
"""Examples per task: enough to know a share to a few hundredths."""
_ALL: Final = ""
_TIP: Final = "The share of each expert, averaged over the examples."


class RoutesTable(QWidget):
    """Hidden unless the merge has a router. The shares by task, or by layer for one task."""

    def __init__(self, session: Session, routing: RoutingOperation) -> None:
        super().__init__()
        self._session, self._routing = session, routing
        self._store: Path | None = None
        self.button = RunButton("Compute", self._start, routing.stop, name="Compute the routes")
        self.sentence, self.cost = secondary_label(), muted_label()
        self.task = Choice("Routes to show", {_ALL: ("All tasks", "")})
        self.shares = FigureSheet("Shares of the experts", self, kind="task")
        head = across((heading("Routing"), 1), self.task, self.button)
        self.setLayout(down(head, self.sentence, self.shares, self.cost))
        self.task.chosen.connect(self.refresh)
        routing.changed.connect(self.refresh)

    def show_merge(self, store: str) -> None:
        """Show the routes of the merge in this store, if it has a router."""
        self._store = Path(store) if store else None
        self.setVisible(self._store in [run.store for run in self._routing.merges])
        self.refresh()

    def refresh(self) -> None:
        routing = self._routing
        self.button.show_job(routing.is_running, routing.obstacle)
        known = routing.store == self._store
        routes = (routing.routes or ()) if known else ()
        tasks = {each.task: (plain(each.task), "") for each in routes}
        self.task.offer({_ALL: ("All tasks", "")} | tasks)
        for widget in (self.task, self.shares, self.cost):
            widget.setVisible(bool(routes))
        self.sentence.setText(plain(routing.error if known else "") or self._sentence(routes))
        self.cost.setText(_cost(routes))
        if routes:
            colours = [expert_colour(self._session, name)[0] for name in routes[0].experts]
            self.shares.show_figures(routes[0].experts, self._rows(routes), colours)

    def _rows(self, routes: Sequence[TaskRoutes]) -> list[FigureRow]:
        shares = [(each.task, each.mean_T) for each in routes]
        for each in routes:
            if each.task == self.task.current:
                shares = list(zip(each.layers, each.share_LT, strict=True))
        return [FigureRow(t, _TIP, values, percent=True) for t, values in shares]

    def _start(self) -> None:
        if self._store is not None:
            self._routing.start(self._store, LIMIT)

    def _sentence(self, routes: Sequence[TaskRoutes]) -> str:
        if routes:
            own = [each for each in routes if each.owner in each.experts]
            most = [e for e in own if max(zip(e.mean_T, e.experts, strict=True))[1] == e.owner]
            return f"{len(most)} of {len(own)} tasks mainly use their own expert."
        if self._routing.store == self._store and self._routing.routes is not None:
            return "This merge has no router."
        return "This merge sends each example to experts. Compute which ones it uses for each task."


def _cost(routes: Sequence[TaskRoutes]) -> str:
    if not routes:
        return ""
    count = sum(each.n for each in routes)
    own = 1000 * sum(each.seconds * each.n for each in routes) / count
    plain_ms = 1000 * sum(each.plain_seconds * each.n for each in routes) / count
    return (
        f"The modules take {human_bytes(routes[0].module_bytes)} more than the weights. An example "
        f"takes {own:.1f} ms with them and {plain_ms:.1f} ms without (mean of {count} examples)."
    )
