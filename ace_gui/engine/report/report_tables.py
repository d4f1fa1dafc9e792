"""The report's tables: every number of the plots, and those without a plot."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ace_gui.engine.contract.declared_figures import GAMMA, DeclaredFigure, Place, figures_in
from ace_gui.engine.contract.findings import LayerSpectrum, Regime
from ace_gui.engine.contract.health import BY_SCALE, LayerHealth, by_scale_alone
from ace_gui.engine.contract.matrix_figures import MARKS, Spectrum, model_cosines, spectral_figures
from ace_gui.engine.contract.matrix_panels import merge_curves
from ace_gui.engine.contract.model_figures import plan_changes
from ace_gui.engine.contract.plan import CheckVerdict, PlanRow
from ace_gui.engine.contract.sanity import SanityResult
from ace_gui.engine.contract.scored import line_of, means, remarks
from ace_gui.engine.report.report_content import NONE, Content, gammas_by_role, number, share
from ace_gui.field_info import applying
from ace_gui.formatting import shape_text, value_text

Row = Sequence[tuple[str, str]]
"""The heading and the text of each cell."""


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    """Cells as text under headings; the first cell of a row names it.

    ``texts``: number of leading columns with text instead of numbers.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1


def _table(caption: str, rows: Iterable[Row], texts: int = 1) -> ReportTable | None:
    """The table of these rows; None if there are none."""
    listed = list(rows)
    if not listed:
        return None
    headings = tuple(heading for heading, _ in listed[0])
    rows_of_texts = []
    for row in listed:
        rows_of_texts.append(tuple(text for _, text in row))
    return ReportTable(caption=caption, headings=headings, rows=tuple(rows_of_texts), texts=texts)


def parameter_table(content: Content) -> ReportTable | None:
    """The values of the method's parameters."""
    notes = content.plan.parameter_notes
    labels = {item.name: item.label for item in content.method.fields}
    rows = []
    for name, value in applying(content.method.fields, content.plan.parameters).items():
        cells = [
            ("parameter", name),
            ("meaning", labels.get(name, "")),
            ("value", value_text(value)),
            ("where it comes from", notes.get(name, "")),
        ]
        rows.append(cells)
    return _table("Parameters", rows, texts=4)


def precision_table(content: Content) -> ReportTable | None:
    """The number formats of the computation, with reasons; None if no method reports them."""
    counts = Counter(report.precision for report in content.reports.values() if report.precision)
    rows = ([("numbers", text), ("tensors", str(count))] for text, count in counts.most_common())
    return _table("Number formats of the computation", rows)


def model_table(content: Content) -> ReportTable | None:
    """The base and the experts: path, weight, and size of the change."""
    plan = content.plan
    changes = plan_changes(plan, content.statistics)
    weights = (NONE, *map(value_text, plan.recipe.weights))
    rows = []
    for model, weight in zip((plan.base, *plan.experts), weights, strict=True):
        name = model.name
        change = changes.get(model.name)
        if model is plan.base:
            name = f"{model.name} (base)"
            change = None
        cells = [
            ("model", name),
            ("architecture", model.architecture),
            ("format", model.dtype),
            ("weight", weight),
            ("‖ΔW‖ by ‖W₀‖", share(change)),
        ]
        rows.append(cells)
    return _table("Models", rows, texts=3)


def score_table(content: Content) -> ReportTable | None:
    """Base, experts and the merge on the recipe's tasks; None without scores."""
    scores = content.scores
    tasks = {score.task: f"{score.task}: {score.metric}, {score.n}" for score in scores}
    texts = {(line_of(score), score.task): score.text for score in scores}
    rows = []
    for mean in means(scores):
        cells = [("model", mean.model)]
        for task, heading in tasks.items():
            cells.append((heading, texts.get((mean.model, task), NONE)))
        cells.append(("mean", number(mean.score)))
        cells.append(("of experts", share(mean.normalised)))
        rows.append(cells)
    sentences = ["Scores with standard errors, by metric and number of examples"]
    sentences += [remark.rstrip(".") for remark in remarks(scores)]
    return _table(". ".join(sentences), rows)


