"""Two finished merges of one base, tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints import Checkpoint, TensorReader, open_checkpoint
from ace_gui.engine.contract.figures.findings import LayerDifference
from ace_gui.engine.contract.plan import COMBINED, PlanRow
from ace_gui.engine.merging.merge_manifest import InputFile, Manifest
from ace_gui.engine.merging.store import MODEL, read_finished
from ace_gui.engine.planning.matrix_parts import read_row
from ace_gui.engine.streaming import Part, parts_of
from ace_gui.errors import MismatchError
from ace_gui.linalg.leading import singular_values


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The weights of the base and of two merges of it, by the base's names."""

    base: TensorReader
    first: TensorReader
    second: TensorReader

    def changes(self, row: PlanRow, part: Part | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """W₁ − W₀, W₂ − W₀ and W₁ − W₂ of a row, or of part of it, flat; float64."""
        base, first, second = (
            read_row(reader, row, part).double() for reader in (self.base, self.first, self.second)
        )
        return first - base, second - base, first - second


def difference(
    first: Path, second: Path, row: PlanRow | None = None
) -> Iterator[LayerDifference | None]:
    """The differences between two finished merges, for each tensor that either of them changed.

    With a ``row``: of that tensor alone, with the singular values of both changes if it is a
    matrix. Raises OutputError or ResumeError if a store is not finished, MismatchError if the two
    have different bases, CheckpointError if a file cannot be read.
    """
    manifests = read_finished(first), read_finished(second)
    base = open_checkpoint(manifests[0].recipe.base_model)
    require_one_base(base, *manifests)
    compared = Compared(
        base=TensorReader(base),
        first=TensorReader(open_checkpoint(first / MODEL)),
        second=TensorReader(open_checkpoint(second / MODEL)),
    )
    if row is not None:
        if row.tensor not in base.tensors:
            raise MismatchError(
                f"`{row.name}` is not in the base; choose another.", tensor=row.name
            )
        yield from _of_row(compared, row, with_spectra=len(row.shape) == 2)
        return
    changed = {r.tensor for m in manifests for r in m.rows if r.disposition in COMBINED}
    for each in manifests[0].rows:
        if each.in_base and each.tensor in changed:
            yield from _of_row(compared, each, with_spectra=False)


def require_one_base(base: Checkpoint, *manifests: Manifest) -> None:
    """Raise MismatchError unless all merges started from the base in its current state."""
    files = set(map(InputFile.of, base.files))
    for manifest in manifests:
        if not files <= set(manifest.inputs):
            raise MismatchError(
                f"{base.path} is not the base, or not as it is now, of the merge with "
                f"{manifest.recipe.base_model}; compare merges of one base, made since it changed.",
                path=base.path,
            )


def _of_row(
    compared: Compared, row: PlanRow, *, with_spectra: bool
) -> Iterator[LayerDifference | None]:
    squares_3, product = np.zeros(3), 0.0
    for part in parts_of(math.prod(row.shape)):
        changes = compared.changes(row, part)
        squares_3 += [float(torch.dot(change, change)) for change in changes]
        product += float(torch.dot(changes[0], changes[1]))
        yield None
    norms = np.sqrt(squares_3)
    scale = norms[0] * norms[1]
    spectra: list[NDArray[np.float64] | None] = [None, None]
    if with_spectra:
        whole = compared.changes(row)
        for index in (0, 1):
            spectra[index] = singular_values(whole[index]).numpy()
            yield None
    yield LayerDifference(
        name=row.name,
        first_norm=float(norms[0]),
        second_norm=float(norms[1]),
        difference_norm=float(norms[2]),
        cosine=float(np.clip(product / scale, -1, 1)) if scale else math.nan,
        first=spectra[0],
        second=spectra[1],
    )
