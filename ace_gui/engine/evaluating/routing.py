"""Which expert a routed model chooses for which examples, layer by layer, and the cost of routing.

T experts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ace_gui.engine.contract.events import Event
from ace_gui.engine.contract.scored import RoutesFound, TaskRoutes
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.evaluating.evaluate import Trial, all_trials, progress_of
from ace_gui.engine.evaluating.loaded_models import Loaded, answered
from ace_gui.engine.evaluating.subjects import Loading, Models
from ace_gui.engine.modules.layers import ObservedRouter, routers_of
from ace_gui.engine.modules.stored import MODULES
from ace_gui.methods.shared.expert_modules import ModuleKind
from ace_gui.recipe.values import Task

_UNROUTED = frozenset({ModuleKind.TASK, ModuleKind.SURGERY})


def routed(models: Models, tasks: Sequence[Task], device: str = "auto") -> Iterator[Event | None]:
    """Run the folders with routers on every task: EvaluationProgress, then RoutesFound.

    Raises the errors of ``evaluate``.
    """
    where, found = resolve_device(device), list[TaskRoutes]()
    everything = yield from all_trials(models, tasks)
    trials = [
        trial
        for trial in everything
        if trial.loading.modules is not None and trial.loading.modules.kind not in _UNROUTED
    ]
    total = 2 * sum(len(trial.data.examples) for trial in trials)
    done, seconds, loaded = 0, dict[tuple[str, str], float](), Loaded(where)
    for with_modules in (False, True):  # one model after the other, to load each rarely
        for trial in trials:
            index = trial.subject.name, trial.data.name
            one = loaded.evaluator(trial.data, _loading(trial, with_modules=with_modules))
            means = [_Mean(router) for router in routers_of(one.model)] if with_modules else []
            started = time.perf_counter()
            for step in answered(one):
                if isinstance(step, int):
                    yield progress_of(trial, done + step, total)
            took = (time.perf_counter() - started) / max(len(trial.data.examples), 1)
            done += len(trial.data.examples)
            if with_modules:
                found.append(_routes(trial, models, means, took, seconds[index]))
            else:
                seconds[index] = took
    yield RoutesFound(routes=tuple(found))


def _loading(trial: Trial, *, with_modules: bool) -> Loading:
    """The source of a routed model, which is the same model for every task."""
    modules = trial.loading.modules
    assert modules is not None
    return replace(trial.loading, modules=replace(modules, expert=None) if with_modules else None)


class _Mean:
    """The mean of one router's weights over examples, each averaged over its tokens."""

    def __init__(self, router: ObservedRouter) -> None:
        self.location, self.experts = router.location, router.experts
        self._total, self._count = torch.zeros(len(self.experts), dtype=torch.float64), 0
        router.seen = self._add

    def _add(self, share: Tensor) -> None:
        self._total += share.reshape(-1, share.shape[-1]).double().mean(dim=0).cpu()
        self._count += 1

    def of(self, experts: Sequence[str]) -> tuple[float, ...]:
        """The mean by expert; 0 for experts without a part in the layer."""
        found = (self._total / max(self._count, 1)).tolist()
        own = dict(zip(self.experts, found, strict=True))
        return tuple(own.get(name, 0.0) for name in experts)


def _routes(
    trial: Trial, models: Models, means: Sequence[_Mean], seconds: float, plain_seconds: float
) -> TaskRoutes:
    experts = tuple(dict.fromkeys(name for each in means for name in each.experts))
    names = None if models.prepared is None else models.prepared.plan.recipe.expert_names
    return TaskRoutes(
        model=trial.subject.name,
        task=trial.data.name,
        owner=None if names is None or trial.owner is None else names[trial.owner],
        layers=tuple(each.location for each in means),
        experts=experts,
        share_LT=tuple(each.of(experts) for each in means),
        n=len(trial.data.examples),
        seconds=seconds,
        plain_seconds=plain_seconds,
        module_bytes=(trial.loading.folder / MODULES).stat().st_size,
    )