def alignment_table(content: Content) -> ReportTable | None:
    """The divergence from the experts before and after; None for a merge that was not aligned."""
    if content.distilled is None:
        return None
    rows = []
    for task in content.distilled.tasks:
        cells = [
            ("task", task.task),
            ("expert", task.expert),
            ("inputs", str(task.inputs)),
            ("kept back", str(task.kept_back)),
            ("before", number(task.before)),
            ("after", number(task.after)),
        ]
        rows.append(cells)
    return _table(f"{content.distilled.measure}, on inputs kept back", rows, texts=2)


def sanity_table(sanity: SanityResult) -> ReportTable:
    """The perplexity of base, experts and the merge on usual text."""
    values = {**sanity.perplexities, "merged": sanity.merged}
    rows = ([("model", name), ("perplexity", number(value))] for name, value in values.items())
    table = _table("Perplexity on a few lines in several languages and code", rows)
    assert table is not None
    return table


def role_table(content: Content) -> ReportTable | None:
    """γ by role; None for methods without γ."""
    over = Counter[str]()
    for row in content.merged_rows:
        if content.regime(row) is Regime.HETEROGENEOUS:
            over[row.role] += 1
    rows = []
    for role, gammas in gammas_by_role(content).items():
        cells = [
            ("role", role),
            ("tensors", str(len(gammas))),
            ("heterogeneous", str(over[role])),
            ("smallest γ", number(min(gammas))),
            ("median γ", number(statistics.median(gammas))),
            ("largest γ", number(max(gammas))),
        ]
        rows.append(cells)
    return _table("γ by role", rows)


def energy_table(content: Content) -> ReportTable | None:
    """‖ΔW_t‖²_F of every merged or averaged tensor by expert."""
    names = content.plan.recipe.expert_names
    rows = []
    for row in content.known_rows:
        energies = content.statistics[row.name].energies
        cells = [("tensor", row.name)]
        cells += [(name, number(energies.get(name))) for name in names]
        rows.append(cells)
    return _table("Energies ‖ΔW‖² with the experts' weights", rows)


def spectrum_table(content: Content, spectrum: LayerSpectrum) -> ReportTable | None:
    """The summary figures of each spectrum of one tensor."""
    names = [name for name in content.plan.recipe.expert_names if name in spectrum.experts]
    spectra = {name: spectrum.experts[name] for name in names}
    spectra |= {title: sigma for title, _, sigma in merge_curves(spectrum)}
    return _table("Figures of the spectra", (_spectrum(*item) for item in spectra.items()))


def _spectrum(name: str, sigma: Spectrum) -> Row:
    figures = spectral_figures(sigma)
    return [
        ("spectrum", name),
        ("‖ΔW‖", number(figures.frobenius)),
        ("nuclear norm", number(figures.nuclear)),
        ("σ₁", number(figures.spectral)),
        ("rank", str(figures.rank)),
        ("condition σ₁/σᵣ", number(figures.condition)),
        ("effective rank", number(figures.effective_rank)),
        ("stable rank", number(figures.stable_rank)),
        ("energy in top 5 %", share(figures.top_energy)),
        (
            f"directions for {', '.join(f'{100 * mark:.0f}' for mark in MARKS)} %",
            ", ".join(map(str, figures.directions)),
        ),
    ]


def tensor_table(content: Content) -> ReportTable | None:
    """Every tensor of the base: its disposition and its figures."""
    rows = (_tensor(content, row) for row in content.plan.rows if row.in_base)
    return _table("All tensors", rows, texts=6)


def _tensor(content: Content, row: PlanRow) -> Row:
    health = NONE
    if row.name in content.health:
        health = content.health[row.name].verdict.value
    gamma = number(content.gamma(row))
    if content.gamma_unsure(row):
        gamma = f"{gamma} ?"
    cells = [
        ("tensor", row.name),
        ("role", row.role),
        ("shape", shape_text(row.shape)),
        ("what happened", row.disposition.value),
        ("regime", _regime(content, row)),
        ("health", health),
        (GAMMA.title, gamma),
    ]
    for figure in figures_in(Place.REPORT):
        if not figure.only_if_known or _is_known(content, figure):
            cells.append(_figure(content, row, figure))
    return cells


