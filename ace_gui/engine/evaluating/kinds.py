"""The kinds of tasks, the model classes for each, and the data each needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ace_gui.engine.evaluating.data.table import Table, columns_at, refused
from ace_gui.errors import TaskError
from ace_gui.recipe.tasks import Metric, Task, TaskKind

TEXT, PAIR, LABEL, IMAGE, CHOICES, TOKENS = "text", "pair", "label", "image", "choices", "tokens"


@dataclass(frozen=True, kw_only=True)
class KindTraits:
    """``classes``: endings of the names of suitable model classes.

    ``metrics``: the first is the default. ``roles``: required columns; ``optional``: columns it can
    use besides.
    """

    classes: re.Pattern[str]
    metrics: tuple[Metric, ...]
    roles: tuple[str, ...]
    optional: tuple[str, ...] = ()


_LANGUAGE_MODELS: Final = r"ForCausalLM|LMHeadModel|LMHead"
_CLASSIFIED: Final = (Metric.ACCURACY, Metric.F1, Metric.MATTHEWS)
_MEASURED: Final = (Metric.PEARSON, Metric.SPEARMAN)

KINDS: Final[Mapping[TaskKind, KindTraits]] = {
    TaskKind.IMAGE_CLASSIFICATION: KindTraits(
        classes=re.compile(r"ForImageClassification(WithTeacher)?$"),
        metrics=_CLASSIFIED,
        roles=(IMAGE, LABEL),
    ),
    TaskKind.TEXT_CLASSIFICATION: KindTraits(
        classes=re.compile(r"ForSequenceClassification$"),
        metrics=_CLASSIFIED,
        roles=(TEXT, LABEL),
        optional=(PAIR,),
    ),
    TaskKind.REGRESSION: KindTraits(
        classes=re.compile(r"ForSequenceClassification$"),
        metrics=_MEASURED,
        roles=(TEXT, LABEL),
        optional=(PAIR,),
    ),
    TaskKind.MULTIPLE_CHOICE: KindTraits(
        classes=re.compile(rf"(ForMultipleChoice|{_LANGUAGE_MODELS})$"),
        metrics=_CLASSIFIED,
        roles=(TEXT, CHOICES, LABEL),
    ),
    TaskKind.CAUSAL_LM: KindTraits(
        classes=re.compile(rf"({_LANGUAGE_MODELS})$"),
        metrics=(Metric.PERPLEXITY,),
        roles=(TEXT,),
    ),
    TaskKind.TEXT_TO_TEXT: KindTraits(
        classes=re.compile(rf"(ForConditionalGeneration|{_LANGUAGE_MODELS})$"),
        metrics=(Metric.EXACT_MATCH,),
        roles=(TEXT, LABEL),
    ),
    TaskKind.TOKEN_CLASSIFICATION: KindTraits(
        classes=re.compile(r"ForTokenClassification$"),
        metrics=(Metric.ACCURACY, Metric.F1),
        roles=(TOKENS, LABEL),
    ),
    TaskKind.CLIP_ZERO_SHOT: KindTraits(
        classes=re.compile(r"^(?!.*For)(Chinese|Alt)?(CLIP|SigLIP|Siglip)\w*Model$"),
        metrics=_CLASSIFIED,
        roles=(IMAGE, LABEL),
    ),
}

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    TEXT: (
        *("text", "sentence", "sentence1", "premise", "question1", "question", "query", "content"),
        *("review", "prompt", "input", "inputs", "source", "document", "context", "ctx", "goal"),
    ),
    PAIR: ("text_pair", "pair", "sentence2", "hypothesis", "question2", "sentence", "passage"),
    LABEL: (
        *(
            "label",
            "labels",
            "target",
            "targets",
            "score",
            "class",
            "answer",
            "answerkey",
            "output",
        ),
        *("outputs", "summary", "translation", "completion", "ner_tags", "pos_tags", "tags", "y"),
    ),
    IMAGE: ("image", "images", "img", "picture", "file", "file_name", "path", "pixels", "x"),
    CHOICES: ("choices", "endings", "options", "answers"),
    TOKENS: ("tokens", "words"),
}
"""Common column names by role; the first that exists is used."""

_NO_TEXT: Final = frozenset(("id", "idx", "index", "guid", "uid", "split", "source_id"))


def kind_of(task: Task, config: Mapping[str, Any], table: Table) -> TaskKind:
    """The kind given by the task, or else the one that suits the model's class and the data.

    Raises TaskError if the model cannot do it, or the kind is ambiguous.
    """
    name = class_of(config)
    if task.kind is not None:
        if not KINDS[task.kind].classes.search(name):
            raise TaskError(
                f"{task.title}: a model of the class {name or 'unknown'} does no "
                f"{task.kind.value}; choose another model, or another kind.",
                key="kind",
            )
        return task.kind
    found = [kind for kind, traits in KINDS.items() if traits.classes.search(name)]
    if TaskKind.REGRESSION in found:
        one = len(config.get("id2label") or "12") == 1 or config.get("problem_type") == "regression"
        return TaskKind.REGRESSION if one else TaskKind.TEXT_CLASSIFICATION
    if TaskKind.MULTIPLE_CHOICE in found and TaskKind.CAUSAL_LM in found:
        asked = _first(CHOICES, table.columns) or task.columns.get(CHOICES)
        answered = _first(LABEL, table.columns) or task.columns.get(LABEL)
        if asked and answered:
            return TaskKind.MULTIPLE_CHOICE
        return TaskKind.TEXT_TO_TEXT if LABEL in task.columns else TaskKind.CAUSAL_LM
    if not found:
        raise TaskError(
            f"{task.title}: what a model of the class {name or 'unknown'} does is not known here; "
            "give the task a kind, and an expert that does it.",
            key="kind",
        )
    return found[0]


def class_of(config: Mapping[str, Any]) -> str:
    """The name of the model class in a config.json; empty if it has none."""
    named = config.get("architectures")
    return named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""


def metric_of(task: Task, kind: TaskKind) -> Metric:
    """The task's metric, or else its kind's default. Raises TaskError for one of another kind."""
    known = KINDS[kind].metrics
    if task.metric is not None and task.metric not in known:
        offered = ", ".join(each.value for each in known)
        raise TaskError(
            f"{task.title}: {task.metric.value} does not suit {kind.value}; choose {offered}.",
            key="metric",
        )
    return task.metric or known[0]


def columns_of(
    task: Task, kind: TaskKind, table: Table, *, labelled: bool = True
) -> dict[str, tuple[str, ...]]:
    """The columns for each role of the kind: given by the task, or else recognised by name.

    ``labelled``: whether the right answers are needed as well. Raises TaskError if a column is
    missing or ambiguous.
    """
    traits, chosen = KINDS[kind], _given_columns(task, kind, table, labelled=labelled)
    left = [c for c in table.columns if not any(c in names for names in chosen.values())]
    alone = TEXT in chosen
    for role in reversed(traits.roles):  # labels and pictures have typical names, texts do not
        if role == LABEL and not labelled:
            named = _first(LABEL, left)
            left = [column for column in left if column != named]
        elif role not in chosen:
            found = _first(role, left) or (_only(left) if role == TEXT else None)
            if found is None:
                offered = ", ".join(map(repr, table.columns[:20]))
                raise refused(
                    table.path,
                    f"It is not plain which column is the {role} of {kind.value}, of {offered}; "
                    "say "
                    f"it in the task, as columns: {{{role}: NAME}}.",
                )
            chosen[role] = (found,)
            left.remove(found)
    second = None if alone or PAIR not in traits.optional else _first(PAIR, left)
    return chosen if second is None else {**chosen, PAIR: (second,)}


def _given_columns(
    task: Task, kind: TaskKind, table: Table, *, labelled: bool
) -> dict[str, tuple[str, ...]]:
    """The columns given by the task. Raises TaskError."""
    known = (*KINDS[kind].roles, *KINDS[kind].optional)
    chosen = {}
    for role, given in task.columns.items():
        if role not in known:
            raise TaskError(
                f"{task.title}: {kind.value} has no use for {role!r} in columns; it knows "
                f"{', '.join(known)}.",
                key="columns",
            )
        if role == LABEL and not labelled:
            continue
        chosen[role] = (given,) if isinstance(given, str) else tuple(given)
        columns_at(table.path, table.columns, chosen[role])
    return chosen


def _first(role: str, columns: Sequence[str]) -> str | None:
    lower = {column.lower(): column for column in reversed(columns)}
    return next((lower[name] for name in COLUMNS[role] if name in lower), None)


def _only(columns: Sequence[str]) -> str | None:
    left = [column for column in columns if column.lower() not in _NO_TEXT]
    return left[0] if len(left) == 1 else None
