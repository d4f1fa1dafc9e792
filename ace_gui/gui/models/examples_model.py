"""An example that a merge lost or gained, in a list of those of several tasks."""

from __future__ import annotations

from dataclasses import dataclass

from ace_gui.engine.contract.scored.task_examples import ComparedExample
from ace_gui.gui.text import plain


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
