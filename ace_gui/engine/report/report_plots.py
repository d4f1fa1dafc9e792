"""The content of a report, and its plots as axes, marks and lines.

``plot.svg.jinja`` draws them. Colours are CSS classes of the page. Lengths are CSS pixels, y
downwards.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.events import GpuPeak, MethodInfo
from ace_gui.engine.contract.findings import (
    LayerReport,
    LayerSpectrum,
    LayerStatistics,
    ModelDiff,
    Regime,
)
from ace_gui.engine.contract.health import (
    LayerHealth,
    ModelHealth,
    gamma_unreliable,
    layer_health,
    model_health,
)
from ace_gui.engine.contract.matrix_figures import numerical_rank
from ace_gui.engine.contract.plan import ROLE_FAMILIES, Check, Plan, PlanRow, role_family
from ace_gui.engine.contract.sanity import SanityResult
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.formatting import number_text, power_of_ten, value_text

NONE: Final = "–"


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of a report."""

    plan: Plan
    """Of the merge."""
    method: MethodInfo
    """Its method."""
    statistics: Mapping[str, LayerStatistics]
    """Of the experts, by the rows' names."""
    reports: Mapping[str, LayerReport]
    """Of the merge, by the rows' names."""
    spectra: tuple[LayerSpectrum, ...]
    """Of the matrices of note."""
    recipe_text: str
    """The recipe as YAML."""
    program: str
    """The program's version."""
    created: str
    """Date for display."""
    checks: tuple[Check, ...] = ()
    """Worst first."""
    scores: tuple[TaskScore, ...] = ()
    """On the recipe's tasks."""
    distilled: Distilled | None = None
    """What aligning the merge with its experts gave."""

    sanity: SanityResult | None = None
    """What trying a merged language model on usual text gave."""

    gpu_peak: GpuPeak | None = None
    """Set if a GPU merged."""

    @property
    def merged_rows(self) -> tuple[PlanRow, ...]:
        """The rows that the method merged, in the model's order."""
        return tuple(row for row in self.plan.rows if row.is_merged)

    @property
    def known_rows(self) -> tuple[PlanRow, ...]:
        """The rows with statistics: all merged or averaged ones."""
        return tuple(row for row in self.plan.rows if row.name in self.statistics)

    @cached_property
    def health(self) -> Mapping[str, LayerHealth]:
        """The health of every row with statistics or a report."""
        return {
            row.name: layer_health(
                self.statistics.get(row.name),
                self.reports.get(row.name),
                self.plan.parameters if row.override is None else row.override.parameters,
            )
            for row in self.known_rows
        }

    @cached_property
    def model_health(self) -> ModelHealth:
        """The health of all rows together."""
        return model_health(self.health.values())

    def gamma(self, row: PlanRow) -> float | None:
        """γ of a row."""
        layer = self.statistics.get(row.name)
        if layer is None:
            return None
        return layer.gamma

    def gamma_unsure(self, row: PlanRow) -> bool:
        """Whether γ of a row is unreliable, and marked."""
        layer = self.statistics.get(row.name)
        return layer is not None and gamma_unreliable(layer, self.plan.tau_of(row))

    @property
    def has_unsure(self) -> bool:
        """Whether a γ is marked."""
        return any(map(self.gamma_unsure, self.plan.rows))

    def regime(self, row: PlanRow) -> Regime | None:
        """The regime in which a row was merged."""
        report = self.reports.get(row.name)
        if report is None:
            return None
        return report.regime


def number(value: float | None) -> str:
    """Four digits: 0.1234, 1234, 1.234×10⁻⁵; a dash for None and NaN."""
    if value is None or math.isnan(value):
        return NONE
    return number_text(value, 4)


def share(value: float | None) -> str:
    """A share as a percentage."""
    if value is None or math.isnan(value):
        return NONE
    return f"{value:.2%}"


WIDTH: Final = 900.0
LEFT = 74.0
TOP = 12.0
BOTTOM = 46.0
_SMALLEST = 1e-3
_LARGEST = 1e5
SYMBOLS: Final = dict(
    zip(ROLE_FAMILIES, ("circle", "square", "triangle", "diamond", "cross"), strict=True)
)


