"""The demo: opens a sample, merges it with several methods, and scores all merges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject

from ace_gui.gui.panels.scores.scores_tab import ScoresTab
from ace_gui.gui.state.activity import State

if TYPE_CHECKING:
    from ace_gui.gui.shell.main_window import MainWindow

COMPARED: Final = ("linear", "ace")
"""Methods to compare with the recommended merge, each with its defaults."""


class Demo(QObject):
    """Performs the steps of a user in the window, as long as the sample is open."""

    def __init__(self, window: MainWindow, recipe: Path) -> None:
        super().__init__(window)
        self._window, self._recipe = window, recipe
        self._merging = False
        self._shown = False
        window.session.activity.changed.connect(self._go_on)
        window.session.layers.learnt.connect(self._go_on)
        window.opener.open_paths([recipe])

    def _go_on(self) -> None:
        session = self._window.session
        if self._window.project.file != self._recipe:
            return  # not open yet, or the person has opened something else
        if session.state is State.READY and session.layers.is_analysed and not self._merging:
            self._merging = True
            self._window.merge.start()
        elif session.state is State.MERGED and session.layers.is_analysed and not self._shown:
            self._shown = True
            session.select(session.layers.most_heterogeneous)
            self._window.workspace.show_scores().show_tab(ScoresTab)
            self._compare()

    def _compare(self) -> None:
        """Merge with the other methods, then evaluate all merges on the tasks."""
        inputs, window = self._window.session.draft.inputs, self._window
        others = [inputs.with_method(name).recipe() for name in COMPARED]
        window.comparison.changed.connect(self._evaluate)
        window.comparison.start(others)
        self._evaluate()  # at once if nothing could be merged

    def _evaluate(self) -> None:
        if not self._window.comparison.is_running:
            self._window.comparison.changed.disconnect(self._evaluate)
            self._window.scoring.evaluate()
            self._window.session.activity.changed.connect(self._end)
            self._end()

    def _end(self) -> None:
        """Say in one line what there is to see."""
        window = self._window
        if window.session.activity.is_running(State.SCORING):
            return
        window.session.activity.changed.disconnect(self._end)
        if window.session.results.merge is not None:
            window.notice.offer(
                "The sample is merged and evaluated. Its layers show what the merge did to each "
                "matrix; Export writes the model.",
                {"Show the layers": lambda: window.workspace.show_space(0)},
            )
        self.deleteLater()
