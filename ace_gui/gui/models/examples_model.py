"""The examples that a merge lost or gained, for some tasks, in one list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from ace_gui.engine.contract.scored.shown_examples import ComparedExample
from ace_gui.gui.text import plain, tooltip

_Index = QModelIndex | QPersistentModelIndex
EXAMPLE: Final = Qt.ItemDataRole.UserRole


@dataclass(frozen=True, kw_only=True)
class ListedExample:
    """An example with its task, the colour of the task's expert, and the other model."""

    task: str
    colour: str
    other_model: str
    found: ComparedExample

    @property
    def words(self) -> str:
        """The complete text."""
        example, found = self.found.example, self.found
        texts = "; ".join(text for _, text in example.texts)
        parts = [f"should be {example.label}"] if example.label else []
        parts.append(f"the merge answers {found.answer}, {self.other_model} {found.other}")
        text = f"{f'{texts}. ' if texts else ''}{'; '.join(parts)}"
        return plain(f"{self.task}, {example.row}: {text}")


class ExamplesModel(QAbstractListModel):
    """``EXAMPLE`` is the role of a row's ListedExample."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.examples: tuple[ListedExample, ...] = ()

    def show_examples(self, examples: Sequence[ListedExample]) -> None:
        """Replace the examples."""
        self.beginResetModel()
        self.examples = tuple(examples)
        self.endResetModel()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.examples)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self.examples):
            return None
        example = self.examples[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return example.words
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(example.words)
        return example if role == EXAMPLE else None
