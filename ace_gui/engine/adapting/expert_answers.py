"""What the experts answer to the inputs of their own tasks, and how far other answers are from it.

R answers of an input (words or tokens, mostly one); C possible answers; K of them are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final

import torch
from torch import Tensor

from ace_gui.engine.adapting.hidden_states import HiddenStates
from ace_gui.engine.adapting.objectives import (
    INPUTS_AT_A_TIME,
    BoundedCache,
    TaskResults,
    answers,
    batch_indices,
)
from ace_gui.engine.adapting.padding import Padding, padding_of
from ace_gui.engine.evaluating.evaluators import Evaluator, Piece
from ace_gui.engine.evaluating.task_data import Example

LIKELIEST: Final = 64
"""Most answers of which an expert's probability is kept; the others count as one."""

LEAST_VARIANCE: Final = 1e-6
"""The variance of an expert's numbers, if they are nearly equal."""


@dataclass(frozen=True, kw_only=True)
class ExpertAnswer:
    """An expert's answer to one input."""

    pieces: Sequence[Piece]
    """The input. Of a text that is generated, also the expert's answer."""

    columns_RK: Tensor | None = None
    """The likeliest answers; None: all are kept."""

    values_RK: Tensor
    """ln p of the kept answers; or the number that is the answer (R × 1)."""

    log_others_R: Tensor | None = None
    """ln p of all other answers together; None: all are kept."""

    variance: float | None = None
    """The variance of the expert's numbers; None: answers have probabilities."""

    temperature: float = 1.0
    """By which logits are divided."""

    states: Sequence[Tensor] = ()
    """The expert's hidden states for each piece (L × H), if they are compared."""

    def divergence(self, outputs_RC: Tensor) -> Tensor:
        """KL(expert ‖ merge), averaged over the R answers, in nats; a scalar with its graph.

        ``outputs_RC``: logits of the merge. Numbers count as the means of normal distributions
        with ``variance``. 0 without any answer.
        """
        if not len(outputs_RC):
            return outputs_RC.sum()
        if self.variance is not None:
            difference_RK = outputs_RC - self.values_RK
            return (difference_RK**2).mean() / (2 * self.variance)
        log_RC = (outputs_RC / self.temperature).log_softmax(dim=1)
        if self.columns_RK is None or self.log_others_R is None:
            log_RK = log_RC
            term_of_others = torch.zeros(())
        else:
            log_RK = log_RC.gather(1, self.columns_RK)
            differences_R = self.log_others_R - _log_others(log_RC, self.columns_RK)
            term_of_others = (self.log_others_R.exp() * differences_R).mean()
        terms_RK = self.values_RK.exp() * (self.values_RK - log_RK)
        return terms_RK.sum(dim=1).mean() + term_of_others.to(terms_RK)

    def distance(self, states: Sequence[Tensor]) -> Tensor:
        """The mean squared difference of a merge's hidden states from the expert's, a scalar."""
        pairs = zip(states, self.states, strict=True)
        squares = [(merged_LH - expert_LH).square().mean() for merged_LH, expert_LH in pairs]
        return torch.stack(squares).mean()


def _log_others(log_RC: Tensor, columns_RK: Tensor) -> Tensor:
    """ln of the sum of p over all columns but these (R)."""
    return log_RC.scatter(1, columns_RK, -math.inf).logsumexp(dim=1)


@torch.no_grad()
def answers_of(
    expert: Evaluator,
    examples: Sequence[Example],
    temperature: float = 1.0,
    *,
    with_states: bool = False,
) -> list[ExpertAnswer]:
    """The expert's answers to its inputs, in order. ``temperature``: divides logits.

    ``with_states``: its hidden states are kept, too. Raises the errors of the evaluator, such as
    TaskError for a damaged picture.
    """
    answered_pieces: list[tuple[Sequence[Piece], Tensor]] = []
    states: list[list[Tensor]] = []
    inputs = expert.answered_pieces(examples)
    padding = padding_of(expert, list(chain.from_iterable(inputs)))
    hidden = None
    recording: AbstractContextManager[None] = nullcontext()
    if with_states:
        hidden = HiddenStates(expert.model)
        recording = hidden.recorded()
    with recording:
        for first in range(0, len(inputs), INPUTS_AT_A_TIME):
            batch = inputs[first : first + INPUTS_AT_A_TIME]
            answered_pieces += zip(batch, answers(expert, batch, padding, hidden), strict=True)
            if hidden is not None:
                states += [hidden.of(index) for index in range(len(batch))]
    if expert.answers_numbers:
        answered = _numbers(answered_pieces)
    else:
        answered = []
        for pieces, logits_RC in answered_pieces:
            answered.append(_likeliest(pieces, logits_RC, temperature))
    if hidden is None:
        return answered
    pairs = zip(answered, states, strict=True)
    return [replace(answer, states=states_of_answer) for answer, states_of_answer in pairs]


