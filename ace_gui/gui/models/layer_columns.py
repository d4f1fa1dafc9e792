"""The columns of the layers table.

One object declares how a column is shown, sorted, explained, read aloud and written to CSV.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from math import prod
from typing import Final

from ace_gui.engine.contract import declared_figures as declared
from ace_gui.engine.contract.declared_figures import DeclaredFigure
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.health import (
    BY_SCALE,
    UNRELIABLE,
    LayerHealth,
    by_scale_alone,
)
from ace_gui.engine.contract.plan import WORST_FIRST, CheckVerdict, Disposition, PlanRow
from ace_gui.formatting import number_text, shape_text
from ace_gui.gui.models.figures_model import GAP, NONE, FigureColumn, column_of
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.state.planned_layers import natural_key
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import gamma_text, plain, tooltip
from ace_gui.linalg.heterogeneity import WHY_BY_SCALE

FINE: Final = "✓"
"""The text for a tensor without anything unusual."""
_OVERRIDDEN: Final = "◆"
"""Marks a tensor that an override of the recipe applies to."""
ALARMING: Final = {CheckVerdict.ERROR: "error", CheckVerdict.WARNING: "warning"}
"""The icons of health. Notes have none, so that warnings are noticed."""


class LayerState(IntEnum):
    """The progress of a tensor's merge; the column sorts by these numbers."""

    NONE = 0
    WAITING = 1
    EARLIER = 2
    DONE = 3


_STATES: Final = {  # text and tooltip
    LayerState.NONE: (NONE, "Not merged yet."),
    LayerState.WAITING: ("◌ waiting", "Waiting for its turn in the merge."),
    LayerState.EARLIER: (
        "↺ outdated",
        "Settings changed since this tensor was merged; merge again to apply them.",
    ),
    LayerState.DONE: ("✓ done", "Merged with the current parameters."),
}


class LayerRow:
    """One tensor of the plan with everything that the session knows about it."""

    __slots__ = ("_healths", "_session", "prefix", "row")

    def __init__(self, row: PlanRow, session: Session, healths: Healths, prefix: str = "") -> None:
        self.row = row
        self.prefix = prefix
        """The common start of all block names, which is omitted."""
        self._session = session
        self._healths = healths

    @property
    def short_name(self) -> str:
        """The name without the common start of all blocks, so that the block's number shows."""
        name = self.row.name
        has_prefix = self.prefix and name.startswith(self.prefix)
        return plain("…" + name.removeprefix(self.prefix) if has_prefix else name)

    @property
    def statistics(self) -> LayerStatistics | None:
        return self._session.layers.statistics.get(self.row.name)

    @property
    def report(self) -> LayerReport | None:
        """What the merge did, if the merge belongs to the current inputs."""
        if self._session.merge_is_current:
            merge = self._session.results.merge
        else:
            merge = None
        if merge is None:
            return None
        return merge.reports.get(self.row.name)

    @property
    def gamma(self) -> float:
        """Heterogeneity, NaN if unknown."""
        return self.value(declared.GAMMA)

    def value(self, figure: DeclaredFigure) -> float:
        """A figure of the layer, NaN if unknown."""
        if figure.of_report is not None:
            report = self.report
        else:
            report = None
        value = figure.value(self.statistics, report)
        if value is None:
            return math.nan
        return value

    @property
    def tau(self) -> float:
        """The threshold that applies to the tensor; infinite if there is none."""
        return self._session.layers.tau(self.row)

    @property
    def regime(self) -> str:
        """The branch of ACE for this tensor, or a dash."""
        tau = self.tau
        statistics = self.statistics
        if math.isnan(self.gamma) or math.isinf(tau):
            return NONE
        if not self.gamma > tau:
            return "homogeneous"
        scale = statistics is not None and by_scale_alone(statistics, tau)
        if scale:
            return BY_SCALE
        return "heterogeneous"

    @property
    def gamma_unsure(self) -> bool:
        return self._session.layers.gamma_unsure(self.row)

    @property
    def health(self) -> LayerHealth | None:
        return self._healths.of(self.row.name)

    @property
    def state(self) -> LayerState:
        merge = self._session.results.merge
        if merge is not None and self.row.name in merge.reports:
            if self._session.merge_is_current:
                return LayerState.DONE
            return LayerState.EARLIER
        merging = self._session.activity.is_running(ActivityState.MERGING)
        if merging:
            return LayerState.WAITING
        return LayerState.NONE

    @property
    def outcome(self) -> str:
        """The disposition, or a mark and the method if an override applies."""
        row = self.row
        if row.override is None:
            return row.disposition.value
        titles = {method.name: method.title for method in self._session.draft.methods}
        title = titles.get(row.override.method, row.override.method).removesuffix("-Merging")
        merged = row.disposition is Disposition.MERGED
        return f"{_OVERRIDDEN} {title if merged else row.disposition.value.removeprefix('kept ')}"

    @property
    def tip(self) -> str:
        lines = [self.row.name, f"{self.row.disposition.value}: {self.row.reason}"]
        if not math.isnan(self.gamma):
            lines.append(f"γ = {self.gamma:.4g}: {self.regime}")
            if self.gamma_unsure:
                lines.append(f"{UNRELIABLE}: {WHY_BY_SCALE}. Var ln E has no such scale.")
        lines += [
            f"{column.title} {column.text(self).strip()}"
            for column in (*OF_THE_MERGE, *FURTHER)
            if column.is_known(self)
        ]
        state = self.state
        if state in (LayerState.WAITING, LayerState.EARLIER):
            lines.append(_STATES[state][1])
        health = self.health
        if health is not None:
            lines += [f"• {finding.sentence}" for finding in health.findings]
        return tooltip("\n".join(lines))


