"""The examples that a model lost and gained compared with another one, from the answers of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.events import Event
from ace_gui.engine.contract.scored.shown_examples import ComparedExample, ExamplesCompared
from ace_gui.engine.contract.scored.verdicts import LOSSES, Verdict, verdicts
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.evaluating.displayed import answer_names, answer_text, shown_example
from ace_gui.engine.evaluating.evaluate import (
    MERGED,
    Outcome,
    Trial,
    known_tasks,
    outcomes_of,
    progress_of,
    trials_of,
)
from ace_gui.engine.evaluating.subjects import Subject, models_of
from ace_gui.engine.planning.prepare import Prepared

MOST: Final = 60
"""Most examples shown for each verdict and task."""


def compared_examples(
    prepared: Prepared, folder: Path, *, with_base: bool, device: str
) -> Iterator[Event | None]:
    """Compare a merged model in a folder with each task's own expert, or with the base.

    A task without an expert is left out when comparing with experts. Cached answers are reused.
    Raises TaskError and CheckpointError.
    """
    where = resolve_device(device)
    models = replace(models_of(prepared, (folder,)), names=(MERGED,))
    for task in known_tasks(prepared):
        trials = yield from trials_of(models, task, task.title)
        pair = [t for t in trials if _is_first(t.subject) or _is_other(t, with_base=with_base)]
        if len(pair) < 2:
            continue
        found: dict[bool, tuple[Trial, Outcome]] = {}
        total = sum(len(trial.data.examples) for trial in pair)
        for trial, outcome in outcomes_of(pair, where):
            if isinstance(outcome, Outcome):
                found[_is_first(trial.subject)] = trial, outcome
            else:
                done = len(found) * len(trial.data.examples)
                yield progress_of(trial, outcome, done, total)
        yield _compared(str(folder), found[True], found[False])


def _is_first(subject: Subject) -> bool:
    return subject.expert is None and not subject.is_base


def _is_other(trial: Trial, *, with_base: bool) -> bool:
    if with_base:
        return trial.subject.is_base
    return trial.owner is not None and trial.subject.expert == trial.owner


def _compared(
    name: str, first: tuple[Trial, Outcome], second: tuple[Trial, Outcome]
) -> ExamplesCompared:
    (trial, outcome), (other_trial, other) = first, second
    metric, data = trial.data.metric, trial.data
    each_N, other_N = outcome.measured.each_N, other.measured.each_N
    verdict_N = verdicts(metric.value, each_N, other_N)
    change_N = np.abs(each_N - other_N) if metric.value in LOSSES else np.zeros(len(each_N))
    names = answer_names(data, trial.loading.config)
    other_names = answer_names(data, other_trial.loading.config)

    def shown(index: int) -> ComparedExample:
        example = data.examples[index]
        label = answer_text(data, example, trial.targets[index], names)
        return ComparedExample(
            example=shown_example(example, label),
            answer=answer_text(data, example, outcome.answers[index], names),
            other=answer_text(data, example, other.answers[index], other_names),
        )

    wanted = (Verdict.LOST, Verdict.GAINED, Verdict.BOTH_WRONG)
    indices = {each: _shown_indices(verdict_N == each, change_N) for each in wanted}
    return ExamplesCompared(
        task=data.name,
        kind=data.kind,
        metric=metric,
        model=name,
        other=other_trial.subject.name,
        counts=_counts(verdict_N),
        examples={each: tuple(map(shown, found)) for each, found in indices.items()},
    )


def _shown_indices(chosen_N: NDArray[np.bool_], change_N: NDArray[np.float64]) -> list[int]:
    """Indices of the first examples, or of those that changed most."""
    indices = np.flatnonzero(chosen_N)
    order = np.argsort(-change_N[indices], kind="stable")
    return [int(index) for index in indices[order][:MOST]]


def _counts(verdict_N: NDArray[np.int64]) -> Mapping[Verdict, int]:
    return {each: int((verdict_N == each).sum()) for each in Verdict}
