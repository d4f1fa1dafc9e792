"""Models in memory, with the head of their task, and their answers in batches."""

from __future__ import annotations

import gc
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.architecture.names import match_names
from ace_gui.architecture.transformers_library import load_pretrained
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.capabilities import resolve_device
from ace_gui.engine.evaluating.evaluators import Batch, Evaluator, Piece
from ace_gui.engine.evaluating.kinds import evaluator
from ace_gui.engine.evaluating.subjects import Loading, ReplacedTensors, loading_of
from ace_gui.engine.evaluating.task_data import TaskData
from ace_gui.engine.modules.stored import has_modules, read_manifest
from ace_gui.engine.planning.recipe_models import experts_with_heads
from ace_gui.errors import MismatchError, OutputError, ResourceError, is_out_of_memory
from ace_gui.formatting import listing, path_text, plain
from ace_gui.machine import free_memory

_SHARE: Final = 0.7
"""Fraction of the free memory that a model in float32 may take."""


def load(loading: Loading, device: torch.device) -> Any:
    """The model in evaluation mode: in float32, or in its stored dtype if that is too large.

    Its modules are attached, if it has any. A model in memory is used as it is. Raises
    MismatchError if a tensor is missing, which would be initialised at random, and CheckpointError
    for modules that do not fit.
    """
    if loading.model is not None:
        return _with_padding(loading.model).eval()
    if loading.modules is None:
        tensors = None
    else:
        tensors = loading.modules.tensors()
    model, report = load_pretrained(loading.folder, loading.config, tensors)
    count = sum(parameter.numel() for parameter in model.parameters())
    if 4 * count <= _SHARE * free_bytes(device):
        model = model.float()
    lacking = {*report.missing, *report.mismatched}
    if loading.replaced is not None:
        lacking -= _put(loading, loading.replaced, model, lacking)
    if lacking:
        raise MismatchError(
            f"{path_text(loading.folder)} cannot be scored as {type(model).__name__}: it lacks "
            f"{listing(sorted(lacking))}.",
            path=loading.folder,
        )
    if loading.modules is not None:
        loading.modules.put(model)
    return _with_padding(model).to(device).eval()


def _with_padding(model: Any) -> Any:
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = -1  # no padding token: inputs have one length
    return model


@contextmanager
def unchanged(models: Sequence[Any]) -> Iterator[None]:
    """Context that restores the mode and the configuration of the caller's models."""
    modules = chain.from_iterable(model.modules() for model in models)
    modes = [(module, module.training) for module in modules]
    padding = [(model.config, getattr(model.config, "pad_token_id", None)) for model in models]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for config, token in padding:
            config.pad_token_id = token


def free_bytes(device: torch.device) -> int:
    """The free memory of a device."""
    if device.type == "cpu":
        return free_memory()
    return torch.cuda.mem_get_info(device)[0]


def _put(loading: Loading, source: ReplacedTensors, model: Any, lacking: set[str]) -> set[str]:
    """Copy an expert's own tensors into a model; returns their names."""
    targets = dict(model.named_parameters(remove_duplicate=False)) | dict(
        model.named_buffers(remove_duplicate=False)
    )
    names = dict(source.names)
    if source.fills:
        names |= {name: name for name in lacking if name in source.checkpoint.tensors}
    answers = match_names(targets, names)
    reader = TensorReader(source.checkpoint)
    for name, stored in names.items():
        tensor = reader.read(stored)
        target = targets.get(answers.get(name, name))
        if target is None or target.shape != tensor.shape:
            raise MismatchError(
                f"{path_text(loading.folder)} has no tensor for `{plain(stored)}` of "
                f"{path_text(source.checkpoint.path)}; score the expert's own model instead.",
                path=source.checkpoint.path,
                tensor=stored,
            )
        target.data.copy_(tensor)
    return {answers.get(name, name) for name in names}


@contextmanager
def older_objects_frozen() -> Iterator[None]:
    """Context in which collecting a model skips the objects that were there before."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Loaded:
    """Models for scoring, one in memory at a time. A model used twice in a row is loaded once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._loading: Loading | None = None
        self._model: Any = None

    def evaluator(self, data: TaskData, loading: Loading) -> Evaluator:
        """The evaluator for a model on a task's examples."""
        if self._loading != loading:
            if self._model is not None:
                self._model = None
                gc.collect()
            self._model = load(loading, self._device)
            self._loading = loading
        return evaluator(data, loading, self._model)


def loaded_model(folder: Path, task: str | None, device: str) -> Any:
    """The model with its modules. Raises the errors of ``ace_gui.load_model``."""
    where = resolve_device(device)
    if task is not None:
        task_titles = _tasks(folder)
        if task not in task_titles:
            if task_titles:
                there = f"there are {listing(sorted(task_titles))}"
            else:
                there = "it has none"
            raise OutputError(
                f"{path_text(folder)}: There is no task {plain(task)!r}; {there}.", path=folder
            )
    return load(loading_of(folder, task), where)


def _tasks(folder: Path) -> set[str]:
    """Names of the tasks that have heads or modules of their own in a folder."""
    if has_modules(folder):
        modules = read_manifest(folder).experts
    else:
        modules = ()
    return {*experts_with_heads(folder), *modules}


# Answers

MOST: Final = 64
"""Most pieces in a batch; more are no faster on a CPU, and little faster on a GPU."""

