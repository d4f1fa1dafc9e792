"""Inputs of different lengths in one batch, for models that do not see the padding.

Scores never pad: a batch has inputs of one length. Training passes a few inputs many times, and is
several times faster with them in one batch. L tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.engine.evaluating.evaluators import Evaluator, Piece
from ace_gui.engine.evaluating.loaded_models import stacked

IDS: Final = "input_ids"
MASK: Final = "attention_mask"
PADDED: Final = frozenset({IDS, MASK, "token_type_ids"})
"""Inputs that can be padded. A model with others is run without padding."""

BATCH_COST: Final = 32
"""A further batch takes as long as this many more tokens, in a model of 11 million parameters."""

TRIAL_INPUTS: Final = 4
"""Inputs with which a model is tried."""

LARGEST_DIFFERENCE: Final = 1e-4
"""Largest difference of logits that padding may make, as a share of the largest logit."""


@dataclass(frozen=True, kw_only=True)
class Padding:
    """How inputs are made longer."""

    token: int
    """The index of the padding token."""

    def together(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The pieces, padded on the right to the longest."""
        longest = max(length_of(piece) for piece in pieces)
        return [self._padded(piece, longest) for piece in pieces]

    def grouped(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The pieces in their order, each padded to the longest of its group of similar length."""
        order = sorted(range(len(pieces)), key=lambda index: length_of(pieces[index]))
        lengths = [length_of(pieces[index]) for index in order]
        padded = list(pieces)
        for first, stop in groups_by_length(lengths):
            for index in order[first:stop]:
                padded[index] = self._padded(pieces[index], lengths[stop - 1])
        return padded

    def _padded(self, piece: Piece, longest: int) -> Piece:
        inputs = {}
        for name, token_L in piece.inputs.items():
            if name == IDS:
                fill = self.token
            else:
                fill = 0
            inputs[name] = functional.pad(token_L, (0, longest - len(token_L)), value=fill)
        return replace(piece, inputs=inputs)


def groups_by_length(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of ascending lengths that are padded together, at the least cost in all."""
    # By the number of inputs, from the shortest on: their least cost, and the start of the last of
    # the groups that have it.
    costs: list[int] = [0]
    firsts: list[int] = [0]
    for stop in range(1, len(lengths) + 1):
        longest = lengths[stop - 1]
        choices = []
        for first in range(stop):
            cost_of_last_group = BATCH_COST + longest * (stop - first)
            choices.append((costs[first] + cost_of_last_group, first))
        cost, first = min(choices)
        costs.append(cost)
        firsts.append(first)
    ranges = []
    stop = len(lengths)
    while stop:
        ranges.append((firsts[stop], stop))
        stop = firsts[stop]
    return ranges[::-1]


def padding_of(evaluator: Evaluator, pieces: Sequence[Piece]) -> Padding | None:
    """How the model's inputs can be padded; None if that changes answers, or has no use."""
    lengths = {length_of(piece) for piece in pieces if _can_be_padded(piece.inputs)}
    token = getattr(getattr(evaluator, "tokenizer", None), "pad_token_id", None)
    can_be_padded = all(_can_be_padded(piece.inputs) for piece in pieces)
    if token is None or not can_be_padded or len(lengths) < 2:
        return None
    padding = Padding(token=int(token))
    by_length = sorted(pieces, key=length_of)
    step = max(1, (len(by_length) - 1) // (TRIAL_INPUTS - 1))
    sample = [*by_length[::step][: TRIAL_INPUTS - 1], by_length[-1]]
    if _is_unseen(evaluator, sample, padding):
        return padding
    return None


def _can_be_padded(inputs: Mapping[str, Tensor]) -> bool:
    names = inputs.keys()
    return {IDS, MASK} <= names <= PADDED and all(tensor.ndim == 1 for tensor in inputs.values())


def length_of(piece: Piece) -> int:
    """The number of tokens of an input; 0 for one that is no text."""
    if IDS in piece.inputs:
        return len(piece.inputs[IDS])
    return 0


def input_shapes(piece: Piece) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The shapes of a piece's inputs by name. Pieces that agree in them fit into one batch."""
    return tuple((name, tuple(tensor.shape)) for name, tensor in piece.inputs.items())


@torch.no_grad()
def _is_unseen(evaluator: Evaluator, pieces: Sequence[Piece], padding: Padding) -> bool:
    """Whether the model gives padded pieces the answers of each alone."""
    padded = evaluator.rows(stacked(evaluator, padding.together(pieces)))
    for piece, together_RC in zip(pieces, padded, strict=True):
        (alone_RC,) = evaluator.rows(stacked(evaluator, [piece]))
        if alone_RC.shape != together_RC.shape:
            return False
        if not alone_RC.numel():
            continue
        largest = max(float(alone_RC.abs().max()), 1e-30)
        if not torch.allclose(alone_RC, together_RC, rtol=0, atol=LARGEST_DIFFERENCE * largest):
            return False
    return True
