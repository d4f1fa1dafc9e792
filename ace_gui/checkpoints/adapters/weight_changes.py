"""The changes that adapters make to single weights, as functions of the tensors in their files.

O outputs, I inputs, R rank, E experts. A change is a matrix of ``rows`` × ``width``: the weight as
it is stored, its first axis by all others; of a stack of experts, its first two axes by the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import ClassVar

import torch
from torch import Tensor

from ace_gui.checkpoints.header import TensorInfo

Read = Callable[[TensorInfo], Tensor]
"""Reads a tensor of an adapter: float32, in its stored shape."""


def _without_kernel_of_one(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:2] if set(shape[2:]) <= {1} else shape


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of the weight ``target``. ``shape``: as the weight is stored, as far as is known."""

    target: str

    uses_base: ClassVar[bool] = False
    """Whether the change depends on the base's own values, by ``base_shares``."""

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The tensors that are read for it."""
        values = (getattr(self, each.name) for each in fields(self))
        return tuple(value for value in values if isinstance(value, TensorInfo))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the change."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Elements of a row."""
        return math.prod(self.shape[1:])

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether the change is one of a weight of this shape; a kernel of 1 may be left out."""
        return _without_kernel_of_one(self.shape) == _without_kernel_of_one(shape)

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """Rows ``first`` to ``last`` of the change, float32, as a matrix."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class LowRank(Change):
    """Scale·B·A, turned where the weight is stored inputs × outputs (Hu et al. 2021, equation 3).

    A is R × I, B is O × R; of an embedding A is R × rows and B is columns × R, so that it is always
    ``turned``; of a convolution A is R × I × kernel and B is O × R × 1…. ``bare``: of a parameter
    that is targeted by itself, as it is stored. ``middle``: R × R × kernel, between a B and an A of
    kernel 1 (LyCORIS). ``magnitude``: the norms of the changed weight's
    outputs, which DoRA trains (Liu et al. 2024, equation 5): W = m · (W₀ + scale·B·A) / ‖…‖.
    """

    a: TensorInfo
    b: TensorInfo
    scale: float
    turned: bool
    embedding: bool = False
    bare: bool = False
    middle: TensorInfo | None = None
    magnitude: TensorInfo | None = None

    @property
    def uses_base(self) -> bool:  # type: ignore[override]
        """Whether it is DoRA's."""
        return self.magnitude is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the change, as the weight is stored."""
        if self.turned:
            return (self.a.shape[1], self.b.shape[0])
        kernel = self.a.shape[2:] if self.middle is None else self.middle.shape[2:]
        return (self.b.shape[0], self.a.shape[1], *kernel)

    def factors(self, read: Read) -> tuple[Tensor, Tensor]:
        """B and A as float32 matrices; a kernel's positions count as inputs."""
        a, b = read(self.a), read(self.b).flatten(1)
        if self.middle is not None:
            a = torch.einsum("rs...,si->ri...", read(self.middle), a.flatten(1))
        return b, a.flatten(1)

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """Rows of the change; for DoRA, of the change before it is scaled to the magnitudes."""
        b_OR, a_RI = self.factors(read)
        left, right = (a_RI.T, b_OR.T) if self.turned else (b_OR, a_RI)
        return (left[first:last] @ right).mul_(self.scale)


