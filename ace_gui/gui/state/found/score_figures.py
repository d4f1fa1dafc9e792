"""The scores of one merge by task, compared with base and experts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ace_gui.engine.contract.scored.scores import BASE, EXPERTS, TaskScore, normalised
from ace_gui.engine.contract.scored.verdicts import Verdict, verdicts
from ace_gui.gui.state.found.known_scores import KnownScores

MEAN = "mean"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A score and its standard error; NaN if not known."""

    value: float = math.nan
    error: float = math.nan


@dataclass(frozen=True, kw_only=True)
class TaskFigures:
    """A task, or the mean of all. ``owner``: its own expert. ``kept``: merge over expert. ``lost``
    and ``gained``: examples compared with the expert; None without one."""

    title: str
    metric: str
    owner: str | None
    base: Figure
    merge: Figure
    expert: Figure
    kept: float
    lost: int | None
    gained: int | None
    n: int
    is_mean: bool = False


def figures_of(known: KnownScores, model: str) -> list[TaskFigures]:
    """The mean first, if there is one, then every task."""
    base, merge, experts = (known.line(each) for each in (BASE, model, EXPERTS))
    rows = []
    for task in known.tasks:
        title = task.title
        own, expert = merge.get(title), experts.get(title)
        some = own or expert or base.get(title)
        if some is None:
            continue
        lost, gained = _changes(own, expert)
        rows.append(
            TaskFigures(
                title=title,
                metric=some.metric,
                owner=known.owner(task),
                base=_figure(base.get(title)),
                merge=_figure(own),
                expert=_figure(expert),
                kept=_number(None if own is None else own.normalised),
                lost=lost,
                gained=gained,
                n=some.n,
            )
        )
    return [_mean(known, model, rows), *rows] if len(rows) > 1 else rows


def experts_are_better(rows: Sequence[TaskFigures]) -> bool:
    """Whether the experts surpass the base by more than the standard error, over their own tasks.

    True if that is not known.
    """
    shares, errors = [], []
    for row in rows:
        share = normalised(row.metric, row.base.value, row.expert.value)
        if row.is_mean or row.owner is None or share is None:
            continue
        parts = [each.error / each.value for each in (row.base, row.expert) if each.error > 0]
        shares.append(share)
        errors.append(share * math.hypot(*parts))
    if not shares:
        return True
    return sum(shares) < len(shares) - math.hypot(*errors)


def _mean(known: KnownScores, model: str, rows: Sequence[TaskFigures]) -> TaskFigures:
    lost, gained = ([getattr(row, name) for row in rows] for name in ("lost", "gained"))
    return TaskFigures(
        title=MEAN,
        metric=rows[0].metric if len({row.metric for row in rows}) == 1 else "score",
        owner=None,
        base=_mean_figure(known, BASE, [row.base for row in rows]),
        merge=_mean_figure(known, model, [row.merge for row in rows]),
        expert=_mean_figure(known, EXPERTS, [row.expert for row in rows]),
        kept=_number(known.mean(model).normalised),
        lost=None if None in lost else sum(lost),
        gained=None if None in gained else sum(gained),
        n=sum(row.n for row in rows),
        is_mean=True,
    )


def _mean_figure(known: KnownScores, model: str, figures: Sequence[Figure]) -> Figure:
    """Tasks have independent data, so the variances of their errors add up."""
    error = math.sqrt(sum(each.error**2 for each in figures)) / len(figures)
    return Figure(value=_number(known.mean(model).score), error=error)


def _changes(own: TaskScore | None, expert: TaskScore | None) -> tuple[int | None, int | None]:
    if own is None or expert is None or len(own.each_N) != len(expert.each_N):
        return None, None
    found = verdicts(own.metric, own.each_N, expert.each_N)
    return int((found == Verdict.LOST).sum()), int((found == Verdict.GAINED).sum())


def _figure(score: TaskScore | None) -> Figure:
    return Figure() if score is None else Figure(value=score.score, error=score.standard_error)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
