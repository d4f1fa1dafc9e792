"""The changes that adapters make to single weights, as functions of the tensors in their files.

O outputs, I inputs, R rank, E experts. A change is a matrix of ``rows`` × ``width``. Its rows are
the first axis of the stored weight, or the first two axes of a stack of experts.
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
    if set(shape[2:]) <= {1}:
        return shape[:2]
    return shape


@dataclass(frozen=True, kw_only=True)
class WeightChange:
    """A change of the weight ``target``. ``shape``: as the weight is stored, as far as is known."""

    target: str

    uses_base: ClassVar[bool] = False
    """Whether the change depends on the base's own values."""

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The tensors from which it is computed."""
        values = (getattr(self, field.name) for field in fields(self))
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
        """Whether the change fits a weight of this shape; a kernel of 1 may be left out."""
        return _without_kernel_of_one(self.shape) == _without_kernel_of_one(shape)

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """Rows ``first`` to ``last`` of the change, float32, as a matrix."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class LowRank(WeightChange):
    """Scale·B·A (Hu et al. 2021, equation 3).

    A is R × I, B is O × R. For an embedding A is R × rows and B is columns × R. For a convolution
    A is R × I × kernel and B is O × R × 1….
    """

    a: TensorInfo
    """A."""
    b: TensorInfo
    """B."""
    scale: float
    """α / R, or what stands for it."""
    turned: bool
    """Whether the weight is stored inputs × outputs; for an embedding always."""
    embedding: bool = False
    """Whether it changes an embedding."""
    bare: bool = False
    """Whether a parameter is targeted directly, as it is stored."""
    experts: int = 1
    """E for a stack of matrices in one parameter, where A is E·R × I, expert by expert, and B is O
    × R·E, with the expert as its last index.
    """
    middle: TensorInfo | None = None
    """R × R × kernel, between a B and an A of kernel 1 (LyCORIS); None without one."""
    magnitude: TensorInfo | None = None
    """The norms of the changed weight's outputs, which DoRA trains (Liu et al. 2024, equation 5): W
    = m · (W₀ + scale·B·A) / ‖…‖. None for plain LoRA.
    """

    @property
    def uses_base(self) -> bool:  # type: ignore[override]
        """Whether it is DoRA."""
        return self.magnitude is not None

    @property
    def is_plain(self) -> bool:
        """Whether it is the product of two factors, and nothing else."""
        return self.experts == 1 and self.middle is None and self.magnitude is None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the change, as the weight is stored."""
        if self.middle is None:
            kernel = self.a.shape[2:]
        else:
            kernel = self.middle.shape[2:]
        sides = (self.b.shape[0], self.a.shape[1])
        stack = (self.experts,) if self.experts > 1 else ()
        return (*stack, *(reversed(sides) if self.turned else (*sides, *kernel)))

    @property
    def width(self) -> int:
        """Elements of a row of one matrix."""
        if self.experts > 1:
            return self.shape[2]
        return super().width

    def factors(self, read: Read) -> tuple[Tensor, Tensor]:
        """B and A as float32 matrices; a kernel's positions count as inputs."""
        a = read(self.a)
        b = read(self.b).flatten(1)
        if self.middle is not None:
            a = torch.einsum("rs...,si->ri...", read(self.middle), a.flatten(1))
        return b, a.flatten(1)

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """Rows of the change, counted through all matrices; for DoRA, before it is scaled."""
        b, a = self.factors(read)
        a_ERI = a.reshape(self.experts, -1, a.shape[1])
        b_ORE = b.reshape(b.shape[0], -1, self.experts)
        height = math.prod(self.shape) // self.width // self.experts
        rows = []
        for expert in range(first // height, -(-last // height)):
            start = expert * height
            inside = slice(max(first - start, 0), min(last - start, height))
            a_RI = a_ERI[expert]
            b_OR = b_ORE[..., expert]
            left, right = (a_RI.T, b_OR.T) if self.turned else (b_OR, a_RI)
            rows.append((left[inside] @ right).mul_(self.scale))
        if len(rows) == 1:
            return rows[0]
        return torch.cat(rows)


@dataclass(frozen=True, kw_only=True)
class AddedVector(WeightChange):
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
class TokenRows(WeightChange):
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
class _Flattened(WeightChange):
    """A change whose kernel is flattened in its factors, so that the weight's shape is unknown."""

    pieces: dict[str, TensorInfo] = field(hash=False)
    scale: float

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The factors."""
        return tuple(self.pieces.values())

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether the numbers of rows and of elements agree."""
        return len(shape) > 1 and self.shape == (shape[0], math.prod(shape[1:]))

    def _sides(self, number: str) -> tuple[int, int]:
        """Rows and columns of w1 or w2."""
        if matrix := self.pieces.get(f"w{number}"):
            return matrix.shape[0], math.prod(matrix.shape[1:])
        a, b = (self.pieces[f"w{number}_{letter}"].shape for letter in "ab")
        if middle := self.pieces.get(f"t{number}"):
            return a[1], b[1] * math.prod(middle.shape[2:])
        return a[0], b[1]

    def _rows(self, read: Read, number: str, rows: slice = slice(None)) -> Tensor:
        """Rows of w1 or w2, which is whole or a product of two factors, or three with a kernel."""
        if matrix := self.pieces.get(f"w{number}"):
            return read(matrix).flatten(1)[rows]
        a, b = (read(self.pieces[f"w{number}_{letter}"]) for letter in "ab")
        if middle := self.pieces.get(f"t{number}"):
            return torch.einsum("ij...,ip,jr->pr...", read(middle), a[:, rows], b).flatten(1)
        return a[rows] @ b


@dataclass(frozen=True, kw_only=True)
class Hadamard(_Flattened):
    """LoHa: scale·(w1_a·w1_b) ⊙ (w2_a·w2_b), elementwise (Hyeon-Woo et al. 2022, Proposition 1)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Outputs by inputs and kernel."""
        return self._sides("1")

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """Rows of the change."""
        left_rows, right_rows = (self._rows(read, number, slice(first, last)) for number in "12")
        return left_rows.mul_(right_rows).mul_(self.scale)


@dataclass(frozen=True, kw_only=True)
class Kronecker(_Flattened):
    """LoKr: scale·(w1 ⊗ w2), each whole or a product of factors (Edalati et al. 2022)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Outputs by inputs and kernel."""
        left_side = self._sides("1")
        right_side = self._sides("2")
        return (left_side[0] * right_side[0], left_side[1] * right_side[1])

    def product(self, read: Read, first: int, last: int) -> Tensor:
        """Rows of the change."""
        w1 = self._rows(read, "1")
        w2 = self._rows(read, "2")
        height = len(w2)
        start = first // height
        rows = torch.kron(w1[start : -(-last // height)], w2)
        return rows[first - start * height : last - start * height].mul_(self.scale)
