"""All kinds of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ace_gui.architecture.transformers_library import has_chat_template
from ace_gui.engine.evaluating.evaluators import Evaluator
from ace_gui.engine.evaluating.kinds.language import CausalLM, MultipleChoice, TextToText
from ace_gui.engine.evaluating.kinds.pictures import ClipZeroShot, ImageClassification
from ace_gui.engine.evaluating.kinds.texts import (
    Regression,
    TextClassification,
    TokenClassification,
)
from ace_gui.engine.evaluating.subjects import Loading, Subject, class_of
from ace_gui.engine.evaluating.task_data import TaskData
from ace_gui.engine.planning.prepared import experts_with_heads
from ace_gui.errors import TaskError
from ace_gui.formatting import listing
from ace_gui.recipe.values import Chat, TaskKind

KINDS: Final[Mapping[TaskKind, type[Evaluator]]] = {
    each.kind: each
    for each in (
        ImageClassification,
        TextClassification,
        Regression,
        MultipleChoice,
        CausalLM,
        TextToText,
        TokenClassification,
        ClipZeroShot,
    )
}


def evaluator_class(data: TaskData, loading: Loading) -> type[Evaluator]:
    """The class of the evaluator for a task on a model."""
    return KINDS[data.kind].for_class(class_of(loading.config))


def evaluator(data: TaskData, loading: Loading, model: Any) -> Evaluator:
    """The evaluator for a task on a model. Raises CheckpointError and TaskError."""
    return evaluator_class(data, loading)(data, loading, model)


def require_kind(loading: Loading, data: TaskData, subject: Subject) -> None:
    """Raise TaskError if a model cannot do the task by its class, or lacks a chat template."""
    own = class_of(loading.config)
    if not KINDS[data.kind].does(own):
        heads = experts_with_heads(subject.path)
        advice = (
            f"it has heads for {listing(heads)}: name one of these as the expert of the task "
            f"{data.name}."
            if heads
            else f"say in the task {data.name} to which expert it belongs."
        )
        raise TaskError(
            f"{subject.name} is of the class {own or 'unknown'}, which does no {data.kind.value}; "
            f"{advice}",
            path=subject.path,
        )
    if data.task.chat is Chat.ON and not has_chat_template(loading.preprocessing):
        raise TaskError(
            f"{subject.name} has no chat template; choose chat: auto in the task {data.name}, or "
            "copy chat_template.jinja into the model's folder.",
            path=subject.path,
            key="chat",
        )
