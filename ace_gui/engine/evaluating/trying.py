"""Tries one text or picture on several models: label probabilities, or text as it is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.engine.contract.events import Event
from ace_gui.engine.contract.scored.shown_examples import Tried, TriedBegun, TriedText, TryInput
from ace_gui.engine.evaluating.askers import Asker, Batch
from ace_gui.engine.evaluating.data.images import picture_of
from ace_gui.engine.evaluating.data.table import Table
from ace_gui.engine.evaluating.displayed import answer_names, answer_text
from ace_gui.engine.evaluating.evaluate import SEED
from ace_gui.engine.evaluating.examples import kind_of, metric_of, read_task
from ace_gui.engine.evaluating.kinds.every_kind import KINDS, asker, require_kind
from ace_gui.engine.evaluating.kinds.prompts import Prompter
from ace_gui.engine.evaluating.loaded_models import load
from ace_gui.engine.evaluating.subjects import Loading, Models
from ace_gui.engine.evaluating.task_data import IMAGE, PAIR, TEXT, TOKENS, Example, TaskData
from ace_gui.errors import TaskError, WorkbenchError
from ace_gui.recipe.tasks import Task
from ace_gui.steps import Steps

PATIENCE: Final = 0.02
"""Seconds to wait for a word before other jobs may run."""


def tried(models: Models, wanted: TryInput, device: torch.device) -> Iterator[Event | None]:
    """Run each model in turn, one in memory: TriedBegun, TriedText while it writes, Tried.

    The models are the base, the expert of the task, and the folders. Raises TaskError for invalid
    input; errors of one model are in its Tried.
    """
    task, name = wanted.task, wanted.task.title
    owner = models.owner(task, name)
    data = yield from _data(models, task, wanted)
    for subject in models.subjects():
        if subject.expert is not None and subject.expert != owner:
            continue
        yield TriedBegun(model=subject.name)
        yield None
        try:
            loading = models.loading(subject, task, name)
            require_kind(loading, data, subject)
            yield from _asked(data, loading, subject.name, wanted, device)
        except WorkbenchError as error:
            yield Tried(model=subject.name, error=error.sentence)


def _asked(
    data: TaskData, loading: Loading, model: str, wanted: TryInput, device: torch.device
) -> Iterator[Event | None]:
    """Load one model, yield its answer, and release it."""
    one = asker(data, loading, load(loading, device))
    if one.writes:
        yield from _writing(one, model, wanted)
    else:
        yield _answered(one, model, loading)


def _data(models: Models, task: Task, wanted: TryInput) -> Steps[TaskData]:
    """The one example: from the task's data, or given by the user."""
    reference = models.reference(task, task.title)
    if wanted.row:
        data = yield from read_task(task, task.title, reference, limit=None, seed=SEED)
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
        name=task.title,
        kind=kind,
        metric=metric_of(task, kind),
        columns={},
        table=table,
        examples=(example,),
    )


def _answered(one: Asker, model: str, loading: Loading) -> Tried:
    """Label probabilities, largest first; or the answer as text."""
    (example,) = one.data.examples
    names = answer_names(one.data, loading.config)
    with torch.inference_mode():
        (pieces,) = one.pieces_of([example])
        inputs = {n: t[None].to(one.model.device) for n, t in pieces[0].inputs.items()}
        batch = Batch(inputs=inputs, notes=[pieces[0].note])
        logits_1C = one.logits(batch)
        if logits_1C is None:
            output = one.answer(one.ask(batch))
            return Tried(model=model, words=answer_text(one.data, example, output, names))
        share_C = logits_1C[0].double().softmax(dim=0).tolist()
    indices = one.label_indices
    pairs = ((names[index], share) for index, share in zip(indices, share_C, strict=True))
    return Tried(model=model, shares=tuple(sorted(pairs, key=lambda pair: -pair[1])))


# Writing


class _Stopped(Exception):  # noqa: N818  (no error)
    """The user has stopped the writing."""


class _Words:
    """Receives tokens from ``generate``: one thread writes, another reads."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        self._shown = ""
        self._begun = False
        self.found: SimpleQueue[str | None] = SimpleQueue()
        self.stop = threading.Event()

    def put(self, tokens: Tensor) -> None:
        """The first call contains the prompt."""
        if self.stop.is_set():
            raise _Stopped
        if not self._begun:
            self._begun = True
            return
        self._tokens += tokens.flatten().tolist()
        text = self._tokenizer.decode(self._tokens, skip_special_tokens=True)
        if not text.endswith("\ufffd"):  # half of a letter
            self.found.put(text[len(self._shown) :])
            self._shown = text

    def end(self) -> None:
        """The end of the text."""


def _writing(one: Any, model: str, wanted: TryInput) -> Iterator[Event | None]:
    """Write in a thread, so that the engine still notices a cancellation."""
    (example,) = one.data.examples
    prompter = Prompter(one.data.task, one.tokenizer)
    text = prompter.text(example.given)
    asked = (prompter.text({TEXT: question}) for question in wanted.questions)
    earlier = tuple(zip(asked, wanted.answers.get(model, ()), strict=False))
    plain = not prompter.chat
    tokens = prompter.tokens(text, earlier, **(one.cut_off if plain else {}))
    token_1L = torch.tensor([tokens], device=one.model.device)
    given = {"input_ids": token_1L, "attention_mask": torch.ones_like(token_1L)}
    words, failed = _Words(one.tokenizer), list[BaseException]()
    thread = threading.Thread(
        target=_write, args=(one, given, words, wanted, failed), name="writing"
    )
    thread.start()
    try:
        while True:
            try:
                piece = words.found.get(timeout=PATIENCE)
            except Empty:
                yield None
                continue
            if piece is None:
                break
            yield TriedText(model=model, piece=piece)
    finally:
        words.stop.set()
        thread.join()
    if failed:
        raise failed[0]
    yield Tried(model=model, chat=prompter.chat)


def _write(
    one: Any, given: dict[str, Tensor], words: _Words, wanted: TryInput, failed: list[BaseException]
) -> None:
    fill = one.tokenizer.pad_token_id
    room = wanted.most_tokens
    if one.longest is not None and not one.model.config.is_encoder_decoder:
        room = max(1, min(room, one.longest - given["input_ids"].shape[1]))
    try:
        torch.manual_seed(wanted.seed)
        with torch.inference_mode():
            one.model.generate(
                **given,
                max_new_tokens=room,
                do_sample=wanted.temperature > 0,
                temperature=wanted.temperature or None,
                top_k=None,
                top_p=None,
                num_beams=1,
                pad_token_id=one.tokenizer.eos_token_id if fill is None else fill,
                streamer=words,
            )
    except _Stopped:
        pass
    except Exception as error:
        failed.append(error)
    finally:
        words.found.put(None)
