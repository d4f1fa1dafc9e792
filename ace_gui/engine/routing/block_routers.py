"""Trains WEMoE's routers to minimise the entropy of the answers to inputs of all tasks.

Every task has its own head, and so its own model, but all share one body. As in the published code,
examples of a task that pass through it together share the mean of their weights. T experts; C
labels; N examples of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.engine.adapting.learned_folder import trained
from ace_gui.engine.adapting.objectives import Kept, TaskObjective, descended, expert_answers
from ace_gui.engine.adapting.training import Loop, Seen, window_of
from ace_gui.engine.calibrating.calibration_data import calibration
from ace_gui.engine.contract.events import LearningProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.evaluating.kinds.every_kind import KINDS, evaluator
from ace_gui.engine.evaluating.loaded_models import Loaded, load
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.modules.mlp_blocks import ROUTER, SHARED, BlockRouter, LinearChange, put_layers
from ace_gui.engine.modules.stored import TRAINED, block_of
from ace_gui.engine.planning.prepared import Prepared, module_rows
from ace_gui.engine.planning.requirements import LEAST_KEPT
from ace_gui.errors import TaskError
from ace_gui.methods.shared.expert_modules import Differences

Changes = Callable[[PlanRow], Iterator[Tensor]]
"""D_t of the experts of a row, one after the other, oriented as for a method."""

TITLE: Final = "training the routers of the blocks"
BATCH: Final = 16
"""Examples of each task in a step."""

FIRST: Final = 0.01
"""Standard deviation of the routers' initial values."""

SEED: Final = 0


def trained_blocks(
    prepared: Prepared,
    modules: Differences[Any],
    folder: Path,
    device: torch.device,
    changes: Changes,
    training_folder: Path,
) -> Generator[LearningProgress, None, dict[str, Tensor]]:
    """The routers' tensors by name, float32; ``training_folder``: folder for unfinished training.

    Raises the errors of ``trained_tensors``, and TaskError if no task's answers have probabilities.
    """
    assert modules.shared is not None
    parameters, names = prepared.parameters, prepared.plan.recipe.expert_names
    layers = list(_layers(prepared, changes, device))
    shared = torch.full((len(names),), modules.shared(parameters), device=device)
    generator = torch.Generator().manual_seed(SEED)
    blocks = dict.fromkeys(block_of(layer.tensor) or "" for layer in layers)
    routers = {block: _begun(block, layers, shared, generator) for block in blocks}
    values = {
        f"{block}/{name}": getattr(router, name).requires_grad_()
        for block, router in routers.items()
        for name in ROUTER
    }
    watched = parameters.steps and parameters.patience
    expected = _answers_of_experts(prepared, device) if watched else {}
    tasks = list(_tasks(prepared, folder, device, expected)) if parameters.steps else []

    def forget(*_: Any) -> None:  # the weights may belong to the input of another model
        for router in routers.values():
            router.first = None

    for task in tasks:
        put_layers(task.evaluator.model, layers, routers, shared)
        task.evaluator.model.register_forward_pre_hook(forget)
    step = partial(_step, tasks, routers, Kept(LEAST_KEPT))
    window = window_of([len(each) for each in expected.values()], BATCH)
    loop = Loop(values, step, parameters, window=window)
    yield from trained(loop, training_folder, 0, title=TITLE, experts=names, curve="mean share")
    found = {f"{TRAINED}{SHARED}": shared.cpu()}
    return found | {f"{TRAINED}{n}": value.detach().float().cpu() for n, value in values.items()}


def _answers_of_experts(prepared: Prepared, device: torch.device) -> dict[str, list[Tensor]]:
    """The answers of every expert to the inputs of its own tasks, by task."""
    loaded, experts = Loaded(device), range(len(prepared.experts))
    return {
        data.name: expert_answers(loaded.evaluator(data, loading))
        for t in experts
        for data, loading in calibration(prepared, t).tasks
        if KINDS[data.kind].has_entropy
    }


def _step(
    tasks: Sequence[TaskObjective], routers: Mapping[str, BlockRouter], kept: Kept, step: int
) -> Seen:
    """The entropy of the answers to some inputs of every task, and each expert's mean weight."""
    shares = list[Tensor]()
    for router in routers.values():
        router.seen = lambda share_NT: shares.append(share_NT.detach().mean(dim=0))
    seen = descended(tasks, step, kept)
    return replace(seen, figures=torch.stack(shares).double().mean(dim=0).tolist())


def _tasks(
    prepared: Prepared,
    folder: Path,
    device: torch.device,
    expected: Mapping[str, Sequence[Tensor]],
) -> Iterator[TaskObjective]:
    models, body = Models(prepared, (folder,), with_base=False), dict[str, Tensor]()
    found = 0
    for t in range(len(prepared.experts)):
        for data, _ in calibration(prepared, t).tasks:
            if KINDS[data.kind].has_entropy:
                loading = models.loading(models.subjects()[-1], data.task)
                one = evaluator(data, loading, load(loading, device))
                _share(one.model, body)
                known = expected.get(data.name)
                yield TaskObjective(one, None, size=BATCH, seed=(SEED, found), expected=known)
                found += 1
    if not found:
        raise TaskError(
            "The routers learn from how sure answers are, and no task has answers with "
            "probabilities; choose a method without such a router.",
            key="calibration",
        )


def _share(model: Any, body: dict[str, Tensor]) -> None:
    """Make the model's body share the weights of earlier models; none of these is trained."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for name, parameter in model.base_model.named_parameters():
        known = body.setdefault(name, parameter.data)
        if known.shape == parameter.shape and torch.equal(known, parameter.data):
            parameter.data = known


def _layers(prepared: Prepared, changes: Changes, device: torch.device) -> Iterator[LinearChange]:
    """The experts' changes of each matrix, and of its bias."""
    rows = module_rows(prepared)
    by_name = {row.name: row for row in rows}
    for row in rows:
        if len(row.shape) == 2:
            bias = by_name.get(f"{row.name.removesuffix('.weight')}.bias")
            yield LinearChange(
                tensor=row.tensor,
                changes=_stacked(row, prepared, changes).to(device),
                biases=None if bias is None else _stacked(bias, prepared, changes).to(device),
            )


def _stacked(row: PlanRow, prepared: Prepared, changes: Changes) -> Tensor:
    found = torch.zeros(len(prepared.experts), *row.shape)
    for t, own in zip(row.experts, changes(row), strict=True):
        found[t] = own.T if row.transposed else own
    return found


def _begun(
    block: str, layers: Sequence[LinearChange], shared: Tensor, generator: torch.Generator
) -> BlockRouter:
    """A new router, which gives every expert nearly its fraction in the merged model."""
    first = next(layer for layer in layers if block_of(layer.tensor) == block)
    width = min(first.changes.shape[1:])  # the inputs of a block: the smaller side

    def drawn(*shape: int) -> Tensor:
        return (FIRST * torch.randn(*shape, generator=generator)).to(shared.device)

    return BlockRouter(
        {
            "hidden": drawn(width, width),
            "hidden_bias": torch.zeros(width, device=shared.device),
            "out": drawn(len(shared), width),
            "out_bias": shared.clone(),
        }
    )