Value = str | float


@dataclass(frozen=True, kw_only=True, eq=False)
class Column:
    """A column of the layers table. Most fields are functions of a layer."""

    title: str
    """Its heading."""
    value: Callable[[LayerRow], Value]
    """A text, or a number with NaN for unknown."""
    tip: str = ""
    """Explains it."""
    csv: str = ""
    """Its title in CSV; empty: the column's title in lower case."""
    written: Callable[[LayerRow], str] | None = None
    """Displayed instead of the value; None: the value."""
    key: Callable[[LayerRow], Value] | None = None
    """Sorted by; None: the value."""
    read: Callable[[LayerRow], str] | None = None
    """For screen readers; None: what is displayed."""
    is_number: bool = False
    """Whether it is aligned as a number."""
    largest_first: bool = False
    """The order after the first click."""
    digits: int = 0
    """The column's width; 0 to fit its texts."""
    least: int | None = None
    """The column is hidden in a table with fewer digits of width; None: it is only in CSV and
    tooltips.
    """
    useful: Callable[[LayerRow], bool] | None = None
    """The column is hidden unless this is true for some layer; None: always shown."""
    cell: str = ""
    """How it is drawn, see ``layer_cells``; empty: as text."""

    def text(self, layer: LayerRow) -> str:
        if self.written is not None:
            return self.written(layer)
        value = self.value(layer)
        if isinstance(value, str):
            return value
        return _number(value)

    def spoken(self, layer: LayerRow) -> str:
        if self.read is None:
            return self.text(layer)
        return self.read(layer)

    def sort_key(self, layer: LayerRow) -> Value:
        """What the column is sorted by; NaN comes last in both directions."""
        return (self.key or self.value)(layer)

    def is_known(self, layer: LayerRow) -> bool:
        value = self.value(layer)
        if isinstance(value, str):
            return value != NONE
        return not math.isnan(value)

    def exported(self, layers: Sequence[LayerRow]) -> FigureColumn:
        """The values of these layers for CSV."""
        return column_of(self.csv or self.title.lower(), map(self.value, layers))

    @cached_property
    def index(self) -> int:
        return COLUMNS.index(self)


def _number(value: float) -> str:
    return (NONE if math.isnan(value) else number_text(value, 3)) + GAP


def _figure_column(figure: DeclaredFigure) -> Column:
    """The column of a declared figure."""

    def text(layer: LayerRow) -> str:
        value = layer.value(figure)
        return (NONE if math.isnan(value) else figure.text(value, 3)) + GAP

    return Column(
        title=figure.title,
        tip=figure.meaning,
        csv=figure.csv_heading or figure.title,
        value=lambda layer: layer.value(figure),
        written=text,
        is_number=True,
        largest_first=True,
        digits=len(figure.title) + 2,
        least=130,
    )


def _gamma(layer: LayerRow) -> str:
    if math.isnan(layer.gamma):
        return NONE + GAP
    return gamma_text(layer.gamma) + (" ?" if layer.gamma_unsure else "") + GAP


def _health(layer: LayerRow) -> str:
    health = layer.health
    if health is None:
        return NONE
    if health.verdict not in ALARMING:
        return FINE
    return str(len(health.findings))


def _health_read(layer: LayerRow) -> str:
    health = layer.health
    if health is None:
        return "not known"
    return f"{health.verdict.value} {health.tooltip}".strip()


def _health_key(layer: LayerRow) -> float:
    """The sort key of health: the worst first, then by the number of findings, unknown last."""
    health = layer.health
    if health is None:
        return math.nan
    return WORST_FIRST.index(health.verdict) - len(health.findings) / 1000


