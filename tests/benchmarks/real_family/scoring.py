"""Scores of merged weights: of every task the share of its expert's accuracy.

N examples, T tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tests.benchmarks.real_family.experts import new_model, tokens
from tests.benchmarks.real_family.tasks import Task

OWN_HEAD = ("classifier",)
OWN_POOLER = ("classifier", "bert.pooler")
TOGETHER = 50


@dataclass(frozen=True)
class Score:
    """``right``: of each task, which examples are right. ``experts``: the same of the experts."""

    right: Mapping[str, Tensor]
    experts: Mapping[str, Tensor]

    @property
    def mean(self) -> float:
        """Mean over the tasks of the accuracy by the expert's."""
        return sum(float(s.mean()) for s in self._shares().values()) / len(self.right)

    @property
    def error(self) -> float:
        """Standard error of ``mean`` over the examples, paired with the experts' answers."""
        gaps = {
            t: s - s.mean() * self.experts[t] / self.experts[t].mean()
            for t, s in self._shares().items()
        }
        return _error(gaps)

    def against(self, other: Score) -> tuple[float, float]:
        """Difference of the means, and its standard error over the same examples."""
        theirs = other._shares()
        gaps = {t: s - theirs[t] for t, s in self._shares().items()}
        return sum(float(g.mean()) for g in gaps.values()) / len(gaps), _error(gaps)

    def _shares(self) -> dict[str, Tensor]:
        return {t: r / self.experts[t].mean() for t, r in self.right.items()}


def _error(values: Mapping[str, Tensor]) -> float:
    return math.sqrt(sum(float(v.var()) / len(v) for v in values.values())) / len(values)


class Judge:
    """Asks models of one base for the answers to the tasks' examples."""

    def __init__(self, base: Path, tasks: Mapping[str, Task]) -> None:
        self._base = base
        self._tasks = tasks
        self._models = {t: new_model(base, len(task.classes)).eval() for t, task in tasks.items()}

    @torch.no_grad()
    def right(self, task: str, split: str, weights: Mapping[str, Tensor]) -> Tensor:
        """N times 1 for right or 0, of a classifier with these weights."""
        model = self._models[task]
        examples = self._tasks[task].splits[split]
        model.load_state_dict(weights)
        order = sorted(range(len(examples)), key=lambda n: len(examples[n][0]))
        found = torch.zeros(len(examples), dtype=torch.float64)
        for start in range(0, len(order), TOGETHER):
            indices = order[start : start + TOGETHER]
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(**tokens(self._base, [examples[n][0] for n in indices])).logits
            labels = torch.tensor([examples[n][1] for n in indices])
            found[indices] = (logits.argmax(dim=-1) == labels).double()
        return found

    def right_of_all(
        self,
        merged: Mapping[str, Tensor],
        experts: Mapping[str, Mapping[str, Tensor]],
        split: str,
        own: tuple[str, ...] = OWN_HEAD,
    ) -> dict[str, Tensor]:
        """Of merged weights with what is each expert's ``own``, by task."""
        found = {}
        for task, weights in experts.items():
            taken = {n: v if n.startswith(own) else merged[n] for n, v in weights.items()}
            found[task] = self.right(task, split, taken)
        return found
