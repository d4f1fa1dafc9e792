"""What a method must know of one tensor before it merges the first part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import torch
from torch import Tensor

from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.merging.one_tensor.error_context import merging_of
from ace_gui.engine.merging.one_tensor.random_keys import random_key_of
from ace_gui.engine.merging.one_tensor.task_vectors import TaskVectors
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.streaming import Part, ordered
from ace_gui.methods.method import found_by
from ace_gui.methods.shared.survey import Findings, Survey, found_at_once

CPU: Final = torch.device("cpu")


def tensor_findings(
    row: PlanRow,
    prepared: Prepared,
    vectors: Callable[[Part], TaskVectors],
    names: Sequence[str],
    pool: ThreadPoolExecutor,
    parts: Sequence[Part],
) -> Findings:
    """The findings of the method's surveys of the model and then of this tensor, for its experts.

    ``vectors``: the task vectors of a part, requested once per pass. ``names``: the experts' names.
    Raises the errors of reading and merging.
    """
    known = prepared.findings_of(row) or {}
    surveys = prepared.method_of(row).tensor_surveys
    if row.disposition is not Disposition.MERGED or not surveys:
        return known
    experts = range(len(row.experts))
    random_key = random_key_of(row, prepared, names, parts[0])

    def measure(survey: Survey, part: Part) -> Tensor:
        return survey.measure(experts, vectors(part), part[0])

    def carry_out(survey: Survey) -> Findings:
        if len(parts) == 1:
            return pool.submit(lambda: found_at_once(survey, vectors(parts[0]))).result()
        unfinished = True
        while unfinished:
            for measured in ordered(pool, partial(measure, survey), parts):
                survey.add(measured)
            unfinished = survey.finish_pass()
        return survey.findings

    each = prepared.own_of(row) or [prepared.parameters_of(row)] * len(experts)
    with merging_of(row.name, names):
        return found_by(surveys, each, prepared.weights_of(row), known, random_key, carry_out)
