"""The sanity check: perplexity of base, experts and a merged language model on usual text."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

import torch
from pydantic import TypeAdapter, ValidationError

from ace_gui.engine.contract.events import Evaluated, EvaluationProgress, PassProgress
from ace_gui.engine.contract.sanity import SanityResult, skipped
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.engine.evaluating.evaluate import MERGED, evaluate, known_scores
from ace_gui.engine.evaluating.language_kinds import CausalLM
from ace_gui.engine.evaluating.subjects import Models, class_of
from ace_gui.engine.modules.stored import has_modules
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import WorkbenchError
from ace_gui.formatting import human_bytes
from ace_gui.machine import free_memory
from ace_gui.output_files import write_file
from ace_gui.paths import resource_path
from ace_gui.recipe.values import SanityCheck, Task

RESULT: Final = "sanity.json"
"""The result in a merge's store."""

TITLE: Final = "checking the merge on usual text"

TOKENS: Final = 1000
"""About as many tokens the lines have."""

SMALL: Final = 2_000_000_000
"""Bytes of a model that may be loaded even if the merge needs less memory."""

QUICK: Final = 10.0
"""Seconds that the check may always take."""

SHARE: Final = 0.1
"""The share of the merge's time that the check may take."""

_DISK: Final = 5e8
"""Bytes of a model that are loaded in a second, at least."""

_TOKENIZERS: Final = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")
_RESULT: Final = TypeAdapter(SanityResult)
_SAMPLE: Final = (128, 1024, 4096)


@dataclass(frozen=True, kw_only=True)
class _Cost:
    """What the check of one model takes."""

    bytes: int
    """Of its weights in float32."""

    seconds: float


def lines_task() -> Task:
    """The lines that ship with the program, as a task."""
    return Task(name="usual text", kind=CausalLM.kind, data=resource_path("sanity/lines.jsonl"))


def sanity_checked(
    prepared: Prepared, store: Path, model: Path, device: torch.device, merge_seconds: float
) -> Generator[PassProgress | None, None, SanityResult | None]:
    """Check a merged ``model`` as the recipe's ``check`` says, and keep the result in ``store``.

    ``merge_seconds``: the time that the merge took. None for other than language models, unless a
    check was asked for, and where none is wanted. An error becomes the reason why it was left out:
    the merge is finished, and stays.
    """
    choice = prepared.recipe.check
    (store / RESULT).unlink(missing_ok=True)
    if choice is SanityCheck.OFF:
        return None
    obstacle = _obstacle(prepared, model)
    if obstacle:
        if choice is SanityCheck.ON:
            return skipped(f"No sanity check: {obstacle}.")
        return None
    try:
        models = Models(prepared.models, (model,), (MERGED,))
        if choice is SanityCheck.AUTO:
            unknown = len(models.subjects()) - (yield from _known(models, device))
            reason = _too_costly(prepared, device, unknown, merge_seconds)
            if reason:
                return skipped(f"No sanity check: {reason}", can_be_asked_for=True)
        result = yield from _measured(models, device)
    except WorkbenchError as error:
        return skipped(f"The sanity check could not be made: {error.sentence}")
    except Exception as error:  # models' own code raises anything, and the merge is complete
        return skipped(f"The sanity check could not be made: {type(error).__name__}: {error}.")
    write_file(store / RESULT, _RESULT.dump_json(result), (), overwrite=True)
    return result


def kept_result(store: Path) -> SanityResult | None:
    """The result that a store keeps; None without one."""
    try:
        return _RESULT.validate_json((store / RESULT).read_bytes())
    except (OSError, ValidationError):
        return None


def _obstacle(prepared: Prepared, model: Path) -> str:
    """Why a merge cannot be checked; empty if it can."""
    config = prepared.base.checkpoint.config
    if config is None or not CausalLM.kind.does(class_of(config)):
        return "it is for language models"
    if has_modules(model):
        return "the merge has modules for single experts"
    folders = (prepared.recipe.base_model, *(entry.model for entry in prepared.recipe.models))
    if not all(folder.is_dir() for folder in folders):
        return "it needs the folders of all models"
    if not any((model / name).exists() for name in _TOKENIZERS):
        return "the base has no tokenizer"
    return ""


def _known(models: Models, device: torch.device) -> Generator[None, None, int]:
    """How many of the models need not be run again."""
    count = 0
    for score in known_scores(models, (lines_task(),), device=str(device)):
        count += score is not None
        yield None
    return count


def _too_costly(prepared: Prepared, device: torch.device, models: int, merge_seconds: float) -> str:
    """Why a check is left to the person; empty if it is cheap."""
    cost = _cost(prepared, device)
    room = max(prepared.plan.peak_bytes, SMALL)
    if cost.bytes > min(room, free_memory()):
        return f"it would need {human_bytes(cost.bytes)} of memory."
    seconds = models * cost.seconds
    if seconds > max(QUICK, SHARE * merge_seconds):
        return f"it would take about {_duration_text(seconds)}."
    return ""


def _cost(prepared: Prepared, device: torch.device) -> _Cost:
    """Loading a model, and a product of each token with each of its matrices."""
    elements = weights = 0
    for row in prepared.plan.rows:
        elements += prod(row.shape)
        if len(row.shape) > 1:  # an embedding is often the head, too
            weights += prod(row.shape)
    seconds = 4 * elements / _DISK + 2 * weights * TOKENS / _speed(device)
    return _Cost(bytes=4 * elements, seconds=seconds)


def _duration_text(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes"


def _speed(device: torch.device) -> float:
    """Floating-point operations in a second in products like those of a language model."""
    tokens, inputs, outputs = _SAMPLE
    first = torch.ones(tokens, inputs, device=device)
    second = torch.ones(inputs, outputs, device=device)
    best = math.inf
    for _ in range(3):
        started = time.perf_counter()
        float((first @ second)[0, 0])  # waits for a GPU
        best = min(best, time.perf_counter() - started)
    return 2 * tokens * inputs * outputs / best


def _measured(
    models: Models, device: torch.device
) -> Generator[PassProgress | None, None, SanityResult]:
    started = time.monotonic()
    scores: tuple[TaskScore, ...] = ()
    for event in evaluate(models, (lines_task(),), device=str(device)):
        if isinstance(event, Evaluated):
            scores = event.scores
        elif isinstance(event, EvaluationProgress):
            yield PassProgress(done=event.done, total=event.total, title=TITLE)
        else:
            yield None
    values = {score.model: score.score for score in scores}
    merged = values.pop(MERGED)
    return SanityResult(perplexities=values, merged=merged, seconds=time.monotonic() - started)
