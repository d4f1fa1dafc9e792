"""The tensors of the plan with the statistics of the experts, and overrides for some of them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.ace_variants import AUTOMATIC, MEASURED
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.health import gamma_unreliable
from ace_gui.engine.contract.plan import Disposition, Plan, PlanRow
from ace_gui.gui.state.draft import Draft, Inputs
from ace_gui.recipe import Override
from ace_gui.recipe.overrides import After, Tensor, for_selection, without

_DIGITS = re.compile(r"\d+")
_WIDTH = 12  # digits; names contain no larger numbers
_STEPS = (  # the roles of a block, in the order of computation
    *("query", "key", "value", "query+key+value", "attention output"),
    *("MLP gate", "MLP gate+up", "MLP up", "MLP down"),
)
_NORMS_BEFORE = ("layernorm_before", "input_layernorm", "ln_1", "norm1")
_NORMS_BETWEEN = ("layernorm_after", "post_attention", "ln_2", "norm2", "attention.output")


class PlannedLayers(QObject):
    """The plan's ``rows`` in model order, one tuple as long as no tensor is treated differently.

    ``learnt`` carries the name of a tensor with new statistics, or "" for all tensors.
    """

    learnt = Signal(str)

    def __init__(self, draft: Draft, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.draft = draft
        self._method = ""
        self._rows: dict[str, PlanRow] = {}
        self._analysed: tuple[object, ...] = ()
        self._with_gamma: frozenset[str] = frozenset()  # merged tensors at the time of the analysis
        self._merged: frozenset[str] = frozenset()
        self.rows: tuple[PlanRow, ...] = ()
        self.statistics: dict[str, LayerStatistics] = {}

    def take(self, inputs: Inputs, plan: Plan | None) -> None:
        """Take the inputs and the plan that are about to be adopted; keep valid statistics."""
        old = self.draft.planned
        if inputs.task_vectors != old.task_vectors:
            self.statistics = {}
            self._analysed = ()
        elif inputs.names != old.names:
            self._rename(dict(zip(old.names, inputs.names, strict=True)))
        if plan is not None:
            method = plan.recipe.merge_method
        else:
            method = ""
        rows = model_order(plan.rows if plan is not None else ())
        if (method, rows) != (self._method, self.rows):
            self._method = method
            self.rows = rows
            self._merged = frozenset(r.name for r in rows if r.disposition is Disposition.MERGED)
        self._rows = {row.name: row for row in rows}

    def row(self, name: str | None) -> PlanRow | None:
        if name is not None:
            return self._rows.get(name)
        return None

    @property
    def merged(self) -> list[PlanRow]:
        """The tensors that the recipe's own method merges, in model order."""
        return [
            row
            for row in self.rows
            if row.disposition is Disposition.MERGED
            and (row.override is None or row.override.method == self._method)
        ]

    def has_spectrum(self, row: PlanRow) -> bool:
        """Whether the tensor has a spectrum, as a matrix that a method merges."""
        merged = row.disposition is Disposition.MERGED
        return merged and len(row.shape) == 2 and bool(row.experts)

    # Statistics of the experts

    def gamma(self, name: str) -> float | None:
        """γ of a tensor, if known."""
        statistics = self.statistics.get(name)
        if statistics:
            return statistics.gamma
        return None

    def tau(self, row: PlanRow) -> float:
        """The threshold that applies to a tensor; infinite if there is none."""
        plan = self.draft.plan
        has_tau = plan is not None and plan.tau_of(row) is not None
        if has_tau:
            return self.draft.tau_of(row)
        return math.inf

    def override_tau(self, row: PlanRow) -> float | None:
        """The threshold that an override sets for a tensor; None for the recipe's.

        Infinite if the override's variant has none.
        """
        plan = self.draft.plan
        if row.override is None or plan is None:
            return None
        if plan.tau_of(row) is None:
            return math.inf
        return self.draft.override_tau(row)

    def gamma_unsure(self, row: PlanRow) -> bool:
        """Whether γ is unreliable and therefore has a question mark."""
        layer = self.statistics.get(row.name)
        return layer is not None and gamma_unreliable(layer, self.tau(row))

    @property
    def most_heterogeneous(self) -> str | None:
        """The tensor with the largest reliable γ, or if none is reliable, with the largest γ."""
        gammas = [(self.gamma(row.name), row) for row in self.merged]
        ranked = ((not self.gamma_unsure(row), g, row.name) for g, row in gammas if g is not None)
        return max(ranked, default=(False, 0.0, None))[2]

    @property
    def analysis_key(self) -> tuple[object, ...]:
        """Everything that the statistics depend on."""
        inputs = self.draft.inputs
        return (*inputs.task_vectors, inputs.scope, inputs.overrides)

    @property
    def is_analysed(self) -> bool:
        """Whether the statistics are complete, including γ of all merged tensors."""
        return self._analysed == self.analysis_key and self._merged <= self._with_gamma

    def record_statistics(self, statistics: LayerStatistics) -> None:
        self.statistics[statistics.name] = statistics
        self.learnt.emit(statistics.name)

    def record_report(self, report: LayerReport) -> None:
        """Add the statistics in the report of a merged tensor if they are not known yet."""
        if report.name not in self.statistics and report.energies is not None:
            layer = LayerStatistics(name=report.name, energies=report.energies, gamma=report.gamma)
            self.statistics[report.name] = layer
        self.learnt.emit(report.name)

    def set_analysed(self) -> None:
        """Note that all statistics are known. The caller emits the signal."""
        self._analysed = self.analysis_key
        self._with_gamma = self._merged

    def _rename(self, names: Mapping[str, str]) -> None:
        for name, layer in self.statistics.items():
            energies = {names.get(expert, expert): e for expert, e in layer.energies.items()}
            left_out = tuple(names.get(expert, expert) for expert in layer.left_out)
            self.statistics[name] = replace(layer, energies=energies, left_out=left_out)


