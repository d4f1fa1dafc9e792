"""Functions that show a merge without keeping it: figures of tensors, a report, a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ace_gui.engine import workflow
from ace_gui.engine.contract.events import CovariancesCompared, FigureMade, Reported
from ace_gui.engine.contract.findings import CovarianceMatch
from ace_gui.engine.contract.jobs import CovariancesJob, FigureJob
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.engine.service import run
from ace_gui.figures.charts import panel_kinds
from ace_gui.figures.printing import files_of
from ace_gui.figures.sheet import Sheet
from ace_gui.library.arguments import GivenRecipe
from ace_gui.library.progress import Progress, last_of, watched
from ace_gui.library_results import Inspection
from ace_gui.recipe.recipe_file import recipe_from
from ace_gui.recipe.values import limited


def inspect(
    recipe: GivenRecipe,
    *,
    convert: bool = False,
    covariances: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
) -> Inspection:
    """The plan with γ, regime and energies of every tensor; reads every model once.

    ``convert``: convert PyTorch pickles among the models, once, into the cache. ``covariances``:
    also compare ACE's covariances with those of the experts' inputs. Each expert then runs once on
    the `calibration` data of its task, on ``device``.

    >>> sorted(ace_gui.inspect(recipe).layers[1].energies)
    ['expert-a', 'expert-b']
    """
    loaded = recipe_from(recipe)
    result = workflow.inspect(loaded, convert=convert)
    matches: tuple[CovarianceMatch, ...] = ()
    if covariances:
        job = CovariancesJob(recipe=loaded, device=device)
        for event in watched(run(job), progress):
            if isinstance(event, CovariancesCompared) and event.layer is not None:
                matches += event.layer.matches
    return Inspection(
        layers=result.layers, checks=result.checks, plan=result.prepared.plan, covariances=matches
    )


def report(
    recipe: GivenRecipe,
    out: Path | str,
    *,
    device: str = "auto",
    threads: int | None = None,
    convert: bool = False,
    limit: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write one HTML file about a recipe's merge, and return its path; the model is not kept.

    ``limit``: maximum number of examples per task. ``overwrite``: replace a file that this program
    did not write. Raises OutputError if that is not allowed, and the errors of a merge.

    >>> ace_gui.report(recipe, "report.html").name
    'report.html'
    """
    options = workflow.Options(device=device, threads=threads, convert=convert)
    loaded = recipe_from(recipe)
    loaded = replace(loaded, tasks=limited(loaded.tasks, limit))
    events = workflow.report_to_file(loaded, Path(out), options, inputs=(), overwrite=overwrite)
    return last_of(events, Reported, progress).file


def figure(
    recipe: GivenRecipe,
    out: Path | str,
    *,
    panels: Sequence[str] = ("gamma", "spectra"),
    matrices: Sequence[str] = (),
    scores: Sequence[TaskScore] = (),
    sheet: Sheet = Sheet(),  # noqa: B008 - a frozen value
    device: str = "auto",
    convert: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> FigureMade:
    """Draw a figure about a recipe's merge, as PDF, SVG or PNG, with its data as CSV beside it.

    ``panels``: gamma, roles, map, energies, spectra, subspaces, scores. ``matrices``: names or
    patterns for spectra and subspaces; by default the most, the median and the least heterogeneous
    one. Only these are merged. ``scores``: of ``evaluate``. ``sheet``: size, letters and colours.
    Raises RecipeError if a panel has nothing to show, OutputError for a file that cannot be
    written, and the errors of reading and merging.

    >>> ace_gui.figure(recipe, "figure.pdf", panels=["energies"]).caption
    'Energies ‖ΔW‖² of the task vectors of 2 merged tensors of 2 experts.'
    """
    job = FigureJob(
        recipe=recipe_from(recipe),
        kinds=panel_kinds(panels),
        sheet=sheet,
        matrices=tuple(matrices),
        scores=tuple(scores),
        file=Path(out),
        replaces=files_of(Path(out)) if overwrite else (),
        device=device,
    )
    return last_of(run(job, convert=convert), FigureMade, progress)
