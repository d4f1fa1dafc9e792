"""Answers of models to one text or picture, for *Try it*; words appear as they are made."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.engine.contract.events import Event
from ace_gui.engine.contract.tried import Ending, Tried, TriedBegun, TriedText, TryInput
from ace_gui.engine.evaluating.evaluate import SEED
from ace_gui.engine.evaluating.evaluators import Batch, Evaluator
from ace_gui.engine.evaluating.examples import kind_of, metric_of, read_task
from ace_gui.engine.evaluating.kept_models import KeptModels
from ace_gui.engine.evaluating.kinds import require_kind
from ace_gui.engine.evaluating.language_kinds import Prompter
from ace_gui.engine.evaluating.shown_answers import cut
from ace_gui.engine.evaluating.subjects import Loading, Models, Subject
from ace_gui.engine.evaluating.task_data import (
    Example,
    Table,
    TaskData,
    picture_of,
)
from ace_gui.errors import TaskError, WorkbenchError
from ace_gui.recipe.task_kinds import IMAGE, PAIR, TEXT, TOKENS
from ace_gui.recipe.values import Task
from ace_gui.steps import Steps

PATIENCE: Final = 0.02
"""Seconds to wait for a word before other jobs may run."""


def tried(
    models: Models, question: TryInput, device: torch.device, kept_models: KeptModels
) -> Iterator[Event | None]:
    """Run the models one after another: TriedBegun, TriedText while one writes, then Tried.

    The models are the folders first, then the base and the experts that are asked. They stay in
    ``kept_models``. Raises TaskError for invalid input; errors of one model are in its Tried.
    """
    data = yield from _data(models, question.task, question)
    for subject in _asked_subjects(models, question):
        yield TriedBegun(model=subject.name)
        yield None
        try:
            loading = _loading(models, subject, data)
            loaded = kept_models.evaluator(data, loading, device)
            yield from _asked(loaded, loading, subject.name, question)
        except WorkbenchError as error:
            yield Tried(model=subject.name, error=error.sentence)


def _asked_subjects(models: Models, question: TryInput) -> list[Subject]:
    """The models in the order in which they are asked: merges first, as they are what is tried."""
    asked = [subject for subject in models.subjects() if _is_asked(subject, models, question)]
    return sorted(asked, key=lambda subject: subject.is_base or subject.expert is not None)


def _is_asked(subject: Subject, models: Models, question: TryInput) -> bool:
    if subject.is_base:
        return question.with_base
    if subject.expert is None:
        return True
    if question.experts is None:
        owner = models.owner(question.task)
        return owner is not None and subject.expert == owner
    return subject.name in question.experts


def _loading(models: Models, subject: Subject, data: TaskData) -> Loading:
    """How a model is loaded for the task. Raises TaskError for one of another kind."""
    loading = models.loading(subject, data.task)
    require_kind(loading, data, subject)
    return loading


def made_ready(
    models: Models, question: TryInput, device: torch.device, kept_models: KeptModels
) -> Iterator[None]:
    """Load the models that ``tried`` would run, as far as there is room, and let one write a token.

    A model that cannot be loaded is left to ``tried``, which reports it. Raises TaskError.
    """
    data = yield from _data(models, question.task, question)
    for subject in _asked_subjects(models, question):
        if not kept_models.has_room(device):
            return
        with suppress(WorkbenchError):
            loaded: Any = kept_models.evaluator(data, _loading(models, subject, data), device)
            if loaded.kind.traits.writes:
                one_token = replace(question, most_tokens=1)
                _write(loaded, [0], _WordStream(loaded.tokenizer), threading.Event(), one_token)
        yield None


def _asked(
    loaded: Evaluator, loading: Loading, model: str, question: TryInput
) -> Iterator[Event | None]:
    """The answer of one model."""
    if loaded.kind.traits.writes:
        yield from _writing(loaded, model, question)
    else:
        yield _answered(loaded, model, loading)


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


class _WordStream:
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
    words = _WordStream(loaded.tokenizer)
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
    loaded: Any, tokens: list[int], words: _WordStream, stop: threading.Event, question: TryInput
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
