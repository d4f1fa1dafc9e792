"""How often the model that is learned answers otherwise than the experts themselves; no labels.

The entropy of answers falls on and on, also where they become sure and wrong. Where the merged
model's answers stop coming nearer to those of the experts, it has fallen far enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from ace_gui.engine.adapting.objectives import answers, has_entropy, places
from ace_gui.engine.evaluating.askers import Asker, Piece

INPUTS: Final = 128
"""Of each task at most."""

TOGETHER: Final = 16
"""Inputs that are asked at a time."""

_Inputs = Sequence[Sequence[Piece]]


class Disagreement:
    """The share of answers that are not the expert's: mean over tasks, inputs, answers of one."""

    def __init__(self, *seed: int) -> None:
        self._seed = seed
        self._tasks: dict[str, tuple[_Inputs, list[Tensor]]] = {}

    def hear(self, expert: Asker) -> None:
        """Keep what an expert answers to some inputs of its task, if that is one of several."""
        if has_entropy(expert.data.kind):
            examples = expert.data.examples
            chosen = places(len(examples), INPUTS, 0, self._seed)
            pieces = expert.pieces_of([examples[at] for at in chosen])
            self._tasks[expert.data.name] = pieces, list(_said(expert, pieces))

    def knows(self, task: str) -> bool:
        """Whether its expert was heard."""
        return task in self._tasks

    def __call__(self, merged: Sequence[Asker]) -> float:
        """Of the merged model, by who asks it about each task."""
        shares = []
        for asker in merged:
            pieces, wanted = self._tasks[asker.data.name]
            found = zip(wanted, _said(asker, pieces), strict=True)
            each = [(own != said).double().mean() for own, said in found if len(own)]
            shares.append(torch.stack(each).mean())
        return float(torch.stack(shares).mean())


def _said(asker: Asker, pieces: _Inputs) -> Iterator[Tensor]:
    """The places of the answers to each input, R."""
    with torch.no_grad():
        for first in range(0, len(pieces), TOGETHER):
            for said_RC in answers(asker, pieces[first : first + TOGETHER]):
                yield said_RC.argmax(dim=1)
