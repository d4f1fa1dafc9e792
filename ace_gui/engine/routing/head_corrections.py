"""Training the corrections of Representation Surgery.

For each task, what its head is given in the merged model and in the expert, for the calibration
inputs; and Adam on the mean absolute difference. The merged features never change in training, so
they are computed once. N feature vectors, H wide; R the rank.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.engine.calibrating.calibration_data import Loaded, calibration
from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.evaluating.answering import stacked_batches
from ace_gui.engine.evaluating.askers import Asker, Batch
from ace_gui.engine.evaluating.subjects import experts_of
from ace_gui.engine.modules.head_inputs import head_of
from ace_gui.engine.modules.stored import TRAINED
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.methods.shared.expert_modules import Corrections

TITLE: Final = "correcting features of {}"
VECTORS: Final = 512
"""Feature vectors of a step, drawn by a fixed seed; of most tasks that is all of them."""

SEED: Final = 0
_EACH: Final = 50


def trained_corrections(
    prepared: Prepared, modules: Corrections[Any], folder: Path, device: torch.device
) -> Generator[PassProgress, None, dict[str, Tensor]]:
    """Down (R × H) and Up (H × R) of every expert by name, float32. Raises as
    ``trained_tensors``, and ArchitectureError for models without heads.
    """
    loaded, models = Loaded(device), experts_of(prepared, (folder,))
    found: dict[str, Tensor] = {}
    parameters = prepared.parameters
    steps = modules.steps(parameters)
    for t, expert in enumerate(prepared.experts):
        given, wanted = list[Tensor](), list[Tensor]()
        for data, own in calibration(prepared, t).tasks:
            merged = models.loading(models.subjects()[-1], data.task, data.name)
            given.append(_head_inputs(loaded.asker(data, merged)))
            wanted.append(_head_inputs(loaded.asker(data, own)))
        progress = _fitted(
            torch.cat(given),
            torch.cat(wanted),
            rank=modules.rank(parameters),
            steps=steps,
            learning_rate=modules.learning_rate(parameters),
        )
        for step in progress:
            if isinstance(step, int):
                title = TITLE.format(expert.name)
                yield PassProgress(title=title, done=step, total=steps)
            else:
                found[f"{TRAINED}{expert.name}/down"], found[f"{TRAINED}{expert.name}/up"] = step
    return found


def _fitted(
    given_NH: Tensor, wanted_NH: Tensor, *, rank: int, steps: int, learning_rate: float
) -> Iterator[int | tuple[Tensor, Tensor]]:
    """Steps as they are done; at last Down and Up. Up is 0 at first: nothing is corrected."""
    generator = torch.Generator().manual_seed(SEED)
    width = given_NH.shape[1]
    down_RH = torch.randn(rank, width, generator=generator) / width**0.5
    down_RH = down_RH.to(given_NH).requires_grad_()
    up_HR = torch.zeros(width, rank).to(given_NH).requires_grad_()
    adam = torch.optim.Adam([down_RH, up_HR], lr=learning_rate)
    for step in range(steps):
        chosen_NH, target_NH = given_NH, wanted_NH
        if len(given_NH) > VECTORS:
            chosen = torch.randint(len(given_NH), (VECTORS,), generator=generator)
            chosen_NH, target_NH = given_NH[chosen], wanted_NH[chosen]
        with torch.enable_grad():
            corrected_NH = chosen_NH - torch.relu(chosen_NH @ down_RH.T) @ up_HR.T
            loss = functional.l1_loss(corrected_NH, target_NH)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        if step % _EACH == _EACH - 1:
            yield step + 1
    yield down_RH.detach().float().cpu(), up_HR.detach().float().cpu()


def _head_inputs(asker: Asker) -> Tensor:
    """The feature vectors on which answers depend, of every input one after the other, N × H."""
    model = asker.model
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return torch.cat([_of_batch(model, batch) for batch in stacked_batches(asker)])


def _of_batch(model: Any, batch: Batch) -> Tensor:
    with _noted(head_of(model)) as seen, torch.enable_grad():
        output = model(**batch.inputs)
        output[0].sum().backward()
    hidden = seen[0]
    assert hidden.grad is not None
    used = hidden.grad.ne(0).any(dim=-1)  # a head may look at the first token alone, or the last
    return hidden.detach()[used]


@contextmanager
def _noted(head: Any) -> Iterator[list[Tensor]]:
    """What the head is given within it, as tensors that gather their gradients."""
    seen: list[Tensor] = []

    def note(_head: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        seen.append(args[0].detach().requires_grad_())
        return (seen[-1], *args[1:])

    hook = head.register_forward_pre_hook(note)
    try:
        yield seen
    finally:
        hook.remove()
