"""The checks before a merge, and the health of the layers, each with the worst verdict first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QLayout, QPushButton

from ace_gui.engine.contract.health import LayerHealth
from ace_gui.engine.contract.plan import EVERYTHING, Check, CheckVerdict
from ace_gui.formatting import counted
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.state.planned_layers import ACE, automatic_for
from ace_gui.gui.state.session import Session, count_of
from ace_gui.gui.text import breakable, plain, quoted, shared_prefix, tooltip
from ace_gui.gui.theme import Face, face, icon
from ace_gui.gui.widgets.controls import push_button, read_only
from ace_gui.gui.widgets.labels import (
    ElidedLabel,
    IconLabel,
    explain,
    heading,
    muted_label,
    plain_label,
)
from ace_gui.gui.widgets.layout import (
    FlowLayout,
    Folding,
    WrappedColumn,
    across,
    clear_layout,
    down,
    pane,
    scroll_area,
)
from ace_gui.gui.widgets.lazy import Following

VERDICTS: Final = {
    CheckVerdict.ERROR: ("Error", "error", "bad"),
    CheckVerdict.WARNING: ("Warning", "warning", "warn"),
    CheckVerdict.NOTE: ("Note", "info", "accent"),
    CheckVerdict.OK: ("Fine", "check", "secondary"),
}
"""The word, icon and colour of each verdict."""
_ICON: Final = 16  # px
_DETAIL_LINES: Final = 6


class PreflightPanel(Following):
    """Shows the session's checks. Details stay open as long as the checks are the same."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.summary = heading("")
        self._advice = muted_label()
        self.list = CheckList()
        area = scroll_area("Checks", self.list)
        self.setLayout(down(self.summary, self._advice, (area, 1), margins=(4, 8, 0, 0)))
        self.follow(session.checks.changed)

    def refresh(self) -> None:
        self.summary.setText(self._session.checks.summary)
        self._advice.setText(self._advice_text())
        self.list.show_checks(self._session.checks.all)

    def _advice_text(self) -> str:
        checks = self._session.checks
        if not checks.all:
            return "Open a base and experts: the checks before a merge appear here."
        if checks.errors:
            return "A merge would fail: see the errors. Merge offers to check again."
        if checks.worries:
            return "A merge is possible, with warnings. Merge asks once whether to continue."
        if count_of(checks.all):
            return "Accepted: Merge does not ask again for these models."
        return "These checks use headers and configs, and later also the tensors."


class CheckList(WrappedColumn):
    """A row for each check. ``chosen`` carries the subject whose name was clicked."""

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[CheckRow] = []
        self._layout = down(margins=(0, 0, 4, 0), gap=0)
        self.setLayout(self._layout)

    def show_checks(self, checks: Sequence[Check], prefix: str | None = None) -> None:
        """Show these checks. ``prefix``: subjects can be clicked, and lose this start of a name."""
        if tuple(checks) == tuple(row.check for row in self.rows):
            return
        opened = {row.check.key for row in self.rows if row.details.is_open}
        clear_layout(self._layout)
        self.rows = []
        for check in checks:
            link = None
            if prefix is not None:
                subject = check.subject
                short = check.subject.removeprefix(prefix)
                name = plain(short if short == subject else f"…{short}")
                choose = partial(self.chosen.emit, subject)
                link = push_button(name, choose, kind="link", tip=tooltip(subject))
            row = CheckRow(check, link)
            (row.details.unfold if check.key in opened else row.details.fold)()
            self.rows.append(row)
            self._layout.addWidget(row)
        self._layout.addStretch(1)


