"""What aligning the whole model and aligning its blocks have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ace_gui.engine.contract.events import LearningProgress
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
