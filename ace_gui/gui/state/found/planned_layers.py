"""The tensors of the plan, and what the comparison of the experts says of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.figures.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.plan import Disposition, Plan, PlanRow
from ace_gui.gui.state.chosen.draft import Draft
from ace_gui.gui.state.chosen.inputs import Inputs

_DIGITS = re.compile(r"\d+")
_WIDTH = 12  # digits; larger numbers do not occur in names


class PlannedLayers(QObject):
    """``rows`` are in the model's order; the same tuple while every tensor is treated the same.

    ``learnt`` carries the name of the tensor of which more is known, "" for all of them.
    """

    learnt = Signal(str)

    def __init__(self, draft: Draft, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._draft = draft
        self._method = ""
        self._rows: dict[str, PlanRow] = {}
        self._analysed: tuple[object, ...] = ()
        self._with_gamma: frozenset[str] = frozenset()  # when they were analysed
        self._merged: frozenset[str] = frozenset()
        self.rows: tuple[PlanRow, ...] = ()
        self.statistics: dict[str, LayerStatistics] = {}

    def take(self, inputs: Inputs, plan: Plan | None) -> None:
        """These inputs and their plan are about to be adopted; statistics stay where they hold."""
        before = self._draft.planned
        if inputs.task_vectors != before.task_vectors:
            self.statistics, self._analysed = {}, ()
        elif inputs.names != before.names:
            self._rename(dict(zip(before.names, inputs.names, strict=True)))
        method = plan.recipe.merge_method if plan is not None else ""
        rows = model_order(plan.rows if plan is not None else ())
        if (method, rows) != (self._method, self.rows):
            self._method, self.rows = method, rows
            self._merged = frozenset(r.name for r in rows if r.disposition is Disposition.MERGED)
        self._rows = {row.name: row for row in rows}

    def row(self, name: str | None) -> PlanRow | None:
        """The plan's row of a tensor."""
        return self._rows.get(name) if name is not None else None

    @property
    def merged(self) -> list[PlanRow]:
        """The tensors that the recipe's method itself merges, in the model's order."""
        return [
            row
            for row in self.rows
            if row.disposition is Disposition.MERGED
            and (row.override is None or row.override.method == self._method)
        ]

    def has_spectrum(self, row: PlanRow) -> bool:
        """Whether there is a spectrum to ask for: the method merges this matrix."""
        merged = row.disposition is Disposition.MERGED
        return merged and len(row.shape) == 2 and bool(row.experts)

    # What the comparison of the experts says

    def gamma(self, name: str) -> float | None:
        """γ of a tensor, where it has one and it is known."""
        statistics = self.statistics.get(name)
        return statistics.gamma if statistics else None

    @property
    def most_heterogeneous(self) -> str | None:
        """The merged tensor with the largest γ."""
        known = [(self.gamma(row.name), row.name) for row in self.merged]
        return max(((g, n) for g, n in known if g is not None), default=(0.0, None))[1]

    @property
    def analysis_key(self) -> tuple[object, ...]:
        """What the statistics depend on."""
        inputs = self._draft.inputs
        return (*inputs.task_vectors, inputs.scope, inputs.overrides)

    @property
    def is_analysed(self) -> bool:
        """Whether the statistics of what is loaded are complete, γ of what is merged included."""
        return self._analysed == self.analysis_key and self._merged <= self._with_gamma

    def record_statistics(self, statistics: LayerStatistics) -> None:
        """What the task vectors say of one tensor."""
        self.statistics[statistics.name] = statistics
        self.learnt.emit(statistics.name)

    def record_report(self, report: LayerReport) -> None:
        """One tensor is merged; its report fills in statistics that were not known."""
        if report.name not in self.statistics and report.energies is not None:
            known = LayerStatistics(name=report.name, energies=report.energies, gamma=report.gamma)
            self.statistics[report.name] = known
        self.learnt.emit(report.name)

    def set_analysed(self) -> None:
        """Every statistic of what is loaded is known; who says so tells it."""
        self._analysed, self._with_gamma = self.analysis_key, self._merged

    def _rename(self, names: Mapping[str, str]) -> None:
        for name, known in self.statistics.items():
            energies = {names.get(expert, expert): e for expert, e in known.energies.items()}
            left_out = tuple(names.get(expert, expert) for expert in known.left_out)
            self.statistics[name] = replace(known, energies=energies, left_out=left_out)


@lru_cache(maxsize=65_536)
def natural_key(name: str) -> str:
    """Sorts ``layer.10`` after ``layer.2``."""
    return _DIGITS.sub(lambda digits: digits.group().zfill(_WIDTH), name)


def model_order(rows: Iterable[PlanRow]) -> tuple[PlanRow, ...]:
    """From input to output: embeddings, the blocks as they are numbered, the rest.

    Files have tensors by the alphabet. The parts of a tensor stay as they lie in it.
    """
    return tuple(sorted(rows, key=_place))


def _place(row: PlanRow) -> tuple[int, int, str]:
    if row.block is not None:
        # Blocks are alike: without the number there are few different names to take apart.
        return 1, row.block, natural_key(row.tensor.replace(f".{row.block}.", ".#.", 1))
    return (0 if "embed" in row.role or "embed" in row.name else 2), 0, natural_key(row.tensor)
