"""Writes a merge, or a model's change, as one adapter in PEFT's format.

Each merged change is cut to two factors and written before the next one is computed. If a method is
linear, or merges in few coordinates, and all experts are plain LoRA, no dense matrix is
computed.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ace_gui.checkpoints.adapters.weight_changes import LowRank, Read
from ace_gui.checkpoints.derived import StoredRows, read_factor
from ace_gui.checkpoints.header import torch_dtype
from ace_gui.checkpoints.staging import claimed_output, discard, promote
from ace_gui.engine.calibrating.calibrate import calibrated
from ace_gui.engine.capabilities import peak_on, resolve_device, use_threads
from ace_gui.engine.contract.events import (
    Event,
    JobProgress,
    MergeFinished,
    MergeStarted,
    TensorFinished,
    exported,
)
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.journal import can_resume
from ace_gui.engine.merging.learn import learned
from ace_gui.engine.merging.low_rank_merge import merged_in_coordinates
from ace_gui.engine.merging.memory_budgets import budgets_of, merged_within
from ace_gui.engine.merging.merge_manifest import AdapterOptions, Manifest, make_manifest
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import verify_shards
from ace_gui.engine.merging.surveying import distance_notes, far_lines, plan_ready, surveyed
from ace_gui.engine.merging.task_vectors import TaskVectors
from ace_gui.engine.merging.tensor_merge import TensorMerge, rounded
from ace_gui.engine.output.adapter_companions import write_companions
from ace_gui.engine.output.adapter_store import AdapterStore
from ace_gui.engine.planning.adapter_plan import (
    adapter_plan,
    low_rank_changes,
    require_adapter,
    require_factors,
    shares_of,
    stack_changes,
)
from ace_gui.engine.planning.adapter_tensors import (
    AdapterPlan,
    Factored,
    UnfactoredParameter,
)
from ace_gui.engine.planning.low_rank_rows import coordinates_of
from ace_gui.engine.planning.prepare import require_experts
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import require_disk
from ace_gui.engine.streaming import Assembly, single_threads
from ace_gui.errors import NonFiniteError
from ace_gui.linalg.singular import (
    LowRankFactors,
    concatenated_factors,
    cut_to_rank,
    product_cut_to_rank,
    rank_for_energy,
    squared_values,
    squared_values_of_product,
)
from ace_gui.machine import peak_memory
from ace_gui.methods.shared.experts import Context
from ace_gui.output_files import staging_folder, writing
from ace_gui.stored_formats import RECIPE_TAGS


def write_adapter(
    prepared: Prepared,
    out: Path,
    *,
    device: str = "auto",
    threads: int | None = None,
    resume: bool = False,
    options: AdapterOptions | None = None,
    described: Manifest | None = None,
) -> Generator[Event, None, None]:
    """Merge into an adapter; the folder ``out`` appears only when it is complete.

    Yields PlanReady, the events of a merge, then Exported. Closing the generator leaves a store
    that can be resumed. ``described``: another merge to name in the card and the recipe file.
    Raises RecipeError, MismatchError, and the errors of merging and writing.
    """
    require_experts(prepared)
    require_adapter(prepared.recipe)
    use_threads(threads)
    started = time.monotonic()
    where = resolve_device(device)
    plan = _require_plan(prepared, options := options or AdapterOptions())
    with claimed_output(out, prepared.plan.input_folders) as target:
        folder = staging_folder(target)
        if not (resume and can_resume(folder)):
            require_adapter_disk(plan, prepared, target)
        yield plan_ready(prepared, prepared.plan.checks)
        yield from _measured(prepared, where)
        warnings = far_lines(prepared)
        manifest = _manifest_of(prepared, where, options, warnings)
        readers = Readers(prepared)
        with writing(folder):
            store = AdapterStore.opened(folder, manifest, readers.checksums, resume=resume)
            work = _AdapterWriting(plan, readers, where, store, options.balanced)
            yield from _filled(work, described or manifest, target)
            promote(store.model, target)
            discard(folder)
    yield MergeFinished(
        store=target,
        seconds=time.monotonic() - started,
        peak_bytes=peak_memory(),
        gpu_peak=peak_on(where),
        warnings=prepared.plan.warnings + warnings + plan.notes,
    )
    yield exported(target)


def _measured(prepared: Prepared, device: torch.device) -> Iterator[Event]:
    """Measure and learn what the methods need from the experts' data."""
    before = (*calibrated(prepared, device, None), *learned(prepared, device))
    yield from (event for event in before if event is not None)


