"""The demo: opens a sample, merges it, selects its most heterogeneous layer, evaluates it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import State


class Demo(QObject):
    """Does once, in a window, what a person would do."""

    def __init__(self, window: MainWindow, recipe: Path) -> None:
        super().__init__(window)
        self._window = window
        self._merging = False
        self._shown = False
        window.session.activity.changed.connect(self._go_on)
        window.session.layers.learnt.connect(self._go_on)
        window.opener.open_paths([recipe])

    def _go_on(self) -> None:
        session = self._window.session
        if session.state is State.READY and session.layers.is_analysed and not self._merging:
            self._merging = True
            self._window.merge.start()
        elif session.state is State.MERGED and self._merging and not self._shown:
            self._shown = True
            session.select(session.layers.most_heterogeneous)
            self._window.workspace.inspector.show_accuracies()
            self._window.conductor.evaluate_sample()
