"""The footer: compute device, background work, and the size of the model."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import (
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QStatusBar,
    QToolButton,
    QWidget,
)

from ace_gui.engine.contract.plan import Disposition
from ace_gui.formatting import counted, human_bytes
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.shell.menus import ChoiceMenu
from ace_gui.gui.state.activity import State, start_once
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import sentence_case
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.controls import action_button
from ace_gui.gui.widgets.labels import ElidedLabel

REFRESH: Final = 60  # ms between progress updates: each one repaints the whole window
COUNTING: Final = 200  # ms between two counts of the model's tensors
_BAR: Final = 120  # px


class Footer(QStatusBar):
    """The footer: ``CPU, 2 threads · needs about 88 MB`` at the left, the tensor count at the
    right.

    Merging and exporting show their progress in the header; all other work shows it here.
    """

    def __init__(
        self, session: Session, devices: ChoiceMenu, actions: Actions, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._devices = session, devices
        self.setAccessibleName("Status")
        self.setSizeGripEnabled(False)
        self.setContentsMargins(8, 0, 12, 0)
        self.device = QToolButton(self)
        self.device.setFont(face(Face.CAPTION))
        self.device.setMenu(devices)
        self.device.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.device.setToolTip("Where to compute")
        self.text = ElidedLabel(self, sentence=True)
        self.bar = QProgressBar(self)
        self.bar.setFixedSize(_BAR, 6)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Progress")
        self.stop = QPushButton("Cancel", self)
        self.stop.setFont(face(Face.CAPTION))
        self.stop.setProperty("kind", "link")
        self.stop.clicked.connect(lambda _=False: actions.cancel.trigger())
        self.tensors = ElidedLabel(self, sentence=True)
        for label in (self.text, self.tensors):
            label.setProperty("kind", "caption")
            label.setFont(face(Face.CAPTION))
            label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        for widget in (self.device, self.text, self.bar, self.stop):
            self.addWidget(widget)
        links = {
            "Glossary": actions.glossary,
            "Shortcuts": actions.shortcuts,
            "Preferences…": actions.preferences,
        }
        self._links = [action_button(a, text, self, kind="ghost") for text, a in links.items()]
        for link in self._links:
            link.setFont(face(Face.CAPTION))
        for shown in (self.tensors, *self._links):
            self.addPermanentWidget(shown)
        self._follow(session)
        self.refresh()

    def _follow(self, session: Session) -> None:
        for part in (session.activity, session.results, session.draft):
            part.changed.connect(self.refresh)
        session.engine_changed.connect(self.refresh)
        self._timer = QTimer(self, singleShot=True, interval=REFRESH)
        self._timer.timeout.connect(self.refresh)
        session.activity.progressed.connect(lambda: start_once(self._timer))
        self._counting = QTimer(self, singleShot=True, interval=COUNTING)
        self._counting.timeout.connect(self._count)
        session.layers.learnt.connect(lambda _name: start_once(self._counting))
        for signal in (session.draft.changed, session.draft.tau_changed):
            signal.connect(lambda *_: start_once(self._counting))

    def refresh(self) -> None:
        self._timer.stop()
        self.device.setText(self._device_text())
        self.device.setAccessibleName(f"Device: {self.device.text()}")
        self._show_work()
        for link in self._links:  # nothing to count on the welcome page
            link.setVisible(self._session.draft.inputs.base is None)

    def _device_text(self) -> str:
        session = self._session
        if session.engine is None:
            return "Starting the engine …"
        if session.cluster:
            return f"Cluster: {self._devices.title_chosen}"
        chosen = self._devices.title_chosen or session.device
        count = session.engine.threads
        named = "CPU" if session.device == "auto" else chosen
        return f"{named}, {counted(count, 'thread', 'threads')}"

    def _show_work(self) -> None:
        """Show the foremost work, unless the header shows it. The progress bar has updates disabled
        meanwhile: a bar repaints itself and the window at once."""
        session, parts = self._session, []
        state = session.activity.foremost
        state = None if state in {State.MERGING, State.EXPORTING} else state
        progress = session.activity.counted(state)
        if state is not None:
            word = sentence_case((progress.title if progress else "") or state.value)
            share = f", {progress.done} of {progress.total}" if progress else " …"
            parts.append(word + share)
        if session.draft.plan is not None and session.draft.plan.experts:
            parts.append(f"Needs about {human_bytes(session.draft.plan.peak_bytes)} of memory")
        self.text.set_full_text(" · ".join(parts))
        self.bar.setUpdatesEnabled(False)
        for widget in (self.bar, self.stop):
            widget.setVisible(state is not None)
        self.bar.setRange(0, 1000 if progress else 0)
        if progress:
            self.bar.setValue(round(1000 * progress.done / progress.total))
        self.bar.setUpdatesEnabled(True)

    def _count(self) -> None:
        session = self._session
        rows = session.layers.rows
        found = Counter(row.disposition for row in rows)
        counts = [counted(len(rows), "tensor", "tensors")] if rows else []
        counts += [f"{found[kind]} {kind.value}" for kind in Disposition if found[kind]]
        tau = session.draft.tau  # called once, because it looks things up
        if session.draft.has_gamma and isfinite(tau):
            gammas = (session.layers.gamma(row.name) for row in session.layers.merged)
            above = sum(gamma is not None and gamma > tau for gamma in gammas)
            counts.append(f"{above} heterogeneous")
        self.tensors.set_full_text(" · ".join(counts if rows else ()))
