"""Writes the task modules of the experts next to the merged weights (``modules.stored``)."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.checkpoints.writer import OutputTensor, Shard, plan_shards
from ace_gui.engine.contract.events import LearningProgress, PassProgress
from ace_gui.engine.contract.plan import MatrixPart, PlanRow
from ace_gui.engine.evaluating.loaded_models import older_objects_frozen
from ace_gui.engine.merging.readers import Readers, finding
from ace_gui.engine.merging.store import VerifiedWriter
from ace_gui.engine.merging.surveying import parts_of_pass, passes, scanned_here
from ace_gui.engine.merging.task_vectors import CPU, TaskVectors, merging_of
from ace_gui.engine.modules.stored import (
    EXPERTS,
    LAYOUT,
    NAMES,
    STEM,
    ModulesManifest,
    write_manifest,
)
from ace_gui.engine.planning.prepared import Prepared, module_rows, module_tensors
from ace_gui.engine.routing import trained_tensors
from ace_gui.engine.streaming import Part, ordered, single_threads, tensors_digest
from ace_gui.linalg.singular import Triplets, leading_triplets
from ace_gui.methods.shared.expert_modules import (
    Differences,
    Factors,
    Mask,
    Masks,
    StoredPart,
    kind_of,
    learns,
    needs_base,
    packed,
)
from ace_gui.methods.shared.experts import Experts
from ace_gui.methods.shared.survey import Survey
from ace_gui.methods.shared.trimming import THRESHOLD, kept_count, trim_survey

CHOOSING: Final = "choosing what is kept of each expert"


@dataclass(frozen=True, kw_only=True)
class ChosenEntries:
    """Which entries of the experts' differences are stored, by row."""

    least: dict[str, Mapping[int, float]] = field(default_factory=dict)
    """By expert, the smallest magnitude that is stored."""
    counts: dict[str, Mapping[int, int]] = field(default_factory=dict)
    """By expert, the number of entries that are stored."""
    resolved: dict[str, PlanRow] = field(default_factory=dict)
    """The rows without experts that have NaN or Inf in them."""


def chosen_entries(
    readers: Readers, rows: Sequence[PlanRow]
) -> Generator[PassProgress, None, ChosenEntries]:
    """Choose elements in three passes over the rows concerned; other rows are not read.

    Raises the errors of reading.
    """
    prepared = readers.prepared
    chosen = ChosenEntries()
    groups = defaultdict[Any, list[PlanRow]](list)
    densities: dict[Any, float] = {}
    for row in rows:
        modules = prepared.method_of(row).modules
        parameters = prepared.parameters_of(row)
        if not isinstance(modules, Differences):
            continue
        density = modules.stored_part(parameters).density
        if density is not None:
            densities[parameters] = density
            groups[parameters].append(row)
    for parameters, group in groups.items():
        survey = trim_survey([densities[parameters]] * len(prepared.experts))
        untied = [row for row in group if row.tied_to is None]  # tied tensors count once
        for event in passes(survey, untied, scanned_here(readers), CHOOSING, _measured):
            if event is not None:
                yield event
        least = survey.findings[THRESHOLD]
        for index, row in enumerate(group):
            chosen.least[row.name] = {t: least[t] for t in row.experts}
            count = partial(_counted, readers=readers, chosen=chosen)
            total = finding(count, row, readers)
            chosen.counts[row.name] = {t: total[t] for t in row.experts}
            yield PassProgress(title=CHOOSING, done=index + 1, total=len(group))
    return chosen


def _measured(survey: Survey, row: PlanRow, readers: Readers, part: Part | None) -> Tensor:
    """The survey's figures of the differences, of which one is in memory at a time."""
    total = None
    for t, difference in zip(row.experts, differences(row, readers, part), strict=True):
        measured = survey.measure((t,), (difference,))
        if total is None:
            total = measured
        else:
            total += measured
    assert total is not None
    return total


def _counted(row: PlanRow, *, readers: Readers, chosen: ChosenEntries) -> Counter[int]:
    """The number of elements of a row that each expert keeps."""
    chosen.resolved[row.name] = row
    least = chosen.least[row.name]

    def counts(part: Part) -> Counter[int]:
        counts_of_part = Counter[int]()
        for t, difference in zip(row.experts, differences(row, readers, part), strict=True):
            counts_of_part[t] = int(kept_mask(difference, least[t]).sum())
        return counts_of_part

    with single_threads() as pool:
        return sum(ordered(pool, counts, parts_of_pass(prod(row.shape))), Counter[int]())


