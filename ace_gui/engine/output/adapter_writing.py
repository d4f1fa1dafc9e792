"""Writes a merge, or a model's change, as one adapter in PEFT's format.

Each merged change is cut to two factors and written before the next one is computed. If a method is
linear and all experts are plain LoRA, the factors themselves are joined, and no dense matrix is
computed.

An unfinished adapter is on disk with a journal, so that it can be resumed::

    STORE/
      manifest.json     what the adapter depends on, as of a merge, and how it is cut
      journal.jsonl     one line a tensor: its rank, or the checksums of what is written of it
      model/            the adapter
      .made-by-…        marks a folder that may be removed
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Self

import torch
from torch import Tensor

from ace_gui.architecture.names import embedding_role
from ace_gui.checkpoints.derived import read_factor
from ace_gui.checkpoints.header import torch_dtype
from ace_gui.checkpoints.staging import claimed_output, discard, mark, promote
from ace_gui.checkpoints.writer import OutputTensor, Shard, ShardedWriter, plan_shards
from ace_gui.engine.calibrating.calibrate import calibrated
from ace_gui.engine.capabilities import peak_on, resolve_device, use_threads
from ace_gui.engine.contract.events import (
    Event,
    JobProgress,
    MergeFinished,
    MergeStarted,
    PlanReady,
    TensorFinished,
    exported,
)
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.kept_files import keep_json, open_json
from ace_gui.engine.merging.learn import learned
from ace_gui.engine.merging.merge_manifest import Manifest, make_manifest
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import intact, journal_lines, refuse_links, verify_shards
from ace_gui.engine.merging.surveying import surveyed
from ace_gui.engine.merging.tensor_merge import TensorMerge, rounded
from ace_gui.engine.merging.units import budgets_of, merged_within
from ace_gui.engine.output.model_card import CARD, adapter_card, lineage_of
from ace_gui.engine.planning.adapter_plan import (
    AdapterPlan,
    Factored,
    Whole,
    adapter_plan,
    low_rank_changes,
    require_adapter,
    require_factors,
    shares_of,
)
from ace_gui.engine.planning.prepare import require_experts
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import Assembly, checksum, single_threads
from ace_gui.errors import CheckpointError, ResumeError
from ace_gui.linalg.singular import (
    Factors,
    core_values,
    cut,
    cut_product,
    joined,
    rank_for,
    squared_values,
)
from ace_gui.machine import peak_memory
from ace_gui.output_files import RECIPE, staging_folder, writing
from ace_gui.recipe.recipe_file import dump_recipe
from ace_gui.stored_formats import RECIPE_TAGS

MODEL: Final = "model"
_MANIFEST: Final = "manifest.json"
_JOURNAL: Final = "journal.jsonl"
_ONE_FILE: Final = 2**62


class AdapterStore:
    """An open store, to be closed.

    ``lines``: the journal's entry for each tensor. ``model``: folder of the adapter; ``shards``:
    its file.
    """

    def __init__(self, folder: Path, lines: dict[str, dict[str, Any]], journal: IO[str]) -> None:
        self.folder, self.model = folder, folder / MODEL
        self.lines = lines
        self._journal = journal
        self._writer: ShardedWriter | None = None
        self.shards: tuple[Shard, ...] = ()

    @classmethod
    def opened(
        cls, folder: Path, manifest: Manifest, settings: Mapping[str, object], *, resume: bool
    ) -> Self:
        """A new store, or the unfinished one of the same inputs and settings.

        Raises ResumeError if these differ, OutputError or ResourceError if it cannot be written.
        """
        names = ("headers", "code", "libraries", "device", "threads", "added_methods")
        described = {name: getattr(manifest, name) for name in names} | {
            "inputs": [[each.path, each.size, each.mtime_ns] for each in manifest.inputs],
            "recipe": repr(manifest.recipe.absolute()),
            "settings": settings,
        }
        described = json.loads(json.dumps(described))  # as JSON returns it
        refuse_links(folder)
        if resume and (folder / _MANIFEST).is_file():
            lines = _resumed(folder, described)
        else:
            discard(folder)
            (folder / MODEL).mkdir(parents=True)
            mark(folder)
            keep_json(folder / _MANIFEST, described)
            lines = {}
        with writing(folder):
            journal = (folder / _JOURNAL).open("w", encoding="utf-8")
            store = cls(folder, lines, journal)
            for tensor, line in lines.items():
                store._write_line(tensor, line)
        return store

    def note(self, tensor: str, **line: object) -> None:
        """Add facts about a tensor to the journal."""
        self.lines[tensor] = {**self.lines.get(tensor, {}), **line}
        self._write_line(tensor, self.lines[tensor])

    def begin(self, outputs: Sequence[OutputTensor]) -> None:
        """Create the file, or continue it with the intact tensors that the journal lists."""
        self.shards = plan_shards(outputs, _ONE_FILE, stem="adapter_model")
        (shard,), sound = self.shards, set[str]()
        continued = (self.model / shard.file_name).exists()
        written = {tensor: line.get("written", {}) for tensor, line in self.lines.items()}
        if continued:
            ShardedWriter(self.model, self.shards, ())  # checks the file
            recorded = {name: crc for pieces in written.values() for name, crc in pieces.items()}
            sound = set(intact(self.model, self.shards, recorded))
        for tensor, pieces in written.items():  # damaged tensors are written again
            if not sound.issuperset(pieces):
                del self.lines[tensor]["written"]
        kept = [name for pieces in written.values() if sound.issuperset(pieces) for name in pieces]
        self._writer = ShardedWriter(self.model, self.shards, kept if continued else None)

    def write(self, tensor: str, pieces: Mapping[str, Tensor], **line: object) -> None:
        """Write the adapter's tensors for a tensor of the model, by their names in its file."""
        assert self._writer is not None
        for name, piece in pieces.items():
            self._writer.write(name, piece)
        self.note(tensor, written={n: checksum(piece) for n, piece in pieces.items()}, **line)

    def finish(self) -> dict[str, int]:
        """Finish the file; return the checksum of each of its tensors."""
        assert self._writer is not None
        self._writer.finish()
        checksums: dict[str, int] = {}
        for line in self.lines.values():
            checksums |= line.get("written", {})
        return checksums

    def close(self) -> None:
        """Close the journal; the store can be resumed."""
        self._journal.close()

    def _write_line(self, tensor: str, line: Mapping[str, object]) -> None:
        self._journal.write(json.dumps({"tensor": tensor, **line}) + "\n")
        self._journal.flush()


