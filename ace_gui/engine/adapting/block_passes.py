"""Inputs that pass a model block by block, with the parameters of one block in memory.

Before its first block the model runs as usual; what the blocks are called with, besides the hidden
states, is recorded there. N inputs of one shape; L tokens or pixels; H features.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from ace_gui.engine.adapting.hidden_states import block_list
from ace_gui.engine.adapting.padding import input_shapes
from ace_gui.engine.evaluating.evaluators import Batch, Evaluator, Piece
from ace_gui.errors import TaskError

ADVICE: Final = "train the whole model at once (`distil: {how: whole}`), or choose another method."


@dataclass(frozen=True, kw_only=True)
class BlockArguments:
    """What a block is called with, besides the hidden states."""

    positional: tuple[Any, ...]
    """By position, after the hidden states."""
    named: Mapping[str, Any]
    """By name."""


@dataclass(frozen=True, kw_only=True)
class PassingInputs:
    """Inputs of one shape on their way through the blocks."""

    indices: tuple[int, ...]
    """Of the inputs in their task."""
    states_NLH: Tensor
    """The input of the next block."""
    calls: Sequence[BlockArguments]
    """One for each block."""


class BlockModel:
    """A model whose blocks are filled and run one at a time.

    ``model``: without parameters. Raises TaskError if it is no single sequence of blocks.
    """

    def __init__(self, model: Any) -> None:
        outermost = block_list(model)
        if outermost is None:
            raise self._unfit(model, "has no list of blocks")
        self.model = model
        self.prefix, self.blocks = outermost
        for name, module in model.named_modules():
            is_in_list = name == self.prefix or name.startswith(f"{self.prefix}.")
            if not is_in_list and isinstance(module, nn.ModuleList) and len(module):
                raise self._unfit(model, "has several lists of blocks")

    def block_of(self, parameter: str) -> int | None:
        """The index of the block that has a parameter; None if it is outside of the blocks."""
        start = f"{self.prefix}."
        if not parameter.startswith(start):
            return None
        return int(parameter.removeprefix(start).partition(".")[0])

    def at_first_block(
        self,
        evaluator: Evaluator,
        pieces: Sequence[Sequence[Piece]],
        groups: Sequence[Sequence[int]],
        device: torch.device,
    ) -> list[PassingInputs]:
        """The inputs before the first block. ``groups``: indices of inputs of one shape.

        Raises TaskError if the blocks do not pass hidden states from one to the next.
        """
        passing = []
        for group in groups:
            stack = evaluator.stack([pieces[index][0] for index in group])
            inputs = {name: tensor.to(device) for name, tensor in stack.items()}
            notes = [pieces[index][0].note for index in group]
            batch = Batch(inputs=inputs, notes=notes)
            states_NLH, calls = self._first_states_and_calls(evaluator, batch)
            passing.append(PassingInputs(indices=tuple(group), states_NLH=states_NLH, calls=calls))
        return passing

    def _first_states_and_calls(
        self, evaluator: Evaluator, batch: Batch
    ) -> tuple[Tensor, list[BlockArguments]]:
        """The input of the first block, and the calls of all."""
        for form in _FORMS:
            recorder = _Recorder(self.blocks, form)
            with recorder.instead_of_blocks(self.model), torch.no_grad():
                try:
                    evaluator.rows(batch)
                except _AfterBlocks:
                    pass
                except _OtherStates:
                    continue
                except _MISFITS:  # the model cannot use what the block returned
                    continue
            if recorder.is_repeated:
                raise self._unfit(self.model, "runs some of its blocks more than once")
            if len(recorder.calls) == len(self.blocks) and recorder.states is not None:
                return recorder.states, recorder.calls
        raise self._unfit(self.model, "passes more than hidden states from block to block")

    def after_block(self, index: int, inputs: PassingInputs) -> PassingInputs:
        """The inputs after a block, whose parameters are in memory. Without a graph."""
        with torch.no_grad():
            return replace(inputs, states_NLH=self.output(index, inputs))

    def output(self, index: int, inputs: PassingInputs) -> Tensor:
        """What a block makes of its inputs, with its graph (N × L × H)."""
        call = inputs.calls[index]
        output: Any = self.blocks[index](inputs.states_NLH, *call.positional, **call.named)
        if isinstance(output, tuple | list):
            output = output[0]
        states_NLH: Tensor = output
        return states_NLH

    @staticmethod
    def _unfit(model: Any, what: str) -> TaskError:
        return TaskError(
            f"{type(model).__name__} {what}, so it cannot be trained block by block; {ADVICE}",
            key="how",
        )


class _AfterBlocks(Exception):  # noqa: N818 (no error: all blocks were called)
    pass


class _OtherStates(Exception):  # noqa: N818 (no error: blocks return something else)
    pass


_MISFITS: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What models raise when a block returns another form than they expect."""

