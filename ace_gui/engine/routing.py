"""Trains the modules of a merge that need it, after the weights are merged.

Twin-Merging and FREE-Merging: the router is a multinomial logistic regression from the mean of the
merged body's last hidden states, standardised, to the expert.

WEMoE: routers of blocks minimise the entropy of the answers to inputs of all tasks. Every task has
its own head, and so its own model, but all share one body. As in the published code, examples of a
task that pass through it together share the mean of their weights.

Representation Surgery: the inputs of each task's head are computed in the merged model and in the
expert, for the calibration inputs. Adam minimises the mean absolute difference. The merged features
never change in training, so they are computed once.

N inputs, examples of a batch or feature vectors; H features; T experts; C labels; R the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.engine.adapting.objectives import (
    BoundedCache,
    TaskObjective,
    batch_indices,
    descended,
    expert_answers,
)
from ace_gui.engine.adapting.task_models import share_body
from ace_gui.engine.adapting.training import trained
from ace_gui.engine.adapting.training_loop import Loop, StepResults, window_steps
from ace_gui.engine.calibrating.calibrate import calibration
from ace_gui.engine.contract.events import LearningProgress, PassProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.evaluating.evaluators import Evaluator
from ace_gui.engine.evaluating.kinds import KINDS, evaluator
from ace_gui.engine.evaluating.loaded_models import Loaded, load, stacked_batches
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.modules.in_model import features
from ace_gui.engine.modules.layers import (
    BlockRouter,
    LinearChange,
    head_of,
    put_layers,
)
from ace_gui.engine.modules.stored import BLOCK_ROUTER, MERGED_SHARES, TRAINED, block_of
from ace_gui.engine.planning.prepared import Prepared, module_rows
from ace_gui.engine.planning.requirements import LEAST_KEPT, require_calibration
from ace_gui.errors import TaskError
from ace_gui.methods.shared.expert_modules import (
    ROUTED_ONCE,
    Corrections,
    Differences,
    kind_of,
    learns,
)

Changes = Callable[[PlanRow], Iterator[Tensor]]
"""D_t of the experts of a row, one after the other, oriented as for a method."""

BLOCKS_TITLE: Final = "training the routers of the blocks"
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
    assert modules.share_at_start is not None
    parameters = prepared.parameters
    names = prepared.recipe.expert_names
    layers = list(_layers(prepared, changes, device))
    shared = torch.full((len(names),), modules.share_at_start(parameters), device=device)
    generator = torch.Generator().manual_seed(SEED)
    blocks = dict.fromkeys(block_of(layer.tensor) or "" for layer in layers)
    routers = {block: _begun(block, layers, shared, generator) for block in blocks}
    values = {}
    for block, router in routers.items():
        for name in BLOCK_ROUTER:
            values[f"{block}/{name}"] = getattr(router, name).requires_grad_()
    watched = parameters.steps and parameters.patience
    expected = _answers_of_experts(prepared, device) if watched else {}
    tasks = list(_tasks(prepared, folder, device, expected)) if parameters.steps else []

    def forget(*_: Any) -> None:  # the weights may belong to the input of another model
        for router in routers.values():
            router.forget(keeps_prompt=False)

    for task in tasks:
        put_layers(task.evaluator.model, layers, routers, shared)
        task.evaluator.model.register_forward_pre_hook(forget)
    step = partial(_block_step, tasks, routers, BoundedCache(LEAST_KEPT))
    window = window_steps([len(answers) for answers in expected.values()], BATCH)
    loop = Loop(values, step, parameters, window=window)
    yield from trained(
        loop, training_folder, 0, title=BLOCKS_TITLE, experts=names, curve="mean share"
    )
    tensors = {f"{TRAINED}{MERGED_SHARES}": shared.cpu()}
    return tensors | {f"{TRAINED}{n}": value.detach().float().cpu() for n, value in values.items()}


def _answers_of_experts(prepared: Prepared, device: torch.device) -> dict[str, list[Tensor]]:
    """The answers of every expert to the inputs of its own tasks, by task."""
    loaded = Loaded(device)
    experts = range(len(prepared.experts))
    answers = {}
    for t in experts:
        for data, loading in calibration(prepared, t).tasks:
            if KINDS[data.kind].has_entropy:
                answers[data.name] = expert_answers(loaded.evaluator(data, loading))
    return answers


def _block_step(
    tasks: Sequence[TaskObjective],
    routers: Mapping[str, BlockRouter],
    cache: BoundedCache,
    step: int,
) -> StepResults:
    """The entropy of the answers to some inputs of every task, and each expert's mean weight."""
    shares = list[Tensor]()
    for router in routers.values():
        router.observer = lambda share_NT: shares.append(share_NT.detach().mean(dim=0))
    results = descended(tasks, step, cache)
    return replace(results, figures=torch.stack(shares).double().mean(dim=0).tolist())