def _is_known(content: Content, figure: DeclaredFigure) -> bool:
    return any(figure.value(None, report) is not None for report in content.reports.values())


def _figure(content: Content, row: PlanRow, figure: DeclaredFigure) -> tuple[str, str]:
    value = figure.value(content.statistics.get(row.name), content.reports.get(row.name))
    return figure.report_heading or figure.title, NONE if value is None else figure.text(value, 4)


def _regime(content: Content, row: PlanRow) -> str:
    regime = content.regime(row)
    tau = content.plan.tau_of(row)
    layer = content.statistics.get(row.name)
    if regime is None or layer is None or tau is None:
        if regime is None:
            return NONE
        return regime.value
    by_scale = regime is Regime.HETEROGENEOUS and by_scale_alone(layer, tau)
    if by_scale:
        return BY_SCALE
    return regime.value


def extreme_table(layers: Collection[LayerHealth]) -> ReportTable | None:
    """The most worrying value of every figure."""
    figures = (
        ("Largest ridge mass Σ εₜ", "ridge_mass", max),
        ("Largest condition number", "condition", max),
        ("Lowest refinement cosine", "refinement_cosine", min),
        ("Largest refinement ratio", "refinement_ratio", max),
        ("Largest merged by experts' norm", "norm_ratio", max),
        ("Smallest merged by experts' norm", "norm_ratio", min),
    )
    ends: list[tuple[str, float, str]] = []
    for title, figure, worst in figures:
        members = layers if figure == "norm_ratio" else [layer.report for layer in layers]
        values = []
        for member in members:
            if member is not None and getattr(member, figure) is not None:
                values.append((getattr(member, figure), member.name))
        if values:
            ends.append((title, *worst(values, key=lambda pair: pair[0])))
    means = [layer.statistics for layer in layers if layer.statistics is not None]
    near = [(abs(s.mean_log_energy), s.name) for s in means if s.mean_log_energy is not None]
    if near:
        ends.append(("Mean log energy nearest to zero", *min(near)))
    rows = ([("figure", title), ("tensor", name), ("value", number(v))] for title, v, name in ends)
    return _table("Extremes", rows, texts=2)


def finding_table(content: Content, most: int = 200) -> ReportTable | None:
    """The findings, warnings first, at most this many lines."""
    findings = []
    for row in content.known_rows:
        for finding in content.health[row.name].findings:
            findings.append((row.name, finding))
    findings.sort(key=lambda pair: pair[1].verdict != CheckVerdict.WARNING)
    if len(findings) <= most:
        more = ""
    else:
        more = f", the first {most} of {len(findings)}"
    rows: list[Row] = []
    for name, finding in findings[:most]:
        advice = _advice(finding.verdict, finding.title, finding.sentence)
        rows.append([("tensor", name), *advice])
    return _table(f"Findings{more}", rows, texts=4)


def check_table(content: Content) -> ReportTable | None:
    """The checks before the merge that need attention."""
    rows = []
    for check in content.checks:
        if check.is_worry:
            advice = _advice(check.verdict, check.title, check.sentence)
            rows.append([("model", check.subject), *advice])
    return _table("Checks of the models", rows, texts=4)


def _advice(verdict: CheckVerdict, title: str, sentence: str) -> Iterator[tuple[str, str]]:
    yield "verdict", verdict.value
    yield "about", title
    yield "explanation and advice", sentence


def cosine_cells(content: Content) -> list[list[tuple[str, float]]]:
    """Cosines of the task vectors over the model: the text and the strength (0 to 1) of each.

    Zero has no sign.
    """
    cosines = model_cosines(content.statistics.values(), content.plan.recipe.expert_names)
    return [[_cosine_cell(cosine) for cosine in row] for row in cosines.tolist()]


def _cosine_cell(cosine: float) -> tuple[str, float]:
    """The text and the strength of a cosine."""
    if math.isnan(cosine):
        return NONE, 0.0
    rounded = round(cosine, 2) + 0.0  # −0.0 + 0.0 is 0.0
    return f"{rounded:.2f}".replace("-", "−"), abs(cosine)
