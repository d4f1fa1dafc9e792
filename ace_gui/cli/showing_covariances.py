"""``ace-gui inspect --covariances``: ACE's covariances compared with the measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.table import Table

from ace_gui.cli.console import Terminal
from ace_gui.engine.contract.figures.covariance_match import (
    CovarianceMatch,
    CovariancesCompared,
    by_role,
    mean_match,
)
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.inspecting.compare_covariances import as_ace_merges, compare_covariances
from ace_gui.engine.inspecting.inspection_cache import InspectionCache
from ace_gui.engine.planning.prepare import prepare
from ace_gui.formatting import printable
from ace_gui.paths import inspections_folder
from ace_gui.recipe import Recipe


def compared(recipe: Recipe, terminal: Terminal) -> tuple[CovarianceMatch, ...]:
    """The matches of every matrix and expert, with a progress bar on a terminal."""
    found: list[CovarianceMatch] = []
    prepared, cache = prepare(as_ace_merges(recipe)), InspectionCache(inspections_folder())
    events = compare_covariances(prepared, resolve_device("cpu"), cache)
    for event in terminal.progressed(events):
        if isinstance(event, CovariancesCompared) and event.layer is not None:
            found += event.layer.matches
    return tuple(found)


def covariance_tables(matches: Sequence[CovarianceMatch]) -> tuple[Table, Table]:
    """Two tables, with one line per matrix (the mean over the experts) and one per role."""
    lines = [
        mean_match(tuple(own), name, role)
        for (name, role), own in groupby(matches, key=lambda each: (each.name, each.role))
    ]
    return _table(lines, "tensor"), _table(by_role(matches), "")


def _table(matches: Sequence[CovarianceMatch], last: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("cosine", "centred", "other experts", "overlap", "chance"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("role", no_wrap=True)
    table.add_column(last, overflow="fold")
    for each in matches:
        figures = (each.cosine, each.centred, each.others, each.overlap, each.chance)
        cells = ["" if value is None else f"{value:.3f}" for value in figures]
        table.add_row(*cells, each.role, printable(each.name))
    return table
