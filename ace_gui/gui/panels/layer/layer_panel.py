"""The base class of panels about the selected layer."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import ClassVar, Final

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.gui.control.layer_queries import Kind
from ace_gui.gui.plots.frame.base_plot import Plot, restyle_plots
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Tokens
from ace_gui.gui.widgets.lazy import Following, on_visibility_change

_LEARNS_FIRST: Final = "This method learns from data first: merge to see the result."


class LayerPanel(Following):
    """Follows the session's selection while it is visible.

    ``finding``: the kind of finding to request from the engine, or None. Subclasses implement
    ``refresh``.
    """

    finding: ClassVar[Kind | None] = None

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        if self.finding is not None:
            on_visibility_change(self, partial(session.finding_wanted.emit, self.finding))
        self.follow(session.selection_changed, session.draft.changed)
        for learnt in (session.layers.learnt, session.results.findings.changed):
            learnt.connect(self._learn)

    def restyle(self, theme: Tokens) -> Generator[None, None, None]:
        """Restyle what is visible, over several turns; the experts' colours belong to the theme."""
        if self.isVisible():
            yield from restyle_plots(self, theme)
        self.plan_refresh()
        yield

    def set_busy(self, busy: bool) -> None:
        for plot in self.findChildren(Plot):
            plot.set_busy(busy)

    def show_missing(self, plot: SpecPlot, row: PlanRow, what: str) -> None:
        """Show why there is nothing of a layer, or that it is being computed."""
        if not self.session.layers.has_spectrum(row):
            plot.clear(f"No {what}: {row.reason}.")
        elif self.session.must_learn:
            plot.clear(_LEARNS_FIRST)
        else:
            plot.expect()

    @property
    def row(self) -> PlanRow | None:
        name = self.session.selection
        return self.session.layers.row(name) if name else None

    def _learn(self, name: str) -> None:
        if name in ("", self.session.selection):
            self.plan_refresh()
