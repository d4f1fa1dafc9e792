"""The size of an exported adapter: a rank or a share of energy, beside what each rank keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QStackedWidget,
    QWidget,
)

from ace_gui.engine.contract.events import EnergyByRank, Event, JobCancelled, JobFailed, JobProgress
from ace_gui.engine.contract.jobs import EnergyByRankJob, Job
from ace_gui.gui.control.engine.engine_client import End, RunningJob
from ace_gui.gui.plots.kept_energy_plot import KeptEnergyPlot
from ace_gui.gui.widgets.layout.arrangement import across, down

Run = Callable[[Job, Callable[[Event], object], Callable[[End], object]], RunningJob]
STOPPED = "The curve was stopped."


class AdapterChoice(QWidget):
    """``changed``: another size was chosen. ``begin`` starts the curve and ``stop`` ends it."""

    changed = Signal()

    def __init__(self, run: Run, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._run = run
        self._job: RunningJob | None = None
        self._found: EnergyByRank | None = None
        self._store = Path()
        self.kind = QComboBox(self)
        self.kind.setAccessibleName("Size of the adapter by")
        self.kind.addItems(["rank", "share of energy"])
        self.kind.setToolTip(
            "One rank for all matrices, or for each matrix the least rank that keeps this share "
            "of its change's squared norm"
        )
        self._rank = QSpinBox(self, minimum=1, maximum=65536, value=32)
        self._rank.setAccessibleName("Rank")
        self._energy = QDoubleSpinBox(self, minimum=1.0, maximum=100.0, value=95.0, suffix=" %")
        self._energy.setDecimals(1)
        self._energy.setAccessibleName("Share of energy")
        self._values = QStackedWidget(self)
        self._values.addWidget(self._rank)
        self._values.addWidget(self._energy)
        self.plot = KeptEnergyPlot(self)
        self.plot.setFixedHeight(280)
        self.progress = QProgressBar(self)
        self.progress.setAccessibleName("Progress of the curve")
        self.button = QPushButton("Stop", self)
        self.button.setAutoDefault(False)
        self.button.clicked.connect(self._stop_or_begin)
        parts = (across(self.kind, self._values, None), self.plot)
        self.setLayout(down(*parts, across((self.progress, 1), self.button)))
        self.kind.currentIndexChanged.connect(self._values.setCurrentIndex)
        for signal in (
            self.kind.currentIndexChanged,
            self._rank.valueChanged,
            self._energy.valueChanged,
        ):
            signal.connect(self._show)

    @property
    def rank(self) -> int | None:
        """The chosen rank; None if a share of energy is chosen."""
        return None if self.kind.currentIndex() else self._rank.value()

    @property
    def energy(self) -> float | None:
        """The chosen share of energy; None if a rank is chosen."""
        return self._energy.value() / 100 if self.kind.currentIndex() else None

    def begin(self, store: Path) -> None:
        """Find the curve of this finished merge, unless it is known or on its way."""
        self._store = store
        if self._found is None and self._job is None:
            self.plot.show_message("What each rank keeps is being computed …")
            self.progress.setRange(0, 0)
            self._job = self._run(EnergyByRankJob(store=store), self._hear, self._end)
            self._show_running()

    def stop(self) -> None:
        """Stop computing the curve."""
        if self._job is not None:
            self._job.drop()
            self._job = None
            self.plot.show_message(STOPPED)
            self._show_running()

    def _stop_or_begin(self) -> None:
        if self._job is None:
            self.begin(self._store)
        else:
            self.stop()

    def _hear(self, event: Event) -> None:
        if isinstance(event, EnergyByRank):
            self._found = event
        elif isinstance(event, JobProgress):
            self.progress.setRange(0, event.total)
            self.progress.setValue(event.done)

    def _end(self, end: End) -> None:
        self._job = None
        if isinstance(end, JobFailed):
            self.plot.show_message(end.error.sentence)
        elif isinstance(end, JobCancelled):
            self.plot.show_message(STOPPED)
        self._show_running()
        self._show()

    def _show_running(self) -> None:
        self.progress.setVisible(self._job is not None)
        self.button.setVisible(self._found is None)
        self.button.setText("Stop" if self._job is not None else "Compute the curve")

    def _show(self) -> None:
        if self._found is not None and self._found.shares:
            self.plot.show_shares(self._found, self.rank, self.energy)
        elif self._found is not None:
            self.plot.show_message("No matrix of a linear layer changes.")
        self.changed.emit()