@dataclass(frozen=True, kw_only=True)
class StackedLowRank(Change):
    """Scale·B_e·A_e for each matrix e of a stack (PEFT's ``target_parameters``).

    A is E·R × I, expert by expert; B is O × R·E, the expert as its last index. ``shape`` is
    E × O × I, or E × I × O where ``turned``.
    """

    a: TensorInfo
    b: TensorInfo
    scale: float
    experts: int
    turned: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the stack."""
        sides = (self.b.shape[0], self.a.shape[1])
        return (self.experts, *(reversed(sides) if self.turned else sides))

    @property
    def width(self) -> int:
        """Elements of a row of one matrix."""
        return self.shape[2]

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """Rows of the change, counted through all matrices."""
        a_ERI = read(self.a).reshape(self.experts, -1, self.a.shape[1])
        b_ORE = read(self.b).reshape(self.b.shape[0], -1, self.experts)
        height, rows = self.shape[1], []
        for expert in range(first // height, -(-last // height)):
            start = expert * height
            own = slice(max(first - start, 0), min(last - start, height))
            a_RI, b_OR = a_ERI[expert], b_ORE[..., expert]
            left, right = (a_RI.T, b_OR.T) if self.turned else (b_OR, a_RI)
            rows.append(left[own] @ right)
        return torch.cat(rows).mul_(self.scale)


@dataclass(frozen=True, kw_only=True)
class AddedVector(Change):
    """Scale·vector, added to a bias (PEFT's ``lora_bias``)."""

    vector: TensorInfo
    scale: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the bias."""
        return self.vector.shape

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """Elements of the change, as a matrix of one column."""
        return read(self.vector)[first:last, None] * self.scale


@dataclass(frozen=True, kw_only=True)
class TokenRows(Change):
    """Single rows of an embedding, replaced (PEFT's ``trainable_token_indices``).

    ``table``: a new row for each of ``indices``. ``count``: rows of the embedding, 0 if unknown.
    """

    table: TensorInfo
    indices: tuple[int, ...]
    count: int = 0

    uses_base: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the embedding."""
        return (self.count, self.table.shape[1])

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether an embedding of this shape has these rows."""
        return len(shape) == 2 and shape[1] == self.table.shape[1] and max(self.indices) < shape[0]

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """The new rows; zeros elsewhere."""
        table = read(self.table)
        rows = torch.zeros(last - first, table.shape[1])
        for number, index in enumerate(self.indices):
            if first <= index < last:
                rows[index - first] = table[number]
        return rows


@dataclass(frozen=True, kw_only=True)
class _Flattened(Change):
    """A change whose kernel is flattened in its factors, so that the weight's shape is not known.

    ``known``: the weight's shape, once it is.
    """

    pieces: dict[str, TensorInfo] = field(hash=False)
    scale: float

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The factors."""
        return tuple(self.pieces.values())

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether rows and elements agree."""
        return len(shape) > 1 and self.shape == (shape[0], math.prod(shape[1:]))


@dataclass(frozen=True, kw_only=True)
class Hadamard(_Flattened):
    """LoHa: scale·(w1_a·w1_b) ⊙ (w2_a·w2_b), elementwise (Hyeon-Woo et al. 2022, Proposition 1).

    With ``t1`` and ``t2`` each product is that of three factors, for a convolution.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Outputs by inputs and kernel."""
        a, b = self.pieces["w1_a"].shape, self.pieces["w1_b"].shape
        if "t1" in self.pieces:
            return (a[1], b[1] * math.prod(self.pieces["t1"].shape[2:]))
        return (a[0], b[1])

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """Rows of the change."""
        first_, second = (self._half(read, number, first, last) for number in "12")
        return first_.mul_(second).mul_(self.scale)

    def _half(self, read: Read, number: str, first: int, last: int) -> Tensor:
        a, b = (read(self.pieces[f"w{number}_{letter}"]) for letter in "ab")
        if f"t{number}" in self.pieces:
            middle = read(self.pieces[f"t{number}"])
            return torch.einsum("ij...,ip,jr->pr...", middle, a[:, first:last], b).flatten(1)
        return a[first:last] @ b


@dataclass(frozen=True, kw_only=True)
class Kronecker(_Flattened):
    """LoKr: scale·(w1 ⊗ w2), each whole or a product of factors (Edalati et al. 2022)."""

    @property
    def _sides(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows and columns of w1 and w2."""
        pieces = self.pieces
        one = (
            pieces["w1"].shape
            if "w1" in pieces
            else (pieces["w1_a"].shape[0], *pieces["w1_b"].shape[1:])
        )
        if "w2" in pieces:
            two = pieces["w2"].shape
        elif "t2" in pieces:
            kernel = pieces["t2"].shape[2:]
            two = (pieces["w2_a"].shape[1], pieces["w2_b"].shape[1], *kernel)
        else:
            two = (pieces["w2_a"].shape[0], pieces["w2_b"].shape[1])
        return (one[0], math.prod(one[1:])), (two[0], math.prod(two[1:]))

    @property
    def shape(self) -> tuple[int, ...]:
        """Outputs by inputs and kernel."""
        one, two = self._sides
        return (one[0] * two[0], one[1] * two[1])

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """Rows of the change."""
        w1, w2 = self._whole(read, "1"), self._whole(read, "2")
        height = len(w2)
        start = first // height
        rows = torch.kron(w1[start : -(-last // height)], w2)
        return rows[first - start * height : last - start * height].mul_(self.scale)

    def _whole(self, read: Read, number: str) -> Tensor:
        pieces = self.pieces
        if f"w{number}" in pieces:
            return read(pieces[f"w{number}"]).flatten(1)
        a, b = (read(pieces[f"w{number}_{letter}"]) for letter in "ab")
        if f"t{number}" in pieces:
            middle = read(pieces[f"t{number}"])
            return torch.einsum("ij...,ip,jr->pr...", middle, a, b).flatten(1)
        return a @ b
