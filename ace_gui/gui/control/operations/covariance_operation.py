"""Comparison of ACE's covariances with those of the experts' inputs, for all matrices."""

from __future__ import annotations

from ace_gui.engine.contract.events import Event
from ace_gui.engine.contract.figures.covariance_match import CovariancesCompared
from ace_gui.engine.contract.jobs import CovariancesJob
from ace_gui.gui.control.operations.one_operation import OneOperation
from ace_gui.gui.state.activity import RecipeKey


class CovarianceOperation(OneOperation):
    """The results are kept with the session's findings.

    ``finished`` is the key of the models and inputs whose matrices are all compared.
    """

    finished: RecipeKey | None = None
    _key: RecipeKey = ()

    def start(self) -> None:
        """Measure every expert's inputs and compare, beginning with the selected matrix."""
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
        """Keep one more matrix."""
        if isinstance(event, CovariancesCompared):
            if event.layer is not None:
                self._session.results.findings.record(self._key, event.layer)
            self.finished = self._key if event.done == event.total else None
