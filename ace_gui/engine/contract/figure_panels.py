"""The panels of a figure, from what is known of a merge.

Equation numbers are those of the ACE paper.
"""

from __future__ import annotations

import math
import statistics as numbers
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ace_gui.engine.contract.figure_content import FigureContent, merged_text, nothing_to_show
from ace_gui.engine.contract.matrix_panels import energies_panel, spectra_panel, subspaces_panel
from ace_gui.engine.contract.plan import PlanRow, role_family
from ace_gui.figures.charts import (
    Axis,
    Bars,
    Cells,
    Chart,
    Marks,
    Panel,
    PanelKind,
    Point,
    axis_of_counts,
)
from ace_gui.figures.sheet import Sheet
from ace_gui.formatting import counted, value_text

if TYPE_CHECKING:
    from ace_gui.engine.contract.findings import ModelDiff
    from ace_gui.engine.contract.scored import TaskScore


def panel_of(kind: PanelKind, content: FigureContent, sheet: Sheet) -> Panel:
    """A panel. Raises RecipeError if there is nothing that it could show."""
    return _MAKERS[kind].make(content, sheet)


def title_of(kind: PanelKind) -> str:
    """The name of a kind of panel, for menus."""
    return _MAKERS[kind].title


def needs_matrices(kind: PanelKind) -> bool:
    """Whether matrices must be chosen for it."""
    return kind in (PanelKind.SPECTRA, PanelKind.SUBSPACES)


# γ


def gamma_panel(content: FigureContent, sheet: Sheet) -> Panel:
    """γ of each merged tensor, in the model's order."""
    rows = content.rows_with_gamma()
    gammas = [gamma for _, gamma in rows]
    _require_gammas(gammas)
    groups: dict[tuple[str, bool, bool], list[tuple[Point, str]]] = defaultdict(list)
    unreliable = 0
    for index, (row, gamma) in enumerate(rows, start=1):
        crossed = content.is_unreliable(row)
        unreliable += crossed
        key = (role_family(row.role), content.is_heterogeneous(row, gamma), crossed)
        groups[key].append(((float(index), gamma), row.name))
    note = ""
    if unreliable and sheet.crosses:
        note = f"× {unreliable} of {len(rows)}: γ unreliable (mean log energy near 0)"
    chart = Chart(
        title="",
        x=axis_of_counts("merged tensor, in the model's order", len(rows)),
        y=Axis(title="heterogeneity γ", log=_needs_log(gammas)),
        marks=[_marks(key, points) for key, points in groups.items()],
        limit=_threshold(content),
        note=note,
    )
    return Panel(
        charts=[chart],
        caption=f"heterogeneity γ (Eq. 7) of {merged_text(content, len(rows))}"
        + _above(content, rows),
        width=120.0,
    )


def _marks(key: tuple[str, bool, bool], points: Sequence[tuple[Point, str]]) -> Marks:
    family, filled, crossed = key
    return Marks(
        name=family,
        family=family,
        filled=filled,
        crossed=crossed,
        points=[point for point, _ in points],
        labels=[label for _, label in points],
    )


def _threshold(content: FigureContent) -> tuple[float, str] | None:
    tau = content.tau
    if tau is None or tau <= 0:
        return None
    return (tau, f"τ = {value_text(tau)}")


def _above(content: FigureContent, rows: Sequence[tuple[PlanRow, float]]) -> str:
    if content.tau is None:
        return ""
    above = sum(content.is_heterogeneous(row, gamma) for row, gamma in rows)
    if not above:
        return ""
    return f", {above} of them above τ = {value_text(content.tau)} (filled)"


def roles_panel(content: FigureContent, _sheet: Sheet) -> Panel:
    """γ of every role as a strip of marks."""
    by_role: dict[str, list[tuple[PlanRow, float]]] = defaultdict(list)
    for row, gamma in content.rows_with_gamma():
        by_role[row.role].append((row, gamma))
    gammas = [gamma for rows in by_role.values() for _, gamma in rows]
    _require_gammas(gammas)
    marks = []
    medians = []
    for place, (role, rows) in enumerate(by_role.items()):
        points = [((gamma, float(place)), row.name) for row, gamma in rows]
        marks.append(_marks((role_family(role), False, False), points))
        medians.append(((numbers.median(gamma for _, gamma in rows), float(place)), role))
    marks.append(
        Marks(
            name="median",
            family="median",
            filled=True,
            points=[point for point, _ in medians],
            labels=[role for _, role in medians],
        )
    )
    chart = Chart(
        title="",
        x=Axis(title="heterogeneity γ", log=_needs_log(gammas)),
        y=Axis(title="", names=list(by_role)),
        marks=marks,
    )
    return Panel(
        charts=[chart],
        caption=f"heterogeneity γ (Eq. 7) of {merged_text(content, len(gammas))} by role, with "
        "medians",
        width=85.0,
    )