def _tasks(
    prepared: Prepared, folder: Path, device: torch.device, expected: Mapping[str, Sequence[Tensor]]
) -> Iterator[TaskObjective]:
    models = Models(prepared.models, (folder,), with_base=False)
    body = dict[str, Tensor]()
    count = 0
    for t in range(len(prepared.experts)):
        for data, _ in calibration(prepared, t).tasks:
            if KINDS[data.kind].has_entropy:
                loading = models.loading(models.subjects()[-1], data.task)
                merged = evaluator(data, loading, load(loading, device))
                merged.model.requires_grad_(False)
                share_body(merged.model, body)
                expected_answers = expected.get(data.name)
                yield TaskObjective(
                    merged, None, size=BATCH, seed=(SEED, count), expected=expected_answers
                )
                count += 1
    if not count:
        raise TaskError(
            "The routers learn from how sure answers are, and no task has answers with "
            "probabilities; choose a method without such a router.",
            key="calibration",
        )


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
                bias_changes=None if bias is None else _stacked(bias, prepared, changes).to(device),
            )


def _stacked(row: PlanRow, prepared: Prepared, changes: Changes) -> Tensor:
    by_expert = torch.zeros(len(prepared.experts), *row.shape)
    for t, change in zip(row.experts, changes(row), strict=True):
        by_expert[t] = change.T if row.transposed else change
    return by_expert


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


CORRECTIONS_TITLE: Final = "correcting features of {}"
VECTORS: Final = 512
"""Most feature vectors in a step. If there are more, they are drawn with a fixed seed."""

CURVE: Final = "share of features corrected"


def trained_corrections(
    prepared: Prepared,
    modules: Corrections[Any],
    folder: Path,
    device: torch.device,
    training_folder: Path,
) -> Generator[LearningProgress, None, dict[str, Tensor]]:
    """Down (R × H) and Up (H × R) of every expert by name, float32.

    ``training_folder``: for unfinished training. Raises the errors of ``trained_tensors``, and
    ArchitectureError for models without heads.
    """
    loaded = Loaded(device)
    models = Models(prepared.models, (folder,), with_base=False)
    tensors: dict[str, Tensor] = {}
    for t, expert in enumerate(prepared.experts):
        inputs = list[Tensor]()
        targets = list[Tensor]()
        for data, loading in calibration(prepared, t).tasks:
            merged = models.loading(models.subjects()[-1], data.task)
            inputs.append(_head_inputs(loaded.evaluator(data, merged)))
            targets.append(_head_inputs(loaded.evaluator(data, loading)))
        inputs_NH = torch.cat(inputs)
        rank = modules.rank(prepared.parameters)
        width = inputs_NH.shape[1]
        generator = torch.Generator().manual_seed(SEED)
        down_RH = torch.randn(rank, width, generator=generator) / width**0.5
        initial = {"down": down_RH, "up": torch.zeros(width, rank)}  # nothing is corrected at first
        values = {name: value.to(inputs_NH).requires_grad_() for name, value in initial.items()}
        step = partial(_correction_step, expert.name, values, inputs_NH, torch.cat(targets))
        loop = Loop(values, step, prepared.parameters)
        title = CORRECTIONS_TITLE.format(expert.name)
        yield from trained(
            loop, training_folder, t, title=title, experts=[expert.name], curve=CURVE
        )
        for name, value in values.items():
            tensors[f"{TRAINED}{expert.name}/{name}"] = value.detach().float().cpu()
    return tensors


def _correction_step(
    name: str, values: Mapping[str, Tensor], inputs_NH: Tensor, targets_NH: Tensor, step: int
) -> StepResults:
    """The mean absolute difference to the expert's features, and the correction's relative size."""
    if len(inputs_NH) > VECTORS:
        chosen = batch_indices(len(inputs_NH), VECTORS, step, (SEED,))
        inputs_NH = inputs_NH[chosen]
        targets_NH = targets_NH[chosen]
    with torch.enable_grad():
        change_NH = torch.relu(inputs_NH @ values["down"].T) @ values["up"].T
        loss = functional.l1_loss(inputs_NH - change_NH, targets_NH)
        torch.autograd.backward(loss)
    share = change_NH.detach().norm() / inputs_NH.norm().clamp(min=1e-12)
    return StepResults(losses={name: float(loss.detach())}, figures=[float(share)])