def _numbers(answered_pieces: Sequence[tuple[Sequence[Piece], Tensor]]) -> list[ExpertAnswer]:
    """Answers that are numbers, with the variance of all."""
    numbers = torch.cat([values_RC.reshape(-1) for _, values_RC in answered_pieces])
    variance = max(float(numbers.double().var(correction=0)), LEAST_VARIANCE)
    answered = []
    for pieces, values_RC in answered_pieces:
        answered.append(ExpertAnswer(pieces=pieces, values_RK=values_RC, variance=variance))
    return answered


def _likeliest(
    pieces: Sequence[Piece], logits_RC: Tensor, temperature: float = 1.0
) -> ExpertAnswer:
    """The likeliest answers with their probabilities, and the probability of all others."""
    log_RC = (logits_RC / temperature).log_softmax(dim=1)
    if log_RC.shape[1] <= LIKELIEST + 1:
        return ExpertAnswer(pieces=pieces, values_RK=log_RC, temperature=temperature)
    values_RK, columns_RK = log_RC.topk(LIKELIEST, dim=1)
    return ExpertAnswer(
        pieces=pieces,
        columns_RK=columns_RK,
        values_RK=values_RK,
        log_others_R=_log_others(log_RC, columns_RK),
        temperature=temperature,
    )


class AlignedTask:
    """One task of a merge that learns to answer as its expert does.

    ``merged``: the merged model on the task; ``expected``: the expert's answers to its inputs.
    ``hidden``: weight of the distance of its hidden states from the expert's.
    """

    def __init__(
        self,
        merged: Evaluator,
        expected: Sequence[ExpertAnswer],
        *,
        size: int,
        seed: tuple[int, ...],
        hidden: float = 0.0,
    ) -> None:
        self.name = merged.data.name
        self._merged = merged
        self._expected = expected
        self._size = size
        self._seed = seed
        self._hidden_weight = hidden
        self._states = None
        if hidden:
            self._states = HiddenStates(merged.model)

    @cached_property
    def _padding(self) -> Padding | None:
        """How the inputs can be padded.

        It is tried when the first input is answered: only then are the merged weights sure to be in
        the model, and with other weights padding may seem to change nothing.
        """
        pieces = chain.from_iterable(answer.pieces for answer in self._expected)
        return padding_of(self._merged, list(pieces))

    def __call__(self, step: int, _cache: BoundedCache) -> TaskResults:
        """The mean divergence on the step's batch, and that of hidden states, with its graph."""
        chosen = batch_indices(len(self._expected), self._size, step, self._seed)
        expected = [self._expected[index] for index in chosen]
        if self._states is None:
            loss = self._divergences(expected).mean()
        else:
            loss = self._loss_with_states(expected, self._states)
        return TaskResults(loss=loss, spread=None, distance=None)

    def _loss_with_states(self, expected: Sequence[ExpertAnswer], states: HiddenStates) -> Tensor:
        """The mean divergence, and the weighted mean distance of hidden states."""
        with states.recorded():
            divergence = self._divergences(expected, states).mean()
        distances = []
        for index, answer in enumerate(expected):
            distances.append(answer.distance(states.of(index)))
        return divergence + self._hidden_weight * torch.stack(distances).mean()

    @torch.no_grad()
    def divergence(self, expected: Sequence[ExpertAnswer]) -> float:
        """The mean divergence from these answers, in nats."""
        divergences = []
        for first in range(0, len(expected), INPUTS_AT_A_TIME):
            batch = expected[first : first + INPUTS_AT_A_TIME]
            divergences.append(self._divergences(batch).double())
        return float(torch.cat(divergences).mean())

    def _divergences(
        self, expected: Sequence[ExpertAnswer], states: HiddenStates | None = None
    ) -> Tensor:
        inputs = [answer.pieces for answer in expected]
        outputs = answers(self._merged, inputs, self._padding, states)
        pairs = zip(expected, outputs, strict=True)
        return torch.stack([answer.divergence(output_RC) for answer, output_RC in pairs])


@torch.no_grad()
def distinction(
    model: Evaluator, inputs: Sequence[Sequence[Piece]], padding: Padding | None
) -> float:
    """How far apart a model's answers to these inputs are, in nats.

    The entropy of the mean answer less the mean entropy: the mutual information of input and
    answer. Large if the model is sure of answers that differ. ``model``: one whose answers have
    probabilities. ``padding``: how its inputs can be padded.
    """
    entropies: list[Tensor] = []
    sums: list[Tensor] = []
    answer_count = 0
    for first in range(0, len(inputs), INPUTS_AT_A_TIME):
        for logits_RC in answers(model, inputs[first : first + INPUTS_AT_A_TIME], padding):
            p_RC = logits_RC.double().softmax(dim=1)
            entropies.append(torch.special.entr(p_RC).sum())
            sums.append(p_RC.sum(dim=0))
            answer_count += len(p_RC)
    if not answer_count or len({total_C.shape for total_C in sums}) > 1:
        return 0.0
    mean_C = torch.stack(sums).sum(dim=0) / answer_count
    mean_entropy = float(torch.stack(entropies).sum()) / answer_count
    return max(float(torch.special.entr(mean_C).sum()) - mean_entropy, 0.0)