def _style() -> str:
    """The rules for pictures from the page's style sheet, with the colours of a light page.

    Colours replace CSS variables, which many programs that show a single picture do not support.
    """
    sheet = (Path(__file__).parent / "report.css").read_text("utf-8")
    colours = dict(reversed(re.findall(r"--(\w+): (#\w+);", sheet)))
    rules = re.findall(r"(?:svg |\.line|\.mark)[^{}]*\{[^}]*\}", sheet)
    return re.sub(r"var\(--(\w+)\)", lambda match: colours[match[1]], "\n".join(rules))


STYLE: Final = _style()
"""Style sheet of a picture in a file of its own."""


@dataclass(frozen=True, kw_only=True)
class ReportAxis:
    """A quantity from ``low`` to ``high`` (``low`` < ``high``; both over 0 if ``log``)."""

    title: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, title: str, values: Iterable[float], *, log: bool = False) -> ReportAxis:
        """An axis for all values with a margin; it starts at 0 unless ``log``."""
        values = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        if log:
            low = min(values, default=1.0)
            high = max(values, default=10.0)
            room = max((high / low) ** 0.04, math.sqrt(10 * low / high))  # at least a decade
            return cls(title=title, low=low / room, high=high * room, log=True)
        low = min([*values, 0.0])
        high = max(values, default=1.0)
        return cls(title=title, low=low, high=low + ((high - low) * 1.05 or 1.0))

    def share(self, value: float) -> float:
        """0 at ``low``, 1 at ``high``."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """About six round values on the axis, and their labels."""
        values = list(_decades(self.low, self.high) if self.log else _round(self.low, self.high))
        if self.log and any(not _SMALLEST <= value < _LARGEST for value in values):
            return [(value, power(value)) for value in values]
        return [(value, value_text(value)) for value in values]


def _round(low: float, high: float) -> Iterator[float]:
    rough = (high - low) / 6
    unit = 10 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield n * step


def _decades(low: float, high: float) -> Iterator[float]:
    first = math.ceil(math.log10(low) - 1e-9)
    last = math.floor(math.log10(high) + 1e-9)
    if last - first < 2:  # few decades: values between them too
        for power in range(first - 1, last + 1):
            yield from (f * 10.0**power for f in (1, 2, 5) if low <= f * 10.0**power <= high)
        return
    for power in range(first, last + 1, math.ceil((last - first) / 7)):
        yield 10.0**power


Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class ReportPlot:
    """A plot, in the quantities of its axes."""

    title: str
    """Above the plot."""
    description: str
    """For screen readers."""
    x: ReportAxis
    """The horizontal axis."""
    y: ReportAxis
    """The vertical axis."""
    height: float = 300.0
    """In pixels."""
    right: float = 14.0
    """Margin in pixels."""
    rows: Sequence[str] = ()
    """Names for y = 0, 1, … instead of ticks."""
    marks: Sequence[tuple[str, float, float, str]] = ()
    """A family of roles, a point and a tooltip."""
    lines: Sequence[tuple[str, Sequence[Point]]] = ()
    """A CSS class and points."""
    medians: Sequence[Point] = ()
    """Of rows."""
    limit: tuple[float, str] | None = None
    """A line across, and its name."""
    families: Sequence[str] = ()
    """Of roles, for a legend in the picture."""

    @property
    def left(self) -> float:
        """Left end of the axes: names need more room than numbers."""
        return max(LEFT, 26.0 + 6.6 * max(map(len, self.rows), default=0))

    @property
    def end(self) -> float:
        """Right end of the axes."""
        return WIDTH - self.right

    @property
    def bottom(self) -> float:
        """Lower end of the axes."""
        return self.height - BOTTOM

    def across(self, x: float) -> float:
        """The position of a value of the x axis in the picture."""
        return self.left + self.x.share(x) * (self.end - self.left)

    def down(self, y: float) -> float:
        """The position of a value of the y axis in the picture."""
        return self.bottom - self.y.share(y) * (self.bottom - TOP)


def power(value: float) -> str:
    """A number with a power of ten: 10⁻⁵, 2×10⁻⁴."""
    digits, exponent = f"{value:.0e}".split("e")
    if digits == "1":
        times = ""
    else:
        times = f"{digits}×"
    return f"{times}{power_of_ten(int(exponent))}"


def symbol(family: str, x: float, y: float, size: float) -> str:
    """The path of the symbol of a family of roles, of about ``size`` around a point."""
    shapes = {
        "circle": f"M{x - size:.1f} {y:.1f}a{size} {size} 0 1 0 {2 * size} 0"
        f"a{size} {size} 0 1 0 {-2 * size} 0",
        "square": f"M{x - size:.1f} {y - size:.1f}h{2 * size}v{2 * size}h{-2 * size}z",
        "triangle": f"M{x:.1f} {y - 1.2 * size:.1f}l{1.2 * size:g} {2 * size}h{-2.4 * size:g}z",
        "diamond": f"M{x:.1f} {y - 1.4 * size:.1f}l{1.2 * size:g} {1.4 * size:g}"
        f"l{-1.2 * size:g} {1.4 * size:g}l{-1.2 * size:g} {-1.4 * size:g}z",
        "cross": f"M{x - size:.1f} {y - size:.1f}l{2 * size} {2 * size}m0 {-2 * size}"
        f"l{-2 * size} {2 * size}",
    }
    return shapes[SYMBOLS[family]]


HUES = 5  # of experts, as in the window
MOST_POINTS = 400
"""Most points of one line: more cannot be seen."""


def gamma_plot(content: Content) -> ReportPlot | None:
    """γ along the model by role, τ as a line; None if the method has none."""
    rows = [row for row in content.merged_rows if content.gamma(row) is not None]
    gammas = [content.gamma(row) or 0.0 for row in rows]
    if not rows:
        return None
    tau = content.plan.parameters.get("tau")
    if isinstance(tau, int | float):
        limit = float(tau)
    else:
        limit = None
    log = _spread([*gammas, *([limit] if limit else [])])
    if limit is not None:
        above = sum(gamma > limit for gamma in gammas)
    else:
        above = 0
    caption = f"{len(rows)} tensors, γ {_range(gammas)}"
    caption += "" if limit is None else f"; {above} above τ = {value_text(limit)}"
    drawn = limit is not None and (limit > 0 or not log)
    return ReportPlot(
        title="Heterogeneity γ along the model",
        description=caption,
        x=ReportAxis(title="merged tensor, in the model's order", low=0, high=len(rows) + 1),
        y=ReportAxis.over("heterogeneity γ", [*gammas, limit or 0.0], log=log),
        right=14.0 if limit is None else 70.0,
        limit=(limit or 0.0, f"τ = {value_text(limit or 0.0)}") if drawn else None,
        marks=[
            (role_family(row.role), index, gamma, f"{row.name}: γ = {number(gamma)} ({row.role})")
            for index, (row, gamma) in enumerate(zip(rows, gammas, strict=True), start=1)
        ],
    )


def role_plot(content: Content) -> ReportPlot:
    """γ of every role as a strip of marks, with its median, if the method has γ."""
    by_role = gammas_by_role(content)
    every = [gamma for gammas in by_role.values() for gamma in gammas]
    return ReportPlot(
        title="Heterogeneity γ by role",
        description=f"γ of {len(every)} tensors in {len(by_role)} roles; a bar marks each median",
        x=ReportAxis.over("heterogeneity γ", every, log=_spread(every)),
        y=ReportAxis(title="", low=len(by_role) - 0.4, high=-0.6),
        height=70.0 + 26 * len(by_role),
        rows=list(by_role),
        marks=[
            (role_family(role), gamma, index, f"{role}: {number(gamma)}")
            for index, (role, gammas) in enumerate(by_role.items())
            for gamma in gammas
        ],
        medians=[(statistics.median(members), n) for n, members in enumerate(by_role.values())],
    )


def gammas_by_role(content: Content) -> Mapping[str, list[float]]:
    """γ of the merged tensors, in the order in which roles first occur."""
    by_role = defaultdict(list)
    for row in content.merged_rows:
        gamma = content.gamma(row)
        if gamma is not None:
            by_role[row.role].append(gamma)
    return dict(by_role)


def energy_plot(content: Content) -> ReportPlot | None:
    """‖ΔW_t‖²_F of every merged tensor, one line per expert; None if nothing is merged."""
    names = content.plan.recipe.expert_names
    layers = [content.statistics[row.name].energies for row in content.merged_rows]
    every = [value for energies in layers for value in energies.values() if value > 0]
    if not every:
        return None
    return ReportPlot(
        title="Energies of the task vectors",
        description=f"{len(names)} experts, {len(layers)} tensors, {_range(every)}",
        x=ReportAxis(title="merged tensor, in the model's order", low=0, high=len(layers) + 1),
        y=ReportAxis.over("energy ‖ΔW‖²", every, log=True),
        lines=[
            (expert_class(t), [(n, e[name]) for n, e in enumerate(layers, 1) if e.get(name, 0) > 0])
            for t, name in enumerate(names)
        ],
    )


def spectrum_plot(content: Content, spectrum: LayerSpectrum) -> ReportPlot:
    """Singular values of the experts, of the preliminary solution and of the merge."""
    spectra: list[tuple[str, NDArray[np.float64]]] = [
        (expert_class(index), spectrum.experts[name])
        for index, name in enumerate(content.plan.recipe.expert_names)
        if name in spectrum.experts
    ]
    spectra += [(name, sigma) for _, name, sigma in merge_curves(spectrum)]
    largest = max(float(sigma[0]) for _, sigma in spectra)
    lines = [(name, _points(sigma[: numerical_rank(sigma)])) for name, sigma in spectra]
    return ReportPlot(
        title=f"Singular values of {spectrum.name}",
        description=f"Of {len(spectrum.experts)} experts and of the merge; the largest is "
        + number(largest),
        x=ReportAxis(title="index i", low=0, high=len(spectrum.merged) + 1),
        y=ReportAxis.over(
            "singular value σᵢ", (y for _, points in lines for _, y in points), log=True
        ),
        lines=[(name, points) for name, points in lines if points],
    )


def change_plot(diff: ModelDiff) -> ReportPlot:
    """‖B − A‖ / ‖A‖ of every tensor of two models by role, with a legend."""
    changed = [(i, change) for i, change in enumerate(diff.tensors, start=1) if change.change > 0]
    marks = [(i, change, change.relative) for i, change in changed if change.relative is not None]
    values = [value for _, _, value in marks]
    families = {role_family(change.role) for change in diff.tensors}
    caption = f"{len(marks)} of {len(diff.tensors)} tensors differ, in all by a share of "
    return ReportPlot(
        title="Change from one model to another",
        description=caption + number(diff.total.relative),
        x=ReportAxis(title="tensor, in the model's order", low=0, high=len(diff.tensors) + 1),
        y=ReportAxis.over("change ‖B − A‖ / ‖A‖", values, log=bool(values) and _spread(values)),
        right=110.0,
        marks=[
            (role_family(change.role), i, v, f"{change.name}: {number(v)}")
            for i, change, v in marks
        ],
        families=[family for family in ROLE_FAMILIES if family in families],
    )


def merge_curves(spectrum: LayerSpectrum) -> list[tuple[str, str, NDArray[np.float64]]]:
    """Title, class and singular values of each stage of a merge, the last one last."""
    if spectrum.unshaped is None:
        of_method = spectrum.merged
    else:
        of_method = spectrum.unshaped
    refined = spectrum.preliminary is not None and not np.array_equal(
        spectrum.preliminary, of_method
    )
    stages = (
        ("before refinement", "preliminary", spectrum.preliminary if refined else None),
        ("method alone", "unshaped", spectrum.unshaped),
        ("merged", "merged", spectrum.merged),
    )
    return [(title, name, sigma) for title, name, sigma in stages if sigma is not None]


def expert_class(index: int) -> str:
    """The CSS class of an expert's colour and, beyond the palette, of its dashes."""
    return f"e{index % HUES}" + (" dashed" if index >= HUES else "")


def _points(sigma: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Index from 1 and value, at most ``MOST_POINTS`` of them."""
    indices = np.linspace(0, len(sigma) - 1, min(len(sigma), MOST_POINTS)).round().astype(int)
    return [(float(index) + 1, float(sigma[index])) for index in np.unique(indices)]


def _range(values: Sequence[float]) -> str:
    return f"{number(min(values))} to {number(max(values))}"


def _spread(values: Sequence[float]) -> bool:
    """Whether positive values have such a range that only a logarithmic axis shows them all."""
    return min(values) > 0 and max(values) > 50 * min(values)
