"""Gathers the content of a report and writes it as one page of HTML.

The page has neither scripts nor external resources.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import jinja2
import torch
from markupsafe import Markup

from ace_gui.application import __version__
from ace_gui.engine.calibrating.calibrate import calibrated
from ace_gui.engine.capabilities import method_info, peak_on
from ace_gui.engine.contract.events import JobProgress, Reported
from ace_gui.engine.contract.findings import LayerReport, LayerSpectrum, LayerStatistics, Regime
from ace_gui.engine.contract.health import layer_health
from ace_gui.engine.contract.merge_summary import MergeSummary, summary_of, text_of
from ace_gui.engine.contract.model_figures import fit_checks, plan_changes
from ace_gui.engine.contract.plan import (
    WORST_FIRST,
    CheckVerdict,
    Disposition,
    PlanRow,
    worst_first,
)
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.engine.evaluating.evaluate import MERGED, merged_scores
from ace_gui.engine.evaluating.sanity_check import kept_result
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.inspecting.layer_spectra import spectrum
from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.merging.distil import found_result
from ace_gui.engine.merging.learn import learned
from ace_gui.engine.merging.memory_budgets import budgets_of, merged_within
from ace_gui.engine.merging.merge import input_paths
from ace_gui.engine.merging.merge_manifest import InputFile, Manifest
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import MODEL, reports
from ace_gui.engine.merging.surveying import surveyed
from ace_gui.engine.merging.tensor_merge import TensorMerge
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.report import report_tables as tables
from ace_gui.engine.report.report_content import Content
from ace_gui.engine.report.report_figures import panel_picture, spectrum_picture
from ace_gui.engine.streaming import single_threads
from ace_gui.errors import FileChangedError
from ace_gui.figures.charts import PanelKind
from ace_gui.formatting import human_bytes, printable
from ace_gui.output_files import write_file
from ace_gui.recipe.recipe_file import dump_recipe
from ace_gui.recipe.recommended import merge_label

TEMPLATE: Final = "report.html.jinja"

MARK: Final = b'<meta name="generator" content="ACE workbench">'
"""Marker near the beginning of every report: a file with it may be overwritten."""


def page(content: Content) -> str:
    """The whole page. Every text is escaped, and invisible characters are spelled out."""
    template = _environment().get_template(TEMPLATE)
    return template.render(
        content=content,
        plan=content.plan,
        recipe=content.plan.recipe,
        method=content.method,
        health=content.model_health,
        summary=report_summary(content),
        verdicts=list(CheckVerdict),
        counts=_counts(content),
        picture=lambda kind: panel_picture(PanelKind(kind), content.figures),
        spectrum=lambda layer: spectrum_picture(content.figures, layer),
        tables=tables,
        bytes=human_bytes,
    )


def report_summary(content: Content) -> MergeSummary:
    """The merge in words."""
    counts = content.model_health.counts
    warned = counts.get(CheckVerdict.WARNING, 0) + counts.get(CheckVerdict.ERROR, 0)
    return summary_of(content.figures, MERGED, warned=warned, offers=False)


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ace_gui.engine.report", ""),
        autoescape=True,
        finalize=lambda value: visible(value) if isinstance(value, str) else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["words"] = text_of
    return environment


def visible(text: str) -> str:
    """``printable`` text that keeps its line breaks; markup is not changed."""
    if isinstance(text, Markup):
        return text
    return printable(text, keep="\n")


def _counts(content: Content) -> list[tuple[str, int]]:
    """Counts of tensors by disposition and by regime."""
    rows = [row for row in content.plan.rows if row.in_base]
    dispositions = Counter(row.disposition for row in rows)
    counts = [(kind.value, dispositions[kind]) for kind in Disposition if dispositions[kind]]
    regimes = Counter(content.regime(row) for row in rows)
    return counts + [(kind.value, regimes[kind]) for kind in Regime if regimes[kind]]


SPECTRA: Final = 4
"""Most matrices whose spectra are shown."""
COMPARING: Final = "the report: comparing the experts"
MERGING: Final = "the report: merging"
DECOMPOSING: Final = "the report: spectra"
"""Stages of the report. Each has its own progress, as a spectrum takes longer than many tensors."""


def report(
    prepared: Prepared,
    file: Path,
    device: torch.device,
    cache: InspectionCache,
    store: Path | None = None,
) -> Iterator[JobProgress | Reported | None]:
    """Write the report of a merge to ``file``. An existing file is replaced unless it is an input.

    ``store``: of that merge; None: each tensor is merged now, and its result discarded. With a
    store and tasks in the recipe, the models are scored. Raises OutputError if the file cannot be
    written, and the errors of reading and merging.
    """
    rows = [row for row in prepared.plan.rows if row.is_combined and row.in_base]
    total = len(rows)
    statistics: dict[str, LayerStatistics] = {}
    for item in analyse(prepared):
        statistics[item.statistics.name] = item.statistics
        yield JobProgress(title=COMPARING, done=len(statistics), total=total)
    layer_reports = {} if store is None else reports(store)
    if store is None:
        for layer in merge_reports(prepared, rows, device):
            if layer is not None:
                layer_reports[layer.name] = layer
            yield JobProgress(title=MERGING, done=len(layer_reports), total=total)
    spectra = []
    rows_of_note = remarkable(prepared, statistics, layer_reports)
    for index, row in enumerate(rows_of_note):
        yield JobProgress(title=DECOMPOSING, done=index, total=len(rows_of_note))
        for step in spectrum(prepared, row, device, cache, store):
            if isinstance(step, LayerSpectrum):
                spectra.append(step)
            else:
                yield None
    scores: tuple[TaskScore, ...] = ()
    if store is not None:
        scores = yield from merged_scores(prepared, store / MODEL, str(device))
    content = content_of(prepared, statistics, layer_reports, spectra, scores)
    distilled = None if store is None else found_result(store)
    sanity = None if store is None else kept_result(store)
    content = replace(content, gpu_peak=peak_on(device), distilled=distilled, sanity=sanity)
    data = page(content).encode("utf-8", "backslashreplace")
    write_file(file, data, input_paths(prepared), overwrite=True)
    yield Reported(file=file, bytes=len(data))


def require_inputs(prepared: Prepared, manifest: Manifest) -> None:
    """Raise FileChangedError if a file has changed since the merge."""
    for stamp in prepared.files:
        if InputFile.of(stamp) not in manifest.inputs:
            raise FileChangedError(
                f"{stamp.path} changed since this merge; merge again for a report.", path=stamp.path
            )


def merge_reports(
    prepared: Prepared, rows: Sequence[PlanRow], device: torch.device
) -> Iterator[LayerReport | None]:
    """The report on every row; the merged tensors themselves are not kept.

    Yields None while a method surveys the whole model first.
    """
    readers = Readers(prepared)
    for _ in calibrated(prepared, device):
        yield None
    for _ in learned(prepared, device):
        yield None
    for _ in surveyed(readers):
        yield None
    with single_threads() as pool:
        budgets = budgets_of(device)
        for row in rows:
            work = TensorMerge(row, readers, device)
            if prepared.is_whole(row):
                merged_within([work], pool, budgets)
            else:
                for _ in work.pieces(pool):
                    pass
            yield work.report


def remarkable(
    prepared: Prepared,
    statistics: Mapping[str, LayerStatistics],
    reports: Mapping[str, LayerReport],
) -> list[PlanRow]:
    """The merged matrices that stand out most, at most ``SPECTRA``.

    These are the most, the median and the least heterogeneous one (by energy if the method has no
    γ), and the one in the worst health.
    """

    def heterogeneity(row: PlanRow) -> float:
        layer = statistics[row.name]
        if layer.gamma is None:
            return math.fsum(layer.energies.values())
        return layer.gamma

    def badness(row: PlanRow) -> tuple[int, int]:
        health = layer_health(statistics[row.name], reports.get(row.name), prepared.plan.parameters)
        return -WORST_FIRST.index(health.verdict), len(health.findings)

    rows = []
    for row in prepared.plan.rows:
        is_merged_matrix = row.is_merged and len(row.shape) == 2
        if is_merged_matrix and statistics[row.name].energies:
            rows.append(row)
    if not rows:
        return []
    order = sorted(rows, key=heterogeneity, reverse=True)
    chosen = [order[0], max(rows, key=badness), order[len(order) // 2], order[-1]]
    return list({row.name: row for row in chosen}.values())[:SPECTRA]


def content_of(
    prepared: Prepared,
    statistics: Mapping[str, LayerStatistics],
    reports: Mapping[str, LayerReport],
    spectra: Sequence[LayerSpectrum],
    scores: tuple[TaskScore, ...] = (),
) -> Content:
    """The content of the page."""
    recipe = prepared.recipe
    fit = fit_checks(plan_changes(prepared.plan, statistics))
    method = method_info(recipe.merge_method)
    return Content(
        plan=prepared.plan,
        method=method,
        label=merge_label(recipe, method.title, prepared.plan.parameters.get("variant")),
        statistics=statistics,
        reports=reports,
        spectra=tuple(spectra),
        scores=scores,
        recipe_text=dump_recipe(recipe, None),
        program=__version__,
        created=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        checks=worst_first((*prepared.plan.checks, *fit)),
    )
