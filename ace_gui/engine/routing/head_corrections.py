"""Trains the corrections of Representation Surgery.

For each task, the inputs of its head are computed in the merged model and in the expert, for the
calibration inputs. Adam minimises the mean absolute difference. The merged features never change in
training, so they are computed once. N feature vectors, H wide; R the rank.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.engine.adapting.learned_folder import trained
from ace_gui.engine.adapting.objectives import batch_indices
from ace_gui.engine.adapting.training import Loop, Seen
from ace_gui.engine.calibrating.calibration_data import calibration
from ace_gui.engine.contract.events import LearningProgress
from ace_gui.engine.evaluating.evaluators import Evaluator
from ace_gui.engine.evaluating.loaded_models import Loaded, stacked_batches
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.modules.layers import head_of
from ace_gui.engine.modules.stored import TRAINED
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.methods.shared.expert_modules import Corrections

TITLE: Final = "correcting features of {}"
VECTORS: Final = 512
"""Feature vectors per step, drawn with a fixed seed; for most tasks these are all."""

SEED: Final = 0
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
    loaded, models = Loaded(device), Models(prepared, (folder,), with_base=False)
    found: dict[str, Tensor] = {}
    for t, expert in enumerate(prepared.experts):
        given, wanted = list[Tensor](), list[Tensor]()
        for data, own in calibration(prepared, t).tasks:
            merged = models.loading(models.subjects()[-1], data.task)
            given.append(_head_inputs(loaded.evaluator(data, merged)))
            wanted.append(_head_inputs(loaded.evaluator(data, own)))
        given_NH, rank = torch.cat(given), modules.rank(prepared.parameters)
        width, generator = given_NH.shape[1], torch.Generator().manual_seed(SEED)
        down_RH = torch.randn(rank, width, generator=generator) / width**0.5
        begun = {"down": down_RH, "up": torch.zeros(width, rank)}  # nothing is corrected at first
        values = {name: value.to(given_NH).requires_grad_() for name, value in begun.items()}
        step = partial(_step, expert.name, values, given_NH, torch.cat(wanted))
        loop = Loop(values, step, prepared.parameters)
        title = TITLE.format(expert.name)
        yield from trained(
            loop, training_folder, t, title=title, experts=[expert.name], curve=CURVE
        )
        for name, value in values.items():
            found[f"{TRAINED}{expert.name}/{name}"] = value.detach().float().cpu()
    return found


def _step(
    name: str, values: Mapping[str, Tensor], given_NH: Tensor, wanted_NH: Tensor, step: int
) -> Seen:
    """The mean absolute difference to the expert's features, and the correction's relative size."""
    if len(given_NH) > VECTORS:
        chosen = batch_indices(len(given_NH), VECTORS, step, (SEED,))
        given_NH, wanted_NH = given_NH[chosen], wanted_NH[chosen]
    with torch.enable_grad():
        change_NH = torch.relu(given_NH @ values["down"].T) @ values["up"].T
        loss = functional.l1_loss(given_NH - change_NH, wanted_NH)
        torch.autograd.backward(loss)
    share = change_NH.detach().norm() / given_NH.norm().clamp(min=1e-12)
    return Seen(losses={name: float(loss.detach())}, figures=[float(share)])


def _head_inputs(evaluator: Evaluator) -> Tensor:
    """The feature vectors that answers depend on, for each input in turn, N × H."""
    model, found, seen = evaluator.model, list[Tensor](), list[Tensor]()
    for parameter in model.parameters():
        parameter.requires_grad_(False)

    def note(_head: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        seen.append(args[0].detach().requires_grad_())
        return (seen[-1], *args[1:])

    for batch in stacked_batches(evaluator):
        seen.clear()
        hook = head_of(model).register_forward_pre_hook(note)
        try:
            with torch.enable_grad():
                model(**batch.inputs)[0].sum().backward()
        finally:
            hook.remove()
        hidden = seen[0]
        assert hidden.grad is not None
        used = hidden.grad.ne(0).any(dim=-1)  # a head may use only the first token, or the last
        found.append(hidden.detach()[used])
    return torch.cat(found)
