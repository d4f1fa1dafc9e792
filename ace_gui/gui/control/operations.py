"""The jobs of the pages: try, tune, route. One of each kind runs at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ace_gui.engine.contract.events import (
    CovariancesCompared,
    EvaluationProgress,
    Event,
)
from ace_gui.engine.contract.jobs import (
    CovariancesJob,
    MakeReadyJob,
    RoutesJob,
    TryJob,
    TuneJob,
)
from ace_gui.engine.contract.scored import ParameterRange, TunePoint
from ace_gui.engine.contract.tried import Ending, Tried, TriedBegun, TriedText
from ace_gui.formatting import counted
from ace_gui.gui.control.engine_client import EngineClient, Operation
from ace_gui.gui.state.activity import ActivityState, MergeRun, Progress, RecipeKey
from ace_gui.gui.state.session import NO_MODEL, WAIT


@dataclass(frozen=True, kw_only=True)
class ModelAnswer:
    """A model's answer so far."""

    text: str = ""
    """What it has written so far."""

    earlier: str = ""
    """The conversation before this answer."""

    chat: bool = False
    """Whether the model used its chat template."""

    shares: tuple[tuple[str, float], ...] = ()
    """By label, largest first."""

    error: str = ""
    """Why it could not answer."""

    is_done: bool = False
    """Whether the answer is complete."""

    tokens: int = 0
    """Number of tokens so far."""
    seconds: float = 0.0
    """Time so far."""

    ending: Ending | None = None
    """Why it wrote no more."""

    @property
    def facts(self) -> str:
        """How much was written, how fast, and why no more."""
        if not self.tokens:
            return ""
        if self.seconds:
            speed = self.tokens / self.seconds
        else:
            speed = 0.0
        parts = [counted(self.tokens, "token", "tokens"), f"{speed:.1f} tokens/s"]
        if self.ending is not None:
            parts.append(self.ending.value)
        return " · ".join(parts)


class TryOperation(Operation):
    """Runs models on one input. ``by_model``: the answer of each model, in the order of the run.

    If a model uses its chat template, the next text continues the conversation. ``questions``: the
    earlier texts of the conversation.
    """

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self.by_model: dict[str, ModelAnswer] = {}
        self.questions: tuple[str, ...] = ()
        self._answers: dict[str, tuple[str, ...]] = {}
        self._ready_key: tuple[object, ...] = ()
        """The models that were loaded ahead."""

    @property
    def obstacle(self) -> str:
        """The reason why no input can be tried now, or an empty string."""
        if self._session.draft.plan is None:
            return NO_MODEL
        if self._session.activity.is_writing:
            return WAIT
        return ""

    def forget(self) -> None:
        """Begin a new conversation."""
        self.by_model = {}
        self.questions = ()
        self._answers = {}
        self.job = None
        self.changed.emit()

    def make_ready(self, job: TryJob) -> None:
        """Load the models of a job before it is started, while the question is typed."""
        key = (job.recipe, job.task, job.stores, job.experts, job.with_base, job.device)
        if self.obstacle or self.is_running or key == self._ready_key:
            return
        self._ready_key = key
        self._engine.drop(MakeReadyJob)
        self._engine.run(MakeReadyJob(**vars(job)), quiet=True)

    def start(self, job: TryJob) -> None:
        """Run the merges, the base and the experts. Another task begins a new conversation."""
        if self.obstacle:
            return
        self._engine.drop(MakeReadyJob)
        subject = (job.task, job.stores)
        earlier = self.job
        if job.row or job.picture or earlier is None or (earlier.task, earlier.stores) != subject:
            self.questions = ()
            self._answers = {}
        self.by_model = {}
        self.run(replace(job, questions=self.questions, answers=self._answers))

    def again(self) -> None:
        """Ask the latest question once more, instead of its answers so far."""
        job = self.job
        if job is None or self.obstacle or self.is_running:
            return
        self.questions = job.questions
        self._answers = dict(job.answers)
        self.by_model = {}
        self.run(job)

    def take(self, event: Event) -> None:
        match event:
            case TriedBegun(model=model):
                turns = zip(self.questions, self._answers.get(model, ()), strict=False)
                earlier = "".join(f"▸ {question}\n{answer}\n\n" for question, answer in turns)
                self.by_model[model] = ModelAnswer(earlier=earlier)
            case TriedText(model=model, piece=piece):
                answered = self.by_model[model]
                self.by_model[model] = replace(answered, text=answered.text + piece)
            case Tried(model=model):
                answered = self.by_model[model]
                self.by_model[model] = replace(
                    answered,
                    text=answered.text or event.words,
                    shares=event.shares,
                    error=event.error,
                    chat=event.chat,
                    tokens=event.tokens,
                    seconds=event.seconds,
                    ending=event.ending,
                    is_done=True,
                )

    def end(self) -> None:
        """Add complete answers to the conversation."""
        job = self.job
        answers = self.by_model.values()
        complete = all(answer.is_done for answer in answers) and any(
            answer.chat for answer in answers
        )
        if job is not None and complete and not job.row:
            self.questions = (*self.questions, job.text)
            self._answers = {
                model: (*self._answers.get(model, ()), answer.text)
                for model, answer in self.by_model.items()
            }
        self.by_model = {
            model: replace(answer, is_done=True) for model, answer in self.by_model.items()
        }


