"""Float32 over every matrix of a recipe by ACE: the error measured, the true one, what was decided.

``python -m tests.benchmarks.float32_decisions RECIPE...``. Every matrix is merged as in the recipe,
in float32 whatever its error, and in float64. The same holds for the root of the spectrum, if the
recipe has it after the merge. A float32 result within the tolerance is right, and refusing it is
wrong; one beyond it must be refused. Shares of the merged change.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.method_steps import method_tolerance
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.task_vectors import CPU, TaskVectors
from ace_gui.engine.planning.prepare import prepare
from ace_gui.linalg.passes import energy
from ace_gui.linalg.root_spectrum import SAFETY as ROOT_SAFETY
from ace_gui.linalg.root_spectrum import SMALLEST_LIMIT, RootSpectrum, root_spectrum
from ace_gui.methods.ace import AceParameters, ace, algorithm
from ace_gui.methods.ace.float32_check import SAFETY, refined_error
from ace_gui.methods.ace.problem import Precision, Refinement
from ace_gui.methods.shared import after
from ace_gui.methods.shared.after import changed_after
from ace_gui.methods.shared.experts import Computed, Merged
from ace_gui.methods.shared.tolerance import Tolerance
from ace_gui.recipe.recipe_file import load_recipe

ALWAYS = Tolerance(rounding=1e9)
"""With which float32 is taken whatever its error."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Of one matrix."""

    step: str
    """The step that may take float32."""
    measured: float
    """The error that the merge measures, which does not know the exact result; without safety."""
    true: float
    """The error of float32 against float64."""
    allowed: float
    """The largest error within the tolerance."""
    taken: bool
    """Whether the merge took float32."""


def decisions(recipe: Path) -> Iterator[Decision]:
    """Of all matrices that the recipe merges whole by ACE."""
    prepared = prepare(load_recipe(recipe))
    readers = Readers(prepared)
    for row in prepared.plan.rows:
        parameters = prepared.parameters_of(row)
        if row.is_merged and prepared.is_whole(row) and isinstance(parameters, AceParameters):
            deltas = TaskVectors(row, readers, CPU)
            yield from _of_matrix(row, deltas, prepared.weights_of(row), parameters)


def _of_matrix(
    row: PlanRow, deltas: TaskVectors, weights: Sequence[float], parameters: AceParameters
) -> Iterator[Decision]:
    tolerance = deltas.tolerance(weights, None)
    allowed = method_tolerance(row, tolerance)
    merged = ace(deltas, weights, parameters, base=deltas.base, tolerance=allowed)
    doubles = Computed(len(deltas), lambda t: deltas[t].double())
    exact = ace(doubles, weights, parameters, base=deltas.base.double()).delta
    single, measured = _in_float32(deltas, weights, parameters)
    yield Decision(
        step="ACE",
        measured=measured,
        true=_distance(single, exact),
        allowed=allowed.relative(math.sqrt(energy(exact))),
        taken="float32, which" in merged.diagnostics.precision,
    )
    if row.after.spectrum == after.ROOT and row.after.rank == 1:
        yield _of_root(merged, deltas, weights, tolerance)


def _in_float32(
    deltas: TaskVectors, weights: Sequence[float], parameters: AceParameters
) -> tuple[Tensor, float]:
    """The merge in float32, and the error that it measures; NaN if it measures none."""
    measured = [math.nan]

    def recorded(precision: Precision, refinement: Refinement | None, _: Tolerance) -> bool:
        error, size = refined_error(precision, refinement)
        measured.append(error / SAFETY / size)
        return True

    with patch.object(algorithm, "refined_exactly_enough", recorded):
        merged = ace(deltas, weights, parameters, base=deltas.base, tolerance=ALWAYS)
    return merged.delta, measured[-1]


def _of_root(
    merged: Merged, deltas: TaskVectors, weights: Sequence[float], tolerance: Tolerance
) -> Decision:
    """The root of the change's singular values, in float32 by the smallest limit that it keeps."""
    attempts = list[tuple[float, float, RootSpectrum]]()

    def recorded(change_OI: Tensor, floor: float, allowed: float) -> RootSpectrum:
        limit = allowed
        while (rooted := root_spectrum(change_OI.clone(), floor, limit)) is None:
            limit *= 2
        attempts.append((allowed, limit, rooted))
        return rooted

    def changed(change_OI: Tensor) -> Tensor:
        """The change after the recipe's step, which takes float64 as it is."""
        own = replace(merged, delta=change_OI)
        after_step = changed_after(
            own, deltas, weights, deltas.base, spectrum=after.ROOT, tolerance=tolerance
        )
        return after_step.delta

    exact_OI = changed(merged.delta.double())
    with patch.multiple(after, root_spectrum=recorded, SMALLEST_LIMIT=0.0):
        single_OI = changed(merged.delta.clone())
    ((allowed, limit, rooted),) = attempts
    return Decision(
        step="root of the spectrum",
        measured=rooted.error / ROOT_SAFETY,
        true=_distance(single_OI, exact_OI),
        allowed=allowed,
        taken=limit == allowed and allowed >= SMALLEST_LIMIT,
    )


def _distance(value: Tensor, exact: Tensor) -> float:
    return float((value.double() - exact.double()).norm() / exact.double().norm())


def summary(rows: Sequence[Decision]) -> str:
    """A line of a table: how many were decided how, and the error measured by the true one."""
    taken = [row for row in rows if row.taken]
    refused = [row for row in rows if not row.taken]
    wrongly = sum(row.true <= row.allowed for row in refused)
    ratios = sorted(row.measured / row.true for row in rows if math.isfinite(row.measured))
    cells = [
        rows[0].step,
        len(rows),
        len(taken),
        sum(row.true > row.allowed for row in taken),
        len(refused) - wrongly,
        wrongly,
        f"{ratios[0]:.2f}, {statistics.median(ratios):.2f}, {ratios[-1]:.2f}",
        f"{max((row.true / row.allowed for row in taken), default=math.nan):.2f}",
    ]
    return " | ".join(map(str, cells))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.float32_decisions")
    parser.add_argument("recipes", nargs="+", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "recipe | step | matrices | float32 | of these wrongly | refused rightly | refused wrongly "
        "| measured by true: least, median, most | largest true by allowed where taken"
    )
    for recipe in options.recipes:
        by_step: dict[str, list[Decision]] = {}
        for decision in decisions(recipe):
            by_step.setdefault(decision.step, []).append(decision)
        for rows in by_step.values():
            print(f"{recipe.stem} | {summary(rows)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