def map_panel(content: FigureContent, _sheet: Sheet) -> Panel:
    """γ by block and role."""
    rows = [(row, gamma) for row, gamma in content.rows_with_gamma() if row.block is not None]
    if not rows:
        raise nothing_to_show(
            "No merged tensor with γ belongs to a numbered block; choose other panels."
        )
    blocks = sorted({row.block for row, _ in rows if row.block is not None})
    labels = _places(rows)
    roles = list(dict.fromkeys(labels[row.name] for row, _ in rows))
    grid = [[math.nan] * len(blocks) for _ in roles]
    dotted = []
    for row, gamma in rows:
        place = roles.index(labels[row.name]), blocks.index(row.block or 0)
        grid[place[0]][place[1]] = gamma
        if content.is_heterogeneous(row, gamma):
            dotted.append(place)
    gammas = [gamma for _, gamma in rows]
    chart = Chart(
        title="",
        x=Axis(title="block", names=[str(block) for block in blocks]),
        y=Axis(title="", names=roles),
        cells=Cells(title="heterogeneity γ", values=grid, log=_needs_log(gammas), dotted=dotted),
    )
    caption = f"heterogeneity γ (Eq. 7) of {merged_text(content, len(rows))} by block and role"
    return Panel(
        charts=[chart],
        caption=caption + ("" if content.tau is None else "; dots: γ > τ"),
        width=100.0,
    )


def _places(rows: Sequence[tuple[PlanRow, float]]) -> dict[str, str]:
    """The name of each row's place in its block: its role, with more where several have it."""
    slots: dict[str, str] = {}
    for row, _ in rows:
        slots[row.name] = row.name.replace(f".{row.block}.", ".*.", 1)
    roles = {slots[row.name]: row.role for row, _ in rows}
    count = Counter(roles.values())
    names = {}
    for row, _ in rows:
        slot = slots[row.name]
        last = slot.partition("*.")[2].removesuffix(".weight")
        names[row.name] = row.role if count[row.role] == 1 else f"{row.role}: {last}"
    return names


def _require_gammas(gammas: Sequence[float]) -> None:
    if not gammas:
        raise nothing_to_show(
            "No merged tensor has γ, which needs two experts that changed it; choose other panels."
        )


def _needs_log(values: Sequence[float]) -> bool:
    """Whether positive values differ so much that only a logarithmic axis shows them all."""
    return min(values) > 0 and max(values) > 10 * min(values)


# Scores


def scores_panel(content: FigureContent, _sheet: Sheet) -> Panel:
    """The score of every model on every task."""
    scores = [score for score in content.scores if math.isfinite(score.score)]
    if not scores:
        raise nothing_to_show("There are no scores; score the merge on its tasks first.")
    tasks = list(dict.fromkeys(score.task for score in scores))
    by_model: dict[str, dict[str, TaskScore]] = defaultdict(dict)
    for score in scores:
        is_expert = score.model in content.experts
        if is_expert and not score.own:
            continue
        by_model["own expert" if is_expert else score.model][score.task] = score
    bars = []
    for index, (model, score_by_task) in enumerate(by_model.items()):
        of_tasks = [score_by_task.get(task) for task in tasks]
        bars.append(
            Bars(
                name=model,
                heights=[math.nan if score is None else score.score for score in of_tasks],
                errors=[math.nan if score is None else score.standard_error for score in of_tasks],
                ink=index,
            )
        )
    metrics = sorted({score.metric for score in scores})
    chart = Chart(
        title="",
        x=Axis(title="", names=tasks),
        y=Axis(title=", ".join(metrics), low=0.0),
        bars=bars,
    )
    return Panel(
        charts=[chart],
        caption=f"{', '.join(metrics)} on {counted(len(tasks), 'task', 'tasks')}, with standard "
        "errors over examples",
        width=90.0,
    )


# Differences of two models


def change_panel(diff: ModelDiff) -> Panel:
    """‖B − A‖ / ‖A‖ of every tensor of two models that differ, by role."""
    groups: dict[str, list[tuple[Point, str]]] = defaultdict(list)
    shares = []
    for place, change in enumerate(diff.tensors, start=1):
        share = change.relative
        if change.change > 0 and share is not None:
            groups[role_family(change.role)].append(((float(place), share), change.name))
            shares.append(share)
    chart = Chart(
        title="",
        x=axis_of_counts("tensor, in the model's order", len(diff.tensors)),
        y=Axis(title="change ‖B − A‖ / ‖A‖", log=bool(shares) and _needs_log(shares)),
        marks=[_marks((family, False, False), points) for family, points in groups.items()],
    )
    total = diff.total.relative
    whole = "" if total is None else f", in all by a share of {value_text(total)}"
    return Panel(
        charts=[chart],
        caption=f"{len(shares)} of {counted(len(diff.tensors), 'tensor', 'tensors')} differ{whole}",
        width=120.0,
    )


@dataclass(frozen=True, kw_only=True)
class _Maker:
    """How a kind of panel is made."""

    title: str
    make: Callable[[FigureContent, Sheet], Panel]


_MAKERS: Final[Mapping[PanelKind, _Maker]] = {
    PanelKind.GAMMA: _Maker(title="γ along the model", make=gamma_panel),
    PanelKind.ROLES: _Maker(title="γ by role", make=roles_panel),
    PanelKind.MAP: _Maker(title="γ by block and role", make=map_panel),
    PanelKind.ENERGIES: _Maker(title="energies", make=energies_panel),
    PanelKind.SPECTRA: _Maker(title="spectra of chosen matrices", make=spectra_panel),
    PanelKind.SUBSPACES: _Maker(title="subspaces of chosen matrices", make=subspaces_panel),
    PanelKind.SCORES: _Maker(title="scores", make=scores_panel),
}
