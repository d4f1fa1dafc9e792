"""Objectives of training: the entropy of a model's answers, or their error; and when to stop.

The entropy keeps falling even when answers become certain and wrong. Training has gone far enough
when the merged model's answers no longer approach those of the experts, which needs no labels.

N examples; R answers of each (words or tokens, mostly one); C possible answers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.engine.adapting.hidden_states import HiddenStates
from ace_gui.engine.adapting.padding import Padding, input_shapes, padding_of
from ace_gui.engine.adapting.training_loop import StepResults
from ace_gui.engine.evaluating.evaluators import Evaluator, Piece
from ace_gui.engine.evaluating.loaded_models import stacked
from ace_gui.errors import MethodError, TaskError
from ace_gui.formatting import plain

INPUTS_AT_A_TIME: Final = 16
"""Inputs that an expert answers together."""

Result = TypeVar("Result")


class BoundedCache:
    """A cache of the first values, up to ``most_bytes``; others are computed each time.

    No value is ever dropped, so that each step takes as long as the one before.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._values: dict[Hashable, Any] = {}
        self._bytes = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """The cached result of ``make``. It must not be overwritten."""
        if key in self._values:
            cached: Result = self._values[key]
            return cached
        result = make()
        size = _bytes_of(result)
        if self._bytes + size <= self._most_bytes:
            self._values[key] = result
            self._bytes += size
        return result


def _bytes_of(value: Any) -> int:
    """The memory of tensors, and of what holds them; other values count as 64 bytes."""
    if isinstance(value, Tensor):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(_bytes_of, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_bytes_of, value))
    inputs = getattr(value, "inputs", None)
    if inputs is None:
        return 64
    return _bytes_of(dict(inputs))


@dataclass(frozen=True, kw_only=True)
class TaskResults:
    """The results of one task in one step."""

    loss: Tensor
    """Mean over the examples, with its graph."""
    spread: float | None
    """Entropy of the mean answer, in nats; near 0 if all inputs get one answer. None if answers
    have no probabilities.
    """
    distance: float | None
    """Share of answers that differ from the expert's; None if these are unknown."""


class TaskObjective:
    """One task: its model, its examples, and a batch of them for each step.

    ``targets``: right answers; None: the entropy is minimised. ``expected``: the expert's answers
    (see ``expert_answers``), with which the merged model's are compared.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        targets: Sequence[Any] | None,
        *,
        size: int,
        seed: tuple[int, ...],
        expected: Sequence[Tensor] | None = None,
    ) -> None:
        if targets is None:
            has_loss = evaluator.has_entropy
        else:
            has_loss = evaluator.learns
        if not has_loss:
            raise TaskError(
                f"The task {evaluator.data.name} is {evaluator.kind.value}, from which nothing is "
                "learned here; choose a method that needs no data.",
                key="kind",
            )
        self.evaluator = evaluator
        self.name = evaluator.data.name
        self._targets = targets
        self._expected = expected
        self._size = size
        self._seed = seed
        self._key = ("inputs", self.name)
        """Start of the keys in the cache, before an example's index."""

    @cached_property
    def _padding(self) -> Padding | None:
        """How the inputs can be padded; tried on the first, when the first batch is answered.

        Only then are the merged weights sure to be in the model.
        """
        pieces = self.evaluator.pieces_of(self.evaluator.data.examples[:INPUTS_AT_A_TIME])
        return padding_of(self.evaluator, list(chain.from_iterable(pieces)))

    def __call__(self, step: int, cache: BoundedCache) -> TaskResults:
        """The loss on the step's batch; ``cache`` caches preprocessed inputs."""
        chosen = batch_indices(len(self.evaluator.data.examples), self._size, step, self._seed)
        pieces = self._pieces_of(chosen, cache)
        outputs = answers(self.evaluator, pieces, self._padding)
        if self._targets is None:
            losses = torch.cat([entropy(output) for output in _stacked(outputs)])
        else:
            losses_of_examples = []
            for output, index, example_pieces in zip(outputs, chosen, pieces, strict=True):
                if len(output):
                    loss = self.evaluator.loss(output, self._targets[index], example_pieces)
                else:  # 0, with a graph
                    loss = output.sum()
                losses_of_examples.append(loss)
            losses = torch.stack(losses_of_examples)
        if self.evaluator.has_entropy:
            spread = _spread(outputs)
        else:
            spread = None
        expected = self._expected
        if expected is None:
            distance = None
        else:
            distance = _distance(outputs, [expected[index] for index in chosen])
        return TaskResults(loss=losses.mean(), spread=spread, distance=distance)

    def _pieces_of(self, indices: Sequence[int], cache: BoundedCache) -> list[Sequence[Piece]]:
        """The preprocessed examples at these indices; those not yet cached are made together."""
        examples = self.evaluator.data.examples
        missing = [index for index in indices if (*self._key, index) not in cache]
        made: dict[int, Sequence[Piece]] = {}
        if missing:
            pieces = self.evaluator.pieces_of([examples[index] for index in missing])
            made = dict(zip(missing, pieces, strict=True))
        pieces_of_examples = []
        for index in indices:
            make = partial(made.__getitem__, index)
            pieces_of_examples.append(cache.get((*self._key, index), make))
        return pieces_of_examples


