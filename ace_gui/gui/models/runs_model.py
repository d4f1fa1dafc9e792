"""The runs as a list, newest first: title, and differences."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from PySide6.QtCore import (
    QAbstractListModel,
    QDateTime,
    QLocale,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from ace_gui.formatting import counted, duration, human_bytes
from ace_gui.gui.numbers import short_score_text, value_text
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.found.runs import mean_score, run_titles, title_parts
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip

LINES: Final = Qt.ItemDataRole.UserRole
_Index = QModelIndex | QPersistentModelIndex


class RunLines(NamedTuple):
    """The texts of a row. ``current``: it is the window's merge."""

    title: str
    line: str
    score: str
    current: bool


class RunsModel(QAbstractListModel):
    """A view of the session; ``renamed`` carries a run and its new name."""

    renamed = Signal(object, str)

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._runs: tuple[MergeRun, ...] = ()
        self._titles: tuple[str, ...] = ()
        session.results.runs.changed.connect(self.refresh)
        session.results.changed.connect(self._repaint)
        session.engine_changed.connect(self._repaint)
        self.refresh()

    def refresh(self) -> None:
        """Update from the session's runs."""
        runs = tuple(reversed(self._session.results.runs.all))
        if [id(run) for run in runs] != [id(run) for run in self._runs]:
            self.beginResetModel()
            self._runs = runs
            self.endResetModel()
        self._repaint()

    def run_at(self, row: int) -> MergeRun:
        return self._runs[row]

    def row_of(self, run: MergeRun | None) -> int:
        """The row of a run, or -1."""
        return next((row for row, known in enumerate(self._runs) if known is run), -1)

    def title(self, run: MergeRun) -> str:
        """The distinct title of a run."""
        row = self.row_of(run)
        return self._titles[row] if row >= 0 else run.recipe.merge_method

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 (as Qt has it)
        return 0 if parent.isValid() else len(self._runs)

    def flags(self, index: _Index) -> Qt.ItemFlag:
        return super().flags(index) | Qt.ItemFlag.ItemIsEditable

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        run = self._runs[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return plain(self._titles[index.row()])
            case Qt.ItemDataRole.EditRole:
                return run.name or self._titles[index.row()]
            case Qt.ItemDataRole.AccessibleTextRole:
                lines = self._lines(run)
                return ", ".join(filter(None, (lines.title, lines.line, lines.score)))
            case Qt.ItemDataRole.ToolTipRole:
                return tooltip(self._tip(run))
            case _ if role == LINES:
                return self._lines(run)
        return None

    def setData(self, index: _Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        name = plain(str(value)).strip()
        run = self._runs[index.row()]
        if name != self._titles[index.row()]:
            self.renamed.emit(run, name)
        return True

    def _repaint(self) -> None:
        self._titles = run_titles(self._runs, self._session.draft.methods)
        if self._runs:
            self.dataChanged.emit(self.index(0), self.index(len(self._runs) - 1))

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

    def _tip(self, run: MergeRun) -> str:
        made = QDateTime.fromSecsSinceEpoch(int(run.made))
        when = QLocale().toString(made, QLocale.FormatType.ShortFormat) if run.made else ""
        parameters = ", ".join(f"{n} {value_text(v)}" for n, v in run.parameters.items())
        took = duration(run.finished.seconds) if run.finished is not None else ""
        lines = [
            self.title(run),
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
