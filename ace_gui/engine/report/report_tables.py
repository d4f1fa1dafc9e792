"""The report's tables: every number of the plots, and those without a plot."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ace_gui.engine.contract.checks import Verdict
from ace_gui.engine.contract.figures.expert_distance import equally_weighted, relative_changes
from ace_gui.engine.contract.figures.expert_similarity import model_cosines
from ace_gui.engine.contract.figures.findings import LayerSpectrum, Regime
from ace_gui.engine.contract.figures.health import BY_SCALE, near_pole
from ace_gui.engine.contract.figures.spectral_figures import MARKS, Spectrum, spectral_figures
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.contract.scored.scores import TaskScore, line_of, means, remarks
from ace_gui.engine.report.content import NONE, Content, number, share
from ace_gui.engine.report.report_plots import gammas_by_role, merge_curves
from ace_gui.formatting import shape_text, value_text


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells as text under headings; the first cell of a row names it.

    ``texts``: number of leading columns with text instead of numbers.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Cosines between all experts; ``cells``: text and strength (0 to 1) of each."""

    caption: str
    names: tuple[str, ...]
    cells: tuple[tuple[tuple[str, float], ...], ...]


def parameter_table(content: Content) -> Table:
    """The values of the method's parameters."""
    notes = content.plan.parameter_notes
    labels = {item.name: item.label for item in content.method.fields}
    rows = tuple(
        (name, labels.get(name, ""), value_text(value), notes.get(name, ""))
        for name, value in content.plan.parameters.items()
    )
    headings = ("parameter", "meaning", "value", "where it comes from")
    return Table(caption="Parameters", headings=headings, rows=rows, texts=4)


def precision_table(content: Content) -> Table | None:
    """The number formats of the computation, with reasons; None if no method reports them."""
    found = Counter(report.precision for report in content.reports.values() if report.precision)
    rows = tuple((sentence, str(count)) for sentence, count in found.most_common())
    headings = ("numbers", "tensors")
    return (
        Table(caption="In which numbers it was computed", headings=headings, rows=rows)
        if rows
        else None
    )


def model_table(content: Content) -> Table:
    """The base and the experts: path, weight, and size of the change."""
    plan = content.plan
    names, weights = plan.recipe.expert_names, plan.recipe.weights
    alike = equally_weighted(content.statistics, plan.rows, weights)
    changes = relative_changes(alike, dict(zip(names, weights, strict=True)))
    rows = [(f"{plan.base.name} (base)", plan.base.architecture, plan.base.dtype, NONE, NONE)]
    rows += [
        (
            expert.name,
            expert.architecture,
            expert.dtype,
            value_text(weight),
            share(changes.get(expert.name)),
        )
        for expert, weight in zip(plan.experts, weights, strict=True)
    ]
    headings = ("model", "architecture", "format", "weight", "‖ΔW‖ by ‖W₀‖")
    return Table(caption="Models", headings=headings, rows=tuple(rows), texts=3)


def score_table(content: Content) -> Table | None:
    """Base, experts and the merge on the recipe's tasks; None without scores."""
    scores = content.scores
    tasks = {each.task: f"{each.task}: {each.metric}, {each.n}" for each in scores}
    rows = []
    for mean in means(scores):
        own = {each.task: each for each in scores if line_of(each) == mean.model}
        cells = (_score(own.get(task)) for task in tasks)
        rows.append((mean.model, *cells, number(mean.score), share(mean.normalised)))
    headings = ("model", *tasks.values(), "mean", "of experts")
    caption = "Scores with standard errors, by metric and number of examples"
    caption = ". ".join((caption, *(remark.rstrip(".") for remark in remarks(scores))))
    return Table(caption=caption, headings=headings, rows=tuple(rows)) if rows else None


def _score(score: TaskScore | None) -> str:
    return NONE if score is None else score.text


def role_table(content: Content) -> Table | None:
    """γ by role; None for methods without γ."""
    over = Counter(
        row.role for row in content.merged_rows if content.regime(row) is Regime.HETEROGENEOUS
    )
    rows = tuple(
        (
            role,
            str(len(gammas)),
            str(over[role]),
            number(min(gammas)),
            number(statistics.median(gammas)),
            number(max(gammas)),
        )
        for role, gammas in gammas_by_role(content).items()
    )
    headings = ("role", "tensors", "heterogeneous", "smallest γ", "median γ", "largest γ")
    return Table(caption="γ by role", headings=headings, rows=rows) if rows else None


def energy_table(content: Content) -> Table:
    """‖ΔW_t‖²_F of every merged or averaged tensor by expert."""
    names = content.plan.recipe.expert_names
    rows = tuple(
        (row.name, *(number(content.statistics[row.name].energies.get(name)) for name in names))
        for row in content.known_rows
    )
    caption = "Energies ‖ΔW‖² with the experts' weights"
    return Table(caption=caption, headings=("tensor", *names), rows=rows)