class LearnedTask(Protocol):
    """A task whose loss on the batch of each step is lowered."""

    name: str

    def __call__(self, step: int, cache: BoundedCache, /) -> TaskResults:
        """The loss on the step's batch; ``cache`` caches preprocessed inputs."""


def descended(tasks: Sequence[LearnedTask], step: int, cache: BoundedCache) -> StepResults:
    """Run the backward pass for the losses of all tasks, one after the other.

    Raises MethodError for a loss that is not finite.
    """
    losses = dict[str, float]()
    spreads = dict[str, float]()
    distances = list[float]()
    for task in tasks:
        with torch.enable_grad():
            outcome = task(step, cache)
            torch.autograd.backward(outcome.loss)
        losses[task.name] = float(outcome.loss.detach())
        if outcome.spread is not None:
            spreads[task.name] = outcome.spread
        if outcome.distance is not None:
            distances.append(outcome.distance)
        if not math.isfinite(losses[task.name]):
            raise MethodError(
                f"After {step} steps the loss of {plain(task.name)} is no number; choose a lower "
                "learning rate."
            )
    if distances:
        distance = sum(distances) / len(distances)
    else:
        distance = None
    return StepResults(losses=losses, spreads=spreads, distance=distance)


def entropy(outputs_NRC: Tensor) -> Tensor:
    """−Σ_c p_c ln p_c of logits, averaged over the answers of each example (N).

    0 for an example without answers, such as a text of one token, or with all words truncated.
    """
    if not outputs_NRC.shape[1]:
        return outputs_NRC.sum(dim=(1, 2))
    log_NRC = outputs_NRC.log_softmax(dim=2)
    return -(log_NRC.exp() * log_NRC).sum(dim=2).mean(dim=1)


def _stacked(outputs: Sequence[Tensor]) -> list[Tensor]:
    """All outputs as one N × R × C, or each by itself where their shapes differ."""
    have_one_shape = len({output.shape for output in outputs}) == 1
    if have_one_shape:
        return [torch.stack(list(outputs))]
    return [output[None] for output in outputs]


def batch_indices(count: int, size: int, step: int, seed: tuple[int, ...]) -> list[int]:
    """The indices of a step's batch. Each pass over the examples has a new random order.

    It depends only on the arguments, so that resumed training gives the same result.
    """
    size = min(size, count)
    first = step * size
    orders: dict[int, list[int]] = {}
    chosen = []
    for position in range(first, first + size):  # along all passes
        epoch = position // count
        if epoch not in orders:
            orders[epoch] = np.random.default_rng([*seed, epoch]).permutation(count).tolist()
        chosen.append(orders[epoch][position % count])
    return chosen


def _spread(outputs: Sequence[Tensor]) -> float:
    """Entropy of the mean answer.

    If each example has choices of its own, it is taken over their positions.
    """
    width = max(output.shape[1] for output in outputs)
    means = [output.detach().softmax(dim=2).mean(dim=1) for output in _stacked(outputs)]
    padded = [functional.pad(mean_NC, (0, width - mean_NC.shape[1])) for mean_NC in means]
    mean_C = torch.cat(padded).mean(dim=0).double()
    return float(torch.special.entr(mean_C).sum())


def answers(
    evaluator: Evaluator,
    pieces: Sequence[Sequence[Piece]],
    padding: Padding | None = None,
    states: HiddenStates | None = None,
) -> list[Tensor]:
    """Logits of every example, R × C; pieces of one shape go through the model together.

    With ``padding``, those of similar lengths do. ``states``: recorded meanwhile, and assigned
    to the pieces.
    """
    unpadded = pieces
    if padding is not None:
        padded = iter(padding.grouped(list(chain.from_iterable(pieces))))
        pieces = [list(islice(padded, len(example))) for example in pieces]
    # Where the pieces of one shape are: the indices of their example, and of the piece in it.
    places_by_shape = defaultdict[Any, list[tuple[int, int]]](list)
    for n, example in enumerate(pieces):
        for m, piece in enumerate(example):
            places_by_shape[input_shapes(piece)].append((n, m))
    rows: dict[tuple[int, int], Tensor] = {}
    for places in places_by_shape.values():
        batch = stacked(evaluator, [pieces[n][m] for n, m in places])
        rows |= dict(zip(places, evaluator.rows(batch), strict=True))
        if states is not None:
            states.assign(places, [unpadded[n][m] for n, m in places])
    joined = []
    for n, example in enumerate(pieces):
        joined.append(evaluator.joined([rows[n, m] for m in range(len(example))]))
    return joined


def expert_answers(expert: Evaluator) -> list[Tensor]:
    """The indices of the answers (R) that an expert gives to each input of its task."""
    examples = expert.data.examples
    chosen = list[Tensor]()
    with torch.no_grad():
        for first in range(0, len(examples), INPUTS_AT_A_TIME):
            pieces = expert.pieces_of(examples[first : first + INPUTS_AT_A_TIME])
            chosen += [logits_RC.argmax(dim=1) for logits_RC in answers(expert, pieces)]
    return chosen


def _distance(outputs: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The share of answers that differ from the expert's, averaged over inputs with answers."""
    distances = []
    for merged_RC, expert_R in zip(outputs, expected, strict=True):
        if len(merged_RC):
            merged_R = merged_RC.detach().argmax(dim=1)
            distances.append((merged_R != expert_R).double().mean())
    if distances:
        return float(torch.stack(distances).mean())
    return 0.0