def _resumed(folder: Path, described: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """The journal of an unfinished store, which must have these inputs and settings."""
    try:
        stored = open_json(folder / _MANIFEST)
        text = (folder / _JOURNAL).read_text(encoding="utf-8")
    except (CheckpointError, OSError, ValueError) as error:
        raise ResumeError(
            f"{folder} cannot be read; begin again without resuming.", path=folder
        ) from error
    changed = [name for name, value in described.items() if stored.get(name) != value]
    if changed:
        raise ResumeError(
            f"The unfinished adapter in {folder} cannot be continued: {', '.join(changed)} differ. "
            "Begin again without resuming.",
            path=folder,
        )
    lines: dict[str, dict[str, Any]] = {}
    for line in journal_lines(text):
        if "tensor" not in line:
            break
        lines[line.pop("tensor")] = line
    return lines


CONFIG: Final = "adapter_config.json"


@dataclass(frozen=True, kw_only=True)
class AdapterOptions:
    """``include``, ``exclude``: patterns of tensors' names. ``balanced``: √S in both factors."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    balanced: bool = False


def write_adapter(
    prepared: Prepared,
    out: Path,
    *,
    device: str = "auto",
    threads: int | None = None,
    resume: bool = False,
    options: AdapterOptions = AdapterOptions(),
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
    where, started = resolve_device(device), time.monotonic()
    plan = adapter_plan(prepared, options.include, options.exclude)
    require_factors(plan)
    with claimed_output(out, prepared.plan.input_folders) as target:
        yield PlanReady(plan=prepared.plan)
        before = (*calibrated(prepared, where, None), *learned(prepared, where))
        yield from (event for event in before if event is not None)
        manifest = make_manifest(prepared, where, None, as_output=False)
        with writing(folder := staging_folder(target)):
            store = AdapterStore.opened(folder, manifest, asdict(options), resume=resume)
            with closing(store):
                work = _Writing(plan, prepared, where, store, options.balanced)
                yield from work.events()
                hashes = verify_shards(store.model, store.shards, store.finish())
                _write_companions(store, work.plan, prepared, described or manifest, target, hashes)
            promote(store.model, target)
            discard(folder)
    yield MergeFinished(
        store=target,
        seconds=time.monotonic() - started,
        peak_bytes=peak_memory(),
        gpu_peak=peak_on(where),
        warnings=prepared.plan.warnings + plan.notes,
    )
    yield exported(target)


@dataclass
class _Writing:
    """One adapter being written. ``plan``: has the final ranks once they are known."""

    plan: AdapterPlan
    prepared: Prepared
    device: torch.device
    store: AdapterStore
    balanced: bool
    pool: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.readers, self.budgets = Readers(self.prepared), budgets_of(self.device)

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
        outputs = self._outputs()
        self.store.begin(outputs)
        tensors: list[Factored | Whole] = [*self.plan.factored, *self.plan.whole]
        lines = self.store.lines
        left = [each for each in tensors if "written" not in lines.get(each.tensor, {})]
        yield MergeStarted(
            total=len(tensors),
            done=len(tensors) - len(left),
            bytes_total=sum(each.nbytes for each in outputs),
            peak_bytes=self.prepared.plan.peak_bytes,
        )
        for done, each in enumerate(left, len(tensors) - len(left) + 1):
            started = time.monotonic()
            self._write(each)
            yield TensorFinished(
                report=LayerReport(name=each.tensor),
                done=done,
                total=len(tensors),
                bytes_done=0,
                seconds=time.monotonic() - started,
            )

    def _outputs(self) -> list[OutputTensor]:
        dtype = _factor_dtype(self.prepared)
        factors = [output for each in self.plan.factored for output in each.outputs(dtype)]
        whole = [
            OutputTensor(name=name, dtype=each.dtype, shape=each.shape)
            for each in self.plan.whole
            for name in self.plan.names_of(each)
        ]
        return [*factors, *whole]

    def _find_ranks(self, energy: float | None) -> Iterator[Event]:
        """Note the rank of every tensor; a tensor that does not change has rank 0.

        ``energy`` None: the others have the plan's rank.
        """
        lines, total = self.store.lines, len(self.plan.factored)
        for done, each in enumerate(self.plan.factored):
            yield JobProgress(done=done, total=total, title="finding the ranks")
            if "rank" not in lines.get(each.tensor, {}):
                self.store.note(each.tensor, rank=self._rank(each, energy))
        for whole in self.plan.whole:
            if "rank" not in lines.get(whole.tensor, {}):
                merged, base = self._merged(whole.tensor)
                self.store.note(whole.tensor, rank=int(not torch.equal(merged, base)))
        ranks = {name: line["rank"] for name, line in lines.items() if "rank" in line}
        self.plan = self.plan.with_ranks(ranks, {name for name, rank in ranks.items() if rank})
        require_factors(self.plan)

    def _rank(self, each: Factored, energy: float | None) -> int:
        factors = self._joined(each)
        if energy is None:
            return each.rank if factors is not None or self._change(each).any() else 0
        squares = squared_values(self._change(each)) if factors is None else core_values(factors)
        return min(rank_for(squares, energy), each.rank)

    def _write(self, each: Factored | Whole) -> None:
        if isinstance(each, Whole):
            merged, _ = self._merged(each.tensor)
            whole = rounded(merged, torch_dtype(each.dtype), each.tensor).reshape(each.shape)
            self.store.write(each.tensor, dict.fromkeys(self.plan.names_of(each), whole))
            return
        factors = self._factors(each)
        outputs = each.outputs(_factor_dtype(self.prepared))
        values = {
            output.name: rounded(factor, torch_dtype(output.dtype), each.tensor)
            .reshape(output.shape)
            .contiguous()
            for output, factor in zip(outputs, (factors.a_RI, factors.b_OR), strict=True)
        }
        self.store.write(each.tensor, values, kept=factors.kept, at_rank=each.rank)

    def _factors(self, each: Factored) -> Factors:
        """The factors to write: exact if the rank allows it, else the nearest of this rank."""
        factors = self._joined(each)
        if factors is None:
            return cut(self._change(each), each.rank, balanced=self.balanced)
        if factors.a_RI.shape[0] == each.rank:
            return factors
        return cut_product(factors, each.rank, balanced=self.balanced)

    def _joined(self, each: Factored) -> Factors | None:
        """The merged change as joined factors of the experts; None if it is no sum of them."""
        (row, *others) = self.plan.rows[each.tensor]
        shares = None if others else shares_of(self.prepared, row)
        changes = low_rank_changes(self.prepared, row)
        if shares is None or changes is None:
            return None
        terms = []
        for t, change in changes:
            b_OR, a_RI = change.factors(partial(read_factor, self.readers.experts[t].reader))
            terms.append((shares[row.experts.index(t)] * change.scale, b_OR, a_RI))
        return joined(terms) if terms else None

    def _change(self, each: Factored) -> Tensor:
        """The merged change as outputs × inputs, float64."""
        merged, base = self._merged(each.tensor)
        change = (merged.double() - base.double()).reshape(each.shape[0], -1)
        return change.T.contiguous() if each.turned else change

    def _merged(self, tensor: str) -> tuple[Tensor, Tensor]:
        """The merged tensor, not rounded, and the base's, both flat."""
        rows = self.plan.rows[tensor]
        base = self.readers.base.read(tensor).reshape(-1)
        values = torch.empty(base.numel(), dtype=torch.promote_types(base.dtype, torch.float32))
        assembly = Assembly()
        for row in rows:
            work = TensorMerge(row, self.readers, self.device)
            (pieces,) = merged_within([work], self.pool, self.budgets)
            for piece in pieces:
                start, stretch = piece.start, piece.values
                if row.part is not None:
                    complete = assembly.add(row.part, stretch)
                    if complete is None:
                        continue
                    start, stretch = row.part.start, complete
                values[start : start + stretch.numel()] = stretch
        return values, base.to(values.dtype)


def _factor_dtype(prepared: Prepared) -> str:
    return RECIPE_TAGS[prepared.recipe.out_dtype or "float32"]


def _write_companions(
    store: AdapterStore,
    plan: AdapterPlan,
    prepared: Prepared,
    manifest: Manifest,
    target: Path,
    hashes: Mapping[str, str],
) -> None:
    """The config, the card and the recipe."""
    config = adapter_config(plan, prepared)
    (store.model / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    kept = {t: line["kept"] for t, line in store.lines.items() if "kept" in line}
    card = adapter_card(target.name, manifest, plan, kept, hashes)
    (store.model / CARD).write_text(card, encoding="utf-8")
    text = dump_recipe(manifest.resolved_recipe, target)
    (store.model / RECIPE).write_text(text, encoding="utf-8")


def adapter_config(plan: AdapterPlan, prepared: Prepared) -> dict[str, Any]:
    """``adapter_config.json``: every scale is 1, so alphas are ranks, and rsLoRA is off."""
    recipe = prepared.recipe
    ranks = {each.module: each.rank for each in plan.factored if each.rank != plan.rank}
    biases = {each.module for each in plan.factored} & {each.module for each in plan.whole}
    whole = list(plan.whole_modules)
    copies = [name for each in plan.whole for name in each.copies]
    turned = [each for each in plan.factored if each.turned and not each.embedding]
    public = lineage_of(recipe).base
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": public or str(recipe.base_model.absolute()),
        "r": plan.rank,
        "lora_alpha": plan.rank,
        "lora_dropout": 0.0,
        "bias": "lora_only" if biases else "none",
        "target_modules": [each.module for each in plan.factored],
        "rank_pattern": ranks,
        "alpha_pattern": ranks,
        "modules_to_save": whole or None,
        "fan_in_fan_out": bool(turned),
        "use_rslora": False,
        "use_dora": False,
        "init_lora_weights": True,
        "inference_mode": True,
        # PEFT would make linear layers of all copies, also of a decoder's embedding.
        "ensure_weight_tying": bool(copies) and not any(map(embedding_role, copies)),
    }
