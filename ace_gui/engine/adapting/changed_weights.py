"""Weights with a change of low rank that is multiplied beside them while it is trained.

y = W x + U (D x): neither W + U D nor its gradient is made. O outputs, I inputs, K rank; N rows of
a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class LowRankChange:
    """U D."""

    up_OK: Tensor
    down_KI: Tensor

    def product(self) -> Tensor:
        """U D itself (O × I)."""
        return self.up_OK @ self.down_KI


@dataclass(frozen=True, kw_only=True)
class WeightRows:
    """Consecutive rows of a weight."""

    count: int

    change: LowRankChange | None
    """What is added to them; None: nothing."""

    first: int = 0
    """The row of the change that is added to the first of them."""

    def factors(self) -> tuple[Tensor, Tensor] | None:
        """The rows of U that are added here (N × K), and D; None without a change."""
        if self.change is None:
            return None
        up_OK = self.change.up_OK
        if self.count < len(up_OK):
            up_OK = up_OK[self.first : self.first + self.count]
        return up_OK, self.change.down_KI


class ChangedWeight(Tensor):
    """A weight that behaves as W + U D.

    Linear layers and transformers' ``Conv1D`` multiply by U and D one after the other. Every other
    operation gets the sum, so no use of the weight misses the change.
    """

    rows: Sequence[WeightRows]

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if func is functional.linear and _only_is_changed(args, 1):
                return _linear(*args, **named)
            if func is torch.addmm and _only_is_changed(args, 2) and not named:
                return _addmm(*args)
            named = {name: _as_sums(value) for name, value in named.items()}
            return func(*_as_sums(args), **named)


def changed_weight(weight: Tensor, rows: Sequence[WeightRows]) -> ChangedWeight:
    """A weight with changes to its rows; it has the weight's memory, and takes no gradient."""
    changed = weight.detach().as_subclass(ChangedWeight)
    changed.rows = rows
    return changed


def _only_is_changed(args: Sequence[Any], place: int) -> bool:
    """Whether the argument at this place is the only changed weight."""
    changed = [index for index, value in enumerate(args) if isinstance(value, ChangedWeight)]
    return changed == [place]


def _linear(x: Tensor, weight: ChangedWeight, bias: Tensor | None = None) -> Tensor:
    """``functional.linear``: the rows of the weight are its outputs."""
    result = functional.linear(x, weight.as_subclass(Tensor), bias)
    columns_of_rows = torch.split(result, [rows.count for rows in weight.rows], dim=-1)
    changed = []
    for columns, rows in zip(columns_of_rows, weight.rows, strict=True):
        factors = rows.factors()
        if factors is None:
            changed.append(columns)
        else:
            changed.append(_plus_product(columns, x, *factors))
    if len(changed) == 1:
        return changed[0]
    return torch.cat(changed, dim=-1)


def _plus_product(outputs: Tensor, x: Tensor, up_NK: Tensor, down_KI: Tensor) -> Tensor:
    """Outputs + U (D x); both have any number of leading dimensions."""
    inner = functional.linear(x, down_KI)
    flat_outputs = outputs.reshape(-1, outputs.shape[-1])
    flat_inner = inner.reshape(-1, inner.shape[-1])
    return torch.addmm(flat_outputs, flat_inner, up_NK.mT).reshape(outputs.shape)


def _addmm(bias: Tensor, x: Tensor, weight: ChangedWeight) -> Tensor:
    """``torch.addmm`` as in transformers' ``Conv1D``: the rows of the weight are its inputs."""
    result = torch.addmm(bias, x, weight.as_subclass(Tensor))
    columns_of_rows = torch.split(x, [rows.count for rows in weight.rows], dim=1)
    for columns, rows in zip(columns_of_rows, weight.rows, strict=True):
        factors = rows.factors()
        if factors is not None:
            up_NK, down_KI = factors
            result = torch.addmm(result, columns @ up_NK, down_KI)
    return result


def _as_sums(value: Any) -> Any:
    """The value with every changed weight in it replaced by the sum."""
    if isinstance(value, ChangedWeight):
        return _sum(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_as_sums, value))
    return value


def _sum(weight: ChangedWeight) -> Tensor:
    """W + U D, with its graph."""
    plain = weight.as_subclass(Tensor)
    parts = []
    plain_parts = torch.split(plain, [rows.count for rows in weight.rows])
    for part, rows in zip(plain_parts, weight.rows, strict=True):
        factors = rows.factors()
        if factors is None:
            parts.append(part)
        else:
            up_NK, down_KI = factors
            parts.append(part + up_NK @ down_KI)
    return torch.cat(parts)
