"""Tries one text or picture on several models: label probabilities, or text as it is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.engine.contract.events import Event
from ace_gui.engine.contract.scored import Tried, TriedBegun, TriedText, TryInput
from ace_gui.engine.evaluating.data.images import picture_of
from ace_gui.engine.evaluating.data.table import Table
from ace_gui.engine.evaluating.evaluate import SEED
from ace_gui.engine.evaluating.evaluators import Batch, Evaluator
from ace_gui.engine.evaluating.examples import kind_of, metric_of, read_task
from ace_gui.engine.evaluating.kinds.every_kind import KINDS, evaluator, require_kind
from ace_gui.engine.evaluating.kinds.language import Prompter
from ace_gui.engine.evaluating.loaded_models import load
from ace_gui.engine.evaluating.shown_examples import cut
from ace_gui.engine.evaluating.subjects import Loading, Models
from ace_gui.engine.evaluating.task_data import IMAGE, PAIR, TEXT, TOKENS, Example, TaskData
from ace_gui.errors import TaskError, WorkbenchError
from ace_gui.recipe.values import Task
from ace_gui.steps import Steps

PATIENCE: Final = 0.02
"""Seconds to wait for a word before other jobs may run."""


def tried(models: Models, wanted: TryInput, device: torch.device) -> Iterator[Event | None]:
    """Run each model in turn, one in memory: TriedBegun, TriedText while it writes, Tried.

    The models are the base, the expert of the task, and the folders. Raises TaskError for invalid
    input; errors of one model are in its Tried.
    """
    task = wanted.task
    owner = models.owner(task)
    data = yield from _data(models, task, wanted)
    for subject in models.subjects():
        if subject.expert is not None and subject.expert != owner:
            continue
        yield TriedBegun(model=subject.name)
        yield None
        try:
            loading = models.loading(subject, task)
            require_kind(loading, data, subject)
            yield from _asked(data, loading, subject.name, wanted, device)
        except WorkbenchError as error:
            yield Tried(model=subject.name, error=error.sentence)


def _asked(
    data: TaskData, loading: Loading, model: str, wanted: TryInput, device: torch.device
) -> Iterator[Event | None]:
    """Load one model, yield its answer, and release it."""
    one = evaluator(data, loading, load(loading, device))
    if one.writes:
        yield from _writing(one, model, wanted)
    else:
        yield _answered(one, model, loading)


def _data(models: Models, task: Task, wanted: TryInput) -> Steps[TaskData]:
    """The one example: from the task's data, or given by the user."""
    reference = models.reference(task)
    if wanted.row:
        data = yield from read_task(task, reference, seed=SEED)
        found = tuple(example for example in data.examples if example.row == wanted.row)
        if not found:
            raise TaskError(f"{task.title} has no example {wanted.row!r} any more.")
        return replace(data, examples=found[:1])
    table = Table(path=task.data, columns=(), rows=lambda _: iter(()), files=())
    kind = kind_of(task, reference, table)
    given: dict[str, Any] = {}
    if IMAGE in KINDS[kind].roles:
        if wanted.picture is None:
            raise TaskError(f"{task.title} needs a picture.")
        given[IMAGE] = picture_of(wanted.picture.parent, wanted.picture.name, wanted.picture.name)
    elif TOKENS in KINDS[kind].roles:
        given[TOKENS] = tuple(wanted.text.split())
    else:
        given[TEXT] = wanted.text
    if wanted.pair:
        given[PAIR] = wanted.pair
    example = Example(row="", given=given, label="")
    return TaskData(
        task=task,
        kind=kind,
        metric=metric_of(task, kind),
        columns={},
        table=table,
        examples=(example,),
    )


def _answered(one: Evaluator, model: str, loading: Loading) -> Tried:
    """Label probabilities, largest first; or the answer as text."""
    (example,) = one.data.examples
    names = one.names(one.data, loading.config)
    with torch.inference_mode():
        (pieces,) = one.pieces_of([example])
        inputs = {n: t[None].to(one.model.device) for n, t in pieces[0].inputs.items()}
        batch = Batch(inputs=inputs, notes=[pieces[0].note])
        logits_1C = one.logits(batch)
        if logits_1C is None:
            words = one.text(example, one.answer(one.run(batch)), names)
            return Tried(model=model, words=cut(words))
        share_C = logits_1C[0].double().softmax(dim=0).tolist()
    indices = one.label_indices
    pairs = ((names[index], share) for index, share in zip(indices, share_C, strict=True))
    return Tried(model=model, shares=tuple(sorted(pairs, key=lambda pair: -pair[1])))


# Writing


class _Words:
    """Receives tokens from ``generate`` in one thread; another reads the text."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] | None = None  # the first call contains the prompt
        self._shown = 0
        self.found: SimpleQueue[str] = SimpleQueue()

    def put(self, tokens: Tensor) -> None:
        """Decode all tokens again, as single ones lose spaces."""
        if self._tokens is None:
            self._tokens = []
            return
        self._tokens += tokens.flatten().tolist()
        text = self._tokenizer.decode(self._tokens, skip_special_tokens=True)
        if not text.endswith("\ufffd"):  # half of a letter
            self.found.put(text[self._shown :])
            self._shown = len(text)

    def end(self) -> None:
        """The end of the text."""


def _writing(one: Any, model: str, wanted: TryInput) -> Iterator[Event | None]:
    """Write in a thread, so that the engine still notices a cancellation."""
    (example,) = one.data.examples
    prompter = Prompter(one.data.task, one.tokenizer)
    text = prompter.text(example.given)
    asked = (prompter.text({TEXT: question}) for question in wanted.questions)
    earlier = tuple(zip(asked, wanted.answers.get(model, ()), strict=False))
    tokens = prompter.tokens(text, earlier, **({} if prompter.chat else one.cut_off))
    words, stop = _Words(one.tokenizer), threading.Event()
    with ThreadPoolExecutor(1, "writing") as pool:
        writing = pool.submit(_write, one, tokens, words, stop, wanted)
        try:
            while not (writing.done() and words.found.empty()):
                piece = None
                with suppress(Empty):
                    piece = words.found.get(timeout=PATIENCE)
                yield None if piece is None else TriedText(model=model, piece=piece)
        finally:
            stop.set()
    writing.result()
    yield Tried(model=model, chat=prompter.chat)


def _write(
    one: Any, tokens: list[int], words: _Words, stop: threading.Event, wanted: TryInput
) -> None:
    fill = one.tokenizer.pad_token_id
    token_1L = torch.tensor([tokens], device=one.model.device)
    room = wanted.most_tokens
    if one.longest is not None and not one.model.config.is_encoder_decoder:
        room = max(1, min(room, one.longest - len(tokens)))

    def stopped(_ids_NL: Tensor, _scores: Any, **_more: Any) -> Tensor:
        return torch.tensor([stop.is_set()], device=token_1L.device)

    torch.manual_seed(wanted.seed)
    with torch.inference_mode():
        one.model.generate(
            input_ids=token_1L,
            attention_mask=torch.ones_like(token_1L),
            max_new_tokens=room,
            do_sample=wanted.temperature > 0,
            temperature=wanted.temperature or None,
            top_k=None,
            top_p=None,
            num_beams=1,
            pad_token_id=one.tokenizer.eos_token_id if fill is None else fill,
            streamer=words,
            stopping_criteria=[stopped],
        )