def kept_mask(difference: Tensor, least: float) -> Tensor:
    """Mask (bool) of the kept elements: those of at least this magnitude, except zeros."""
    return (difference.abs().float() >= least) & (difference != 0)


def differences(row: PlanRow, readers: Readers, part: Part | None = None) -> Iterator[Tensor]:
    """D_t of the experts of a row, or of a flat part of it, before anything is cut."""
    prepared = readers.prepared
    modules = prepared.method_of(row).modules
    assert isinstance(modules, Differences)
    if row.experts:
        deltas = TaskVectors(row, readers, CPU, part)
        with merging_of(row.name, deltas.names):
            experts = Experts(deltas, prepared.weights_of(row))
            yield from modules.differences_of(experts, prepared.parameters_of(row))


TITLE: Final = "writing what belongs to each expert"
TRAINING: Final = "training"
"""Folder next to the merged model that keeps unfinished training when it is stopped."""

ONE_FILE: Final = 1 << 62
"""Bytes of a file: more than any tensors have, so that all are in one."""


def write_modules(
    readers: Readers, folder: Path, device: torch.device
) -> Iterator[PassProgress | LearningProgress]:
    """Write the modules into ``folder`` and read them back, if there are any.

    ``folder`` contains the merged model already; routers are trained with it on the ``device``.
    Raises the errors of reading, merging, training and writing.
    """
    prepared = readers.prepared
    rows = module_rows(prepared)
    if not rows and not learns(prepared.method.modules):
        return
    chosen = yield from chosen_entries(readers, rows)
    changes = partial(differences, readers=readers)
    training_folder = folder.with_name(TRAINING)
    with older_objects_frozen():
        trained = yield from trained_tensors(prepared, folder, device, changes, training_folder)
    writer = VerifiedWriter(folder, _planned(prepared, rows, chosen, trained))
    writing = _ModuleWriting(readers, writer, chosen)
    with single_threads() as pool:
        for index, row in enumerate(rows):
            add = partial(writing.add, row, pool)
            resolved = chosen.resolved.get(row.name, row)
            finding(add, resolved, readers)
            yield PassProgress(title=TITLE, done=index + 1, total=len(rows))
    writing.add_scales(rows)
    for name, tensor in trained.items():
        writer.write(name, tensor)
    hashes = writer.finish()
    modules = prepared.method_of(rows[0]).modules if rows else prepared.method.modules
    assert modules is not None
    base = None
    if needs_base(modules):
        names = sorted({whole(row).tensor for row in rows})
        base = tensors_digest((name, readers.base.reader.read(name)) for name in names)
    manifest = ModulesManifest(
        kind=kind_of(modules),
        method=prepared.method.name,
        settings=asdict(prepared.parameters),
        experts=tuple(expert.name for expert in prepared.experts),
        hashes=hashes,
        base=base,
    )
    write_manifest(folder, manifest)
    shutil.rmtree(training_folder, ignore_errors=True)


def _planned(
    prepared: Prepared,
    rows: Sequence[PlanRow],
    chosen: ChosenEntries,
    trained: Mapping[str, Tensor],
) -> tuple[Shard, ...]:
    """The one file, and the tensors in it."""
    names = [expert.name for expert in prepared.experts]
    outputs: list[OutputTensor] = []
    for row in rows:
        outputs += module_tensors(row, prepared, chosen.counts.get(row.name))
    for name, tensor in trained.items():
        outputs.append(OutputTensor(name=name, dtype="F32", shape=tuple(tensor.shape)))
    layout = {row.name: asdict(whole(row)) for row in rows}
    owners = {row.name: [names[t] for t in row.experts] for row in rows}
    metadata = {
        LAYOUT: json.dumps(layout, ensure_ascii=False),
        EXPERTS: json.dumps(owners, ensure_ascii=False),
        NAMES: json.dumps(names, ensure_ascii=False),
    }
    shards = plan_shards(outputs, ONE_FILE, stem=STEM)
    return tuple(replace(shard, metadata=metadata) for shard in shards)


