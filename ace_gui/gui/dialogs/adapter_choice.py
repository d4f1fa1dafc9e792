"""The size of an exported adapter: a rank or a share of energy, and what each rank keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.events import (
    EnergyByRank,
    Event,
    Job,
    JobCancelled,
    JobFailed,
    JobProgress,
)
from ace_gui.engine.contract.jobs import EnergyByRankJob
from ace_gui.gui.control.engine.engine_client import End, RunningJob
from ace_gui.gui.panels.job_page import RunButton
from ace_gui.gui.plots.kept_energy_plot import KeptEnergyPlot
from ace_gui.gui.widgets.controls import Choice, amount_field, count_field
from ace_gui.gui.widgets.layout import across, down

Run = Callable[[Job, Callable[[Event], object], Callable[[End], object]], RunningJob]
STOPPED = "The curve was stopped."
_KINDS: Final = {
    False: ("rank", "One rank for all matrices"),
    True: (
        "share of energy",
        "For each matrix, the smallest rank that keeps this share of its change's squared norm",
    ),
}


class AdapterChoice(QWidget):
    """``begin`` starts the curve and ``stop`` ends it."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._job: RunningJob | None = None
        self._found: EnergyByRank | None = None
        self._store = Path()
        self.kind = Choice("Size of the adapter by", _KINDS)
        self._rank = count_field("Rank", 65536, least=1, value=32)
        self._energy = amount_field("Share of energy", 1.0, 100.0, 95.0, suffix=" %")
        self.plot = KeptEnergyPlot()
        self.plot.setFixedHeight(280)
        self.button = RunButton("Compute the curve", self._begin, self.stop)
        parts = (across(self.kind, self._rank, self._energy, None), self.plot)
        self.setLayout(down(*parts, across(None, self.button)))
        for changed in (self.kind.chosen, self._rank.valueChanged, self._energy.valueChanged):
            changed.connect(self._show)
        self._show()

    @property
    def rank(self) -> int | None:
        """The chosen rank; None if a share of energy is chosen."""
        return None if self.kind.current else self._rank.value()

    @property
    def energy(self) -> float | None:
        """The chosen share of energy; None if a rank is chosen."""
        return self._energy.value() / 100 if self.kind.current else None

    def begin(self, store: Path) -> None:
        """Find the curve of this finished merge, unless it is known or on its way."""
        self._store = store
        if self._found is None and self._job is None:
            self._begin()

    def _begin(self) -> None:
        self.plot.show_message("Computing what each rank keeps …")
        self._job = self._run(EnergyByRankJob(store=self._store), self._receive, self._end)
        self._show_running()

    def stop(self) -> None:
        if self._job is not None:
            self._job.drop()
            self._job = None
            self.plot.show_message(STOPPED)
            self._show_running()

    def _receive(self, event: Event) -> None:
        if isinstance(event, EnergyByRank):
            self._found = event
        elif isinstance(event, JobProgress):
            self._show_running(event.done / max(event.total, 1))

    def _end(self, end: End) -> None:
        self._job = None
        if isinstance(end, JobFailed):
            self.plot.show_message(end.error.sentence)
        elif isinstance(end, JobCancelled):
            self.plot.show_message(STOPPED)
        self._show_running()
        self._show()

    def _show_running(self, share: float | None = None) -> None:
        self.button.setVisible(self._found is None)
        self.button.show_job(self._job is not None, "", share=share)

    def _show(self) -> None:
        self._rank.setVisible(not self.kind.current)
        self._energy.setVisible(bool(self.kind.current))
        if self._found is not None and self._found.shares:
            self.plot.show_shares(self._found, self.rank, self.energy)
        elif self._found is not None:
            self.plot.show_message("No matrix of a linear layer changes.")