TENSOR = Column(
    title="Tensor",
    tip="Name of the tensor in the base model's files.",
    value=lambda layer: layer.row.name,
    written=lambda layer: layer.short_name,
    read=lambda layer: plain(layer.row.name),
    key=lambda layer: natural_key(layer.row.name),
    least=0,
    cell="name",
)
ROLE = Column(
    title="Role",
    tip="The tensor's role in the model.",
    value=lambda layer: layer.row.role,
    least=72,
)
SHAPE = Column(
    title="Shape",
    tip="Shape as stored in the files.",
    value=lambda layer: shape_text(layer.row.shape),
    key=lambda layer: float(prod(layer.row.shape)),
    is_number=True,
    largest_first=True,
    least=80,
)
FORMAT = Column(title="Format", value=lambda layer: layer.row.dtype)
OUTCOME = Column(
    title="Outcome",
    tip="How the tensor is treated; hover over a row for the reason. ◆ marks an override. "
    "The context menu of selected rows creates one.",
    value=lambda layer: layer.row.disposition.value,
    written=lambda layer: layer.outcome,
    digits=17,
    least=92,
    useful=lambda layer: (
        layer.row.override is not None or layer.row.disposition is not Disposition.MERGED
    ),
)
REASON = Column(title="Reason", value=lambda layer: layer.row.reason)
GAMMA = Column(
    title=declared.GAMMA.title,
    tip=declared.GAMMA.meaning,
    value=lambda layer: layer.gamma,
    written=_gamma,
    read=lambda layer: f"{layer.gamma:.4g}, {UNRELIABLE}" if layer.gamma_unsure else _gamma(layer),
    largest_first=True,
    digits=26,
    least=0,
    cell="gamma",
)
UNSURE: Final = Column(
    title="γ unreliable",
    value=lambda layer: WHY_BY_SCALE if layer.gamma_unsure else "",
)
"""Why γ of a layer says little of the experts, for exports; the table marks such a γ."""
LOG_VARIANCE = _figure_column(declared.LOG_VARIANCE)
REGIME = Column(
    title="Regime",
    tip="Heterogeneous: γ is above the threshold τ, and ACE refines its solution. By scale "
    "alone: γ is above τ only because the changes have norms near 1, not because the "
    "experts disagree.",
    value=lambda layer: layer.regime,
    written=lambda layer: layer.regime.removeprefix("heterogeneous ") or NONE,
    read=lambda layer: layer.regime,
    key=lambda layer: math.nan if layer.regime == NONE else float(layer.gamma > layer.tau),
    largest_first=True,
    digits=16,
    least=50,  # γ is bold then, and its bar has the accent colour
    useful=lambda layer: math.isfinite(layer.tau),
    cell="regime",
)
HEALTH = Column(
    title="Health",
    tip="Number of findings; hover over a row for explanations and advice.",
    value=_health,
    read=_health_read,
    key=_health_key,
    digits=7,
    least=60,
    cell="health",
)
STATE = Column(
    title="State",
    tip="Whether the tensor is merged, and with the parameters chosen now.",
    value=lambda layer: _STATES[layer.state][0],
    key=lambda layer: float(layer.state),
    digits=12,
    least=140,
)
OF_THE_MERGE: Final = tuple(map(_figure_column, (declared.RIDGE_MASS, declared.DELTA_NORM)))
"""The figures of the merge that stand above the plots of the selected layer, not in the table."""
_PLACED: Final = {declared.LOG_VARIANCE, declared.RIDGE_MASS, declared.DELTA_NORM}
FURTHER: Final = tuple(
    _figure_column(figure)
    for figure in declared.figures_in(declared.Place.WINDOW)
    if figure not in _PLACED
)
"""The other declared figures, which stand last in the table and in CSV."""
COLUMNS: Final = (
    TENSOR,
    ROLE,
    SHAPE,
    OUTCOME,
    GAMMA,
    LOG_VARIANCE,
    REGIME,
    HEALTH,
    STATE,
    *FURTHER,
)
"""The columns of the table, from left to right."""
ABOVE_PLOTS: Final = (GAMMA, *OF_THE_MERGE)
"""The figures above the plots of the selected layer."""
_CSV: Final = (TENSOR, ROLE, SHAPE, FORMAT, OUTCOME, REASON, GAMMA, UNSURE, LOG_VARIANCE, REGIME)


def exported(layers: Sequence[LayerRow], experts: Sequence[str]) -> tuple[FigureColumn, ...]:
    """Everything that is known about these layers, as columns for CSV."""
    columns = (*_CSV, *_energies(experts), *OF_THE_MERGE, *FURTHER)
    return tuple(column.exported(layers) for column in columns)


def _energies(experts: Sequence[str]) -> Iterator[Column]:
    for expert in experts:

        def energy(layer: LayerRow, name: str = expert) -> float:
            statistics = layer.statistics
            if statistics is None:
                return math.nan
            return statistics.energies.get(name, math.nan)

        yield Column(title=expert, csv=f"‖ΔW‖² {expert}", value=energy)
