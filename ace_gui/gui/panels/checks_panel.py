"""The checks before the merge, with their verdicts, worst first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QToolButton, QVBoxLayout

from ace_gui.engine.contract.plan import EVERYTHING, Check, Verdict
from ace_gui.formatting import counted
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import breakable, plain, quoted
from ace_gui.gui.theme import Face, face, icon
from ace_gui.gui.widgets.controls import named, read_only
from ace_gui.gui.widgets.labels import (
    ElidedLabel,
    IconLabel,
    heading,
    muted_label,
    plain_label,
)
from ace_gui.gui.widgets.layout import Column, across, clear_layout, down, scroll_area
from ace_gui.gui.widgets.lazy import Following

VERDICTS: Final = {
    Verdict.ERROR: ("Error", "error", "bad"),
    Verdict.WARNING: ("Warning", "warning", "warn"),
    Verdict.NOTE: ("Note", "info", "accent"),
    Verdict.OK: ("Fine", "check", "secondary"),
}
"""The word, icon and colour of each."""
_ICON: Final = 16  # px
_DETAIL_LINES: Final = 6


def summary_of(session: Session) -> str:
    """ "2 warnings", or that there are none; empty before there is a plan."""
    checks = session.checks.all
    passed = counted(len(checks), "check passed", "checks passed") if checks else ""
    return count_of(checks) or passed


def count_of(checks: Iterable[Check]) -> str:
    """ "1 error, 2 warnings", or an empty string."""
    verdicts = [check.verdict for check in checks]
    errors, warnings = verdicts.count(Verdict.ERROR), verdicts.count(Verdict.WARNING)
    parts = [counted(errors, "error", "errors")] if errors else []
    parts += [counted(warnings, "warning", "warnings")] if warnings else []
    return ", ".join(parts)


class PreflightPanel(Following):
    """Follows the session's checks. Details stay open as long as the checks are the same."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._open: set[object] = set()
        self._shown: tuple[Check, ...] = ()
        self.summary, self._advice = heading(""), muted_label()
        column = Column()
        self.rows = QVBoxLayout(column)
        self.rows.setContentsMargins(0, 0, 4, 0)
        self.rows.setSpacing(0)
        area = scroll_area("Checks", column)
        area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # scrollable with the keyboard
        self.setLayout(down(self.summary, self._advice, (area, 1), margins=(4, 8, 0, 0)))
        self.follow(session.checks.changed)

    def refresh(self) -> None:
        checks = self._session.checks.all
        self.summary.setText(summary_of(self._session))
        self._advice.setText(self._advice_text())
        if checks == self._shown:
            return
        self._shown = checks
        self._open &= {check.key for check in checks}
        clear_layout(self.rows)
        for check in checks:
            row = CheckRow(check)
            row.details_button.setChecked(check.key in self._open)
            row.details_button.toggled.connect(
                lambda shown, key=check.key: (self._open.add if shown else self._open.discard)(key)
            )
            self.rows.addWidget(row)
        self.rows.addStretch(1)

    def _advice_text(self) -> str:
        checks = self._session.checks
        if not checks.all:
            return "Open a base and experts: the checks before a merge appear here."
        if checks.errors:
            return "A merge would fail: see the errors. Merge offers to check again."
        if checks.worries:
            return "A merge is possible. Merge asks once whether to continue."
        if count_of(checks.all):
            return "Accepted: Merge does not ask again for these models."
        return "From the files' headers and configs, and later the compared tensors."


class CheckRow(QFrame):
    """One check: icon, verdict, title, model and sentence, with collapsed details."""

    def __init__(self, check: Check) -> None:
        super().__init__()
        self.check = check
        word, picture, _ = VERDICTS[check.verdict]
        title, subject = plain(check.title), plain(check.subject)
        self.setAccessibleName(f"{word}: {title}, {subject}. {plain(quoted(check.sentence))}")
        button = self.details_button = QToolButton(autoRaise=True)
        named(button, f"Details of {title}, {subject}", "Show or hide the details")
        button.setText("Details")
        button.setCheckable(True)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setArrowType(Qt.ArrowType.RightArrow)
        lines = min(_DETAIL_LINES, check.details.count("\n") + 1) + 1
        self.details = read_only(f"All of {title}, {subject}", lines, Face.MONO)
        self.details.setPlainText(plain(check.details))
        button.toggled.connect(self._fold)
        sentence = plain_label()
        sentence.setText(breakable(quoted(check.sentence), names=True))
        foot = across(button, None)
        body = down(self._head(title, subject), sentence, foot, self.details, gap=2)
        sign = down(IconLabel(_ICON, icon(picture)), None)
        self.setLayout(across(sign, (body, 1), margins=(0, 7, 0, 7)))
        self.details.hide()
        button.setVisible(bool(check.details))

    def _fold(self, shown: bool) -> None:
        arrows = Qt.ArrowType
        self.details_button.setArrowType(arrows.DownArrow if shown else arrows.RightArrow)
        self.details.setVisible(shown)

    def _head(self, title: str, subject: str) -> QHBoxLayout:
        word, _, kind = VERDICTS[self.check.verdict]
        about = ElidedLabel()
        about.setProperty("kind", "caption")
        about.setFont(face(Face.CAPTION))
        about.set_full_text("" if self.check.subject == EVERYTHING else subject)
        verdict = plain_label(word, wrap=False)
        verdict.setProperty("kind", kind)
        verdict.setFont(face(Face.CAPTION_STRONG if self.check.is_worry else Face.CAPTION))
        return across(heading(title), (about, 1), verdict, gap=6)