def _manifest_of(
    prepared: Prepared, device: torch.device, options: AdapterOptions, warnings: tuple[str, ...]
) -> Manifest:
    """The manifest of a merge that is written as an adapter."""
    notes = distance_notes(prepared)
    manifest = make_manifest(prepared, device, None, warnings, notes, as_output=False)
    return replace(manifest, adapter=options)


def _require_plan(prepared: Prepared, options: AdapterOptions) -> AdapterPlan:
    """The content of the adapter. Raises RecipeError for one that PEFT does not load."""
    plan = adapter_plan(prepared, options.include, options.exclude)
    require_factors(plan.completed())
    return plan


def _filled(work: _AdapterWriting, manifest: Manifest, target: Path) -> Iterator[Event]:
    """Write everything into the store, verify it, and close it. ``manifest``: for the card."""
    store = work.store
    with closing(store):
        yield from work.events()
        hashes = verify_shards(store.model, store.shards, store.finish())
        write_companions(store, work.plan, work.prepared, manifest, target, hashes)


def require_adapter_disk(plan: AdapterPlan, prepared: Prepared, target: Path) -> None:
    """Raise ResourceError if the adapter does not fit on the target's disk.

    The smallest rank counts if ``energy`` decides it.
    """
    if prepared.recipe.energy is not None:
        tensors = [item.tensor for item in plan.factored]
        tensors += [item.tensor for item in plan.unfactored]
        plan = plan.with_ranks(dict.fromkeys(tensors, 1))
    outputs = plan.completed().outputs(_factor_dtype(prepared))
    require_disk(sum(output.nbytes for output in outputs), target, "the adapter")