class CheckRow(QFrame):
    """One check: icon, verdict, title, subject and sentence, with collapsed details.

    ``link``: the subject, which comes first if it can be clicked.
    """

    def __init__(self, check: Check, link: QPushButton | None = None) -> None:
        super().__init__()
        self.check = check
        self.link = link
        word, picture, kind = VERDICTS[check.verdict]
        title = plain(check.title)
        subject = plain(check.subject)
        self.setAccessibleName(f"{word}: {title}, {subject}. {plain(quoted(check.sentence))}")
        about = ElidedLabel(caption=True)
        about.set_full_text(title if link else "" if check.subject == EVERYTHING else subject)
        if link is None:
            named: QLayout = across(heading(title), (about, 1), gap=6)
        else:
            named = FlowLayout(spacing=6)  # the subject may be as long as the line
            for part in (link, about):
                named.addWidget(part)
        if check.is_worry:
            role = Face.CAPTION_STRONG
        else:
            role = Face.CAPTION
        verdict = plain_label(word, wrap=False, kind=kind, role=role)
        head = across((named, 1), verdict, gap=6)
        sentence = plain_label()
        sentence.setText(breakable(quoted(check.sentence), names=True))
        lines = min(_DETAIL_LINES, check.details.count("\n") + 1) + 1
        text = read_only(f"All of {title}, {subject}", lines, Face.MONO)
        text.setPlainText(plain(check.details))
        self.details = Folding("Details", text, name=f"Details of {title}, {subject}")
        self.details.setVisible(bool(check.details))
        body = down(head, sentence, self.details, gap=2)
        sign = down(IconLabel(_ICON, icon(picture)), None)
        self.setLayout(across(sign, (body, 1), margins=(0, 7, 0, 7)))


class HealthPanel(Following):
    """The summary of the layers' health, and the layers with the worst findings.

    If the published variant of ACE causes findings, the panel offers the automatic variant for the
    affected layers or for all.
    """

    def __init__(self, session: Session, healths: Healths) -> None:
        super().__init__()
        explain(self, "Ridge mass")
        self._session = session
        self._healths = healths
        self._misbehaving: tuple[str, ...] = ()
        self.summary = heading("")
        self._titles = muted_label()
        self.worst = CheckList()
        self.worst.chosen.connect(session.select)
        self.offered = plain_label()
        tip = "Add an override that merges them with the automatic variant"
        use = self._use
        self.for_these = push_button(
            "Use it for these layers", lambda: use(self._misbehaving), tip=tip
        )
        tip = "Merge every layer with the automatic variant"
        self.for_all = push_button("Use it for all", lambda: use(None), tip=tip)
        self.offer = WrappedColumn()
        buttons = across(self.for_these, self.for_all, None)
        self.offer.setLayout(down(self.offered, buttons, margins=(0, 2, 0, 4), gap=4))
        head = down(self.summary, self._titles, gap=2)
        findings = pane(down(self.offer, (self.worst, 1)))
        area = scroll_area("Layers with the worst findings", findings)
        self.setLayout(down(head, (area, 1), margins=(8, 6, 8, 4)))
        self.follow(healths.changed)
        session.selection_changed.connect(self._mark)

    def refresh(self) -> None:
        summary = self._healths.summary()
        has_counts = bool(summary.counts)
        self.summary.setText(
            summary.sentence if has_counts else "Nothing is known about the layers yet."
        )
        titles = (
            f"{plain(title)}: {counted(count, 'tensor', 'tensors')}"
            for title, count in summary.titles.items()
        )
        self._titles.setText(" · ".join(titles))
        self._titles.setVisible(bool(summary.titles))
        self._misbehaving = summary.misbehaving
        self.offered.setText(
            f"In {counted(len(summary.misbehaving), 'layer', 'layers')}, the published variant "
            "moves "
            "far more than the experts did, or its refinement points against them. The automatic "
            "variant does neither."
        )
        self.for_all.setVisible(self._session.draft.inputs.method == ACE)
        self.offer.setVisible(bool(summary.misbehaving))
        inside = [row.name for row in self._session.layers.rows if row.block is not None]
        self.worst.show_checks(list(map(_worst, summary.worst)), shared_prefix(inside))
        self._mark()

    def _mark(self) -> None:
        """Make the name of the selected layer bold."""
        for row in self.worst.rows:
            if row.link is not None:
                chosen = row.check.subject == self._session.selection
                row.link.setFont(face(Face.STRONG if chosen else Face.BUTTON))

    def _use(self, names: tuple[str, ...] | None) -> None:
        self._session.inputs_wanted.emit(automatic_for(self._session.layers, names))


def _worst(layer: LayerHealth) -> Check:
    """The worst finding of a layer, with the others as its details."""
    worst, *further = layer.findings
    details = "\n".join(finding.sentence for finding in further)
    return replace(worst, subject=layer.name, details=details)
