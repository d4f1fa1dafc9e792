"""How often the model in training disagrees with the experts; needs no labels.

The entropy of answers keeps falling even when they become certain and wrong. Training has gone far
enough when the merged model's answers no longer approach those of the experts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from ace_gui.engine.adapting.objectives import answers, batch_indices
from ace_gui.engine.evaluating.askers import Asker, Piece

INPUTS: Final = 128
"""Most inputs of each task."""

TOGETHER: Final = 16
"""Inputs per batch."""

_Inputs = Sequence[Sequence[Piece]]


class Disagreement:
    """Share of answers that differ from the expert's; mean over tasks, inputs and their answers."""

    def __init__(self, *seed: int) -> None:
        self._seed = seed
        self._tasks: dict[str, tuple[_Inputs, list[Tensor]]] = {}

    def add_expert(self, expert: Asker) -> None:
        """Store an expert's answers to some inputs of its task, if answers are choices."""
        if expert.has_entropy:
            examples = expert.data.examples
            chosen = batch_indices(len(examples), INPUTS, 0, self._seed)
            pieces = expert.pieces_of([examples[at] for at in chosen])
            self._tasks[expert.data.name] = pieces, list(_answers(expert, pieces))

    def knows(self, task: str) -> bool:
        """Whether the answers of the expert are stored."""
        return task in self._tasks

    def __call__(self, merged: Sequence[Asker]) -> float:
        """The disagreement of the merged model, given an asker for each task."""
        shares = []
        for asker in merged:
            pieces, wanted = self._tasks[asker.data.name]
            found = zip(wanted, _answers(asker, pieces), strict=True)
            each = [(own != theirs).double().mean() for own, theirs in found if len(own)]
            shares.append(torch.stack(each).mean())
        return float(torch.stack(shares).mean())


def _answers(asker: Asker, pieces: _Inputs) -> Iterator[Tensor]:
    """The indices of the answers to each input, R."""
    with torch.no_grad():
        for first in range(0, len(pieces), TOGETHER):
            for logits_RC in answers(asker, pieces[first : first + TOGETHER]):
                yield logits_RC.argmax(dim=1)
