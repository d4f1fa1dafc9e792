"""What a merge leaves for each expert beside the merged weights: ``modules.safetensors``.

::

    EXPERT/TENSOR/mask      uint8, eight entries a byte, the first in the lowest bit
    EXPERT/TENSOR/scale     float64, one number
    EXPERT/TENSOR/u, s, vh  float32, rows × K, K, K × columns of the matrix as it is stored

A tensor has a mask and a scale, or factors; its metadata say which elements of which tensor of the
model they are about (``matrix_parts``). ``tasks`` makes an expert's model of them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.checkpoints import Shard, ShardedWriter, plan_shards
from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.contract.plan import MatrixPart, PlanRow
from ace_gui.engine.merging.non_finite import settle
from ace_gui.engine.merging.read_back import verify_shards
from ace_gui.engine.merging.surveying import parts_of_pass
from ace_gui.engine.merging.task_vectors import Readers, TaskVectors
from ace_gui.engine.planning.expert_files import leaves_modules, module_tensors
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.streaming import Part, checksum, ordered
from ace_gui.errors import NonFiniteError
from ace_gui.linalg.leading import Triplets
from ace_gui.methods.shared.expert_modules import Factors, Mask, Masks, packed

STEM: Final = "modules"
MODULES: Final = f"{STEM}.safetensors"
LAYOUT: Final = "layout"
"""Name of the metadata: JSON, by row the part of the stored tensor that it is."""

EXPERTS: Final = "experts"
"""Name of the metadata: JSON, by row the experts who have something there."""

TITLE: Final = "writing what belongs to each expert"
ONE_FILE: Final = 1 << 62


def write_modules(prepared: Prepared, readers: Readers, folder: Path) -> Iterator[PassProgress]:
    """Write ``modules.safetensors`` into ``folder`` and read it back, if there is anything for it.

    Raises as reading, merging and writing do.
    """
    rows = _rows(prepared)
    if not rows:
        return
    shards = planned(prepared)
    with ShardedWriter(folder, shards) as writer:
        checksums: dict[str, int] = {}
        writing = _Writing(prepared, readers, writer, checksums)
        one = partial(torch.set_num_threads, 1)
        with ThreadPoolExecutor(torch.get_num_threads(), initializer=one) as pool:
            for place, row in enumerate(rows):
                try:
                    writing.add(row, row, pool)
                except NonFiniteError as error:
                    writing.add(row, settle(error, row, prepared, readers).row, pool)
                yield PassProgress(title=TITLE, done=place + 1, total=len(rows))
        writing.add_scales(rows)
        writer.finish()
    verify_shards(folder, shards, checksums)


def planned(prepared: Prepared) -> tuple[Shard, ...]:
    """The one file, and what is where in it; none where nothing is left for the experts."""
    rows, names = _rows(prepared), [expert.name for expert in prepared.experts]
    outputs = [each for row in rows for each in module_tensors(row, prepared.method, names)]
    if not outputs:
        return ()
    layout = {row.name: asdict(whole(row)) for row in rows}
    owners = {row.name: [names[t] for t in row.experts] for row in rows}
    return tuple(
        replace(
            shard,
            metadata={
                LAYOUT: json.dumps(layout, ensure_ascii=False),
                EXPERTS: json.dumps(owners, ensure_ascii=False),
            },
        )
        for shard in plan_shards(outputs, ONE_FILE, stem=STEM)
    )


def whole(row: PlanRow) -> MatrixPart:
    """Where a row lies in its stored tensor, also if it is all of it."""
    size = prod(row.shape)
    return row.part or MatrixPart(
        tensor=row.name,
        tensor_shape=row.shape,
        start=0,
        stop=size,
        period=size,
        first=0,
        last=size,
    )


def _rows(prepared: Prepared) -> list[PlanRow]:
    return [row for row in prepared.plan.rows if leaves_modules(row, prepared.method)]


class _Writing:
    """Writes row after row, and at the end the scales, which depend on all of them."""

    def __init__(
        self,
        prepared: Prepared,
        readers: Readers,
        writer: ShardedWriter,
        checksums: dict[str, int],
    ) -> None:
        self._prepared = prepared
        self._readers = readers
        self._writer = writer
        self._checksums = checksums
        self._sums: dict[tuple[Any, int], tuple[float, float]] = {}

    def add(self, row: PlanRow, settled: PlanRow, pool: ThreadPoolExecutor) -> None:
        """Write a row for its experts; those not in ``settled`` take nothing from it."""
        modules = self._prepared.method_of(row).modules
        if isinstance(modules, Masks):
            self._add_masks(row, settled, modules, pool)
        elif isinstance(modules, Factors):
            self._add_factors(row, settled, modules)

    def add_scales(self, rows: list[PlanRow]) -> None:
        """One scale a mask, the same for all masks of an expert and a set of parameters."""
        for row in rows:
            modules, parameters = self._settings(row)
            if isinstance(modules, Masks):
                for t in row.experts:
                    sums = self._sums.get((parameters, t), (0.0, 0.0))
                    scale = torch.tensor([modules.scale(parameters, *sums)], dtype=torch.float64)
                    self._write(row, t, "scale", scale)

    def _add_masks(
        self, row: PlanRow, settled: PlanRow, modules: Masks[Any], pool: ThreadPoolExecutor
    ) -> None:
        _, parameters = self._settings(row)
        weights, elements = self._prepared.weights_of(settled), prod(row.shape)

        def masks(part: Part) -> tuple[Part, list[Mask]]:
            if not settled.experts:
                return part, []
            deltas = TaskVectors(settled, self._readers, torch.device("cpu"), part)
            return part, list(modules.of(deltas, weights, parameters, elements))

        sums = dict.fromkeys(settled.experts, (0.0, 0.0))
        running = dict.fromkeys(row.experts, 0)
        for (start, stop), found in ordered(pool, masks, parts_of_pass(elements)):
            own = dict(zip(settled.experts, found, strict=True))
            for t in row.experts:
                nothing = Mask(chosen=torch.zeros(stop - start, dtype=torch.bool))
                mask = own.get(t, nothing)
                bits = packed(mask.chosen)
                self._writer.write_part(self._name(row, t, "mask"), start // 8, bits)
                running[t] = checksum(bits, running[t])
                if t in own:
                    sums[t] = (sums[t][0] + mask.own, sums[t][1] + mask.shared)
        for t in row.experts:
            name = self._name(row, t, "mask")
            self._writer.mark_written(name)
            self._checksums[name] = running[t]
        if row.tied_to is None:  # what is there twice counts once
            for t, (one, other) in sums.items():
                before = self._sums.get((parameters, t), (0.0, 0.0))
                self._sums[parameters, t] = (before[0] + one, before[1] + other)

    def _add_factors(self, row: PlanRow, settled: PlanRow, modules: Factors[Any]) -> None:
        found: Mapping[int, Triplets] = {}
        if settled.experts:
            deltas = TaskVectors(settled, self._readers, torch.device("cpu"))
            triplets = modules.of(deltas, self._prepared.weights_of(settled))
            found = dict(zip(settled.experts, triplets, strict=True))
        rows, columns = row.shape
        rank = modules.rank(rows, columns, len(row.experts))
        for t in row.experts:
            u, s, vh = torch.zeros(rows, rank), torch.zeros(rank), torch.zeros(rank, columns)
            if t in found:
                own = found[t]
                left, right = own.u_OK, own.vh_KI
                if row.transposed:
                    left, right = right.T, left.T
                kept = min(rank, len(own.s_K))
                u[:, :kept], s[:kept], vh[:kept] = left[:, :kept], own.s_K[:kept], right[:kept]
            for what, factor in (("u", u), ("s", s), ("vh", vh)):
                self._write(row, t, what, factor)

    def _settings(self, row: PlanRow) -> tuple[Any, Any]:
        return self._prepared.method_of(row).modules, self._prepared.parameters_of(row)

    def _name(self, row: PlanRow, t: int, what: str) -> str:
        return f"{self._prepared.experts[t].name}/{row.name}/{what}"

    def _write(self, row: PlanRow, t: int, what: str, tensor: Tensor) -> None:
        name = self._name(row, t, what)
        self._checksums[name] = checksum(tensor)
        self._writer.write(name, tensor)
