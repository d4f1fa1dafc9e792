"""Writes a merge, or a model's change, as one adapter in PEFT's format.

Tensor by tensor: the merged change is cut to two factors and written, and forgotten. Where a method
is linear and all experts are plain LoRA, the factors themselves are joined, and no dense matrix is
made.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.checkpoints import (
    OutputTensor,
    claimed_output,
    discard,
    promote,
    read_factor,
    torch_dtype,
)
from ace_gui.engine.calibrating.calibrate import calibrated
from ace_gui.engine.contract.events import (
    Event,
    JobProgress,
    MergeFinished,
    MergeStarted,
    PlanReady,
    TensorFinished,
)
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.devices import peak_on, resolve_device, use_threads
from ace_gui.engine.merging.learn import learned
from ace_gui.engine.merging.merge_manifest import Manifest, make_manifest
from ace_gui.engine.merging.read_back import verify_shards
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.surveying import surveyed
from ace_gui.engine.merging.tensor_merge import TensorMerge, rounded
from ace_gui.engine.merging.units import budgets_of, merged_within
from ace_gui.engine.output.adapter_store import AdapterStore
from ace_gui.engine.output.exporting import CARD, exported
from ace_gui.engine.output.lineage import lineage_of
from ace_gui.engine.output.model_card import adapter_card
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
from ace_gui.engine.streaming import Assembly, single_threads
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
    that can be resumed. ``described``: the merge for the card and the recipe file, if it is another
    one. Raises RecipeError, MismatchError, and the errors of merging and writing.
    """
    require_experts(prepared)
    require_adapter(prepared.plan.recipe)
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
                _write_beside(store, work.plan, prepared, described or manifest, target, hashes)
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
    """One adapter being written. ``plan``: with the ranks that are written, once they are known."""

    plan: AdapterPlan
    prepared: Prepared
    device: torch.device
    store: AdapterStore
    balanced: bool
    pool: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.readers, self.budgets = Readers(self.prepared), budgets_of(self.device)

    def events(self) -> Iterator[Event]:
        """Survey the model, find the ranks that the headers do not tell, write every tensor."""
        for found in surveyed(self.prepared, self.readers, store=self.store.folder):
            if found is not None:
                yield found
        with single_threads() as self.pool:
            yield from self._events()
        self.readers.check_unchanged()

    def _events(self) -> Iterator[Event]:
        energy = self.prepared.plan.recipe.energy
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
            begun = time.monotonic()
            self._write(each)
            yield TensorFinished(
                report=LayerReport(name=each.tensor),
                done=done,
                total=len(tensors),
                bytes_done=0,
                seconds=time.monotonic() - begun,
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
        """Note the rank of every tensor, 0 for one that does not change.

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
        """What is written of a tensor: exact where its rank allows it, else the nearest."""
        found = self._joined(each)
        if found is None:
            return cut(self._change(each), each.rank, balanced=self.balanced)
        if found.a_RI.shape[0] == each.rank:
            return found
        return cut_product(found, each.rank, balanced=self.balanced)

    def _joined(self, each: Factored) -> Factors | None:
        """The merged change as the experts' factors; None if it is no sum of them."""
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
            work = TensorMerge(row, self.prepared, self.readers, self.device)
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
    return RECIPE_TAGS[prepared.plan.recipe.out_dtype or "float32"]


def _write_beside(
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
    base, recipe = prepared.base, prepared.plan.recipe
    ranks = {each.module: each.rank for each in plan.factored if each.rank != plan.rank}
    biases = {each.module for each in plan.factored} & {each.module for each in plan.whole}
    whole = list(plan.whole_modules)
    tied = {base.architecture.absent.get(name) for name in base.architecture.absent}
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
        "ensure_weight_tying": any(each.tensor in tied for each in plan.whole),
    }
