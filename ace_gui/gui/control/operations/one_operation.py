"""Engine requests of which one runs at a time; one of them tries a single input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import Event, Job, JobFailed
from ace_gui.engine.contract.jobs import TryJob
from ace_gui.engine.contract.scored import Tried, TriedBegun, TriedText
from ace_gui.gui.control.engine.engine_client import End, EngineClient, RunningJob
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import NO_MODEL, WAIT
from ace_gui.recipe.values import Task


class OneOperation(QObject):
    """Base class that starts one job and keeps its results.

    ``error`` is the last failure. ``changed`` follows the start, each event and the end.
    """

    changed = Signal()

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self._session, self._engine = engine.session, engine
        self._operation: RunningJob | None = None
        self.error = ""

    @property
    def is_running(self) -> bool:
        return self._operation is not None

    def stop(self) -> None:
        """Stop at the next step and keep the results so far."""
        if self._operation is not None:
            self._operation.cancel()

    def take(self, event: Event) -> None:
        """Keep the content of an event."""
        raise NotImplementedError

    def end(self) -> None:
        """The job has ended in any way."""

    def _begin(self, job: Job, *, quiet: bool = False) -> None:
        """Start the job. ``quiet``: the view that shows ``error`` reports a failure."""
        if self._operation is not None:
            self._operation.drop()
        self.error = ""

        def receive(event: Event) -> None:
            self.take(event)
            self.changed.emit()

        def finish(end: End) -> None:
            self._operation = None
            self.error = end.error.sentence if isinstance(end, JobFailed) else ""
            self.end()
            self.changed.emit()

        self._operation = self._engine.run(job, receive, finish, quiet=quiet)
        self.changed.emit()


@dataclass(frozen=True, kw_only=True)
class ModelAnswer:
    """A model's answer so far; ``is_done``: the answer is complete.

    ``chat``: the model wrote in its chat template. ``earlier``: the conversation before.
    """

    text: str = ""
    earlier: str = ""
    chat: bool = False
    shares: tuple[tuple[str, float], ...] = ()
    error: str = ""
    is_done: bool = False


class TryOperation(OneOperation):
    """``by_model`` maps each model to its answer, in the order of the run.

    If a model writes in its chat template, the next text continues the conversation. ``questions``:
    those asked so far.
    """

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self.by_model: dict[str, ModelAnswer] = {}
        self.questions: tuple[str, ...] = ()
        self._answers: dict[str, tuple[str, ...]] = {}
        self._job: TryJob | None = None

    @property
    def obstacle(self) -> str:
        """The reason why no input can be tried now, or an empty string."""
        if self._session.draft.plan is None:
            return NO_MODEL
        return WAIT if self._session.activity.is_running(State.MERGING, State.EXPORTING) else ""

    def forget(self) -> None:
        """Begin a new conversation."""
        self.by_model, self.questions, self._answers, self._job = {}, (), {}, None
        self.changed.emit()

    def start(
        self,
        task: Task,
        stores: Sequence[Path],
        *,
        row: str = "",
        text: str = "",
        pair: str = "",
        picture: Path | None = None,
        seed: int = 0,
        temperature: float = 0.0,
        most_tokens: int = 120,
    ) -> None:
        """Run base, the task's expert and these merges. Another task is another conversation."""
        if self.obstacle:
            return
        before = self._job
        if row or picture or before is None or (before.task, before.stores) != (task, (*stores,)):
            self.questions, self._answers = (), {}
        self.by_model = {}
        job = TryJob(
            recipe=self._session.draft.inputs.recipe(),
            task=task,
            stores=tuple(stores),
            row=row,
            text=text,
            pair=pair,
            picture=picture,
            seed=seed,
            temperature=temperature,
            most_tokens=most_tokens,
            questions=self.questions,
            answers=self._answers,
            device=self._session.device,
        )
        self._job = job
        self._begin(job, quiet=True)

    def take(self, event: Event) -> None:
        match event:
            case TriedBegun(model=model):
                turns = zip(self.questions, self._answers.get(model, ()), strict=False)
                earlier = "".join(f"▸ {asked}\n{answer}\n\n" for asked, answer in turns)
                self.by_model[model] = ModelAnswer(earlier=earlier)
            case TriedText(model=model, piece=piece):
                known = self.by_model[model]
                self.by_model[model] = replace(known, text=known.text + piece)
            case Tried(model=model):
                known = self.by_model[model]
                self.by_model[model] = replace(
                    known,
                    text=known.text or event.words,
                    shares=event.shares,
                    error=event.error,
                    chat=event.chat,
                    is_done=True,
                )

    def end(self) -> None:
        """No more answers will follow; complete ones are part of the conversation."""
        job, answers = self._job, self.by_model.values()
        whole = all(each.is_done for each in answers) and any(each.chat for each in answers)
        if job is not None and whole and not job.row:
            self.questions = (*self.questions, job.text)
            self._answers = {
                model: (*self._answers.get(model, ()), answer.text)
                for model, answer in self.by_model.items()
            }
        self.by_model = {
            model: replace(answer, is_done=True) for model, answer in self.by_model.items()
        }
