"""ACE's covariances beside those of the experts' inputs, in all matrices, as the engine says it."""

from __future__ import annotations

from PySide6.QtCore import QObject

from ace_gui.engine.contract.events import Event, PassProgress
from ace_gui.engine.contract.figures.covariance_match import CovariancesCompared
from ace_gui.engine.contract.jobs import CovariancesJob
from ace_gui.gui.control.engine.engine_client import EngineClient
from ace_gui.gui.control.operations.one_operation import OneOperation
from ace_gui.gui.state.activity import Progress, RecipeKey, State
from ace_gui.gui.state.session import Session


class CovarianceOperation(OneOperation):
    """What it learns is kept with the findings of the session.

    ``finished``: of which models and inputs all matrices are compared.
    """

    def __init__(
        self, session: Session, engine: EngineClient, parent: QObject | None = None
    ) -> None:
        super().__init__(session, engine, parent)
        self._key: RecipeKey = ()
        self.finished: RecipeKey | None = None

    def start(self) -> None:
        """Measure the inputs of every expert and compare, the selected matrix first."""
        session = self._session
        if self.is_running or session.draft.plan is None:
            return
        self._key, self.finished = session.draft.measured_key(), None
        self._begin(
            CovariancesJob(
                recipe=session.draft.inputs.recipe(),
                first=session.selection or "",
                device=session.device,
            ),
            quiet=True,
        )

    def take(self, event: Event) -> None:
        """How far it is, or one matrix more."""
        match event:
            case PassProgress(title=title, done=done, total=total):
                self._tell(title, done, total)
            case CovariancesCompared(layer=layer, done=done, total=total):
                if layer is not None:
                    self._session.results.findings.record(self._key, layer)
                self._tell("comparing covariances", done, total)
                self.finished = self._key if done == total else None

    def _tell(self, said: str, done: int, total: int) -> None:
        progress = Progress(state=State.COMPARING, done=done, total=total, title=said)
        self._session.activity.set_progress(progress)