@dataclass
class _AdapterWriting:
    """One adapter being written."""

    plan: AdapterPlan
    """Its parameters; it has the final ranks once they are known."""
    readers: Readers
    """Of the models."""
    device: torch.device
    """Where it is computed."""
    store: AdapterStore
    """Where it is written."""
    balanced: bool
    """Whether the singular values are shared between both factors."""
    pool: ThreadPoolExecutor = field(init=False)
    """The threads of the work."""

    def __post_init__(self) -> None:
        self.prepared = self.readers.prepared
        self.budgets = budgets_of(self.device)

    def events(self) -> Iterator[Event]:
        """Survey the model, find ranks that are not in the headers, write every tensor."""
        for event in surveyed(self.readers, store=self.store.folder):
            if event is not None:
                yield event
        with single_threads() as self.pool:
            yield from self._events()
        self.readers.check_unchanged()

    def _events(self) -> Iterator[Event]:
        energy = self.prepared.recipe.energy
        if energy is not None or len(self.prepared.experts) == 1:
            yield from self._find_ranks(energy)
        self.plan = self.plan.completed()
        require_factors(self.plan)
        outputs = self.plan.outputs(_factor_dtype(self.prepared))
        self.store.begin(outputs)
        tensors: list[Factored | UnfactoredParameter] = [*self.plan.factored, *self.plan.unfactored]
        missing = [item for item in tensors if not self.store.entry(item.tensor).written]
        finished = len(tensors) - len(missing)
        yield MergeStarted(
            total=len(tensors),
            done=finished,
            bytes_total=sum(output.nbytes for output in outputs),
            peak_bytes=self.prepared.plan.peak_bytes,
        )
        for done, item in enumerate(missing, finished + 1):
            started = time.monotonic()
            self._write(item)
            yield TensorFinished(
                report=LayerReport(name=item.tensor),
                done=done,
                total=len(tensors),
                bytes_done=0,
                seconds=time.monotonic() - started,
            )

    def _find_ranks(self, energy: float | None) -> Iterator[Event]:
        """Note the rank of every parameter; one that does not change has rank 0.

        ``energy`` None: the others have the plan's rank.
        """
        total = len(self.plan.factored)
        ranks: dict[str, int] = {}
        for done, item in enumerate(self.plan.factored):
            yield JobProgress(done=done, total=total, title="finding the ranks")
            noted = self.store.entry(item.tensor).rank
            if noted is None or noted > item.rank:
                noted = self._rank(item, energy)
                self.store.note_rank(item.tensor, noted)
            ranks[item.tensor] = noted
        for parameter in self.plan.unfactored:
            noted = self.store.entry(parameter.tensor).rank
            if noted is None:
                merged, base = self._merged(parameter.parameter.tensors)
                noted = int(not torch.equal(merged, base))
                self.store.note_rank(parameter.tensor, noted)
            ranks[parameter.tensor] = noted
        self.plan = self.plan.with_ranks(ranks)

    def _rank(self, item: Factored, energy: float | None) -> int:
        factors = self._joined(item)
        if factors is None:
            changes = self._changes(item)
            if energy is None:
                if any(change.any() for change in changes):
                    return item.rank
                return 0
            squares = [squared_values(change) for change in changes]
        elif energy is None:
            return item.rank
        else:
            squares = [squared_values_of_product(product) for product in factors]
        return min(max(rank_for_energy(values, energy) for values in squares), item.rank)

    def _write(self, item: Factored | UnfactoredParameter) -> None:
        if isinstance(item, UnfactoredParameter):
            values = self._unfactored(item)
            self.store.write(item.tensor, dict.fromkeys(item.names, values))
            return
        factors = self._factors(item)
        sides = (
            torch.cat([product.a_RI for product in factors]),
            torch.stack([product.b_OR for product in factors], dim=-1),
        )
        outputs = item.outputs(_factor_dtype(self.prepared), self.plan.depth_of(item))
        pieces = {}
        for output, side in zip(outputs, sides, strict=True):
            values = rounded(side, torch_dtype(output.dtype), item.tensor)
            pieces[output.name] = values.reshape(output.shape).contiguous()
        share = sum(product.energy_share for product in factors) / len(factors)
        self.store.write(item.tensor, pieces, share=share)

    def _unfactored(self, item: UnfactoredParameter) -> Tensor:
        """A parameter as it is written."""
        if item.of_base:
            tensors = [self.readers.base.read(name) for name in item.parameter.tensors]
            values = torch.cat([tensor.reshape(-1) for tensor in tensors])
        else:
            values, _ = self._merged(item.parameter.tensors)
        dtype = torch_dtype(item.dtype)
        return rounded(values, dtype, item.tensor).reshape(item.parameter.shape)

    def _factors(self, item: Factored) -> list[LowRankFactors]:
        """The factors of each matrix: exact if the rank allows it, else the nearest of this rank.

        Those of an expert with a lower rank get zeros.
        """
        joined_factors = self._joined(item)
        if joined_factors is None:
            changes = self._changes(item)
            return [cut_to_rank(change, item.rank, balanced=self.balanced) for change in changes]
        of_rank = []
        for factors in joined_factors:
            if factors.a_RI.shape[0] <= item.rank:
                of_rank.append(_padded(factors, item.rank))
            else:
                of_rank.append(product_cut_to_rank(factors, item.rank, balanced=self.balanced))
        return of_rank

    def _joined(self, item: Factored) -> list[LowRankFactors] | None:
        """The merged change of each matrix as joined factors of the experts.

        None if the merge is no sum of them, and is not made in few coordinates either.
        """
        if item.experts > 1:
            return self._joined_stack(item)
        (row, *further) = self.plan.rows[item.tensor]
        if further:
            return None
        shares = shares_of(self.prepared, row)
        if shares is None:
            return self._in_coordinates(row)
        changes = low_rank_changes(self.prepared, row)
        if changes is None:
            return None
        terms = []
        for t, change in changes:
            b_OR, a_RI = change.factors(partial(read_factor, self.readers.experts[t].reader))
            terms.append((shares[row.experts.index(t)] * change.scale, b_OR, a_RI))
        if terms:
            return [concatenated_factors(terms)]
        return None

    def _in_coordinates(self, row: PlanRow) -> list[LowRankFactors] | None:
        """The factors of a merge in few coordinates; None if its matrices are merged whole."""
        if coordinates_of(row, self.prepared) is None:
            return None
        try:
            deltas = TaskVectors(row, self.readers, self.device)
            context = Context(base=deltas.base)
            merge = merged_in_coordinates(row, self.prepared, deltas, context)
        except NonFiniteError:  # the merge of whole matrices knows what to do
            return None
        if merge is None:
            return None
        a_RI = merge.merged.delta.double()
        return [LowRankFactors(b_OR=merge.basis_OK, a_RI=a_RI)]

    def _joined_stack(self, item: Factored) -> list[LowRankFactors] | None:
        """As ``_joined``, for the matrices of a stack, in one tensor of the files or several."""
        outputs, inputs = item.sides
        terms: list[list[tuple[float, Tensor, Tensor]]] = [[] for _ in range(item.experts)]
        stacked = self.prepared.base.architecture.stacked
        for name in item.parameter.tensors:
            for row in self.plan.rows.get(name, ())[:1]:
                shares = shares_of(self.prepared, row)
                changes = stack_changes(self.prepared, row)
                if shares is None or changes is None:
                    return None
                for t, change, piece in changes:
                    read = partial(read_factor, self.readers.experts[t].reader)
                    scale = shares[row.experts.index(t)] * change.scale
                    products = _products(change, read)
                    if name in stacked:
                        place = stacked[name].start + piece.at
                        products = [_placed(products, piece, place, outputs)]
                        terms[place // outputs] += [(scale, b, a) for b, a in products]
                    else:
                        for expert, (b, a) in enumerate(products):
                            terms[expert].append((scale, b, a))
        nothing = (0.0, torch.zeros(outputs, 1), torch.zeros(1, inputs))
        return [concatenated_factors(products or [nothing]) for products in terms]

    def _changes(self, item: Factored) -> list[Tensor]:
        """The merged change of each matrix as outputs × inputs, float64."""
        merged, base = self._merged(item.parameter.tensors)
        outputs, inputs = item.sides
        if item.turned:
            sides = (inputs, outputs)
        else:
            sides = (outputs, inputs)
        change = (merged.double() - base.double()).reshape(item.experts, *sides)
        return [(matrix.T.contiguous() if item.turned else matrix) for matrix in change]

    def _merged(self, tensors: Sequence[str]) -> tuple[Tensor, Tensor]:
        """The merged tensors one after the other, not rounded, and the base's, both flat."""
        pairs = [self._merged_tensor(tensor) for tensor in tensors]
        merged, base = zip(*pairs, strict=True)
        return torch.cat(merged), torch.cat(base)

    def _merged_tensor(self, tensor: str) -> tuple[Tensor, Tensor]:
        base = self.readers.base.read(tensor).reshape(-1)
        values = base.to(torch.promote_types(base.dtype, torch.float32), copy=True)
        assembly = Assembly()
        for row in self.plan.rows.get(tensor, ()):
            work = TensorMerge(row, self.readers, self.device)
            (pieces,) = merged_within([work], self.pool, self.budgets)
            for piece in pieces:
                start = piece.start
                stretch = piece.values
                if row.part is not None:
                    complete = assembly.add(row.part, stretch)
                    if complete is None:
                        continue
                    start = row.part.start
                    stretch = complete
                values[start : start + stretch.numel()] = stretch
        return values, base.to(values.dtype)


def _padded(factors: LowRankFactors, rank: int) -> LowRankFactors:
    """Factors of a larger rank with the same product."""
    missing = rank - factors.a_RI.shape[0]
    a_RI = torch.nn.functional.pad(factors.a_RI, (0, 0, 0, missing))
    b_OR = torch.nn.functional.pad(factors.b_OR, (0, missing))
    return replace(factors, a_RI=a_RI, b_OR=b_OR)


def _products(change: LowRank, read: Read) -> list[tuple[Tensor, Tensor]]:
    """B and A of each matrix of a stack, or of a single matrix."""
    b, a = change.factors(read)
    a_ERI = a.reshape(change.experts, -1, a.shape[1])
    b_ORE = b.reshape(b.shape[0], -1, change.experts)
    return [(b_ORE[..., expert], a_ERI[expert]) for expert in range(change.experts)]


def _placed(
    products: Sequence[tuple[Tensor, Tensor]], piece: StoredRows, place: int, height: int
) -> tuple[Tensor, Tensor]:
    """B and A of the matrix in a stack to which some rows of a change belong.

    ``place``: the first of these rows in the stack, ``height``: rows of a matrix. B is zero in the
    matrix's other rows.
    """
    expert, start = divmod(piece.start, len(products[0][0]))
    b, a_RI = products[expert]
    b_OR = torch.zeros(height, b.shape[1], dtype=b.dtype)
    above = place % height
    b_OR[above : above + piece.rows] = b[start : start + piece.rows]
    return b_OR, a_RI


def _factor_dtype(prepared: Prepared) -> str:
    return RECIPE_TAGS[prepared.recipe.out_dtype or "float32"]
