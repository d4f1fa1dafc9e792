"""The window's lists of experts and of runs, and the rows of other lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

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

from ace_gui.engine.contract.model_figures import length_text
from ace_gui.engine.contract.plan import ExpertSummary
from ace_gui.formatting import counted, duration, human_bytes
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.draft import Expert
from ace_gui.gui.state.results import mean_score
from ace_gui.gui.state.run_names import run_titles, title_parts
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, short_score_text, tooltip, value_text
from ace_gui.gui.theme.painting import swatch

VALUE: Final = Qt.ItemDataRole.UserRole
"""Role of the value that a row stands for."""
_Value = TypeVar("_Value")


def item_of(text: str, value: object = None, *, tip: str = "", spoken: str = "") -> QStandardItem:
    """A cell that cannot be edited. ``spoken``: what screen readers read instead of its text."""
    item = QStandardItem(plain(text))
    item.setAccessibleText(plain(spoken or text))
    item.setEditable(False)
    item.setToolTip(tooltip(tip))
    item.setData(value, VALUE)
    return item


def show_values(
    model: QStandardItemModel, values: Iterable[_Value], item: Callable[[_Value], QStandardItem]
) -> None:
    """Replace all rows of a list by those that ``item`` makes of the values."""
    model.clear()
    for value in values:
        model.appendRow(item(value))


NAME, WEIGHT, STATUS = range(3)
_HEADERS = ("Expert", "Weight", "Size")
_HEADER_TIPS = (
    "Name of the expert. Double-click to change it.",
    (
        "How much the expert counts; its task vector is multiplied by this. "
        "Double-click to change it."
    ),
    "Size on disk, and warnings about the files.",
)

_ACROSS = Qt.Orientation.Horizontal
_Index = QModelIndex | QPersistentModelIndex


class ExpertsModel(QStandardItemModel):
    """The session's experts; ``expert_edited`` carries an index and the new Expert."""

    expert_edited = Signal(int, object)

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(0, len(_HEADERS), parent)
        self.setHorizontalHeaderLabels(_HEADERS)
        for column, tip in enumerate(_HEADER_TIPS):
            self.setHeaderData(column, _ACROSS, tip, Qt.ItemDataRole.ToolTipRole)
        self._session = session
        session.draft.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        inputs = self._session.draft.inputs
        if self.rowCount() != len(inputs.experts):
            self.setRowCount(0)
            for _ in inputs.experts:
                cells = [item_of("") for _ in _HEADERS]
                for column in (NAME, WEIGHT):
                    cells[column].setEditable(True)
                self.appendRow(cells)
        for row, (expert, name) in enumerate(zip(inputs.experts, inputs.names, strict=True)):
            summary = self._summary(expert)
            values = (plain(name), expert.weight, _status(summary))
            words = (plain(name), value_text(expert.weight), _status(summary))
            lines = [str(expert.path)]
            if summary is not None:
                lines += [f"{summary.architecture}, {summary.dtype}", *summary.warnings]
            self.item(row, NAME).setIcon(swatch(f"expert {expert.colour}"))
            for column, (value, word) in enumerate(zip(values, words, strict=True)):
                item = self.item(row, column)
                item.setData(value, Qt.ItemDataRole.EditRole)
                item.setAccessibleText(word)
                item.setToolTip(tooltip("\n".join(lines)))

    def setData(self, index: _Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        expert = self._session.draft.inputs.experts[index.row()]
        if index.column() == NAME:
            name = plain(str(value)).strip()
            changed = replace(expert, name=name or None)
        else:
            changed = replace(expert, weight=float(value))
        if changed != expert:
            self.expert_edited.emit(index.row(), changed)
        return True

    def _summary(self, expert: Expert) -> ExpertSummary | None:
        """The summary of the expert in the plan, if the plan is current."""
        plan = self._session.draft.plan
        if plan is None:
            return None
        for entry, summary in zip(plan.recipe.models, plan.experts, strict=True):
            if entry.model == expert.path:
                return summary
        return None


def _status(summary: ExpertSummary | None) -> str:
    """The expert's size as text, with a mark if there are warnings."""
    if summary is None:
        return "reading …"
    return f"{'⚠' if summary.warnings else '✓'} {human_bytes(summary.bytes)}"


def expert_colour(session: Session, name: str | None) -> str:
    """The name of an expert's colour, or "" for none."""
    return expert_colours(session).get(name or "", "")


def expert_colours(session: Session) -> dict[str, str]:
    """The name of every expert's colour."""
    inputs = session.draft.inputs
    return {n: f"expert {e.colour}" for n, e in zip(inputs.names, inputs.experts, strict=True)}


LINES: Final = Qt.ItemDataRole.UserRole


@dataclass(frozen=True)
class RunLines:
    """The texts of a run's row. ``current``: it is the window's merge."""

    title: str
    line: str
    score: str
    current: bool


class RunsModel(QStandardItemModel):
    """The session's runs, the newest first; ``renamed`` carries a run and its new name."""

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
        titles = run_titles(self._session.results.runs.all, self._session.draft.methods)
        for row, (run, title) in enumerate(zip(runs, reversed(titles), strict=True)):
            item = self.item(row)
            lines = self._lines(run, title)
            item.setText(plain(title))
            item.setAccessibleText(", ".join(filter(None, (lines.title, lines.line, lines.score))))
            item.setToolTip(tooltip(_tip(run, title)))
            item.setData(lines, LINES)

    def run_at(self, row: int) -> MergeRun:
        return self._runs[row]

    def setData(self, index: _Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Emit ``renamed``; the texts follow when the session's runs change."""
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        name = plain(str(value)).strip()
        if name != index.data():
            self.renamed.emit(self._runs[index.row()], name)
        return True

    def _lines(self, run: MergeRun, title: str) -> RunLines:
        methods = self._session.draft.methods
        results = self._session.results
        if run.name:
            parts = title_parts(run, methods)
        else:
            parts = []
        current = run is results.merge
        if current:
            parts.insert(
                0, "this merge" if self._session.merge_is_current else "before the changes"
            )
        if run.outdated:
            parts.insert(0, "models changed since")
        if run.norm is not None:
            parts.append(f"change {length_text(run.norm)}")
        score = mean_score(run)
        if score is None:
            text = ""
        else:
            text = short_score_text(score)
        return RunLines(plain(title), plain(" · ".join(parts)), text, current)


def _tip(run: MergeRun, title: str) -> str:
    made_at = QDateTime.fromSecsSinceEpoch(int(run.made))
    if run.made:
        when = QLocale().toString(made_at, QLocale.FormatType.ShortFormat)
    else:
        when = ""
    parameters = ", ".join(f"{n} {value_text(v)}" for n, v in run.parameters.items())
    if run.finished is not None:
        took = duration(run.finished.seconds)
    else:
        took = ""
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
