"""How much of a tensor's changes is the rounding of quantised models.

Rounding to steps of width s adds errors of variance s²/12, independent of the change. A change
W_t − W₀ has those of both models. An adapter's change has none: it was trained on its base as it is
dequantised, and is added to exactly that.
"""

from __future__ import annotations

from math import prod
from typing import Final

from ace_gui.checkpoints.derived import ChangedInfo
from ace_gui.checkpoints.reader import DerivedInfo
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.readers import ModelReader, Readers
from ace_gui.engine.merging.task_vectors import gram
from ace_gui.engine.planning.models import answering_name
from ace_gui.engine.streaming import Part

_PLACES: Final = 8
_WIDTH: Final = 1 << 15
"""Places of a tensor at which its changes are measured, and elements at each."""


def quantisation_noise(row: PlanRow, readers: Readers) -> float | None:
    """The share of the rounding in the energy of the experts' changes, at most 1.

    It is estimated at a few places of the tensor. None if no model is quantised here, or the
    experts have no change. Raises the errors of reading.
    """
    base = _rounding(readers.base, row.tensor)
    roundings = []
    for t in row.experts:
        expert = readers.experts[t]
        roundings.append(_of_change(base, expert, answering_name(row, expert.model)))
    if not any(roundings):
        return None
    gram_TT, base_energy = gram(row, readers, _sampled(prod(row.shape)))
    changes = float(gram_TT.trace())
    if changes:
        return min(1.0, sum(roundings) * base_energy / changes)
    return None


def _of_change(base: float, expert: ModelReader, name: str) -> float:
    """The rounding in a change, relative to the energy of the base."""
    info = expert.model.checkpoint.tensors[expert.model.own_names[name]]
    if isinstance(info, ChangedInfo) and not info.brought and name not in expert.model.token_rows:
        return 0.0
    return base + _rounding(expert, name)


def _rounding(model: ModelReader, name: str) -> float:
    """The rounding of a quantised tensor, relative to its energy; 0 for others."""
    info = model.model.checkpoint.tensors[model.model.own_names[name]]
    if isinstance(info, DerivedInfo):
        return info.rounding(model.reader)
    return 0.0


def _sampled(elements: int) -> list[Part]:
    """Parts of a tensor, evenly spaced; all of a small one."""
    if elements <= _PLACES * _WIDTH:
        return [(0, elements)]
    starts = [(elements - _WIDTH) * place // (_PLACES - 1) for place in range(_PLACES)]
    return [(start, start + _WIDTH) for start in starts]