def spectrum_table(content: Content, found: LayerSpectrum) -> Table:
    """The summary figures of each spectrum of one tensor."""
    spectra: dict[str, Spectrum] = {
        name: found.experts[name]
        for name in content.plan.recipe.expert_names
        if name in found.experts
    }
    spectra |= {title: sigma for title, _, sigma in merge_curves(found)}
    marks = ", ".join(f"{100 * mark:.0f}" for mark in MARKS)
    headings = (
        "spectrum",
        *("‖ΔW‖", "nuclear norm", "σ₁", "rank", "condition σ₁/σᵣ", "effective rank"),
        *("stable rank", "energy in top 5 %", f"directions for {marks} %"),
    )
    rows = tuple((name, *_figures(sigma)) for name, sigma in spectra.items())
    return Table(caption="Figures of the spectra", headings=headings, rows=rows)


def _figures(sigma: Spectrum) -> tuple[str, ...]:
    found = spectral_figures(sigma)
    return (
        *map(number, (found.frobenius, found.nuclear, found.spectral)),
        str(found.rank),
        *map(number, (found.condition, found.effective_rank, found.stable_rank)),
        share(found.top_energy),
        ", ".join(map(str, found.directions)),
    )


def tensor_table(content: Content) -> Table:
    """Every tensor of the base: its disposition and its figures."""
    headings = (
        *("tensor", "role", "shape", "what happened", "regime", "health"),
        *("γ", "‖ΔW‖", "by experts' mean", "Σ εₜ", "condition number", "refinement cosine"),
        "refinement ratio",
    )
    rows = tuple(_tensor(content, row) for row in content.plan.rows if row.in_base)
    return Table(caption="All tensors", headings=headings, rows=rows, texts=6)


def _tensor(content: Content, row: PlanRow) -> tuple[str, ...]:
    report, health = content.reports.get(row.name), content.health.get(row.name)
    return (
        *(row.name, row.role, shape_text(row.shape), row.disposition.value),
        _regime(content, row),
        NONE if health is None else health.verdict.value,
        number(content.gamma(row)),
        number(None if report is None else report.delta_norm),
        *map(number, _health_figures(content, row)),
    )


def _regime(content: Content, row: PlanRow) -> str:
    regime, tau = content.regime(row), content.plan.tau_of(row)
    found = content.statistics.get(row.name)
    if regime is None or found is None or tau is None:
        return NONE if regime is None else regime.value
    by_scale = regime is Regime.HETEROGENEOUS and near_pole(found, tau)
    return BY_SCALE if by_scale else regime.value


def _health_figures(content: Content, row: PlanRow) -> Sequence[float | None]:
    found = content.health.get(row.name)
    if found is None:
        return (None,) * 5
    return (
        found.norm_ratio,
        found.ridge_mass,
        found.condition,
        found.refinement_cosine,
        found.refinement_ratio,
    )


def extreme_table(content: Content) -> Table:
    """For every figure its most worrying value."""
    rows = tuple(
        (extreme.title, extreme.name, number(extreme.value))
        for extreme in content.model_health.extremes
    )
    headings = ("figure", "tensor", "value")
    return Table(caption="Extremes", headings=headings, rows=rows, texts=2)


def finding_table(content: Content, most: int = 200) -> Table:
    """The findings, warnings first, at most this many lines."""
    found = [
        (row.name, finding)
        for row in content.known_rows
        for finding in content.health[row.name].findings
    ]
    found.sort(key=lambda pair: pair[1].verdict != Verdict.WARNING)
    rows = tuple(
        (name, finding.verdict.value, finding.title, finding.sentence)
        for name, finding in found[:most]
    )
    left = "" if len(found) <= most else f", the first {most} of {len(found)}"
    headings = ("tensor", "verdict", "about", "what it is, and what one can do")
    return Table(caption=f"Findings{left}", headings=headings, rows=rows, texts=4)


def check_table(content: Content) -> Table:
    """The checks before the merge that need attention."""
    rows = tuple(
        (check.subject, check.verdict.value, check.title, check.sentence)
        for check in content.checks
        if check.is_worry
    )
    headings = ("model", "verdict", "about", "what it is, and what one can do")
    return Table(caption="Checks of the models", headings=headings, rows=rows, texts=4)


def cosine_matrix(content: Content) -> Matrix:
    """Cosines of the task vectors over the model."""
    names = content.plan.recipe.expert_names
    cosines = model_cosines(content.statistics.values(), names)
    cells = tuple(
        tuple((number_signed(value), 0.0 if math.isnan(value) else abs(value)) for value in line)
        for line in cosines.tolist()
    )
    return Matrix(caption="Cosines of the task vectors over the model", names=names, cells=cells)


def number_signed(value: float) -> str:
    """A cosine with two decimals and a typographic minus sign; zero has no sign."""
    return NONE if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
