"""The menu for the compute device: a device of this machine, or the workers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QInputDialog, QMainWindow, QMenu

from ace_gui.engine.contract.events import DeviceInfo
from ace_gui.formatting import counted
from ace_gui.gui.shell.choice_menu import ChoiceMenu
from ace_gui.gui.state.session import CLUSTER
from ace_gui.gui.text import tooltip

SAFETY: Final = (
    "Anyone who can reach a Ray cluster can run programs in it: keep it in a closed network. "
    "Workers on this machine are not reached from outside."
)
_OTHER: Final = "other"


class DeviceMenu(ChoiceMenu):
    """Device menu.

    ``chosen`` carries the argument of ``Session.choose_device``. ``explained`` carries an
    explanation that the user asked for.
    """

    explained = Signal(str)

    def __init__(self, window: QMainWindow) -> None:
        super().__init__("&Device", window)
        self._window = window
        self._clusters = QMenu("Workers of a &cluster", self)
        self._clusters.setToolTipsVisible(True)
        self._chosen = "auto"

    def offer(
        self,
        devices: Sequence[DeviceInfo],
        chosen: str,
        not_used: Sequence[str] = (),
        threads: int = 0,
    ) -> None:
        """Offer the engine's devices, with an entry that explains why others are missing.

        ``threads`` is the engine's thread count; that many workers are offered, but at least two.
        """
        self._chosen = chosen
        names = {device.name for device in devices}
        automatic = ("auto", "Automatic", "The fastest available device")
        entries = [] if "auto" in names else [automatic]
        self.fill([*entries, *((each.name, each.title, each.title) for each in devices)])
        if threads:
            self._offer_clusters(max(2, threads))
        if not_used:
            self.addSeparator()
            title = "&Why no GPU?" if len(devices) == 1 else "&Why not every GPU?"
            why = self.addAction(title)
            why.setToolTip(tooltip("\n".join(not_used)))
            why.triggered.connect(lambda: self.explained.emit(" ".join(not_used)))
        self.choose(chosen)

    def _offer_clusters(self, workers: int) -> None:
        here = counted(workers, "worker on this machine", "workers on this machine")
        known = {f"{CLUSTER}local:{workers}": here, f"{CLUSTER}auto": "This machine's cluster"}
        if self._chosen.startswith(CLUSTER):
            known.setdefault(self._chosen, self._chosen.removeprefix(CLUSTER))
        self._clusters.clear()
        for name, title in known.items():
            self.add_choice(self._clusters, name, title, SAFETY)
        other = self._clusters.addAction("&Address…")
        other.setToolTip(tooltip(SAFETY))
        other.triggered.connect(self._ask)
        self.addMenu(self._clusters)

    def _ask(self) -> None:
        dialog = QInputDialog(self._window)
        dialog.setWindowTitle("Workers of a cluster")
        address = "Address of a Ray cluster (ray://HOST:PORT), or local:N for N workers here"
        dialog.setLabelText(f"{address}\n\n{tooltip(SAFETY)}")
        if self._chosen.startswith(CLUSTER):
            dialog.setTextValue(self._chosen.removeprefix(CLUSTER))
        dialog.textValueSelected.connect(self._take)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def _take(self, address: str) -> None:
        if address.strip():
            self.chosen.emit(CLUSTER + address.strip())