@lru_cache(maxsize=65_536)
def natural_key(name: str) -> str:
    """Sort key that puts ``layer.10`` after ``layer.2``."""
    return _DIGITS.sub(lambda digits: digits.group().zfill(_WIDTH), name)


def model_order(rows: Iterable[PlanRow]) -> tuple[PlanRow, ...]:
    """The tensors in the order of computation: embeddings, the blocks by number, the rest.

    A block has the attention, then the MLP, each with its norm where the model has it. Files list
    tensors alphabetically. The parts of one tensor keep their order.
    """
    rows = tuple(rows)
    steps: dict[str, float] = {}  # by module, so that a bias comes after its matrix
    for row in rows:
        if row.role != "bias":
            steps.setdefault(_module(row), _step(row))
    return tuple(sorted(rows, key=lambda row: _order(row, steps)))


def _order(row: PlanRow, steps: Mapping[str, float]) -> tuple[int, int, float, str, int, str]:
    if row.block is None:
        part = 2
    else:
        part = 1
    if row.block is None and ("embed" in row.role or "embed" in row.name):
        part = 0
    module = _module(row)
    if row.block is not None:
        step = steps.get(module, 0.0)
    else:
        step = 0.0
    last = row.tensor.rpartition(".")[2]
    return part, row.block or 0, step, natural_key(module), int(last == "bias"), last


def _module(row: PlanRow) -> str:
    return row.tensor.rpartition(".")[0]


def _step(row: PlanRow) -> float:
    """The position of a module in the computation of its block."""
    if row.role in _STEPS:
        return _STEPS.index(row.role)
    name = _module(row).lower()
    if row.role != "norm" or not any(part in name for part in _NORMS_BEFORE + _NORMS_BETWEEN):
        return len(_STEPS)
    comes_before = any(part in name for part in _NORMS_BEFORE)
    if comes_before:
        return -1
    return _STEPS.index("attention output") + 0.5


ACE: Final = "ace"

Rules = tuple[Override, ...]

_OPEN = frozenset({Disposition.MERGED, Disposition.AVERAGED, Disposition.BASE})


def open_to_override(layers: PlannedLayers, names: Collection[str]) -> frozenset[str]:
    """Those of the tensors that can be merged. The source of a tied tensor replaces it."""
    rows = [row for name in names if (row := layers.row(name)) is not None]
    sources = (layers.row(row.tied_to) if row.tied_to else row for row in rows)
    return frozenset(row.name for row in sources if row is not None and _takes_part(row))


def overridden(layers: PlannedLayers, names: Collection[str], change: Override) -> Rules:
    """The draft's rules, with ``change`` instead of earlier rules for these tensors."""
    tensors = _tensors(layers)
    rules: list[Override] = []
    for rule in layers.draft.inputs.overrides:
        ruled = {t.name for t in tensors if rule.holds_for(t.name, t.role, t.block)}
        rules_more = rule.weights or rule.experts or rule.after != After()
        if rules_more or not ruled & set(names):
            rules.append(rule)
        elif ruled - set(names):
            rules += without([rule], names, tensors) if rule.tensors else [rule]
    return (*rules, for_selection(change, names, tensors))


def automatic_for(layers: PlannedLayers, names: Collection[str] | None) -> Inputs:
    """The inputs with ACE's automatic variant for these layers, or if None for all."""
    inputs = layers.draft.inputs
    if names is None:
        return inputs.with_parameter("variant", AUTOMATIC)
    change = Override(parameters={"variant": AUTOMATIC})
    if inputs.method != ACE:
        change = replace(change, merge_method=ACE, disposition="merge")
    tensors = open_to_override(layers, names)
    return replace(inputs, overrides=overridden(layers, tensors, change))


def with_measured(inputs: Inputs) -> Inputs:
    """The inputs with ACE's variant that uses the measured covariances."""
    return replace(inputs, method=ACE).with_parameter("variant", MEASURED)


def uses_measured(inputs: Inputs) -> bool:
    """Whether the inputs choose ACE's variant that uses the measured covariances."""
    return inputs.method == ACE and inputs.touched.get("variant") == MEASURED


def governing(rules: Sequence[Override], indices: Iterable[int], method: str) -> int | None:
    """The index of the last of the rules at ``indices`` that sets parameters.

    None if the recipe sets them. ``method``: the recipe's.
    """
    last = None
    current = method
    for index in indices:
        # the plan is not renewed yet
        if index < len(rules):
            rule = rules[index]
        else:
            rule = Override()
        current = rule.merge_method or current
        if rule.merge_method is not None or (rule.parameters and current == method):
            last = index
    return last


def reset(layers: PlannedLayers, names: Collection[str]) -> Rules:
    """The draft's rules, with none left for these tensors."""
    return without(layers.draft.inputs.overrides, names, _tensors(layers))


def _takes_part(row: PlanRow) -> bool:
    return row.in_base and bool(row.experts) and row.disposition in _OPEN


def rule_for(layers: PlannedLayers, names: Collection[str], change: Override) -> Override:
    """An override ``change`` for exactly these tensors."""
    return for_selection(change, names, _tensors(layers))


def _tensors(layers: PlannedLayers) -> list[Tensor]:
    return [
        Tensor(name=row.name, role=row.role, block=row.block)
        for row in layers.rows
        if _takes_part(row) and row.tied_to is None
    ]
