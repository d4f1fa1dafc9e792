"""After each merge, one message with what is worth seeing."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from ace_gui.engine.contract.findings import Regime
from ace_gui.engine.contract.plan import Disposition, Verdict
from ace_gui.formatting import counted, number_text
from ace_gui.gui.shell.shell_window import ShellWindow
from ace_gui.gui.state.activity import MergeRun, State

_MANY: Final = 400
"""Tensors."""


class MergeNews:
    """Watches the merges of a window. A restored merge is no news."""

    def __init__(self, window: ShellWindow) -> None:
        self._window = window
        self._last: MergeRun | None = None
        window.session.results.changed.connect(self._look)

    def _look(self) -> None:
        session = self._window.session
        run, merging = session.results.merge, session.activity.is_running(State.MERGING)
        if run is None or run.finished is None or not merging or run is self._last:
            return
        self._last = run
        warned = self._warned(run)
        layers = session.layers
        unsure = {row.name for row in layers.rows if layers.gamma_unsure(row)}
        merged = sum(row.disposition is Disposition.MERGED for row in layers.rows)
        offers: dict[str, Callable[[], object]] = {
            "Scores": lambda: self._window.workspace.show_scores()
        }
        if warned:
            offers = {"See them": lambda: self._window.workspace.show_health(), **offers}
        elif any(r.gamma is not None and r.name not in unsure for r in run.reports.values()):
            offers = {"See it": self._show_top, **offers}
        self._window.notice.offer(what_to_see(run, warned, merged, unsure), offers)

    def _warned(self, run: MergeRun) -> int:
        """The matrices with warnings; of many only the merge's own, because judging takes time."""
        if len(self._window.session.layers.rows) > _MANY:
            return sum(bool(report.warnings) for report in run.reports.values())
        counts = self._window.workspace.healths.summary().counts
        return counts.get(Verdict.WARNING, 0) + counts.get(Verdict.ERROR, 0)

    def _show_top(self) -> None:
        self._window.session.select(self._window.session.layers.most_heterogeneous)
        workspace = self._window.workspace
        workspace.bring(workspace.inspector.tabs, 0)


def what_to_see(run: MergeRun, warned: int, merged: int, unsure: Container[str] = ()) -> str:
    """What stands out: warnings, or else heterogeneous matrices, or else the largest γ.

    ``merged``: the number of merged tensors. ``unsure``: those whose γ is unreliable.
    """
    if warned:
        return counted(
            warned,
            "Merged. One matrix has a warning.",
            "Merged. %n matrices have warnings.",
        )
    reports = [report for report in run.reports.values() if report.name not in unsure]
    above = sum(report.regime == Regime.HETEROGENEOUS for report in reports)
    if above:
        return counted(
            above,
            "Merged. One matrix is heterogeneous: see its spectrum.",
            "Merged. %n matrices are heterogeneous: see the spectrum of the first.",
        )
    gammas = [report.gamma for report in reports if report.gamma is not None]
    if gammas:
        most = number_text(max(gammas), 3)
        return f"Merged. The experts differ most in the matrix with γ {most}: see its spectrum."
    return counted(merged, "Merged %n tensor.", "Merged %n tensors.")
