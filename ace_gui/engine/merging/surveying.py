"""What a method must know of the whole model, gathered before its first tensor is merged.

The whole model is every tensor that the method merges with the same parameters; one tied to another
counts once. What was found is kept beside a merge in the making, so that resuming need not look
again; looking again would find the same, as counts do not depend on the order of things and sums
are taken in the plan's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.merging.error_place import merging_of
from ace_gui.engine.merging.measured_rows import need_of
from ace_gui.engine.merging.non_finite import settle
from ace_gui.engine.merging.store import SURVEY
from ace_gui.engine.merging.task_vectors import Readers, TaskVectors
from ace_gui.engine.merging.tensor_merge import merge_deltas
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.streaming import Part, ordered
from ace_gui.errors import NonFiniteError
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.survey import Findings, Survey

CPU: Final = torch.device("cpu")

PASS_ELEMENTS: Final = 1 << 20
"""Elements of a tensor that are looked at a time; a multiple of 8, for masks."""

TITLE: Final = "looking at the whole model"


@dataclass(frozen=True, kw_only=True)
class Group:
    """The rows that one survey is about."""

    method: MergeMethod[Any]
    parameters: Any
    rows: tuple[PlanRow, ...]


def surveyed(
    prepared: Prepared,
    readers: Readers,
    *,
    store: Path | None = None,
    only: PlanRow | None = None,
) -> Iterator[PassProgress]:
    """Add to ``prepared.findings`` what its rows' methods need and is not there yet.

    ``store``: a merge in the making, where findings are kept. ``only``: a row whose method's needs
    will do. Raises as reading and merging do.
    """
    kept = _kept(store)
    wanted = None if only is None else prepared.parameters_of(only)
    for group in groups(prepared):
        if only is not None and group.parameters != wanted:
            continue
        key = (group.method.name, group.parameters)
        if key not in prepared.findings and kept.get(_label(group)) is not None:
            prepared.findings[key] = kept[_label(group)]
        if key not in prepared.findings:
            if _wants_norms(group.method, group.parameters):
                prepared.findings[key] = yield from _norms(group, prepared, readers)
            else:
                assert group.method.survey is not None
                survey = group.method.survey(group.parameters, len(prepared.experts))
                assert survey is not None
                yield from _passes(survey, group, prepared, readers)
                prepared.findings[key] = survey.findings
        kept[_label(group)] = prepared.findings[key]
    if kept and store is not None:
        _keep(store, kept)


def waits(row: PlanRow, prepared: Prepared) -> bool:
    """Whether the row's method must look at the whole model, or at data, before it merges it."""
    survey, parameters = prepared.method_of(row).survey, prepared.parameters_of(row)
    surveys = survey is not None and survey(parameters, len(prepared.experts)) is not None
    return surveys or need_of(row, prepared) is not None


def groups(prepared: Prepared) -> list[Group]:
    """What needs a survey, in the plan's order."""
    found: dict[tuple[str, Any], list[PlanRow]] = {}
    for row in prepared.plan.rows:
        if row.in_base and row.disposition is Disposition.MERGED and row.tied_to is None:
            key = (prepared.method_of(row).name, prepared.parameters_of(row))
            found.setdefault(key, []).append(row)
    candidates = [
        Group(method=prepared.method_of(rows[0]), parameters=parameters, rows=tuple(rows))
        for (_, parameters), rows in found.items()
    ]
    experts = len(prepared.experts)
    return [
        group
        for group in candidates
        if _wants_norms(group.method, group.parameters)
        or (group.method.survey and group.method.survey(group.parameters, experts) is not None)
    ]


def _wants_norms(method: MergeMethod[Any], parameters: Any) -> bool:
    return method.layer_norms is not None and method.layer_norms(parameters)


def _norms(
    group: Group, prepared: Prepared, readers: Readers
) -> Generator[PassProgress, None, Findings]:
    """By role the mean norm of what the method makes of a tensor without findings."""
    found: dict[str, list[float]] = {}
    for place, row in enumerate(group.rows):
        if row.experts:
            deltas = TaskVectors(row, readers, CPU)
            with merging_of(row.name, deltas.names):
                try:
                    merged = merge_deltas(row, prepared, deltas)
                except NonFiniteError as error:
                    settled = settle(error, row, prepared, readers).row
                    deltas = TaskVectors(settled, readers, CPU)
                    merged = merge_deltas(settled, prepared, deltas)
            norm = float(torch.linalg.vector_norm(merged.delta, dtype=torch.float64))
            found.setdefault(row.role, []).append(norm)
        yield PassProgress(title=TITLE, done=place + 1, total=len(group.rows))
    return {
        role: (math.fsum(norms) / len(norms),) * len(prepared.experts)
        for role, norms in found.items()
    }


def parts_of_pass(elements: int) -> Iterator[Part]:
    """Parts of a flattened tensor, in order, none of an empty one."""
    for start in range(0, elements, PASS_ELEMENTS):
        yield start, min(start + PASS_ELEMENTS, elements)


def _passes(
    survey: Survey, group: Group, prepared: Prepared, readers: Readers
) -> Iterator[PassProgress]:
    rows, unfinished = list(group.rows), True
    one = partial(torch.set_num_threads, 1)
    with ThreadPoolExecutor(torch.get_num_threads(), initializer=one) as pool:
        while unfinished:
            for place, row in enumerate(rows):
                names = [readers.experts[t].model.name for t in row.experts]
                with merging_of(row.name, names):
                    try:
                        measured = _measured(survey, row, readers, pool)
                    except NonFiniteError as error:
                        rows[place] = settle(error, row, prepared, readers).row
                        measured = _measured(survey, rows[place], readers, pool)
                if measured is not None:
                    survey.add(measured)
                yield PassProgress(title=TITLE, done=place + 1, total=len(rows))
            unfinished = survey.finish_pass()


def _measured(
    survey: Survey, row: PlanRow, readers: Readers, pool: ThreadPoolExecutor
) -> Tensor | None:
    """The contribution of one row; None where it has none."""
    if not row.experts:
        return None
    if survey.whole:
        return survey.measure(row.experts, TaskVectors(row, readers, CPU))

    def measure(part: Part) -> Tensor:
        return survey.measure(row.experts, TaskVectors(row, readers, CPU, part))

    total = None
    for measured in ordered(pool, measure, parts_of_pass(prod(row.shape))):
        total = measured if total is None else total.add_(measured)
    return total


def _label(group: Group) -> str:
    return json.dumps([group.method.name, asdict(group.parameters)], sort_keys=True)


def _kept(store: Path | None) -> dict[str, Findings]:
    """What an earlier run of this merge has found; nothing where that cannot be read."""
    if store is None or not (store / SURVEY).exists():
        return {}
    try:
        content = json.loads((store / SURVEY).read_text(encoding="utf-8"))
        return {
            label: {name: tuple(map(float, values)) for name, values in findings.items()}
            for label, findings in content.items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _keep(store: Path, findings: dict[str, Findings]) -> None:
    """In one step, so that half of it is never read. JSON gives every float back exactly."""
    fresh = store / f"{SURVEY}.new"
    fresh.write_text(json.dumps(findings, indent=1), encoding="utf-8")
    fresh.replace(store / SURVEY)
