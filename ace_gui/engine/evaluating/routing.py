"""Which expert a routed model takes for which examples, layer by layer, and what that costs.

T experts.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ace_gui.engine.contract.events import EvaluationProgress, Event
from ace_gui.engine.contract.routes import RoutesFound, TaskRoutes
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.evaluating.answering import answered
from ace_gui.engine.evaluating.askers import asker
from ace_gui.engine.evaluating.evaluate import Trial, all_trials
from ace_gui.engine.evaluating.model_with_head import load
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.modules.looking_on import Telling, routers_of
from ace_gui.engine.modules.manifest import MODULES
from ace_gui.methods.shared.expert_modules import ModuleKind
from ace_gui.recipe.tasks import Task

_UNROUTED = frozenset({ModuleKind.TASK, ModuleKind.SURGERY})


def routed(
    models: Models, tasks: Sequence[Task], *, limit: int | None = None, device: str = "auto"
) -> Iterator[Event | None]:
    """Have the folders with routers answer every task: EvaluationProgress, then RoutesFound.

    Raises as ``evaluate``.
    """
    where, found = resolve_device(device), list[TaskRoutes]()
    everything = yield from all_trials(models, tasks, limit)
    trials = [
        trial
        for trial in everything
        if trial.loading.modules is not None and trial.loading.modules.kind not in _UNROUTED
    ]
    total, done = sum(len(trial.data.examples) for trial in trials), 0
    for trial in trials:
        for step in _one(trial, models, where):
            if isinstance(step, TaskRoutes):
                found.append(step)
            else:
                names = {"model": trial.subject.name, "task": trial.data.name}
                yield EvaluationProgress(**names, done=done + step, total=total)
        done += len(trial.data.examples)
    yield RoutesFound(routes=tuple(found))


class _Mean:
    """The mean of what one router gives, over examples, each the mean over its tokens."""

    def __init__(self, router: Telling) -> None:
        self.place, self.experts = router.place, router.experts
        self._total, self._count = torch.zeros(len(self.experts), dtype=torch.float64), 0
        router.seen = self._add

    def _add(self, share: Tensor) -> None:
        self._total += share.reshape(-1, share.shape[-1]).double().mean(dim=0).cpu()
        self._count += 1

    def of(self, experts: Sequence[str]) -> tuple[float, ...]:
        """By expert, 0 of those that the layer has nothing of."""
        found = (self._total / max(self._count, 1)).tolist()
        own = dict(zip(self.experts, found, strict=True))
        return tuple(own.get(name, 0.0) for name in experts)


def _one(trial: Trial, models: Models, device: torch.device) -> Iterator[int | TaskRoutes]:
    plain = replace(trial.loading, modules=None)
    seconds = yield from _timed(trial, load(plain, device))
    gc.collect()  # so that there is one model in memory
    model = load(trial.loading, device)
    means = [_Mean(router) for router in routers_of(model)]
    own = yield from _timed(trial, model)
    experts = tuple(dict.fromkeys(name for each in means for name in each.experts))
    names = None if models.prepared is None else models.prepared.plan.recipe.expert_names
    yield TaskRoutes(
        model=trial.subject.name,
        task=trial.data.name,
        owner=None if names is None or trial.owner is None else names[trial.owner],
        layers=tuple(each.place for each in means),
        experts=experts,
        share_LT=tuple(each.of(experts) for each in means),
        n=len(trial.data.examples),
        seconds=own,
        plain_seconds=seconds,
        module_bytes=(trial.loading.folder / MODULES).stat().st_size,
    )


def _timed(trial: Trial, model: Any) -> Any:
    """Seconds for an example, once all are answered; yields how many are."""
    one, started = asker(trial.data, trial.loading, model), time.perf_counter()
    for said in answered(one):
        if isinstance(said, int):
            yield said
    return (time.perf_counter() - started) / max(len(trial.data.examples), 1)
