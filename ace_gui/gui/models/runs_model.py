"""The runs as a list, newest first: title, and differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from PySide6.QtCore import (
    QDateTime,
    QLocale,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)
from PySide6.QtGui import QStandardItem, QStandardItemModel

from ace_gui.formatting import counted, duration, human_bytes
from ace_gui.gui.numbers import short_score_text, value_text
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.found.runs import mean_score, run_titles, title_parts
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip

LINES: Final = Qt.ItemDataRole.UserRole
_Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class RunLines:
    """The texts of a row. ``current``: it is the window's merge."""

    title: str
    line: str
    score: str
    current: bool


class RunsModel(QStandardItemModel):
    """A view of the session; ``renamed`` carries a run and its new name."""

    renamed = Signal(object, str)

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(0, 1, parent)
        self._session = session
        self._runs: tuple[MergeRun, ...] = ()
        results = session.results
        for changed in (results.runs.changed, results.changed, results.scores.changed):
            changed.connect(self.refresh)
        for changed in (session.draft.changed, session.engine_changed):
            changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        runs = tuple(reversed(self._session.results.runs.all))
        if [id(run) for run in runs] != [id(run) for run in self._runs]:
            self._runs = runs
            self.setRowCount(0)
            for _ in runs:
                self.appendRow(QStandardItem())
        titles = run_titles(runs, self._session.draft.methods)
        for row, (run, title) in enumerate(zip(runs, titles, strict=True)):
            item, lines = self.item(row), self._lines(run)
            item.setText(plain(title))
            item.setAccessibleText(", ".join(filter(None, (lines.title, lines.line, lines.score))))
            item.setToolTip(tooltip(_tip(run, title)))
            item.setData(lines, LINES)

    def run_at(self, row: int) -> MergeRun:
        return self._runs[row]

    def setData(self, index: _Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Rename a run; the session's runs change, and with them the texts."""
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        name = plain(str(value)).strip()
        if name != index.data():
            self.renamed.emit(self._runs[index.row()], name)
        return True

    def _lines(self, run: MergeRun) -> RunLines:
        methods, results = self._session.draft.methods, self._session.results
        first, *others = title_parts(run, methods)
        parts = [first, *others] if run.name else others
        current = run is results.merge
        if current:
            parts.insert(
                0, "this merge" if self._session.merge_is_current else "before the changes"
            )
        if run.outdated:
            parts.insert(0, "models changed since")
        if run.norm is not None:
            parts.append(f"{run.norm:.2f} × norm")
        score = mean_score(run)
        text = "" if score is None else short_score_text(score)
        return RunLines(plain(run.name or first), plain(" · ".join(parts)), text, current)


def _tip(run: MergeRun, title: str) -> str:
    made = QDateTime.fromSecsSinceEpoch(int(run.made))
    when = QLocale().toString(made, QLocale.FormatType.ShortFormat) if run.made else ""
    parameters = ", ".join(f"{n} {value_text(v)}" for n, v in run.parameters.items())
    took = duration(run.finished.seconds) if run.finished is not None else ""
    lines = [
        title,
        counted(
            len(run.recipe.models),
            "%n expert into {base}",
            "%n experts into {base}",
            base=run.recipe.base_model.name,
        ),
        parameters,
        f"merged {when} in {took}" if when else "",
        f"{human_bytes(run.bytes)} on disk" if run.bytes else "",
        "exported" if run.exported else "not exported yet",
    ]
    return "\n".join(line for line in lines if line)
