"""The largest elements of the experts' differences over the whole model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from math import prod
from operator import iadd
from typing import Any, Final

from torch import Tensor

from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.one_tensor.non_finite import finding
from ace_gui.engine.merging.one_tensor.task_vectors import CPU, Readers, TaskVectors, merging_of
from ace_gui.engine.merging.whole_model.surveying import parts_of_pass, passes, scanned_here
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import Part, ordered, single_threads
from ace_gui.methods.shared.expert_modules import Differences
from ace_gui.methods.shared.survey import Survey
from ace_gui.methods.shared.trimming import THRESHOLD, trim_survey

TITLE: Final = "choosing what is kept of each expert"


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """By row: ``least``, the smallest magnitude that is kept, and ``counts``, the number kept.

    Both are given per expert. ``settled``: these rows, without experts that have NaN or Inf.
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
    chosen, groups = Chosen(), defaultdict[Any, list[PlanRow]](list)
    densities: dict[Any, float] = {}
    for row in rows:
        modules, parameters = prepared.method_of(row).modules, prepared.parameters_of(row)
        if isinstance(modules, Differences) and modules.cut(parameters).density is not None:
            densities[parameters] = modules.cut(parameters).density or 0.0
            groups[parameters].append(row)
    for parameters, group in groups.items():
        survey = trim_survey([densities[parameters]] * len(prepared.experts))
        once = [row for row in group if row.tied_to is None]  # tied tensors count once
        measure = partial(_measured, prepared=prepared)
        steps = passes(survey, once, scanned_here(prepared, readers), TITLE, measure)
        yield from (found for found in steps if found is not None)
        least = survey.findings[THRESHOLD]
        for index, row in enumerate(group):
            chosen.least[row.name] = {t: least[t] for t in row.experts}
            count = partial(_counted, prepared=prepared, readers=readers, chosen=chosen)
            total = finding(count, row, prepared, readers)
            chosen.counts[row.name] = {t: total[t] for t in row.experts}
            yield PassProgress(title=TITLE, done=index + 1, total=len(group))
    return chosen


def _measured(
    survey: Survey, row: PlanRow, readers: Readers, part: Part | None, *, prepared: Prepared
) -> Tensor:
    """The survey's figures of the differences, of which one is in memory at a time."""
    found = zip(row.experts, differences(row, readers, part, prepared=prepared), strict=True)
    return reduce(iadd, (survey.measure((t,), (own,)) for t, own in found))


def _counted(row: PlanRow, *, prepared: Prepared, readers: Readers, chosen: Chosen) -> Counter[int]:
    """The number of elements of a row that each expert keeps."""
    chosen.settled[row.name] = row
    least = chosen.least[row.name]

    def counts(part: Part) -> Counter[int]:
        found = zip(row.experts, differences(row, readers, part, prepared=prepared), strict=True)
        return Counter({t: int(kept(own, least[t]).sum()) for t, own in found})

    with single_threads() as pool:
        return sum(ordered(pool, counts, parts_of_pass(prod(row.shape))), Counter[int]())


def kept(difference: Tensor, least: float) -> Tensor:
    """Mask (bool) of the kept elements: those of at least this magnitude, except zeros."""
    return (difference.abs().float() >= least) & (difference != 0)


def differences(
    row: PlanRow, readers: Readers, part: Part | None = None, *, prepared: Prepared
) -> Iterator[Tensor]:
    """D_t of the experts of a row, or of a flat part of it, before anything is cut."""
    modules = prepared.method_of(row).modules
    assert isinstance(modules, Differences)
    if row.experts:
        deltas = TaskVectors(row, readers, CPU, part)
        with merging_of(row.name, deltas.names):
            yield from modules.of(deltas, prepared.weights_of(row), prepared.parameters_of(row))
