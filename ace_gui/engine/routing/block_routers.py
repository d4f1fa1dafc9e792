"""Training WEMoE's routers: to the least entropy of the answers to inputs of all tasks.

Every task has its own head on one shared body, and so a model of its own whose body's weights are
those of the others. T experts; C labels; N examples of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.engine.calibrating.calibration_data import calibration
from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.evaluating.answering import stacked_batches
from ace_gui.engine.evaluating.askers import Asker, Batch, asker
from ace_gui.engine.evaluating.model_with_head import load
from ace_gui.engine.evaluating.subjects import experts_of
from ace_gui.engine.modules.mlp_blocks import ROUTER, SHARED, BlockRouter, Layer, put_layers
from ace_gui.engine.modules.stored import TRAINED, block_of
from ace_gui.engine.planning.expert_files import module_rows
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.errors import TaskError
from ace_gui.methods.shared.expert_modules import Differences

Changes = Callable[[PlanRow], Iterator[Tensor]]
"""D_t of the experts of a row, one after the other, oriented as for a method."""

TITLE: Final = "training the routers of the blocks"
BATCH: Final = 16
"""Examples of each task in a step."""

FIRST: Final = 0.01
"""Standard deviation of what the routers begin with."""

SEED: Final = 0
_EACH: Final = 10


@dataclass(frozen=True, kw_only=True)
class _Source:
    """One task: who asks about it, and its inputs in batches of one shape."""

    asker: Asker
    batches: Sequence[Batch]

    def drawn(self, generator: torch.Generator) -> Batch:
        """Some examples of one batch; larger batches come more often."""
        sizes = torch.tensor([float(len(batch.notes)) for batch in self.batches])
        batch = self.batches[int(torch.multinomial(sizes, 1, generator=generator))]
        chosen = torch.randperm(len(batch.notes), generator=generator)[:BATCH]
        inputs = {name: each[chosen] for name, each in batch.inputs.items()}
        return Batch(inputs=inputs, notes=[batch.notes[n] for n in chosen.tolist()])


def trained_blocks(
    prepared: Prepared,
    modules: Differences[Any],
    folder: Path,
    device: torch.device,
    changes: Changes,
) -> Generator[PassProgress, None, dict[str, Tensor]]:
    """The routers' tensors by name, float32. Raises as ``trained_tensors``, and TaskError where no
    task has labels.
    """
    assert modules.training is not None
    training, parameters = modules.training, prepared.parameters
    layers = list(_layers(prepared, changes, device))
    shared = torch.full((len(prepared.experts),), training.shared(parameters), device=device)
    generator = torch.Generator().manual_seed(SEED)
    blocks = dict.fromkeys(block_of(layer.tensor) or "" for layer in layers)
    routers = {block: _begun(block, layers, shared, generator) for block in blocks}
    steps = training.steps(parameters)
    sources = list(_sources(prepared, folder, device)) if steps else []
    for source in sources:
        put_layers(source.asker.model, layers, routers, shared)
    learnt = [getattr(each, name) for each in routers.values() for name in ROUTER]
    for tensor in learnt:
        tensor.requires_grad_()
    adam = torch.optim.Adam(learnt, lr=training.learning_rate(parameters))
    for step in range(steps):
        adam.zero_grad()
        for source in sources:
            _entropy(source, generator, routers).backward()  # type: ignore[no-untyped-call]
        adam.step()
        if step % _EACH == _EACH - 1:
            yield PassProgress(title=TITLE, done=step + 1, total=steps)
    found = {f"{TRAINED}{SHARED}": shared.cpu()}
    for block, router in routers.items():
        for name in ROUTER:
            found[f"{TRAINED}{block}/{name}"] = getattr(router, name).detach().float().cpu()
    return found


def _entropy(
    source: _Source, generator: torch.Generator, routers: dict[str, BlockRouter]
) -> Tensor:
    """Of the answers to some of a task's inputs, in the mean."""
    batch = source.drawn(generator)
    for router in routers.values():
        router.first = None
    with torch.enable_grad():
        logits_NC = source.asker.logits(batch)
        assert logits_NC is not None
        log_NC = torch.log_softmax(logits_NC.float(), dim=1)
        return -(log_NC.exp() * log_NC).sum(dim=1).mean()


def _sources(prepared: Prepared, folder: Path, device: torch.device) -> Iterator[_Source]:
    models, body = experts_of(prepared, (folder,)), dict[str, Tensor]()
    found = 0
    for t in range(len(prepared.experts)):
        for data, _ in calibration(prepared, t).tasks:
            loading = models.loading(models.subjects()[-1], data.task, data.name)
            one = asker(data, loading, load(loading, device))
            batches = list(stacked_batches(one))
            with torch.no_grad():
                labelled = bool(batches) and one.logits(batches[0]) is not None
            if labelled:
                _share(one.model, body)
                found += 1
                yield _Source(asker=one, batches=batches)
    if not found:
        raise TaskError(
            "The routers learn from how sure answers with labels are, and no task has such; choose "
            "a method without such a router.",
            key="calibration",
        )


def _share(model: Any, body: dict[str, Tensor]) -> None:
    """Have the model's body use the weights of those before it; nothing of it is trained."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for name, parameter in model.base_model.named_parameters():
        known = body.setdefault(name, parameter.data)
        if known.shape == parameter.shape and torch.equal(known, parameter.data):
            parameter.data = known


def _layers(prepared: Prepared, changes: Changes, device: torch.device) -> Iterator[Layer]:
    """What the experts change of each matrix, and of its bias."""
    rows = module_rows(prepared.plan.rows, prepared.method)
    by_name = {row.name: row for row in rows}
    for row in rows:
        if len(row.shape) == 2:
            bias = by_name.get(f"{row.name.removesuffix('.weight')}.bias")
            yield Layer(
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
    block: str, layers: Sequence[Layer], shared: Tensor, generator: torch.Generator
) -> BlockRouter:
    """A router that gives every expert nearly the share that the merged model has of it."""
    width = next(_inputs(layer) for layer in layers if block_of(layer.tensor) == block)

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


def _inputs(layer: Layer) -> int:
    """The smaller side of the first matrix of a block, which is what the block is given."""
    return min(layer.changes.shape[1:])
