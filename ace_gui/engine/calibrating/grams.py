"""The mean of x xᵀ over the inputs x of every matrix of an expert, for a few layers at a time.

A Gram matrix is often larger than its layer, so that all of them together would take more memory
than the model. The data pass through the model once for each group of layers, and only up to the
last layer of the group.

Nothing is padded: only inputs of one shape form a batch, so every row comes from the data. N
inputs, I wide.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import torch
from torch import Tensor

from ace_gui.engine.calibrating.model_parameters import LinearInputs, ModuleInput, Seen, locate
from ace_gui.engine.evaluating.evaluators import Batch, Evaluator
from ace_gui.engine.evaluating.loaded_models import stacked, stacked_batches
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.linalg.products import add_gram_, full_float32, mirror_
from ace_gui.recipe.values import TaskKind

CENTRE: Final = ".centre"
"""Suffix of the name of the mean input."""

_LEAST_BYTES: Final = 96_000_000
_SHARE: Final = 0.2
"""Multiple of the model's bytes that Gram matrices may take at a time, if that is more."""

_ROWS, _ENTRIES = 512, 1 << 20
"""Inputs that are multiplied at a time, and their entries: more rows of narrow inputs. A product
copies them, so that they are never all multiplied at once."""


class _Enough(Exception):  # noqa: N818 (no error: the group has all it wants)
    pass


def gram_groups(
    evaluator: Evaluator, expert: OpenedModel, widths: Mapping[str, int]
) -> tuple[dict[str, str], list[GramSums]]:
    """The stored names by the base's ("…[3]" of a stack), and the groups measured together.

    ``widths``: number of inputs, by the base's name of a tensor.
    """
    found = locate(evaluator.model, expert, widths)
    tensors = {
        name if index.index is None or len(own) == 1 else f"{name}[{index.index}]": index.name
        for name, own in found.items()
        for index in own
    }
    sizes: dict[str, int] = {}
    members: dict[str, list[ModuleInput]] = {}
    for name, own in found.items():
        for index in own:
            held = members.setdefault(index.parameter, [])
            if index not in held:
                held.append(index)
                size = 4 * widths[name] ** 2
                sizes[index.parameter] = sizes.get(index.parameter, 0) + size
    calls = _calls(evaluator, list(members))
    budget = max(_LEAST_BYTES, int(_SHARE * _bytes(evaluator)))
    groups = []
    for parameters in _grouped(list(dict.fromkeys(p.parameter for p in calls)), sizes, budget):
        until = None
        if evaluator.data.kind is not TaskKind.TEXT_TO_TEXT:  # which runs once per token written
            until = _next_call(calls, parameters)
        names = tuple(index.name for each in parameters for index in members[each])
        groups.append(GramSums(names, until))
    never = [p for p in members if p not in {call.parameter for call in calls}]
    rest = tuple(index.name for each in never for index in members[each])
    if rest:  # perhaps used by other inputs; unused ones take no memory
        last = groups.pop().names if groups else ()
        groups.append(GramSums(last + rest, None))
    return tensors, groups


def _bytes(evaluator: Evaluator) -> int:
    return sum(each.nbytes for each in evaluator.model.parameters())


def _grouped(order: Sequence[str], sizes: Mapping[str, int], budget: int) -> Iterator[list[str]]:
    group: list[str] = []
    held = 0
    for name in order:
        if group and held + sizes[name] > budget:
            yield group
            group, held = [], 0
        group.append(name)
        held += sizes[name]
    if group:
        yield group


def _calls(evaluator: Evaluator, parameters: Sequence[str]) -> list[ModuleInput]:
    """The matrices in the order in which one input passes through them."""
    pieces = evaluator.pieces_of(evaluator.data.examples[:1])[0]
    one = stacked(evaluator, pieces[:1])
    calls: list[ModuleInput] = []
    _run(evaluator, one, parameters, lambda index, _input: calls.append(index))
    return calls


def _next_call(calls: Sequence[ModuleInput], group: Sequence[str]) -> ModuleInput | None:
    last = max(n for n, call in enumerate(calls) if call.parameter in group)
    return next(
        (call for call in calls[last + 1 :] if call.index is None and calls.count(call) == 1), None
    )


def _run(evaluator: Evaluator, batch: Batch, parameters: Sequence[str], seen: Seen) -> None:
    named = dict(evaluator.model.named_parameters(remove_duplicate=False))
    chosen = {name: named[name].data for name in parameters}
    with torch.no_grad(), full_float32(), LinearInputs(chosen, seen):
        evaluator.run(batch)


class GramSums:
    """The running Gram matrices of a group. ``names``: stored names.

    ``until``: the matrix after which a pass can stop; None: it runs to the end.
    """

    def __init__(self, names: tuple[str, ...], until: ModuleInput | None) -> None:
        self.names, self._until = names, until
        self._grams: dict[str, Tensor] = {}
        self._totals: dict[str, Tensor] = {}
        self._rows: dict[str, int] = dict.fromkeys(names, 0)

    def add(self, evaluator: Evaluator) -> Iterator[int]:
        """Add the evaluator's inputs, batch by batch; yields the size of each batch."""
        wanted = {name.partition("[")[0] for name in self._rows}
        if self._until is not None:
            wanted.add(self._until.parameter)
        for batch in stacked_batches(evaluator):
            with contextlib.suppress(_Enough):
                _run(evaluator, batch, sorted(wanted), self._seen)
            yield len(batch.notes)

    def _seen(self, index: ModuleInput, input_NI: Tensor) -> None:
        if index == self._until:
            raise _Enough
        name = index.name
        if name not in self._rows or not len(input_NI):
            return
        if name not in self._grams:
            width = input_NI.shape[1]
            self._grams[name] = input_NI.new_zeros(width, width, dtype=torch.float32)
            self._totals[name] = input_NI.new_zeros(width, dtype=torch.float64)
        for rows_NI in torch.split(input_NI, max(_ROWS, _ENTRIES // input_NI.shape[1])):
            single_NI = rows_NI.float()
            add_gram_(self._grams[name], single_NI)
            self._totals[name] += single_NI.sum(dim=0)
        self._rows[name] += len(input_NI)

    def result(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """The means by stored name, with the mean inputs and the number of inputs.

        Consumes the sums.
        """
        tensors = {}
        for name, gram_II in self._grams.items():
            tensors[name] = mirror_(gram_II).div_(self._rows[name])
            tensors[name + CENTRE] = (self._totals[name] / self._rows[name]).float()
        self._grams, self._totals = {}, {}
        return tensors, self._rows
