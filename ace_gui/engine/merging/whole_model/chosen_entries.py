"""The largest elements of the experts' differences over the whole model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce
from math import prod
from operator import iadd
from typing import Any, Final, TypeVar

from torch import Tensor

from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.one_tensor.non_finite import finding
from ace_gui.engine.merging.one_tensor.task_vectors import CPU, Readers, TaskVectors, merging_of
from ace_gui.engine.merging.whole_model.surveying import parts_of_pass
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import Part, ordered, single_threads
from ace_gui.methods.shared.expert_modules import Differences
from ace_gui.methods.shared.trimming import THRESHOLD, trim_survey

TITLE: Final = "choosing what is kept of each expert"
_Found = TypeVar("_Found", Tensor, Counter[int])


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """By row: ``least``, the smallest magnitude that is kept, and ``counts``, the number kept.

    Both are given per expert. ``settled``: the rows read so far, without experts that have NaN or
    Inf.
    """

    least: dict[str, Mapping[int, float]] = field(default_factory=dict)
    counts: dict[str, Mapping[int, int]] = field(default_factory=dict)
    settled: dict[str, PlanRow] = field(default_factory=dict)


def chosen_entries(
    prepared: Prepared, readers: Readers, rows: Sequence[PlanRow]
) -> Generator[PassProgress, None, Chosen]:
    """Choose elements in three passes over the rows concerned; other rows are not read.

    Raises the errors of reading.
    """
    chosen = Chosen()
    groups = defaultdict[Any, list[PlanRow]](list)
    for row in rows:
        if _density(row, prepared) is not None:
            groups[prepared.parameters_of(row)].append(row)
    with single_threads() as pool:
        for group in groups.values():
            least = yield from _least(prepared, readers, group, chosen, pool)
            for index, row in enumerate(group):
                chosen.least[row.name] = {t: least[t] for t in row.experts}
                chosen.counts[row.name] = _counted(row, prepared, readers, chosen, pool)
                yield PassProgress(title=TITLE, done=index + 1, total=len(group))
    return chosen


def kept(difference: Tensor, least: float) -> Tensor:
    """Mask (bool) of the kept elements: those of at least this magnitude, except zeros."""
    return (difference.abs().float() >= least) & (difference != 0)


def differences(
    row: PlanRow, prepared: Prepared, readers: Readers, part: Part | None
) -> Iterator[Tensor]:
    """D_t of the experts of a row, or of a flat part of it, before anything is cut."""
    modules = prepared.method_of(row).modules
    assert isinstance(modules, Differences)
    if row.experts:
        deltas = TaskVectors(row, readers, CPU, part)
        with merging_of(row.name, deltas.names):
            yield from modules.of(deltas, prepared.weights_of(row), prepared.parameters_of(row))


def _density(row: PlanRow, prepared: Prepared) -> float | None:
    modules = prepared.method_of(row).modules
    if not isinstance(modules, Differences):
        return None
    return modules.cut(prepared.parameters_of(row)).density


def _least(
    prepared: Prepared,
    readers: Readers,
    rows: Sequence[PlanRow],
    chosen: Chosen,
    pool: ThreadPoolExecutor,
) -> Generator[PassProgress, None, tuple[float, ...]]:
    """The smallest magnitude that is kept of each expert."""
    density = _density(rows[0], prepared)
    assert density is not None
    survey = trim_survey([density] * len(prepared.experts))
    unfinished = True
    while unfinished:
        for index, row in enumerate(rows):
            if row.tied_to is None:  # tied tensors count once

                def measured(row: PlanRow, part: Part) -> Tensor:
                    found = zip(row.experts, differences(row, prepared, readers, part), strict=True)
                    return reduce(iadd, (survey.measure((t,), (own,)) for t, own in found))

                counts = _summed(row, prepared, readers, chosen, pool, measured)
                if counts is not None:
                    survey.add(counts)
            yield PassProgress(title=TITLE, done=index + 1, total=len(rows))
        unfinished = survey.finish_pass()
    return survey.findings[THRESHOLD]


def _counted(
    row: PlanRow, prepared: Prepared, readers: Readers, chosen: Chosen, pool: ThreadPoolExecutor
) -> Mapping[int, int]:
    """The number of elements of a row that each expert keeps; zero for an excluded expert."""
    least = chosen.least[row.name]

    def counts(row: PlanRow, part: Part) -> Counter[int]:
        found = zip(row.experts, differences(row, prepared, readers, part), strict=True)
        return Counter({t: int(kept(own, least[t]).sum()) for t, own in found})

    total = _summed(row, prepared, readers, chosen, pool, counts) or Counter()
    return {t: total[t] for t in row.experts}


def _summed(
    row: PlanRow,
    prepared: Prepared,
    readers: Readers,
    chosen: Chosen,
    pool: ThreadPoolExecutor,
    scan: Callable[[PlanRow, Part], _Found],
) -> _Found | None:
    """The sum over all parts, None if there are none.

    It is computed again without experts that turn out to have NaN or Inf.
    """

    def found(settled: PlanRow) -> _Found | None:
        chosen.settled[row.name] = settled
        total: _Found | None = None
        for each in ordered(pool, partial(scan, settled), parts_of_pass(prod(row.shape))):
            total = each if total is None else total + each
        return total

    return finding(found, chosen.settled.get(row.name, row), prepared, readers)
