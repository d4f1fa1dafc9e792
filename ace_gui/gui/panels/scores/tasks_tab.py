"""The Tasks tab: data dropped or added, how they are read, and their problems."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QIcon, QKeySequence
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QPushButton, QStyleOptionViewItem

from ace_gui.engine.contract.scored import TaskDescribed
from ace_gui.formatting import counted, path_text
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.models.experts_model import expert_colour, swatch
from ace_gui.gui.panels.job_page import MARGINS, JobPage, Pages
from ace_gui.gui.panels.layer_cells import Cell, Drawn, Index
from ace_gui.gui.panels.scores.task_editor import KINDS, TaskEditor
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, quoted, tooltip
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.painting import write
from ace_gui.gui.widgets.controls import named, push_button, widget_action
from ace_gui.gui.widgets.file_dialogs import DATA, ask_paths
from ace_gui.gui.widgets.labels import EmptyState, heading, muted_label
from ace_gui.gui.widgets.layout import GAP, across, card, down, pane, scroll_area, split
from ace_gui.recipe.values import Task

NO_DATA: Final = (
    "A task is your own data for evaluating the models: a table, a text, or a folder of "
    "pictures by class. Drop it here, or add it."
)
_NOT_DATA: Final = frozenset((".yaml", ".yml", ".safetensors"))


class TasksTab(JobPage):
    """The list of tasks, with a form for the selected one."""

    def __init__(self, session: Session, scoring: Scoring, pages: Pages) -> None:
        super().__init__(session, scoring, pages)
        self.setAcceptDrops(True)
        self.list = named(QListWidget(), "Tasks")
        self.list.setIconSize(QSize(10, 10))
        self.list.setSpacing(1)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setItemDelegate(TwoLineCell(self.list))
        self.list.currentRowChanged.connect(lambda _: self._show_task())
        widget_action(self.list, "Remove task", self._remove, QKeySequence.StandardKey.Delete)
        self.editor = TaskEditor()
        self.editor.edited.connect(self._edit)
        self.editor.remove_wanted.connect(self._remove)
        self._rows: tuple[tuple[Task, TaskDescribed | None], ...] = ()
        self.empty = EmptyState(NO_DATA, self._add_button("Add data…", "tinted"))
        add = self._add_button("Add data…", "link")
        add.setIcon(icon("add", "accent"))
        head = across((heading("Tasks"), 1), add)
        note = muted_label("Tasks are saved with the recipe. Drop data here.")
        left = card(pane(down(head, (self.list, 1), note, margins=MARGINS)))
        right = card(scroll_area("The chosen task", self.editor))
        self.set_pages(card(self.empty), split(left, right, sizes=(360, 640), gap=GAP))
        self.follow(session.draft.changed, session.results.scores.changed)
        self.refresh()

    def _add_button(self, text: str, kind: str) -> QPushButton:
        tip, name = "Add a task: a file of data, or a folder", "Add data"
        return push_button(text, self.ask, kind=kind, tip=tip, name=name, role=Face.BUTTON)

    def recolour(self) -> None:
        self._rows = ()
        self.refresh()

    def refresh(self) -> None:
        scores, tasks = self.session.results.scores, self.session.draft.inputs.tasks
        self.show_page(int(bool(tasks)))
        rows = tuple((task, scores.described(task)) for task in tasks)
        if rows == self._rows and self.list.count() == len(rows):
            return
        added = 0 < len(self._rows) < len(rows)
        chosen = len(rows) - 1 if added else self.list.currentRow()
        self._rows = rows
        self.list.blockSignals(True)
        while self.list.count() > len(rows):
            self.list.takeItem(self.list.count() - 1)
        while self.list.count() < len(rows):
            self.list.addItem(QListWidgetItem())
        for index, (task, found) in enumerate(rows):
            self._fill_item(self.list.item(index), task, found)
        self.list.setCurrentRow(min(max(chosen, 0), len(rows) - 1))
        self.list.blockSignals(False)
        self._show_task()

    def _fill_item(self, item: QListWidgetItem, task: Task, found: TaskDescribed | None) -> None:
        """Two lines: the name, and the description or the problem."""
        line = _summary(task, found)
        item.setText(f"{plain(task.title)}\n{line}")
        item.setToolTip(tooltip(quoted(found.fault) if found is not None and found.fault else line))
        item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{plain(task.title)}, {line}")
        wrong = found is not None and bool(found.fault)
        item.setData(BAD, wrong)
        colour, hollow = expert_colour(self.session, self.session.results.scores.owner(task))
        square = QIcon(swatch(colour, hollow=hollow)) if colour else QIcon()
        item.setIcon(icon("error") if wrong else square)

    def _show_task(self) -> None:
        index = self.list.currentRow()
        if 0 <= index < len(self._rows):
            task, found = self._rows[index]
            owner = self.session.results.scores.owner(task)
            self.editor.show_task(task, found, owner, self.session.draft.inputs.names)

    def _edit(self, task: Task) -> None:
        self.scoring.change(self.list.currentRow(), task)

    def _remove(self) -> None:
        if 0 <= self.list.currentRow() < len(self._rows):
            self.scoring.remove(self.list.currentRow())

    def ask(self) -> None:
        """Ask for data, and add a task for each."""
        title = "Data: files, folders of pictures by class, or saved datasets"
        ask_paths(self, title, KINDS, DATA, self.scoring.add)

    def wanted(self, paths: list[Path]) -> list[Path]:
        models = [path for path in paths if (path / "config.json").exists()]
        return [p for p in paths if p.suffix.lower() not in _NOT_DATA and p not in models]

    def take(self, paths: list[Path]) -> None:
        self.scoring.add(paths)


def _summary(task: Task, found: TaskDescribed | None) -> str:
    if found is None:
        return "reading the data …"
    if found.fault:
        return quoted(found.fault.removeprefix(path_text(task.data)).lstrip(":, "))
    kind = found.kind.value if found.kind is not None else ""
    return f"{kind} · {counted(found.count, 'example', 'examples')}"


_PADDING: Final = 7.0  # px above and below
_ICON: Final = 14  # px
_LEAST: Final = 120  # px: maximum width; longer lines are elided in the middle
BAD: Final = Qt.ItemDataRole.UserRole + 1
"""Whether the second line describes a problem."""


class TwoLineCell(Cell):
    """The text's first line, and the second as a caption; the item's icon at the left."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002
        height = self._height(Face.BUTTON) + self._height(Face.CAPTION) + 2 * _PADDING + 2
        return QSize(_LEAST, round(height))

    def draw(self, cell: Drawn) -> None:
        theme, rect = current_theme(), cell.rect
        first, _, second = str(cell.index.data()).partition("\n")
        icon = cell.index.data(Qt.ItemDataRole.DecorationRole)
        if isinstance(icon, QIcon) and not icon.isNull():
            square = QRectF(rect.left(), rect.top() + _PADDING, _ICON, self._height(Face.BUTTON))
            icon.paint(cell.painter, square.toRect())
        rect = rect.adjusted(_ICON + 8, _PADDING, 0, -_PADDING)
        upper = QRectF(rect.left(), rect.top(), rect.width(), self._height(Face.BUTTON))
        lower = QRectF(rect.left(), upper.bottom() + 2, rect.width(), self._height(Face.CAPTION))
        write(cell.painter, upper, first, face(Face.BUTTON), theme.text)
        quiet = theme.bad if cell.index.data(BAD) else cell.quiet
        write(cell.painter, lower, second, face(Face.CAPTION), quiet)

    def _height(self, role: Face) -> float:
        return QFontMetricsF(face(role)).height()
