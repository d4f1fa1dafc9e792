"""What aligning a merge with its experts gave, for the window, the card and the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ace_gui.formatting import number_text, plain


@dataclass(frozen=True, kw_only=True)
class TaskDivergence:
    """How far the answers of a merge are from those of a task's expert.

    Divergences are KL(expert ‖ merge) in nats, means over the inputs kept back. Of a merge aligned
    block by block, they are the squared difference of the last hidden states from the expert's, as
    a share of the square of these.
    """

    task: str
    """The task's name."""
    expert: str
    """The name of its expert."""
    inputs: int
    """Inputs that were trained with."""

    kept_back: int
    """Inputs that were not trained with."""

    before: float
    """The divergence of the merge as the method left it."""

    after: float
    """The divergence of the merge that is written."""

    @property
    def is_farther(self) -> bool:
        """Whether the task lost."""
        return self.after > self.before


@dataclass(frozen=True, kw_only=True)
class Distilled:
    """The result for a merge."""

    what: str
    """What was trained, in words."""

    tensors: int
    """Number of trained tensors."""
    numbers: int
    """How many numbers were trained."""

    learning_rate: float
    """The rate of the first full step."""
    steps: int
    """The number of steps that were taken."""

    best_step: int
    """The step whose values are in the merge; 0: none was better than the merge itself."""

    tasks: tuple[TaskDivergence, ...]
    """One per task."""
    curve: Mapping[int, Mapping[str, float]]
    """The divergence on inputs kept back, by step and task; or by block, from 1, and task."""

    doubts: tuple[str, ...] = ()
    """Sentences on inputs that seem to be another task's."""

    blocks: int = 0
    """How many blocks were trained one after another; 0: the whole model at once."""

    @property
    def measure(self) -> str:
        """What the figures before and after are."""
        if self.blocks:
            return "Squared difference from the expert's last hidden states, as a share of them"
        return "Divergence from the expert, in nats"

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        before = sum(task.before for task in self.tasks) / len(self.tasks)
        after = sum(task.after for task in self.tasks) / len(self.tasks)
        if not self.best_step:
            return (
                "No training step brought the merge closer to its experts on inputs kept back, so "
                "it is written as the method left it."
            )
        trained = f"{self.what.capitalize()} ({self.numbers:,} numbers) were trained"
        if self.blocks:
            return (
                f"{trained} block by block; on inputs kept back, the "
                f"squared difference from the experts' last hidden states went from "
                f"{number_text(before, 3)} to {number_text(after, 3)} of their square."
            )
        return (
            f"{trained}; the "
            f"divergence from the experts on inputs kept back went from {number_text(before, 3)} "
            f"to {number_text(after, 3)} nats."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on what may be wrong."""
        lost = [f"`{plain(task.task)}`" for task in self.tasks if task.is_farther]
        warnings = list(self.doubts)
        if lost:
            warnings.append(
                f"The merge is now farther from the expert of {', '.join(lost)} than before; give "
                "more inputs of that task, or leave `distil` out."
            )
        if not self.best_step and self.steps:
            warnings.append(self.sentence)
        return tuple(warnings)
