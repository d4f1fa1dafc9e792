"""The examples that a merge lost or gained, for some tasks, in one list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QStandardItem, QStandardItemModel

from ace_gui.engine.contract.scored.task_examples import ComparedExample
from ace_gui.gui.text import plain, tooltip

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
        example, found = self.found.example, self.found
        texts = "; ".join(text for _, text in example.texts)
        parts = [f"should be {example.label}"] if example.label else []
        parts.append(f"the merge answers {found.answer}, {self.other_model} {found.other}")
        text = f"{f'{texts}. ' if texts else ''}{'; '.join(parts)}"
        return plain(f"{self.task}, {example.row}: {text}")


class ExamplesModel(QStandardItemModel):
    """``EXAMPLE`` is the role of a row's ListedExample."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.examples: tuple[ListedExample, ...] = ()

    def show_examples(self, examples: Sequence[ListedExample]) -> None:
        self.clear()
        self.examples = tuple(examples)
        for example in examples:
            item = QStandardItem(example.words)
            item.setAccessibleText(example.words)
            item.setEditable(False)
            item.setToolTip(tooltip(example.words))
            item.setData(example, EXAMPLE)
            self.appendRow(item)
