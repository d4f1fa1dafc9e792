"""The question before the window closes while something is being written."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox, QPushButton, QWidget

from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session


class Closing(QObject):
    """``agreed``: the user closes the window anyway. ``box`` is the question."""

    agreed = Signal()

    def __init__(self, session: Session, window: QWidget) -> None:
        super().__init__(window)
        self._session = session
        self._window = window
        self.box: QMessageBox | None = None
        self.stop: QPushButton | None = None
        self.keep: QPushButton | None = None

    @property
    def is_writing(self) -> bool:
        """Whether closing would interrupt a write."""
        return self._session.activity.is_running(State.EXPORTING, State.MERGING)

    def ask(self) -> None:
        """Ask, unless the question is already shown."""
        if self.box is not None:
            return
        exporting = self._session.activity.is_running(State.EXPORTING)
        box = QMessageBox(self._window)
        box.setIcon(QMessageBox.Icon.Question)
        box.setWindowTitle("ACE Workbench")
        box.setText("An export is running." if exporting else "A merge is running.")
        if not exporting:
            box.setInformativeText("Finished tensors are kept, and the merge can be continued.")
        self.stop = box.addButton("&Stop and close", QMessageBox.ButtonRole.DestructiveRole)
        self.keep = box.addButton(
            "&Keep exporting" if exporting else "&Keep merging",
            QMessageBox.ButtonRole.RejectRole,
        )
        box.setDefaultButton(self.keep)
        box.setEscapeButton(self.keep)
        box.finished.connect(self._answer)
        self.box = box
        box.open()

    def _answer(self, _: int) -> None:
        box, self.box = self.box, None
        stopped = box is not None and box.clickedButton() is self.stop
        if box is not None:
            box.deleteLater()
        if stopped:
            self.agreed.emit()
