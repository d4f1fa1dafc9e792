"""How far one model is from another: by tensor, block and role."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


class Change:
    """``norm``: ‖A‖_F; ``change``: ‖B − A‖_F, in float64. NaN where a value is NaN or infinite."""

    norm: float
    change: float

    @property
    def relative(self) -> float | None:
        """‖B − A‖ / ‖A‖; None where it is undefined."""
        if math.isnan(self.change) or math.isnan(self.norm):
            return None
        if not self.norm:
            return None if self.change else 0.0
        return self.change / self.norm


@dataclass(frozen=True, kw_only=True)
class TensorChange(Change):
    """One tensor of both models.

    ``second_name``: in the second model, where it has another name or is tied to that tensor.
    """

    name: str
    role: str
    block: int | None
    shape: tuple[int, ...]
    dtype: str
    second_dtype: str
    second_name: str
    norm: float
    change: float


@dataclass(frozen=True, kw_only=True)
class GroupChange(Change):
    """The tensors of one block or role together, as one vector."""

    name: str
    tensors: int
    norm: float
    change: float


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelDiff:
    """The change from one model to another. ``tensors``: those of both, with equal shapes.

    ``missing``: tensors of the first alone; ``extra``: of the second alone; ``other_shape``: name,
    shape in the first and in the second.
    """

    tensors: tuple[TensorChange, ...]
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    other_shape: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()

    def __repr__(self) -> str:
        changed = sum(each.change != 0 for each in self.tensors)
        relative = self.total.relative
        size = "" if relative is None else f", {relative:.3g} of the first's norm"
        return f"<ModelDiff: {changed} of {len(self.tensors)} tensors changed{size}>"

    @property
    def total(self) -> GroupChange:
        """All tensors of both models."""
        return _group("all", self.tensors)

    @property
    def by_block(self) -> tuple[GroupChange, ...]:
        """Each block, in order; the tensors outside the blocks come last, as ``outside``."""
        blocks = sorted({each.block for each in self.tensors if each.block is not None})
        found = [
            _group(str(block), (each for each in self.tensors if each.block == block))
            for block in blocks
        ]
        outside = _group("outside", (each for each in self.tensors if each.block is None))
        return (*found, *([outside] if outside.tensors else []))

    @property
    def by_role(self) -> tuple[GroupChange, ...]:
        """Each role, in the order of its first tensor."""
        roles = dict.fromkeys(each.role for each in self.tensors)
        return tuple(
            _group(role, (each for each in self.tensors if each.role == role)) for role in roles
        )

    def to_frame(self) -> Any:
        """One row per tensor of both models, as a pandas DataFrame. Raises ImportError."""
        import pandas as pd

        records = [asdict(each) | {"relative": each.relative} for each in self.tensors]
        return pd.DataFrame(records)


def _group(name: str, changes: Iterable[TensorChange]) -> GroupChange:
    found = list(changes)
    norm = math.sqrt(math.fsum(each.norm**2 for each in found))
    change = math.sqrt(math.fsum(each.change**2 for each in found))
    return GroupChange(name=name, tensors=len(found), norm=norm, change=change)
