"""Computes what the panels of a figure need, draws it, and writes it with the table of its data.

Only the chosen matrices are merged, and no model is written.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import torch

from ace_gui.engine.contract.events import FigureMade, JobProgress
from ace_gui.engine.contract.figure_content import FigureContent
from ace_gui.engine.contract.figure_panels import needs_matrices, panel_of
from ace_gui.engine.contract.findings import LayerSpectrum, LayerStatistics, LayerSubspaces
from ace_gui.engine.contract.jobs import FigureJob
from ace_gui.engine.contract.matrix_panels import MOST_MATRICES
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.inspecting.layer_spectra import spectrum, subspaces
from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.merging.merge import input_paths
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.report.page import remarkable
from ace_gui.errors import RecipeError
from ace_gui.figures.charts import Panel, PanelKind, caption_of
from ace_gui.figures.printing import TABLE_MARK, picture, require_kind, table, table_beside
from ace_gui.output_files import check_file, write_file

COMPARING: Final = "the figure: comparing the experts"
DECOMPOSING: Final = "the figure: spectra"

STATED: Final = 3
"""Matrices of a panel, if none are chosen."""

ON_SCREEN: Final = ".png"


def figure(
    prepared: Prepared, job: FigureJob, device: torch.device, cache: InspectionCache
) -> Iterator[JobProgress | FigureMade | None]:
    """Draw the figure of a job.

    Raises RecipeError if a panel has nothing to show or no matrix has a given name, OutputError if
    a file cannot be written, before anything is computed, and the errors of reading and merging.
    """
    if not job.kinds:
        raise RecipeError("Choose at least one panel for the figure.", key="panels")
    inputs = tuple(input_paths(prepared))
    if job.file is not None:
        require_files(job.file, inputs, job.replaces)
    content = yield from _content(prepared, job, device, cache)
    panels = [panel_of(kind, content, job.sheet) for kind in job.kinds]
    if job.file is None:
        on_screen = picture(panels, job.sheet, ON_SCREEN, job.dots_per_inch)
    else:
        on_screen = b""
    files: tuple[Path, ...] = ()
    if job.file is not None:
        files = _written(panels, job, job.file, inputs)
    yield FigureMade(
        picture=on_screen,
        caption=caption_of(panels),
        width=job.sheet.width,
        height=job.sheet.tall(panels),
        files=files,
    )


def require_files(file: Path, inputs: Sequence[Path], replaces: Sequence[Path]) -> None:
    """Raise OutputError unless the figure and its table can be written.

    ``replaces``: existing files that may be replaced.
    """
    require_kind(file)
    beside = table_beside(file)
    check_file(file, inputs, overwrite=file in replaces)
    check_file(beside, inputs, mark=TABLE_MARK, overwrite=beside in replaces)


def _written(
    panels: Sequence[Panel], job: FigureJob, file: Path, inputs: Sequence[Path]
) -> tuple[Path, ...]:
    drawn = picture(panels, job.sheet, require_kind(file))
    write_file(file, drawn, inputs, overwrite=file in job.replaces)
    beside = table_beside(file)
    values = table(panels).encode("utf-8", "backslashreplace")
    write_file(beside, values, inputs, mark=TABLE_MARK, overwrite=beside in job.replaces)
    return file, beside


_Steps = Generator[JobProgress | None, None, FigureContent]


def _content(
    prepared: Prepared, job: FigureJob, device: torch.device, cache: InspectionCache
) -> _Steps:
    """What the panels are made of."""
    statistics = job.statistics
    if statistics is None:
        statistics = yield from _statistics(prepared, job.kinds)
    chosen: list[PlanRow] = []
    if any(map(needs_matrices, job.kinds)):
        chosen = chosen_matrices(prepared, job.matrices, statistics)
    spectra: list[LayerSpectrum] = []
    spaces: list[LayerSubspaces] = []
    for index, row in enumerate(chosen):
        yield JobProgress(title=DECOMPOSING, done=index, total=len(chosen))
        if PanelKind.SPECTRA in job.kinds:
            for event in spectrum(prepared, row, device, cache, job.store):
                if isinstance(event, LayerSpectrum):
                    spectra.append(event)
                yield None
        if PanelKind.SUBSPACES in job.kinds:
            for space in subspaces(prepared, row, device, cache):
                if isinstance(space, LayerSubspaces):
                    spaces.append(space)
                yield None
    return FigureContent(
        plan=prepared.plan,
        statistics=statistics,
        reports=job.reports,
        spectra=spectra,
        subspaces=spaces,
        scores=job.scores,
    )


def _statistics(
    prepared: Prepared, kinds: Sequence[PanelKind]
) -> Generator[JobProgress, None, Mapping[str, LayerStatistics]]:
    """The statistics of every row; none are needed for scores alone."""
    statistics: dict[str, LayerStatistics] = {}
    if set(kinds) == {PanelKind.SCORES}:
        return statistics
    for event in analyse(prepared):
        statistics[event.statistics.name] = event.statistics
        yield JobProgress(title=COMPARING, done=event.done, total=event.total)
    return statistics


def chosen_matrices(
    prepared: Prepared, patterns: Sequence[str], statistics: Mapping[str, LayerStatistics]
) -> list[PlanRow]:
    """The merged matrices with these names or patterns; without any, those that stand out.

    Raises RecipeError for a pattern without a matrix, and for too many of them.
    """
    rows = [row for row in prepared.plan.rows if row.is_merged and len(row.shape) == 2]
    if not patterns:
        return remarkable(prepared, statistics, {})[:STATED]
    chosen: dict[str, PlanRow] = {}
    for pattern in patterns:
        matches = [row for row in rows if row.name == pattern or fnmatchcase(row.name, pattern)]
        if not matches:
            raise RecipeError(
                f"No merged matrix is called {pattern}; ace-gui inspect lists them.",
                key="matrices",
            )
        chosen |= {row.name: row for row in matches}
    if len(chosen) > MOST_MATRICES:
        raise RecipeError(
            f"{len(chosen)} matrices are chosen, but a panel shows at most {MOST_MATRICES}; "
            "choose fewer.",
            key="matrices",
        )
    return list(chosen.values())