_FORMS: Final[Sequence[Callable[[Tensor], Any]]] = (
    lambda states: states,
    lambda states: (states,),
    lambda states: (states, None),  # and attention weights that nobody asked for
)
"""The forms in which blocks return hidden states, in the order in which they are tried."""


class _Recorder:
    """Stands in for all blocks: each returns its input unchanged.

    The model is stopped at the first module that it calls after them. ``form``: of what a block
    returns.
    """

    def __init__(self, blocks: nn.ModuleList, form: Callable[[Tensor], Any]) -> None:
        self.calls: list[BlockArguments] = []
        """One for each block that was called."""
        self.states: Tensor | None = None
        """The hidden states before the first block."""
        self.is_repeated = False
        """Whether a block was called again after all of them."""
        self._blocks = blocks
        self._form = form

    @contextmanager
    def instead_of_blocks(self, model: nn.Module) -> Iterator[None]:
        """Context in which the blocks' inputs are recorded."""
        modules_in_blocks = set(self._blocks.modules())
        hooks = []
        for module in model.modules():
            if module not in modules_in_blocks:
                hooks.append(module.register_forward_pre_hook(self._stop_after_blocks))
        for block in self._blocks:
            block.forward = self._record
        try:
            yield
        finally:
            for block in self._blocks:
                del block.forward
            for hook in hooks:
                hook.remove()

    def _stop_after_blocks(self, _module: nn.Module, _inputs: Any) -> None:
        if len(self.calls) == len(self._blocks):
            raise _AfterBlocks

    def _record(self, *positional: Any, **named: Any) -> Any:
        if len(self.calls) == len(self._blocks):
            self.is_repeated = True
            raise _AfterBlocks
        if positional:
            states, *further_arguments = positional
        else:
            states = named.pop("hidden_states")
            further_arguments = []
        if self.states is None:
            self.states = states
        if states is not self.states:
            raise _OtherStates
        self.calls.append(BlockArguments(positional=tuple(further_arguments), named=named))
        return self._form(states)


def groups_of(pieces: Sequence[Sequence[Piece]], indices: Sequence[int]) -> list[list[int]]:
    """The indices of inputs of one shape together.

    Raises TaskError for inputs of several pieces.
    """
    by_shape = defaultdict[Any, list[int]](list)
    for index in indices:
        if len(pieces[index]) != 1:
            raise TaskError(
                f"Inputs of several pieces cannot pass a model block by block; {ADVICE}",
                key="how",
            )
        (piece,) = pieces[index]
        by_shape[input_shapes(piece)].append(index)
    return list(by_shape.values())


def free_parameters(module: nn.Module) -> None:
    """Give the memory of a module's parameters back."""
    for submodule in module.modules():
        for name, parameter in submodule._parameters.items():
            if parameter is not None:
                placeholder = nn.Parameter(parameter.to("meta"), requires_grad=False)
                submodule._parameters[name] = placeholder
