"""What a model's middle block gives for each input, for methods that compare hidden states.

N inputs of a batch; L tokens or pixels; H features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, nn

from ace_gui.engine.adapting.padding import length_of
from ace_gui.engine.evaluating.evaluators import Piece
from ace_gui.errors import TaskError


class BlockList(NamedTuple):
    """The blocks of a model."""

    name: str
    """Name of the list in the model."""
    blocks: nn.ModuleList
    """The list."""


def block_list(model: Any) -> BlockList | None:
    """The model's blocks: the outermost list of modules, the longest one; None without a list."""
    lists = []
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module):
            lists.append(BlockList(name=name, blocks=module))
    if not lists:
        return None

    def depth_and_shortness(entry: BlockList) -> tuple[int, int]:
        return entry.name.count("."), -len(entry.blocks)

    return min(lists, key=depth_and_shortness)


def middle_block(model: Any) -> nn.Module:
    """The block in the middle of the model. Raises TaskError if it has no list of blocks."""
    outermost = block_list(model)
    if outermost is None:
        raise TaskError(
            f"{type(model).__name__} has no list of blocks, so no hidden states can be compared; "
            "set `hidden` to 0.",
            key="hidden",
        )
    blocks = outermost.blocks
    return blocks[(len(blocks) - 1) // 2]


class HiddenStates:
    """The outputs of a model's middle block, by input, while ``recorded`` is entered."""

    def __init__(self, model: Any) -> None:
        self._block = middle_block(model)
        self._latest: Tensor | None = None
        """The block's output for the latest batch (N × L × H)."""
        self._states: dict[tuple[int, int], Tensor] = {}
        """By the index of the example, and of the piece in it (L × H)."""

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Context in which the model's outputs are recorded. Earlier ones are forgotten."""
        self._states = {}
        hook = self._block.register_forward_hook(self._record)
        try:
            yield
        finally:
            hook.remove()
            self._latest = None

    def _record(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, tuple):
            self._latest = output[0]
        else:
            self._latest = output

    def assign(self, places: Sequence[tuple[int, int]], pieces: Sequence[Piece]) -> None:
        """Say which pieces the latest batch had; the output is cut to each one's length."""
        states_NLH = self._latest
        if states_NLH is None or len(states_NLH) != len(places):
            raise TaskError(
                "The model's blocks do not give one output for each input, so no hidden states "
                "can be compared; set `hidden` to 0.",
                key="hidden",
            )
        for place, piece, states_LH in zip(places, pieces, states_NLH, strict=True):
            length = length_of(piece) or len(states_LH)
            self._states[place] = states_LH[:length]

    def of(self, index: int) -> list[Tensor]:
        """The outputs for the pieces of an example, L × H each."""
        places = sorted(place for place in self._states if place[0] == index)
        return [self._states[place] for place in places]
