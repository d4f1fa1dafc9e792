"""The demo: opens a sample, merges it with several methods, and scores all merges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject

from ace_gui.gui.panels.scores.scores_tab import ScoresTab
from ace_gui.gui.shell.shell_window import ShellWindow
from ace_gui.gui.state.activity import State

COMPARED: Final = ("linear", "ace")
"""Methods to compare with the recommended merge, each with its defaults."""


class Demo(QObject):
    """Performs the steps of a user in the window, as long as the sample is open."""

    def __init__(self, window: ShellWindow, recipe: Path) -> None:
        super().__init__(window)
        self._window, self._recipe = window, recipe
        self._steps = self._perform()
        self._is_due = next(self._steps)
        session = window.session
        for signal in (session.activity.changed, session.layers.learnt, window.comparison.changed):
            signal.connect(self._go_on)
        window.opener.open_paths([recipe])

    def _go_on(self) -> None:
        if self._is_due():
            self._is_due = lambda: False  # until the step is done
            self._is_due = next(self._steps, lambda: False)
            self._go_on()

    def _perform(self) -> Iterator[Callable[[], bool]]:
        """The steps. Each yields when it is due."""
        window, session = self._window, self._window.session

        def is_in(state: State) -> bool:
            # Otherwise it is not open yet, or the person has opened something else.
            is_open = window.project.file == self._recipe
            return is_open and session.state is state and session.layers.is_analysed

        yield lambda: is_in(State.READY) or is_in(State.MERGED)  # by an earlier demo
        if not session.results.is_merged:
            window.merge.start()
        yield lambda: is_in(State.MERGED)
        session.select(session.layers.most_heterogeneous)
        window.workspace.show_scores().show_tab(ScoresTab)
        inputs = session.draft.inputs
        window.comparison.start([inputs.with_method(name).recipe() for name in COMPARED])
        yield lambda: not window.comparison.is_running  # at once if nothing could be merged
        window.scoring.evaluate()
        yield lambda: not session.activity.is_running(State.SCORING)
        if session.results.merge is not None:
            window.notice.offer(
                "The sample is merged and evaluated. Its layers show what the merge did to each "
                "matrix; Export writes the model.",
                {"Show the layers": lambda: window.workspace.show_space(0)},
            )
        self.deleteLater()