def _head_inputs(evaluator: Evaluator) -> Tensor:
    """The feature vectors that answers depend on, for each input in turn, N × H."""
    model = evaluator.model
    vectors = list[Tensor]()
    head_inputs = list[Tensor]()
    for parameter in model.parameters():
        parameter.requires_grad_(False)

    def note(_head: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        head_inputs.append(args[0].detach().requires_grad_())
        return (head_inputs[-1], *args[1:])

    for batch in stacked_batches(evaluator):
        head_inputs.clear()
        hook = head_of(model).register_forward_pre_hook(note)
        try:
            with torch.enable_grad():
                model(**batch.inputs)[0].sum().backward()
        finally:
            hook.remove()
        hidden = head_inputs[0]
        assert hidden.grad is not None
        used = hidden.grad.ne(0).any(dim=-1)  # a head may use only the first token, or the last
        vectors.append(hidden.detach()[used])
    return torch.cat(vectors)


ROUTER_TITLE: Final = "training the router"
STEPS: Final = 1000
"""Most iterations of the regression."""


def trained_tensors(
    prepared: Prepared, folder: Path, device: torch.device, changes: Changes, training_folder: Path
) -> Generator[PassProgress | LearningProgress, None, dict[str, Tensor]]:
    """The trained tensors by their names in ``modules.safetensors``, float32; often none.

    ``folder``: of the merged model. ``changes``: gives D_t of a row. ``training_folder``: for
    unfinished training, which can be resumed. Raises TaskError without calibration inputs, and the
    errors of reading data and loading models.
    """
    modules = prepared.method.modules
    if learns(modules):
        require_calibration(prepared.recipe, prepared.method.title)
    if modules is not None and kind_of(modules) in ROUTED_ONCE:
        return (yield from _trained_router(prepared, folder, device))
    if isinstance(modules, Differences) and modules.share_at_start is not None:
        return (
            yield from trained_blocks(prepared, modules, folder, device, changes, training_folder)
        )
    if isinstance(modules, Corrections):
        return (yield from trained_corrections(prepared, modules, folder, device, training_folder))
    return {}


def _trained_router(
    prepared: Prepared, folder: Path, device: torch.device
) -> Generator[PassProgress, None, dict[str, Tensor]]:
    """The router's tensors by name, float32. Raises the errors of ``trained_tensors``."""
    sources = [calibration(prepared, t) for t in range(len(prepared.experts))]
    total = sum(source.examples for source in sources)
    loaded = Loaded(device)
    batches = list[Tensor]()
    owners = list[int]()
    models = Models(prepared.models, (folder,), with_base=False)
    for t, source in enumerate(sources):
        for data, _ in source.tasks:
            loading = models.loading(models.subjects()[-1], data.task)
            evaluator = loaded.evaluator(data, loading)
            for batch in stacked_batches(evaluator):
                with torch.inference_mode():
                    batch_NH = features(evaluator.model, batch.inputs)
                batches.append(batch_NH.double().cpu())
                owners += [t] * len(batch_NH)
                yield PassProgress(title=ROUTER_TITLE, done=len(owners), total=total)
    return fitted(torch.cat(batches), owners)


def fitted(features_NH: Tensor, owners_N: Sequence[int]) -> dict[str, Tensor]:
    """Centre, scale, weight and bias of the regression from features to experts."""
    from sklearn.linear_model import LogisticRegression

    centre_H = features_NH.mean(dim=0)
    scale_H = features_NH.std(dim=0).clamp(min=1e-6)
    scaled_NH = ((features_NH - centre_H) / scale_H).numpy()
    model = LogisticRegression(max_iter=STEPS).fit(scaled_NH, owners_N)
    weight = np.asarray(model.coef_)
    bias = np.asarray(model.intercept_)
    if len(model.classes_) == 2:  # it then has a single row, for the second class
        weight = np.vstack([-weight, weight]) / 2
        bias = np.append(-bias, bias) / 2
    return {
        f"{TRAINED}centre": centre_H.float(),
        f"{TRAINED}scale": scale_H.float(),
        f"{TRAINED}weight": torch.tensor(weight).float(),
        f"{TRAINED}bias": torch.tensor(bias).float(),
    }
