"""What aligning the whole model and aligning its blocks have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from torch import Tensor

from ace_gui.engine.adapting.objectives import BoundedCache, LearnedTask, descended
from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.engine.adapting.trained_changes import TrainedChanges
from ace_gui.engine.adapting.training_loop import CheckedLoop, StepResults
from ace_gui.engine.contract.events import LearningProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.planning.trained_tensors import TrainedTensors, rank_of
from ace_gui.recipe.distillation import Trained

TITLE: Final = "aligning with the experts"

CHECKED_EVERY: Final = 5
"""Steps between two looks at the inputs kept back."""

WARM_UP: Final = 10
"""Steps until the learning rate is reached."""

CONSTANT_UNTIL: Final = 0.6
"""Share of the steps after which the learning rate falls."""

LAST_RATE: Final = 0.05
"""Share of the learning rate that the last step has."""

IN_WORDS: Final = {
    Trained.BIASES: "biases and norms",
    Trained.RANK_8: "additions of rank 8",
    Trained.ALL: "merged matrices",
}


@dataclass(frozen=True, kw_only=True)
class LearningSchedule:
    """The parameters of the training loop."""

    steps: int
    learning_rate: float


def rates(steps: int) -> list[float]:
    """The share of the learning rate in each step: it rises, stays, and falls."""
    warm_up = min(WARM_UP, max(steps // 4, 1))
    falling = max(math.ceil(CONSTANT_UNTIL * steps), warm_up)
    shares = []
    for step in range(steps):
        if step < warm_up:
            shares.append((step + 1) / warm_up)
        elif step < falling:
            shares.append(1.0)
        else:
            done = (step - falling + 1) / max(steps - falling, 1)
            shares.append(1 - (1 - LAST_RATE) * done)
    return shares


def changes_begun(
    plan: TrainedTensors,
    rows: Sequence[PlanRow],
    value: Callable[[PlanRow], Tensor],
    parameters: SharedParameters,
    *,
    seed: int,
) -> TrainedChanges:
    """Additions of 0 to the tensors of some of the plan's rows.

    ``value``: a row's merged tensor, float32, on the device of the training. It is asked for again
    when training has ended.
    """
    rows_by_tensor = {row.tensor: row for row in rows}
    shapes = {row.tensor: row.tensor_shape for row in rows}
    ranks = {}
    if plan.rank is not None:
        ranks = {row.tensor: rank_of(row.tensor_shape) for row in rows}

    def start(name: str) -> Tensor:
        return value(rows_by_tensor[name])

    return TrainedChanges(shapes, start, ranks, parameters, seed=seed)


def alignment_loop(
    changes: TrainedChanges,
    parameters: SharedParameters,
    tasks: Sequence[LearnedTask],
    schedule: LearningSchedule,
    check: Callable[[], Mapping[str, float]],
) -> CheckedLoop:
    """The loop that trains additions to the tensors of ``parameters``.

    ``check``: a number for each task on its inputs kept back; less is better.
    """

    def stepped(step: int) -> StepResults:
        changes.write()
        parameters.forget_gradients()
        results = descended(tasks, step, BoundedCache(0))
        changes.set_gradients()
        latest = loop.state.checks[max(loop.state.checks)]
        return replace(results, figures=tuple(latest.values()))

    def checked() -> Mapping[str, float]:
        changes.write()
        return check()

    loop = CheckedLoop(
        changes.values,
        stepped,
        schedule,
        rate_share=rates(schedule.steps).__getitem__,
        check=checked,
        check_interval=CHECKED_EVERY,
    )
    return loop


def news(*, done: int, total: int, curve: str, warnings: tuple[str, ...]) -> LearningProgress:
    """An event without new values. ``curve``: what the figures of the training are."""
    return LearningProgress(
        title=TITLE,
        done=done,
        total=total,
        first=done,
        losses={},
        figures={},
        curve=curve,
        warnings=warnings,
    )
