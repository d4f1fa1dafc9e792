"""Questions before the window continues: about checks, pickles, NaN and Inf."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ace_gui.engine.contract.plan import DISK, Check, Verdict
from ace_gui.errors import NonFiniteError, PickleConsentError, WorkbenchError
from ace_gui.gui.panels.checks_panel import count_of
from ace_gui.gui.panels.notice import Severity
from ace_gui.gui.shell.shell_window import ShellWindow
from ace_gui.gui.state.activity import State
from ace_gui.gui.text import error_details
from ace_gui.recipe.values import NonFinite


class Questions:
    """Asks in the notice, one question at a time. A later question replaces an earlier one."""

    def __init__(self, window: ShellWindow) -> None:
        self._window, self._notice = window, window.notice
        self._session, self._conductor = window.session, window.conductor
        self._asked = ""
        window.session.checks.changed.connect(self._follow_checks)

    def merge(self) -> None:
        """Start a merge after confirming the checks' warnings once. Errors of the checks prevent
        it."""
        goes_on = self._window.merge.can_continue  # its disk space is already reserved
        errors = [c for c in self._session.checks.errors if not (goes_on and c.title == DISK)]
        warnings = [c for c in self._session.checks.worries if c.verdict is Verdict.WARNING]

        def merge_anyway() -> None:
            self._session.checks.accept()
            self.merge()

        if errors:
            again = {"Check again": self._conductor.plan}
            self._ask_about_checks(Severity.ERROR, errors, again)
        elif warnings:
            self._ask_about_checks(Severity.WARNING, warnings, {"Merge anyway": merge_anyway})
        else:
            self._notice.hide()
            self._window.merge.start()

    def come_back(self) -> None:
        """The person is in the window again: a disk that was full may have room by now."""
        activity = self._session.activity
        full = any(check.title == DISK for check in self._session.checks.errors)
        if full and not activity.is_running(State.PLANNING, State.MERGING, State.EXPORTING):
            self._conductor.plan()

    def _follow_checks(self) -> None:
        """Take a question away that the checks do not ask any more."""
        shown = self._asked and self._notice.sentence.text() == self._asked
        if shown and not self._session.checks.worries:
            self._notice.hide()
            self._asked = ""

    def asks_about(self, error: WorkbenchError) -> bool:
        """Ask how to handle an error that offers a choice. False if it offers none."""
        if isinstance(error, PickleConsentError) and error.path is not None:
            answers = {"Convert and open": partial(self._conductor.convert, error.path)}
            self._notice.ask(Severity.WARNING, error.sentence, error.details, answers)
            return True
        if isinstance(error, NonFiniteError) and error.key == "non_finite":
            self._ask_about_non_finite(error)
            return True
        return False

    def _ask_about_non_finite(self, error: NonFiniteError) -> None:
        def choose(choice: NonFinite) -> None:
            self._conductor.change(replace(self._session.draft.inputs, non_finite=choice))

        answers = {
            "Keep the base's tensor": partial(choose, NonFinite.KEEP_BASE),
            "Leave the expert out of it": partial(choose, NonFinite.SKIP_EXPERT),
        }
        self._notice.ask(Severity.ERROR, error.sentence, error_details(error), answers)

    def _ask_about_checks(
        self,
        severity: Severity,
        checks: Sequence[Check],
        answers: Mapping[str, Callable[[], object]],
    ) -> None:
        sentence = f"{count_of(checks)}. {checks[0].line}"
        self._notice.ask(severity, sentence, "\n".join(check.line for check in checks), answers)
        self._asked = self._notice.sentence.text()
        self._window.workspace.show_checks()
