"""What some methods store for each expert besides the merged weights. O outputs, I inputs.

The model of one task can be rebuilt from it. That model is closer to the expert than the merged
model, and the stored part is far smaller than the expert.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

import torch
from torch import Tensor

from ace_gui.linalg.singular import Triplets
from ace_gui.methods.shared.experts import Experts

Parameters = TypeVar("Parameters")


class ModuleKind(StrEnum):
    """How a model uses its modules. The value is written in ``modules.json``."""

    TASK = "task"
    """The caller names the task and gets that expert's model."""
    SMILE = "smile"
    """Each layer routes its inputs to the experts' parts of it."""
    MIXTURE = "mixture"
    """A trained router mixes the experts' differences for each example, over the whole model."""
    CHOICE = "choice"
    """A trained router selects one expert's difference for each example."""
    SURGERY = "surgery"
    """The features before the head of the named task are changed."""
    BLOCKS = "blocks"
    """A trained router in each MLP block mixes the experts' blocks for each example."""


ROUTED_ONCE: Final = frozenset({ModuleKind.MIXTURE, ModuleKind.CHOICE})
"""Kinds with one router for the whole model, trained on the features of the model's body."""


@dataclass(frozen=True, kw_only=True)
class Mask:
    """What one expert uses of one part of the merged model."""

    chosen: Tensor
    """The entries, bool."""
    expert_sum: float = 0.0
    """The method's sum over the expert's entries of the part, such as that of magnitudes;
    ``Masks.scale`` gets the total over all parts.
    """
    merged_sum: float = 0.0
    """The same sum over the chosen entries of the merged task vector."""


@dataclass(frozen=True, kw_only=True)
class Masks(Generic[Parameters]):
    """Expert t is W₀ + scale_t · mask_t ⊙ (W − W₀), entry by entry, W being the merged model."""

    masks_of: Callable[[Experts, Parameters, int], Iterator[Mask]]
    """Yields one mask per expert, from the experts' entries of a part, the parameters and the
    number of entries of the whole tensor.
    """
    scale: Callable[[Parameters, float, float], float]
    """Returns one number per expert for the whole model, from the parameters and the totals of
    ``expert_sum`` and ``merged_sum``.
    """


@dataclass(frozen=True, kw_only=True)
class Factors(Generic[Parameters]):
    """Expert t is W₀ + U_t diag(S_t) V_tᵀ in matrices, and the merged model elsewhere."""

    triplets_of: Callable[[Experts], Iterator[Triplets]]
    """Yields the triplets of each expert for a matrix."""
    rank: Callable[[int, int, int], int]
    """Returns the most triplets of an expert, from O, I, and the number of experts that have the
    matrix.
    """


@dataclass(frozen=True, kw_only=True)
class StoredPart:
    """What is stored of a difference: everything if all fields are None."""

    density: float | None = None
    """Share of its entries: those that are the largest in the whole model."""
    density_in_rows: float | None = None
    """Share of the entries of each row of a matrix (outputs × inputs)."""
    rank: int | None = None
    """Number of leading triplets of each matrix; other tensors are kept whole."""


@dataclass(frozen=True, kw_only=True)
class Differences(Generic[Parameters]):
    """Expert t is W + D_t, where W is the merged model; of D_t only ``stored_part`` is stored."""

    differences_of: Callable[[Experts, Parameters], Iterator[Tensor]]
    """Yields one D_t per expert, in order, from the experts' tensor (or a flat part of it if
    entries are selected) and the parameters.
    """
    stored_part: Callable[[Parameters], StoredPart]
    """The part of D_t that is stored."""
    kind: ModuleKind = ModuleKind.TASK
    """How a model uses the modules."""
    with_biases: bool = False
    """Whether the biases of the matrices have differences, too."""
    roles: frozenset[str] | None = None
    """Only for tensors of these roles; None: for all that the method merges."""
    share_at_start: Callable[[Parameters], float] | None = None
    """Only for ``BLOCKS``, whose D_t are differences from the base: returns the share of each
    expert with which the routers start. The parameters then also have ``steps``, ``learning_rate``
    and ``patience``.
    """


@dataclass(frozen=True, kw_only=True)
class Corrections(Generic[Parameters]):
    """h − Up ReLU(Down h) for the features h before each task's head, trained to match the expert.

    The parameters have ``steps`` and ``learning_rate``.
    """

    rank: Callable[[Parameters], int]
    """Returns the number of rows of Down."""


Modules = (
    Masks[Parameters] | Factors[Parameters] | Differences[Parameters] | Corrections[Parameters]
)


def kind_of(modules: Modules[Parameters]) -> ModuleKind:
    """How a model uses these modules."""
    if isinstance(modules, Corrections):
        return ModuleKind.SURGERY
    if isinstance(modules, Differences):
        return modules.kind
    return ModuleKind.TASK


def needs_base(modules: Modules[Parameters]) -> bool:
    """Whether an expert is rebuilt from the base's weights, not only from the merged weights."""
    return isinstance(modules, Masks | Factors)


def are_entrywise(modules: Modules[Parameters], parameters: Parameters) -> bool:
    """Whether they are computed entry by entry, so that a tensor can be read in parts."""
    if isinstance(modules, Differences):
        return modules.stored_part(parameters).density is not None
    return isinstance(modules, Masks)


def learns(modules: Modules[Parameters] | None) -> bool:
    """Whether they are trained, at least in part, with the experts' calibration inputs."""
    trained = {*ROUTED_ONCE, ModuleKind.SURGERY, ModuleKind.BLOCKS}
    return modules is not None and kind_of(modules) in trained


def packed(mask: Tensor) -> Tensor:
    """A flat bool mask as uint8, eight entries per byte, the first in the lowest bit."""
    size = math.ceil(mask.numel() / 8)
    bits = torch.zeros(size * 8, dtype=torch.uint8)
    bits[: mask.numel()] = mask.reshape(-1)
    return (bits.reshape(-1, 8) * _bit_values()).sum(dim=1, dtype=torch.uint8)


def unpacked(bits: Tensor, entries: int) -> Tensor:
    """The flat bool mask of this many entries."""
    return (bits[:, None] & _bit_values()).ne(0).reshape(-1)[:entries]


def _bit_values() -> Tensor:
    """1, 2, 4, … 128, uint8."""
    return torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8)
