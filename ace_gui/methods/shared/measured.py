"""Statistics and learned values of a tensor, for methods that need the experts' data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import torch
from torch import Tensor

from ace_gui.errors import MethodError


class Need(StrEnum):
    """The statistics of the experts' data that a method needs. The value is displayed."""

    INPUTS = "inputs"
    """For each matrix, the mean of x xᵀ over its inputs x."""
    GRADIENTS = "gradients"
    """For each entry, the mean over examples of the squared gradient of ln p: the diagonal Fisher
    information.
    """
    ENTROPY = "entropy"
    """The method's own values, learned by minimising the entropy of the merged model's answers."""
    LOSS = "loss"
    """The same by minimising the loss on labelled inputs."""
    ANSWERS = "answers"
    """The same by minimising the divergence from the experts' answers."""

    @property
    def learned(self) -> bool:
        """Whether it is learned with the merged model. Otherwise it is measured for each expert."""
        return self in {Need.ENTROPY, Need.LOSS, Need.ANSWERS}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The statistics or learned values of one tensor, float32, in the order of the task vectors."""

    by_expert: Sequence[Tensor] = ()
    """One tensor per expert. For ``INPUTS`` it is I × I for a matrix of I inputs, not centred. For
    ``GRADIENTS`` it has the shape of the task vector. Indexing may read from disk.
    """
    centres: Sequence[Tensor] = ()
    """For ``INPUTS``, the mean input (I)."""
    norms: tuple[float, ...] = ()
    """By expert, the Euclidean norm of ``by_expert``'s statistics over the whole model."""
    means: tuple[float, ...] = ()
    """By expert, the mean of these statistics over all elements of the whole model."""
    values: Mapping[str, Tensor] = field(default_factory=dict)
    """The learned values by name."""
    expert_count: int = 0
    """Number of experts to which the learned values belong."""


def required_measured(measured: Measured | None, experts: int) -> Measured:
    """The statistics. Raises MethodError if there are none, or not one per expert."""
    statistics = _required(measured)
    if len(statistics.by_expert) != experts:
        raise MethodError(f"The measured statistics do not belong to these {experts} experts.")
    return statistics


def required_values(measured: Measured | None, experts: int) -> Mapping[str, Tensor]:
    """The learned values. Raises MethodError as ``required_measured`` does."""
    learned = _required(measured)
    if learned.expert_count != experts:
        raise MethodError(f"The learned values do not belong to these {experts} experts.")
    return learned.values


def _required(measured: Measured | None) -> Measured:
    if measured is None:
        raise MethodError(
            "This method needs data: give every expert a task with `calibration` inputs."
        )
    return measured


def covariance(measured: Measured, t: int) -> Tensor:
    """C / Tr C of expert t's inputs, C = E[x xᵀ] − E[x] E[x]ᵀ (I × I), float64, a new tensor.

    Zero where the inputs never vary.
    """
    covariance_II = measured.by_expert[t].to(torch.float64, copy=True)
    mean_I = measured.centres[t].to(torch.float64)
    covariance_II.addr_(mean_I, mean_I, alpha=-1)
    trace = float(covariance_II.diagonal().sum())
    if trace > 0:
        return covariance_II.div_(trace)
    return covariance_II.zero_()