def whole(row: PlanRow) -> MatrixPart:
    """The part of a stored tensor that a row covers, also if it is all of it."""
    size = prod(row.shape)
    return row.part or MatrixPart(
        tensor=row.name, tensor_shape=row.shape, start=0, stop=size, period=size, first=0, last=size
    )


class _ModuleWriting:
    """Writes row after row, and at the end the scales, which depend on all rows."""

    def __init__(self, readers: Readers, writer: VerifiedWriter, chosen: ChosenEntries) -> None:
        self._prepared = readers.prepared
        self._chosen = chosen
        self._readers = readers
        self._writer = writer
        self._sums: dict[tuple[Any, int], tuple[float, float]] = {}
        """By parameters and expert, the sums of the masks' ``expert_sum`` and ``merged_sum``."""

    def add(self, row: PlanRow, pool: ThreadPoolExecutor, resolved: PlanRow) -> None:
        """Write a row for its experts; experts missing from ``resolved`` contribute nothing."""
        modules = self._prepared.method_of(row).modules
        if isinstance(modules, Masks):
            self._add_masks(row, resolved, modules, pool)
        elif isinstance(modules, Factors):
            self._add_factors(row, resolved, modules)
        elif row.name in self._chosen.least:
            self._add_entries(row, resolved, pool)
        elif isinstance(modules, Differences):
            self._add_differences(row, resolved, modules)

    def add_scales(self, rows: Sequence[PlanRow]) -> None:
        """Add one scale per mask; an expert's masks share it within a set of parameters."""
        for row in rows:
            modules = self._prepared.method_of(row).modules
            parameters = self._prepared.parameters_of(row)
            if isinstance(modules, Masks):
                for t in row.experts:
                    sums = self._sums.get((parameters, t), (0.0, 0.0))
                    scale = torch.tensor([modules.scale(parameters, *sums)], dtype=torch.float64)
                    self._write(row, t, "scale", scale)

    def _add_masks(
        self, row: PlanRow, resolved: PlanRow, modules: Masks[Any], pool: ThreadPoolExecutor
    ) -> None:
        parameters = self._prepared.parameters_of(row)
        weights = self._prepared.weights_of(resolved)
        elements = prod(row.shape)

        def masks(part: Part) -> tuple[Part, list[Mask]]:
            if not resolved.experts:
                return part, []
            deltas = TaskVectors(resolved, self._readers, CPU, part)
            return part, list(modules.masks_of(Experts(deltas, weights), parameters, elements))

        sums = dict.fromkeys(resolved.experts, (0.0, 0.0))
        for (start, stop), masks_of_part in ordered(pool, masks, parts_of_pass(elements)):
            mask_of = dict(zip(resolved.experts, masks_of_part, strict=True))
            for t in row.experts:
                empty_mask = Mask(chosen=torch.zeros(stop - start, dtype=torch.bool))
                mask = mask_of.get(t, empty_mask)
                self._writer.write_part(self._name(row, t, "mask"), start // 8, packed(mask.chosen))
                if t in mask_of:
                    sums[t] = _added(sums[t], (mask.expert_sum, mask.merged_sum))
        for t in row.experts:
            self._writer.mark_written(self._name(row, t, "mask"))
        if row.tied_to is None:  # tied tensors count once
            for t, sums_of_row in sums.items():
                before = self._sums.get((parameters, t), (0.0, 0.0))
                self._sums[parameters, t] = _added(before, sums_of_row)

    def _add_factors(self, row: PlanRow, resolved: PlanRow, modules: Factors[Any]) -> None:
        triplets_of: Mapping[int, Triplets] = {}
        if resolved.experts:
            deltas = TaskVectors(resolved, self._readers, CPU)
            triplets = modules.triplets_of(Experts(deltas, self._prepared.weights_of(resolved)))
            triplets_of = dict(zip(resolved.experts, triplets, strict=True))
        rows, columns = row.shape
        rank = modules.rank(rows, columns, len(row.experts))
        for t in row.experts:
            u = torch.zeros(rows, rank)
            s = torch.zeros(rank)
            vh = torch.zeros(rank, columns)
            if t in triplets_of:
                stored = triplets_of[t]
                if row.transposed:
                    stored = stored.transposed
                count = min(rank, len(stored.s_K))
                u[:, :count] = stored.u_OK[:, :count]
                s[:count] = stored.s_K[:count]
                vh[:count] = stored.vh_KI[:count]
            for what, factor in (("u", u), ("s", s), ("vh", vh)):
                self._write(row, t, what, factor)

    def _add_entries(self, row: PlanRow, resolved: PlanRow, pool: ThreadPoolExecutor) -> None:
        """Write the largest elements of each expert's difference."""
        least = self._chosen.least[row.name]

        def entries(part: Part) -> list[tuple[int, Tensor, Tensor]]:
            """The experts, with the indices and values of their elements in a part."""
            start, _ = part
            entries_of_part = []
            deltas = differences(resolved, self._readers, part)
            for t, delta in zip(resolved.experts, deltas, strict=True):
                indices = kept_mask(delta, least[t]).nonzero().reshape(-1)
                entries_of_part.append((t, indices + start, delta[indices]))
            return entries_of_part

        written = dict.fromkeys(row.experts, 0)  # number of elements
        for entries_of_part in ordered(pool, entries, parts_of_pass(prod(row.shape))):
            for t, indices, values in entries_of_part:
                for what, tensor in (("index", indices.int()), ("values", values.float())):
                    self._writer.write_part(self._name(row, t, what), written[t], tensor)
                written[t] += len(indices)
        for t in row.experts:
            for what in ("index", "values"):
                self._writer.mark_written(self._name(row, t, what))

    def _add_differences(self, row: PlanRow, resolved: PlanRow, modules: Differences[Any]) -> None:
        """Write each expert's difference; zero for an excluded expert."""
        stored_part = modules.stored_part(self._prepared.parameters_of(row))
        deltas = differences(resolved, self._readers)
        for t, delta in zip(resolved.experts, deltas, strict=True):
            self._write_difference(row, t, delta, stored_part)
        shape = row.shape[::-1] if row.transposed else row.shape
        for t in row.experts:
            if t not in resolved.experts:
                self._write_difference(row, t, torch.zeros(shape), stored_part)

    def _write_difference(
        self, row: PlanRow, t: int, delta: Tensor, stored_part: StoredPart
    ) -> None:
        for what, tensor in _stored_tensors(row, delta, stored_part).items():
            self._write(row, t, what, tensor)

    def _name(self, row: PlanRow, t: int, what: str) -> str:
        return f"{self._prepared.experts[t].name}/{row.name}/{what}"

    def _write(self, row: PlanRow, t: int, what: str, tensor: Tensor) -> None:
        self._writer.write(self._name(row, t, what), tensor)


def _stored_tensors(row: PlanRow, delta: Tensor, stored_part: StoredPart) -> dict[str, Tensor]:
    """The stored tensors of a difference, by the last part of their names.

    They are the largest elements of each row in stored order, or the leading singular triplets of a
    matrix, or the whole difference.
    """
    if stored_part.density_in_rows is not None:
        count = kept_count(stored_part.density_in_rows, delta.shape[1])
        largest = delta.abs().topk(count, dim=1).indices
        chosen = torch.zeros_like(delta, dtype=torch.bool).scatter_(1, largest, value=True)
        if row.transposed:
            delta = delta.T
            chosen = chosen.T
        index = chosen.reshape(-1).nonzero().reshape(-1)
        return {"index": index.int(), "values": delta.reshape(-1)[index].float()}
    if stored_part.rank is None or len(row.shape) != 2:
        if row.transposed:
            delta = delta.T
        return {"whole": delta.float()}
    rank = min(stored_part.rank, *row.shape)
    triplets = leading_triplets(delta.double(), rank)
    output_factor = triplets.u_OK * triplets.s_K
    input_factor = triplets.vh_KI
    rows, columns = row.shape
    left = torch.zeros(rows, rank)
    right = torch.zeros(rank, columns)
    count = len(triplets.s_K)  # fewer if some singular values are zero
    if row.transposed:  # stored as inputs × outputs
        left[:, :count] = input_factor.T
        right[:count] = output_factor.T
    else:
        left[:, :count] = output_factor
        right[:count] = input_factor
    return {"left": left, "right": right}


def _added(sums: tuple[float, float], addends: tuple[float, float]) -> tuple[float, float]:
    return sums[0] + addends[0], sums[1] + addends[1]
