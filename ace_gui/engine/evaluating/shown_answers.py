"""Examples with models' answers, answers to one input, and routes, for display besides scores.

T experts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.engine.capabilities import resolve_device
from ace_gui.engine.contract.events import EvaluationProgress, Event
from ace_gui.engine.contract.scored import (
    LOSSES,
    AnswerVerdict,
    ComparedExample,
    ExamplesCompared,
    RoutesFound,
    ShownExample,
    TaskDescribed,
    TaskRoutes,
)
from ace_gui.engine.contract.tried import Ending, Tried, TriedBegun, TriedText, TryInput
from ace_gui.engine.contract.verdicts import verdicts
from ace_gui.engine.evaluating.evaluate import (
    MERGED,
    SEED,
    Outcome,
    Trial,
    all_trials,
    known_tasks,
    outcomes_of,
    progress_of,
    require_own_names,
    trials_of,
)
from ace_gui.engine.evaluating.evaluators import Batch, Evaluator
from ace_gui.engine.evaluating.examples import columns_of, kind_of, kinds_of, metric_of, read_task
from ace_gui.engine.evaluating.kept_models import KeptModels
from ace_gui.engine.evaluating.kinds import KINDS, require_kind
from ace_gui.engine.evaluating.language_kinds import Prompter
from ace_gui.engine.evaluating.loaded_models import Loaded, answered
from ace_gui.engine.evaluating.open_table import open_table
from ace_gui.engine.evaluating.subjects import Loading, Models, Subject
from ace_gui.engine.evaluating.task_data import (
    Example,
    Picture,
    Table,
    TaskData,
    picture_of,
)
from ace_gui.engine.modules.layers import ObservedRouter, routers_of
from ace_gui.engine.modules.stored import MODULES
from ace_gui.engine.planning.recipe_models import RecipeModels
from ace_gui.errors import TaskError, WorkbenchError
from ace_gui.methods.shared.expert_modules import ModuleKind
from ace_gui.recipe import Recipe
from ace_gui.recipe.task_kinds import IMAGE, PAIR, TEXT, TOKENS
from ace_gui.recipe.values import Task
from ace_gui.steps import Steps

PIXELS: Final = 128
"""Largest width and height of a shown picture."""

CHARACTERS: Final = 2000
"""Most characters of a shown text."""


def shown_example(example: Example, label: str) -> ShownExample:
    """An example's inputs and right answer as texts and a small picture."""
    texts = []
    picture = None
    for role, value in example.inputs.items():
        if isinstance(value, Picture):
            picture = small_picture(value)
        elif isinstance(value, str):
            texts.append((role, cut(value)))
        else:
            texts.append((role, cut((" " if role == TOKENS else " · ").join(value))))
    return ShownExample(row=example.row, texts=tuple(texts), picture=picture, label=label)


def small_picture(opened: Picture) -> NDArray[np.uint8]:
    """A picture at most ``PIXELS`` wide and high, H × W × 3, uint8. Raises TaskError."""
    picture = opened.opened()
    if max(picture.size) > PIXELS:
        picture.thumbnail((PIXELS, PIXELS))
    return np.asarray(picture.convert("RGB"), dtype=np.uint8)