READ_TOGETHER: Final = 16
"""Examples that are read and prepared at a time; this many decoded pictures are in memory."""

_BATCH_SHARE: Final = 0.4
"""Fraction of the free memory for a batch."""

_TIMES_LARGEST: Final = 8
"""Bytes held at once in a forward pass, as a multiple of the largest output in it."""


@dataclass(frozen=True, kw_only=True)
class _Slot:
    """The index of an example and of a piece in it."""

    example: int
    piece: int
    content: Piece


def answered(evaluator: Evaluator) -> Iterator[int | list[Any]]:
    """Yield the number of started examples after each batch, and last the answers in order.

    Raises ResourceError if memory is too small for one piece, TaskError for damaged data.
    """
    outputs: list[dict[int, Any]] = [{} for _ in evaluator.data.examples]
    for batch in _padded_batches(evaluator) if evaluator.pads else _batches(evaluator):
        for slot, answer in zip(batch, _outputs(evaluator, batch), strict=True):
            outputs[slot.example][slot.piece] = answer
        yield sum(map(bool, outputs))
    yield [evaluator.answer([output[n] for n in range(len(output))]) for output in outputs]


def stacked_batches(evaluator: Evaluator) -> Iterator[Batch]:
    """Every piece of the evaluator's examples, in batches of one shape that fit into memory."""
    for batch in _batches(evaluator):
        yield stacked(evaluator, [slot.content for slot in batch])


def _batches(evaluator: Evaluator) -> Iterator[list[_Slot]]:
    """Group pieces by shape until a batch is full."""
    room = _Room(evaluator)
    waiting = defaultdict[Any, list[_Slot]](list)
    for slot in _slots(evaluator):
        shape = tuple((name, tuple(t.shape)) for name, t in slot.content.inputs.items())
        group = waiting[shape]
        group.append(slot)
        if len(group) >= room.pieces(slot.content):
            yield waiting.pop(shape)
    yield from waiting.values()


def _padded_batches(evaluator: Evaluator) -> Iterator[list[_Slot]]:
    """Pieces of similar length, the longest first, as they need most memory."""
    room = _Room(evaluator)
    waiting = sorted(_slots(evaluator), key=lambda slot: -_size(slot.content))
    while waiting:
        count = room.pieces(waiting[0].content)
        batch = waiting[:count]
        waiting = waiting[count:]
        yield batch


def _slots(evaluator: Evaluator) -> Iterator[_Slot]:
    examples = evaluator.data.examples
    for start in range(0, len(examples), READ_TOGETHER):
        pieces = evaluator.pieces_of(examples[start : start + READ_TOGETHER])
        for number, inputs in enumerate(pieces, start):
            for index, piece in enumerate(inputs):
                yield _Slot(example=number, piece=index, content=piece)


def _outputs(
    evaluator: Evaluator, batch: list[_Slot], run: Callable[[Batch], list[Any]] | None = None
) -> list[Any]:
    """The model's output; if memory runs out, the batch is split into halves."""
    try:
        with torch.inference_mode():
            return (run or evaluator.run)(stacked(evaluator, [slot.content for slot in batch]))
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    if len(batch) == 1:
        raise ResourceError(
            f"There was not enough memory for one example of {evaluator.data.name}; close other "
            "programs, or choose another device."
        )
    half = len(batch) // 2
    return _outputs(evaluator, batch[:half]) + _outputs(evaluator, batch[half:])


def stacked(evaluator: Evaluator, pieces: Sequence[Piece]) -> Batch:
    """Pieces as a batch, on the model's device."""
    inputs = {n: t.to(evaluator.model.device) for n, t in evaluator.stack(pieces).items()}
    return Batch(inputs=inputs, notes=[piece.note for piece in pieces])


class _Room:
    """The number of pieces per batch, from the memory of one."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._largest = 0
        self._most = MOST
        self._measured = 0
        self._taken = 0

    def pieces(self, piece: Piece) -> int:
        """How many pieces like this one a batch may have.

        Memory is measured again if it may no longer suffice: it grows at most with size squared.
        """
        size = _size(piece)
        if size > self._largest:
            self._largest = size
            if self._measured:
                growth = (size / self._measured) ** 2
            else:
                growth = math.inf
            self._most = self._fitting(max(self._taken, 1) * growth)
            if self._most < MOST:
                largest = _largest_output(self._evaluator, piece)
                fixed_bytes = self._evaluator.kept_bytes(piece)
                self._measured = size
                self._taken = _TIMES_LARGEST * largest + fixed_bytes
                self._most = self._fitting(self._taken)
        return self._most

    def _fitting(self, taken: float) -> int:
        device = self._evaluator.model.device
        return max(1, min(MOST, int(_BATCH_SHARE * free_bytes(device) / taken)))


def _size(piece: Piece) -> int:
    return max(tensor.numel() for tensor in piece.inputs.values())


def _largest_output(evaluator: Evaluator, piece: Piece) -> int:
    """Bytes of the largest output of a module for one piece."""
    sizes = [sum(tensor.nbytes for tensor in piece.inputs.values()), 1]

    def note(_module: Any, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.nbytes)

    hooks = [module.register_forward_hook(note) for module in evaluator.model.modules()]
    try:
        _outputs(evaluator, [_Slot(example=0, piece=0, content=piece)], evaluator.probe)
    finally:
        for hook in hooks:
            hook.remove()
    return max(sizes)
