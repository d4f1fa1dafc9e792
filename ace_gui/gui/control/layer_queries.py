"""Asks the engine only for what the visible panel shows about the selected layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import Event, Job, JobDone
from ace_gui.engine.contract.findings import (
    ExpertSpectra,
    LayerCovariances,
    LayerDifference,
    LayerDistribution,
    LayerSpectrum,
    LayerSubspaces,
)
from ace_gui.engine.contract.jobs import (
    DifferenceJob,
    DistributionJob,
    LayerCovariancesJob,
    SpectrumJob,
    SubspacesJob,
)
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.gui.control.engine_client import End, EngineClient, Operation
from ace_gui.gui.state.activity import ActivityState, RecipeKey
from ace_gui.gui.state.results import Finding
from ace_gui.gui.state.session import Session

DELAY: Final = 80  # ms; skips the selections and values on the way to the one that the user wants


@dataclass(frozen=True)
class Question:
    """A query about a layer. ``keys`` maps each kind of finding to the key of its answer."""

    name: str
    keys: Mapping[type, RecipeKey]
    job: Job = field(compare=False)


class _Answers(Operation):
    """Sends the answers to the session, and findings there under their ``keys``."""

    keys: Mapping[type, RecipeKey] = MappingProxyType({})

    def take(self, event: Event) -> None:
        if isinstance(event, LayerDifference):
            self._session.results.comparison.record(event)
        elif isinstance(event, Finding) and type(event) in self.keys:
            self._session.results.findings.record(self.keys[type(event)], event)


class LatestQuestion(_Answers):
    """Sends the query that ``find`` returns after a short pause and once no plan is running.

    Errors go to the session too, unless it is ``quiet``.
    """

    def __init__(
        self, engine: EngineClient, find: Callable[[], Question | None], *, quiet: bool = False
    ) -> None:
        super().__init__(engine)
        self._find = find
        self._quiet = quiet
        self._question: Question | None = None
        self._timer = engine.delayed(DELAY, self._ask)
        self._planning = False
        self._session.activity.changed.connect(self._ask_after_planning)
        self.ask = self._timer.start
        """Check again which query is needed."""

    def _ask(self) -> None:
        # The recipe may be rejected until it is planned. The end of planning asks again.
        activity = self._session.activity
        unsettled = activity.plan_is_due or activity.is_running(ActivityState.PLANNING)
        if unsettled:
            question = None
        else:
            question = self._find()
        if question is not None and question == self._question and self.is_running:
            return
        self.drop()
        if question is not None:
            self._question = question
            self.keys = question.keys
            self.run(question.job, quiet=self._quiet)

    def _ask_after_planning(self) -> None:
        before = self._planning
        self._planning = self._session.activity.is_running(ActivityState.PLANNING)
        if before and not self._planning:
            self.ask()


Kind = type[Finding] | type[LayerDifference]


class LayerQueries(QObject):
    """Runs at most one query of each kind about a layer, and one about all layers, at a time.

    Spectra are always wanted. ``awaited`` carries a kind of finding and whether its answer is still
    missing.
    """

    awaited = Signal(object, bool)

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self._session = engine.session
        self._engine = engine
        session = engine.session
        self._kinds: set[Kind] = set()
        self._whole_model = _Answers(engine)
        self._whole_model.changed.connect(lambda: self._emit_awaited(LayerDifference))
        self._latest: dict[type, LatestQuestion] = {}
        for kind in _QUESTIONS:
            self._latest[kind] = LatestQuestion(engine, partial(self._find, kind))
            self._latest[kind].changed.connect(lambda kind=kind: self._emit_awaited(kind))
        runs = session.results.runs
        for signal in (session.selection_changed, session.draft.changed, runs.changed):
            signal.connect(self._ask)
        session.results.comparison.wanted.connect(self._compare)
        session.finding_wanted.connect(self.want)
        session.spectra_wanted.connect(self.find_spectra)

    def want(self, kind: Kind, visible: bool) -> None:
        """Set whether a visible panel shows findings of this kind."""
        (self._kinds.add if visible else self._kinds.discard)(kind)
        self._latest[kind].ask()

    def _ask(self) -> None:
        for latest in self._latest.values():
            latest.ask()

    def _find(self, kind: type) -> Question | None:
        session = self._session
        if session.selection:
            row = session.layers.row(session.selection)
        else:
            row = None
        is_listed = kind is LayerSpectrum or kind in self._kinds
        if row is not None and is_listed:
            return _question(kind, session, row)
        return None

    def _emit_awaited(self, kind: type) -> None:
        waits_for_whole = kind is LayerDifference and self._whole_model.is_running
        self.awaited.emit(kind, waits_for_whole or self._latest[kind].is_running)

    def find_spectra(
        self, rows: Sequence[PlanRow], use: Callable[[list[LayerSpectrum]], object]
    ) -> None:
        """Compute the spectra of these layers, one after another, and pass them to ``use``. If one
        fails or is cancelled, ``use`` gets none."""
        spectra = {row.name: self._session.spectrum(row.name) for row in rows}
        candidates = (_question(LayerSpectrum, self._session, row) for row in rows)
        questions = [question for question in candidates if question is not None]

        def answer(event: Event) -> None:
            if isinstance(event, LayerSpectrum):
                spectra[event.name] = event

        def run_next(end: End | None = None) -> None:
            if end is not None and not isinstance(end, JobDone):
                use([])
            elif questions:
                self._engine.run(questions.pop(0).job, answer, run_next)
            else:
                use([spectrum for spectrum in spectra.values() if spectrum is not None])

        run_next()

    # Two complete merges

    def _compare(self) -> None:
        self._whole_model.drop()
        self._latest[LayerDifference].drop()
        pair = self._session.results.comparison.pair
        if pair is not None:
            job = DifferenceJob(first=pair[0].store, second=pair[1].store)
            self._whole_model.run(job, quiet=False)
        self._latest[LayerDifference].ask()


# Each function returns the query about a layer, or None if there is no answer.


def _spectrum(session: Session, row: PlanRow) -> Question | None:
    if session.must_learn or not session.layers.has_spectrum(row):
        return None
    draft = session.draft
    key = draft.recipe_key()
    recipe = draft.inputs.recipe()
    store = session.results.runs.store_of(key)
    job = SpectrumJob(recipe=recipe, row=row, device=session.device, store=store)
    keys = {LayerSpectrum: key, ExpertSpectra: draft.models_key()}
    return Question(row.name, keys, job)


def _subspaces(session: Session, row: PlanRow) -> Question | None:
    if session.must_learn or not session.layers.has_spectrum(row):
        return None
    draft = session.draft
    job = SubspacesJob(recipe=draft.inputs.recipe(), row=row, device=session.device)
    return Question(row.name, {LayerSubspaces: draft.recipe_key()}, job)


def _distribution(session: Session, row: PlanRow) -> Question | None:
    if not row.experts:
        return None
    draft = session.draft
    job = DistributionJob(recipe=draft.inputs.recipe(), row=row)
    return Question(row.name, {LayerDistribution: draft.models_key()}, job)


def _covariances(session: Session, row: PlanRow) -> Question | None:
    if not session.layers.has_spectrum(row):
        return None
    recipe = session.draft.inputs.recipe()
    if recipe.without_calibration:
        return None
    job = LayerCovariancesJob(recipe=recipe, row=row, device=session.device)
    return Question(row.name, {LayerCovariances: session.draft.measured_key()}, job)


def _difference(session: Session, row: PlanRow) -> Question | None:
    pair = session.results.comparison.pair
    if pair is None or row.name in session.results.comparison.spectra or len(row.shape) != 2:
        return None
    first, second = (run.store for run in pair)
    job = DifferenceJob(first=first, second=second, row=row)
    return Question(row.name, {LayerDifference: (first, second)}, job)


_QUESTIONS: Final[dict[type, Callable[[Session, PlanRow], Question | None]]] = {
    LayerSpectrum: _spectrum,
    LayerSubspaces: _subspaces,
    LayerDistribution: _distribution,
    LayerCovariances: _covariances,
    LayerDifference: _difference,
}


def _question(kind: type, session: Session, row: PlanRow) -> Question | None:
    """The query that a layer needs, or None if its answer is known or impossible."""
    question = _QUESTIONS[kind](session, row)
    if question is None or kind is LayerDifference:
        return question
    finding = session.results.findings.get(kind, row.name, question.keys[kind])
    if finding is None:
        return question
    return None