def cut(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…"


# Tasks before scoring

SHOWN: Final = 3
"""Number of examples shown for a task."""


def described(opened: RecipeModels, tasks: Sequence[Task]) -> Iterator[TaskDescribed | None]:
    """Each task as it would be scored. Errors are part of the description, not raised."""
    models = Models(opened)
    all_tasks = opened.recipe.tasks
    for task in tasks:
        fields: dict[str, Any] = {"task": task}
        try:
            require_own_names(
                [known_task for known_task in all_tasks if known_task.title == task.title]
            )
            yield from _describe(fields, models, opened.recipe, task)
        except WorkbenchError as error:
            fields["fault"] = error.sentence
        yield TaskDescribed(**fields)


def _describe(
    description: dict[str, Any], models: Models, recipe: Recipe, task: Task
) -> Steps[None]:
    """Fill in the description step by step, as an error may come later. Raises TaskError."""
    table = open_table(task.data)
    description["table_columns"] = table.columns
    owner = models.owner(task)
    description["expert"] = None if owner is None else recipe.expert_names[owner]
    config = models.reference(task)
    description["kinds"] = tuple(kinds_of(config))
    kind = description["kind"] = kind_of(task, config, table)
    traits = kind.traits
    answers = KINDS[kind]
    description.update(metrics=traits.metrics, roles=traits.roles, optional=traits.optional)
    description["metric"] = metric_of(task, kind)
    description["columns"] = columns_of(task, kind, table)
    trials = yield from trials_of(models, task)
    first = next((t for t in trials if t.subject.expert == owner is not None), trials[0])
    names = answers.names(first.data, first.loading.config)
    examples = first.data.examples
    description["count"] = len(examples)
    description["examples"] = tuple(
        shown_example(example, cut(answers.text(example, target, names)))
        for example, target in zip(examples[:SHOWN], first.targets, strict=False)
    )


# What a model lost and gained

MOST: Final = 60
"""Most examples shown for each verdict and task."""


def compared_examples(
    opened: RecipeModels, folder: Path, *, with_base: bool, device: str
) -> Iterator[Event | None]:
    """Compare a merged model in a folder with each task's own expert, or with the base.

    A task without an expert is left out when comparing with experts. Cached answers are reused.
    Raises TaskError and CheckpointError.
    """
    where = resolve_device(device)
    models = Models(opened, (folder,), (MERGED,))
    for task in known_tasks(opened.recipe):
        trials = yield from trials_of(models, task)
        merged = [t for t in trials if t.subject.expert is None and not t.subject.is_base]
        if with_base:
            compared = [t for t in trials if t.subject.is_base]
        else:
            compared = [t for t in trials if t.subject.expert == t.owner is not None]
        if not (merged and compared):
            continue
        outcomes: list[tuple[Trial, Outcome]] = []
        for event in outcomes_of([*merged, *compared], where):
            if isinstance(event, EvaluationProgress):
                yield event
            else:
                outcomes.append(event)
        yield _compared(str(folder), *outcomes)


def _compared(
    name: str, first: tuple[Trial, Outcome], second: tuple[Trial, Outcome]
) -> ExamplesCompared:
    (trial, outcome) = first
    (second_trial, second_outcome) = second
    metric = trial.data.metric
    data = trial.data
    kind = KINDS[trial.data.kind]
    each_N = outcome.measured.each_N
    other_N = second_outcome.measured.each_N
    verdict_N = verdicts(metric.value, each_N, other_N)
    change_N = np.abs(each_N - other_N) if metric.value in LOSSES else np.zeros(len(each_N))
    names, other_names = (
        kind.names(data, trial_of_pair.loading.config) for trial_of_pair in (trial, second_trial)
    )

    def shown(index: int) -> ComparedExample:
        example = data.examples[index]
        label = cut(kind.text(example, trial.targets[index], names))
        return ComparedExample(
            example=shown_example(example, label),
            answer=cut(kind.text(example, outcome.answers[index], names)),
            other=cut(kind.text(example, second_outcome.answers[index], other_names)),
        )

    shown_verdicts = (AnswerVerdict.LOST, AnswerVerdict.GAINED, AnswerVerdict.BOTH_WRONG)
    indices = {
        verdict: _shown_indices(verdict_N == verdict, change_N) for verdict in shown_verdicts
    }
    return ExamplesCompared(
        task=data.name,
        kind=data.kind,
        metric=metric,
        model=name,
        other=second_trial.subject.name,
        counts={verdict: int((verdict_N == verdict).sum()) for verdict in AnswerVerdict},
        examples={verdict: tuple(map(shown, chosen)) for verdict, chosen in indices.items()},
    )


def _shown_indices(chosen_N: NDArray[np.bool_], change_N: NDArray[np.float64]) -> list[int]:
    """Indices of the first examples, or of those that changed most."""
    indices = np.flatnonzero(chosen_N)
    order = np.argsort(-change_N[indices], kind="stable")
    return [int(index) for index in indices[order][:MOST]]


PATIENCE: Final = 0.02
"""Seconds to wait for a word before other jobs may run."""


def tried(
    models: Models, question: TryInput, device: torch.device, kept: KeptModels
) -> Iterator[Event | None]:
    """Run the models one after another: TriedBegun, TriedText while one writes, then Tried.

    The models are the base, the experts that are asked, and the folders. They stay in ``kept``.
    Raises TaskError for invalid input; errors of one model are in its Tried.
    """
    task = question.task
    data = yield from _data(models, task, question)
    for subject in models.subjects():
        if not _is_asked(subject, models, question):
            continue
        yield TriedBegun(model=subject.name)
        yield None
        try:
            loading = models.loading(subject, task)
            require_kind(loading, data, subject)
            one = kept.evaluator(data, loading, device)
            yield from _asked(one, loading, subject.name, question)
        except WorkbenchError as error:
            yield Tried(model=subject.name, error=error.sentence)


def _is_asked(subject: Subject, models: Models, question: TryInput) -> bool:
    if subject.is_base:
        return question.with_base
    if subject.expert is None:
        return True
    if question.experts is None:
        owner = models.owner(question.task)
        return owner is not None and subject.expert == owner
    return subject.name in question.experts


def made_ready(
    models: Models, wanted: TryInput, device: torch.device, kept: KeptModels
) -> Iterator[None]:
    """Load the models that ``tried`` would run, as far as there is room, and let one write a token.

    A model that cannot be loaded is left to ``tried``, which reports it. Raises TaskError.
    """
    task = wanted.task
    data = yield from _data(models, task, wanted)
    for subject in models.subjects():
        if not _is_asked(subject, models, wanted):
            continue
        if not kept.has_room(device):
            return
        with suppress(WorkbenchError):
            loading = models.loading(subject, task)
            require_kind(loading, data, subject)
            one: Any = kept.evaluator(data, loading, device)
            if one.kind.traits.writes:
                one_token = replace(wanted, most_tokens=1)
                _write(one, [0], _Words(one.tokenizer), threading.Event(), one_token)
        yield None


def _asked(
    one: Evaluator, loading: Loading, model: str, question: TryInput
) -> Iterator[Event | None]:
    """The answer of one model."""
    if one.kind.traits.writes:
        yield from _writing(one, model, question)
    else:
        yield _answered(one, model, loading)


def _data(models: Models, task: Task, question: TryInput) -> Steps[TaskData]:
    """The one example: from the task's data, or given by the user."""
    reference = models.reference(task)
    if question.row:
        data = yield from read_task(task, reference, seed=SEED)
        matching = tuple(example for example in data.examples if example.row == question.row)
        if not matching:
            raise TaskError(f"{task.title} has no example {question.row!r} any more.")
        return replace(data, examples=matching[:1])
    table = Table(path=task.data, columns=(), rows=lambda _: iter(()), files=())
    kind = kind_of(task, reference, table)
    inputs: dict[str, Any] = {}
    if kind.has_pictures:
        if question.picture is None:
            raise TaskError(f"{task.title} needs a picture.")
        inputs[IMAGE] = picture_of(
            question.picture.parent, question.picture.name, question.picture.name
        )
    elif TOKENS in kind.traits.roles:
        inputs[TOKENS] = tuple(question.text.split())
    else:
        inputs[TEXT] = question.text
    if question.pair:
        inputs[PAIR] = question.pair
    example = Example(row="", inputs=inputs, label="")
    return TaskData(
        task=task,
        kind=kind,
        metric=metric_of(task, kind),
        columns={},
        table=table,
        examples=(example,),
    )


def _answered(loaded: Evaluator, model: str, loading: Loading) -> Tried:
    """Label probabilities, largest first; or the answer as text."""
    (example,) = loaded.data.examples
    names = loaded.names(loaded.data, loading.config)
    with torch.inference_mode():
        (pieces,) = loaded.pieces_of([example])
        inputs = {n: t[None].to(loaded.model.device) for n, t in pieces[0].inputs.items()}
        batch = Batch(inputs=inputs, notes=[pieces[0].note])
        logits_1C = loaded.logits(batch)
        if logits_1C is None:
            words = loaded.text(example, loaded.answer(loaded.run(batch)), names)
            return Tried(model=model, words=cut(words))
        share_C = logits_1C[0].double().softmax(dim=0).tolist()
    indices = loaded.label_indices
    pairs = ((names[index], share) for index, share in zip(indices, share_C, strict=True))
    return Tried(model=model, shares=tuple(sorted(pairs, key=lambda pair: -pair[1])))


# Writing


class _Words:
    """Receives tokens from ``generate`` in one thread; another reads the text."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.tokens: list[int] = []
        self._has_begun = False  # the first call contains the prompt
        self._sent = 0
        self.new_words: SimpleQueue[str] = SimpleQueue()

    def put(self, tokens: Tensor) -> None:
        """Decode all tokens again, as single ones lose spaces."""
        if not self._has_begun:
            self._has_begun = True
            return
        self.tokens += tokens.flatten().tolist()
        text = self._tokenizer.decode(self.tokens, skip_special_tokens=True)
        if not text.endswith("\ufffd"):  # half of a letter
            self.new_words.put(text[self._sent :])
            self._sent = len(text)

    def end(self) -> None:
        """The end of the text."""


def _writing(loaded: Any, model: str, asked_question: TryInput) -> Iterator[Event | None]:
    """Write in a thread, so that the engine still notices a cancellation."""
    (example,) = loaded.data.examples
    prompter = Prompter(loaded.data.task, loaded.tokenizer)
    text = prompter.text(example.inputs)
    questions = (prompter.text({TEXT: question}) for question in asked_question.questions)
    earlier = tuple(zip(questions, asked_question.answers.get(model, ()), strict=False))
    tokens = prompter.tokens(text, earlier, **({} if prompter.chat else loaded.cut_off))
    words = _Words(loaded.tokenizer)
    stop = threading.Event()
    started = time.perf_counter()
    with ThreadPoolExecutor(1, "writing") as pool:
        writing = pool.submit(_write, loaded, tokens, words, stop, asked_question)
        try:
            while not (writing.done() and words.new_words.empty()):
                piece = None
                with suppress(Empty):
                    piece = words.new_words.get(timeout=PATIENCE)
                yield None if piece is None else TriedText(model=model, piece=piece)
        finally:
            stop.set()
    writing.result()
    yield Tried(
        model=model,
        chat=prompter.chat,
        tokens=len(words.tokens),
        seconds=time.perf_counter() - started,
        ending=_ending(loaded, words.tokens),
    )


def _ending(loaded: Any, tokens: Sequence[int]) -> Ending:
    """Why a model that was not stopped wrote no more."""
    ends = loaded.model.generation_config.eos_token_id
    end_tokens = ends if isinstance(ends, list) else [ends]
    return Ending.END_TOKEN if tokens and tokens[-1] in end_tokens else Ending.LENGTH


def _write(
    loaded: Any, tokens: list[int], words: _Words, stop: threading.Event, question: TryInput
) -> None:
    fill = loaded.tokenizer.pad_token_id
    token_1L = torch.tensor([tokens], device=loaded.model.device)
    room = question.most_tokens
    if loaded.longest is not None and not loaded.model.config.is_encoder_decoder:
        room = max(1, min(room, loaded.longest - len(tokens)))

    def stopped(_ids_NL: Tensor, _scores: Any, **_more: Any) -> Tensor:
        return torch.tensor([stop.is_set()], device=token_1L.device)

    torch.manual_seed(question.seed)
    with torch.inference_mode():
        loaded.model.generate(
            input_ids=token_1L,
            attention_mask=torch.ones_like(token_1L),
            max_new_tokens=room,
            do_sample=question.temperature > 0,
            temperature=question.temperature or None,
            top_k=None,
            top_p=None,
            num_beams=1,
            pad_token_id=loaded.tokenizer.eos_token_id if fill is None else fill,
            streamer=words,
            stopping_criteria=[stopped],
        )


_UNROUTED = frozenset({ModuleKind.TASK, ModuleKind.SURGERY})


def routed(models: Models, tasks: Sequence[Task], device: str = "auto") -> Iterator[Event | None]:
    """Run the folders with routers on every task: EvaluationProgress, then RoutesFound.

    Raises the errors of ``evaluate``.
    """
    where = resolve_device(device)
    routes = list[TaskRoutes]()
    every_trial = yield from all_trials(models, tasks)
    trials = [
        trial
        for trial in every_trial
        if trial.loading.modules is not None and trial.loading.modules.kind not in _UNROUTED
    ]
    total = 2 * sum(len(trial.data.examples) for trial in trials)
    done = 0
    seconds = dict[tuple[str, str], float]()
    loaded = Loaded(where)
    for with_modules in (False, True):  # one model after the other, to load each rarely
        for trial in trials:
            key = trial.subject.name, trial.data.name
            routed_evaluator = loaded.evaluator(
                trial.data, _loading(trial, with_modules=with_modules)
            )
            means = (
                [_Mean(router) for router in routers_of(routed_evaluator.model)]
                if with_modules
                else []
            )
            started = time.perf_counter()
            for step in answered(routed_evaluator):
                if isinstance(step, int):
                    yield progress_of(trial, done + step, total)
            duration = (time.perf_counter() - started) / max(len(trial.data.examples), 1)
            done += len(trial.data.examples)
            if with_modules:
                routes.append(_routes(trial, models, means, duration, seconds[key]))
            else:
                seconds[key] = duration
    yield RoutesFound(routes=tuple(routes))


def _loading(trial: Trial, *, with_modules: bool) -> Loading:
    """The source of a routed model, which is the same model for every task."""
    modules = trial.loading.modules
    assert modules is not None
    return replace(trial.loading, modules=replace(modules, expert=None) if with_modules else None)


class _Mean:
    """The mean of one router's weights over examples, each averaged over its tokens."""

    def __init__(self, router: ObservedRouter) -> None:
        self.location = router.location
        self.experts = router.experts
        self._total = torch.zeros(len(self.experts), dtype=torch.float64)
        self._count = 0
        router.seen = self._add

    def _add(self, share: Tensor) -> None:
        self._total += share.reshape(-1, share.shape[-1]).double().mean(dim=0).cpu()
        self._count += 1

    def of(self, experts: Sequence[str]) -> tuple[float, ...]:
        """The mean by expert; 0 for experts without a part in the layer."""
        means = (self._total / max(self._count, 1)).tolist()
        by_expert = dict(zip(self.experts, means, strict=True))
        return tuple(by_expert.get(name, 0.0) for name in experts)


def _routes(
    trial: Trial, models: Models, means: Sequence[_Mean], seconds: float, plain_seconds: float
) -> TaskRoutes:
    experts = tuple(dict.fromkeys(name for mean in means for name in mean.experts))
    names = None if models.opened is None else models.opened.recipe.expert_names
    return TaskRoutes(
        model=trial.subject.name,
        task=trial.data.name,
        owner=None if names is None or trial.owner is None else names[trial.owner],
        layers=tuple(mean.location for mean in means),
        experts=experts,
        share_LT=tuple(mean.of(experts) for mean in means),
        n=len(trial.data.examples),
        seconds=seconds,
        plain_seconds=plain_seconds,
        module_bytes=(trial.loading.folder / MODULES).stat().st_size,
    )
