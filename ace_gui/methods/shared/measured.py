"""What is measured of a tensor with each expert's own data, for methods that want data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import torch
from torch import Tensor

from ace_gui.errors import MethodError


class Need(StrEnum):
    """The statistics of the experts' data that a method needs. The value is displayed.

    ``INPUTS``: for each matrix, the mean of x xᵀ over its inputs x. ``GRADIENTS``: for each entry,
    the mean over examples of the squared gradient of ln p: the diagonal Fisher information.
    ``ENTROPY``: the method's own values, learned by minimising the entropy of the merged model's
    answers. ``LOSS``: the same with the loss on labelled inputs.
    """

    INPUTS = "inputs"
    GRADIENTS = "gradients"
    ENTROPY = "entropy"
    LOSS = "loss"

    @property
    def learned(self) -> bool:
        """Whether it is learned with the merged model, and not measured of each expert."""
        return self in {Need.ENTROPY, Need.LOSS}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One tensor an expert, in the order of the task vectors, float32.

    ``each``: of ``INPUTS``, I × I for a matrix of I inputs, not centred; of ``GRADIENTS``, shaped
    as the task vector. Each index may read the tensor from disk. ``centres``: of ``INPUTS``, the
    mean input (I). ``norms``, ``means``: Euclidean norm and mean of all that was measured in the
    expert's whole model. ``values``: what was learned, by name, for so many ``experts``.
    """

    each: Sequence[Tensor] = ()
    centres: Sequence[Tensor] = ()
    norms: tuple[float, ...] = ()
    means: tuple[float, ...] = ()
    values: Mapping[str, Tensor] = field(default_factory=dict)
    experts: int = 0


def required_measured(measured: Measured | None, experts: int) -> Measured:
    """What was measured. Raises MethodError if nothing was, or of another number of experts."""
    found = _given(measured)
    if len(found.each) != experts:
        raise MethodError(f"The measured statistics are not of these {experts} experts.")
    return found


def required_values(measured: Measured | None, experts: int) -> Mapping[str, Tensor]:
    """What was learned. Raises as ``required_measured``."""
    found = _given(measured)
    if found.experts != experts:
        raise MethodError(f"The learned values are not of these {experts} experts.")
    return found.values


def _given(measured: Measured | None) -> Measured:
    if measured is None:
        raise MethodError(
            "This method needs data: give every expert a task with `calibration` inputs."
        )
    return measured


def covariance(measured: Measured, t: int) -> Tensor:
    """C / Tr C of expert t's inputs, C = E[x xᵀ] − E[x] E[x]ᵀ (I × I), float64, a new tensor.

    Zero where the inputs never vary.
    """
    found_II = measured.each[t].to(torch.float64, copy=True)
    centre_I = measured.centres[t].to(torch.float64)
    found_II.addr_(centre_I, centre_I, alpha=-1)
    trace = float(found_II.diagonal().sum())
    return found_II.div_(trace) if trace > 0 else found_II.zero_()