REPORTED: Final = 2
"""Merges after a search's trials: the best and the original recipe, on the data's other half."""


class CovarianceOperation(Operation):
    """Compares ACE's covariances with measured ones. The results go to the session's findings.

    ``finished``: the key of the models and inputs of which all matrices are compared.
    """

    finished: RecipeKey | None = None
    _key: RecipeKey = ()

    def start(self) -> None:
        """Measure every expert's inputs and compare them, the selected matrix first."""
        session = self._session
        if self.is_running or session.draft.plan is None:
            return
        self._key = session.draft.measured_key()
        self.finished = None
        self.run(
            CovariancesJob(
                recipe=session.draft.inputs.recipe(),
                first=session.selection or "",
                device=session.device,
            )
        )

    def take(self, event: Event) -> None:
        if isinstance(event, CovariancesCompared):
            if event.layer is not None:
                self._session.results.findings.record(self._key, event.layer)
            if event.done == event.total:
                self.finished = self._key
            else:
                self.finished = None


class RoutingOperation(Operation):
    """Finds which experts a finished merge uses on the tasks."""

    @property
    def obstacle(self) -> str:
        """The reason why nothing can be computed, or an empty string."""
        if not self._session.draft.inputs.tasks:
            return "Add a task first."
        routing = [method.title for method in self._session.draft.methods if method.routes]
        if self.merges or not routing:
            return ""
        methods = ", ".join(routing)
        return f"No merge here has a router. Merge with one of these methods: {methods}."

    @property
    def merges(self) -> list[MergeRun]:
        """The finished merges that have a router."""
        routing = {method.name for method in self._session.draft.methods if method.routes}
        runs = self._session.results.runs.all
        return [run for run in runs if run.recipe.merge_method in routing]

    def start(self, store: Path, limit: int | None) -> None:
        """Run a finished merge on the tasks. Earlier routes are dropped."""
        if self.obstacle or self.is_running:
            return
        job = RoutesJob(
            recipe=self._session.draft.inputs.recipe(),
            stores=(store,),
            limit=limit,
            device=self._session.device,
        )
        self.run(job)

    def take(self, event: Event) -> None:
        if isinstance(event, EvaluationProgress):
            self._session.activity.complete(title=f"computing the routes of {event.task}")


class TuneOperation(Operation):
    """Searches parameters, with a TunePoint for every merge so far, and a Tuned at the end."""

    @property
    def obstacle(self) -> str:
        """The reason why no search can start, or an empty string."""
        session = self._session
        if not session.draft.inputs.tasks:
            return "Add a task first."
        return session.merge_obstacle

    def start(
        self, ranges: Sequence[ParameterRange], merges: int | None, limit: int | None
    ) -> None:
        """Search in these ranges of parameters. The trials of an earlier search are dropped."""
        if self.obstacle or self.is_running or not ranges:
            return
        job = TuneJob(
            recipe=self._session.draft.inputs.recipe(),
            ranges=tuple(ranges),
            merges=merges,
            limit=limit,
            device=self._session.device,
            cluster=self._session.cluster,
        )
        self.run(job)

    def take(self, event: Event) -> None:
        if isinstance(event, TunePoint):
            counts = {"done": event.index + 1, "total": event.of + REPORTED}
            progress = Progress(state=ActivityState.TUNING, title="tuning", **counts)
            self._session.activity.set_progress(progress)
