"""The checks before the merge, with their verdicts, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QFrame,
    QLabel,
    QPlainTextEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.contract.checks import EVERYTHING, Check, Verdict
from ace_gui.formatting import counted
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, quoted, tooltip
from ace_gui.gui.theme import Face, face, icon
from ace_gui.gui.widgets.fields.named import named, read_only
from ace_gui.gui.widgets.labels.plain_label import IconLabel, heading, muted_label, plain_label
from ace_gui.gui.widgets.layout.arrangement import (
    Column,
    across,
    clear_layout,
    down,
    scroll_area,
)
from ace_gui.gui.widgets.layout.following import Following

WORDS: Final = {
    Verdict.ERROR: "Error",
    Verdict.WARNING: "Warning",
    Verdict.NOTE: "Note",
    Verdict.OK: "Fine",
}
_ICONS: Final = {
    Verdict.ERROR: "error",
    Verdict.WARNING: "warning",
    Verdict.NOTE: "info",
    Verdict.OK: "check",
}
_KINDS: Final = {
    Verdict.ERROR: "bad",
    Verdict.WARNING: "warn",
    Verdict.NOTE: "accent",
    Verdict.OK: "secondary",
}
_ICON: Final = 16  # px
_DETAIL_LINES: Final = 6


def summary_of(session: Session) -> str:
    """ "2 warnings", or that there are none; empty before there is a plan."""
    if not session.checks.all:
        return ""
    return count_of(session.checks.all) or counted(
        len(session.checks.all), "check passed", "checks passed"
    )


def count_of(checks: Iterable[Check]) -> str:
    """ "1 error, 2 warnings", or an empty string."""
    verdicts = [check.verdict for check in checks]
    errors, warnings = verdicts.count(Verdict.ERROR), verdicts.count(Verdict.WARNING)
    parts = [counted(errors, "error", "errors")] if errors else []
    parts += [counted(warnings, "warning", "warnings")] if warnings else []
    return ", ".join(parts)


class PreflightPanel(Following):
    """Follows the session's checks. Details stay open as long as the checks are the same."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._open: set[object] = set()
        self.summary = heading("", self)
        self._advice = muted_label("", self)
        self._column = Column()
        self.rows = QVBoxLayout(self._column)
        self.rows.setContentsMargins(0, 0, 4, 0)
        self.rows.setSpacing(0)
        self.area = scroll_area("Checks", self._column)
        self.area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # scrollable with the keyboard
        parts = (self.summary, self._advice, (self.area, 1))
        self.setLayout(down(*parts, margins=(4, 8, 0, 0)))
        self._rows_of: Sequence[Check] = ()
        self.follow(session.checks.changed)

    def refresh(self) -> None:
        """Show the session's checks."""
        self.summary.setText(summary_of(self._session))
        self._advice.setText(self._advice_text())
        if self._session.checks.all != self._rows_of:
            self._rows_of = self._session.checks.all
            self._make_rows(self._rows_of)

    def _make_rows(self, checks: Sequence[Check]) -> None:
        self._open &= {check.key for check in checks}
        clear_layout(self.rows)
        for check in checks:
            row = CheckRow(check, self._column)
            row.details_button.setChecked(check.key in self._open)
            row.details_button.toggled.connect(
                lambda shown, key=check.key: (self._open.add if shown else self._open.discard)(key)
            )
            self.rows.addWidget(row)
        self.rows.addStretch(1)

    def _advice_text(self) -> str:
        if not self._session.checks.all:
            return "Open a base and experts: the checks before a merge appear here."
        if self._session.checks.errors:
            return "A merge would fail: see the errors. Merge offers to check again."
        if self._session.checks.worries:
            return "A merge is possible. Merge asks once whether to continue."
        if count_of(self._session.checks.all):
            return "Accepted: Merge does not ask again for these models."
        return "From the files' headers and configs, and later the compared tensors."


class CheckRow(QFrame):
    """One check: icon, verdict, title, model and sentence, with collapsed details."""

    def __init__(self, check: Check, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.check = check
        title, subject = plain(check.title), plain(check.subject)
        self.setAccessibleName(
            f"{WORDS[check.verdict]}: {title}, {subject}. {plain(quoted(check.sentence))}"
        )
        button = QToolButton(autoRaise=True)
        button.setText("Details")
        button.setCheckable(True)
        name = f"Details of {title}, {subject}"
        self.details_button = named(button, name, "Show or hide the details")
        self.details_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.details_button.setArrowType(Qt.ArrowType.RightArrow)
        self.details_button.setVisible(bool(check.details))
        self.details = _details(check)
        self.details_button.toggled.connect(self._fold)
        self._lay_out(title, subject)

    def _fold(self, shown: bool) -> None:
        arrows = Qt.ArrowType
        self.details_button.setArrowType(arrows.DownArrow if shown else arrows.RightArrow)
        self.details.setVisible(shown)

    def _lay_out(self, title: str, subject: str) -> None:
        about = muted_label("", self)
        about.setWordWrap(False)
        shown = "" if self.check.subject == EVERYTHING else subject
        about.setText(about.fontMetrics().elidedText(shown, Qt.TextElideMode.ElideMiddle, 140))
        about.setToolTip(tooltip(shown) if shown else "")
        line = across(heading(title, self), about, None, _word(self.check.verdict, self), gap=6)
        sentence = plain_label(quoted(self.check.sentence), self)
        body = down(line, sentence, across(self.details_button, None), self.details, gap=2)
        picture = IconLabel(_ICON, icon(_ICONS[self.check.verdict]), self)
        self.setLayout(across(down(picture, None), (body, 1), margins=(0, 7, 0, 7)))


def _details(check: Check) -> QPlainTextEdit:
    lines = min(_DETAIL_LINES, check.details.count("\n") + 1) + 1
    name = f"All of {plain(check.title)}, {plain(check.subject)}"
    text = read_only(name, lines, Face.MONO)
    text.setPlainText(plain(check.details))
    text.hide()
    return text


def _word(verdict: Verdict, parent: QWidget) -> QLabel:
    label = plain_label(WORDS[verdict], parent, wrap=False)
    label.setProperty("kind", _KINDS[verdict])
    worry = verdict in (Verdict.ERROR, Verdict.WARNING)
    label.setFont(face(Face.CAPTION_STRONG if worry else Face.CAPTION))
    return label
