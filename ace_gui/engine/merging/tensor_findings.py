"""What a method must know of one tensor before it merges the first part of it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import torch
from torch import Tensor

from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.merging.error_place import merging_of
from ace_gui.engine.merging.task_vectors import Readers, TaskVectors
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.streaming import Part, ordered
from ace_gui.methods.shared.survey import Findings, Survey

CPU: Final = torch.device("cpu")


def tensor_findings(
    row: PlanRow,
    prepared: Prepared,
    readers: Readers,
    pool: ThreadPoolExecutor,
    parts: Sequence[Part],
) -> Findings:
    """What the method's surveys of the model and then of this tensor found, for its experts.

    Reads every part once for each pass of them. Raises as reading and merging do.
    """
    found = dict(prepared.findings_of(row) or {})
    if row.disposition is not Disposition.MERGED:
        return found
    weights, experts = prepared.weights_of(row), range(len(row.experts))
    each = prepared.own_of(row) or [prepared.parameters_of(row)] * len(experts)
    names = [readers.experts[t].model.name for t in row.experts]
    for survey_of in prepared.method_of(row).tensor_surveys:
        survey: Survey | None = survey_of(each, weights, found)
        if survey is None:
            continue

        def measure(part: Part, survey: Survey = survey) -> Tensor:
            return survey.measure(experts, TaskVectors(row, readers, CPU, part))

        unfinished = True
        with merging_of(row.name, names):
            while unfinished:
                for measured in ordered(pool, measure, parts):
                    survey.add(measured)
                unfinished = survey.finish_pass()
        found |= survey.findings
    return found
