"""Estimates how far the merge will move the model while the engine is idle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from ace_gui.engine.contract.events import Event, JobDone, MatrixTimed
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.contract.jobs import SampleMergesJob
from ace_gui.engine.contract.model_figures import Forecast, forecast
from ace_gui.engine.contract.plan import Plan
from ace_gui.gui.control.engine.engine_client import End, EngineClient, RunningJob
from ace_gui.gui.state.activity import RecipeKey

Reports = Mapping[str, LayerReport]

DELAY: Final = 500  # ms without any engine work


class Forecasting(QObject):
    """The expected change of the model.

    ``current`` is estimated from a few matrices before a merge and exact after it. It is None if
    nothing is known about the current inputs. ``changed`` carries each new value. Nothing is asked
    while other work runs or the figure is not visible, and any user action takes precedence.
    """

    changed = Signal(object)

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self._session, self._engine = engine.session, engine
        session = engine.session
        self._key: RecipeKey = ()
        self._reports: dict[str, LayerReport] = {}
        self._shown: tuple[Plan | None, Reports | None] = (None, None)
        self.current: Forecast | None = None
        self._operation: RunningJob | None = None
        self._is_visible = False
        self._times: dict[tuple[object, ...], float] = {}
        self._timer = QTimer(self, singleShot=True, interval=DELAY)
        self._timer.timeout.connect(self._ask)
        for part in (session.draft, session.results, session.activity):
            part.changed.connect(self._settle)
        session.layers.learnt.connect(lambda name: None if name else self._settle())
        engine.idle.connect(self._settle)

    def set_visible(self, is_visible: bool) -> None:
        """Set whether the figure is visible."""
        self._is_visible = is_visible
        self._settle()

    def estimate(self, method: str, report: Callable[[float], object]) -> RunningJob | None:
        """Estimate in seconds how long these models take with another method, or this one.

        ``report`` is called each time more is known. None if nothing is left to find.
        """
        inputs = self._session.draft.inputs.with_method(method)
        key = (method, inputs.base, inputs.experts)
        if key in self._times:
            report(self._times[key])
        others = len(self._engine.running(object)) - (self._operation is not None)
        if key in self._times or not self._session.can_merge or others:
            return None
        known: list[MatrixTimed] = []

        def receive(event: Event) -> None:
            if isinstance(event, MatrixTimed):
                known.append(event)
                seconds = sum(each.seconds for each in known)
                self._times[key] = seconds / sum(each.share for each in known)
                report(self._times[key])

        job = SampleMergesJob(recipe=inputs.recipe(), device=self._session.device)
        return self._engine.run(job, receive, quiet=True)

    def _settle(self) -> None:
        """Something changed: stop, and ask again once all is quiet."""
        key, busy = self._session.draft.recipe_key(), len(self._engine.running(object)) > 1
        if self._operation is not None and (key != self._key or busy or not self._is_visible):
            self._operation.drop()
            self._operation, self._key = None, ()
        if self._wanted():
            self._timer.start()
        else:
            self._timer.stop()
        self._show()

    def _show(self) -> None:
        """Publish the figure if it has changed."""
        session = self._session
        plan, reports = known = session.draft.plan, self._known()
        if plan is self._shown[0] and reports is self._shown[1]:
            return
        self._shown, self.current = known, None
        if plan is not None and reports is not None:
            self.current = forecast(plan, session.layers.statistics, reports)
        self.changed.emit(self.current)

    def _known(self) -> Reports | None:
        """The reports of the merge of the current inputs, once they are complete."""
        session = self._session
        unsettled = session.activity.plan_is_due or self._operation is not None
        if not session.layers.is_analysed or unsettled:
            return None
        if self._is_merged and session.results.merge is not None:
            return session.results.merge.reports
        return self._reports if self._key == session.draft.recipe_key() else None

    @property
    def _is_merged(self) -> bool:
        return self._session.results.is_merged and self._session.merge_is_current

    def _wanted(self) -> bool:
        session = self._session
        known = self._is_merged or self._key == session.draft.recipe_key()
        ready = session.can_merge and session.layers.is_analysed
        return self._is_visible and ready and not known and not self._engine.is_busy

    def _ask(self) -> None:
        if not self._wanted():
            return
        session = self._session
        self._key, self._reports = session.draft.recipe_key(), {}
        reports = self._reports

        def receive(event: Event) -> None:
            if isinstance(event, LayerReport):
                reports[event.name] = event

        job = SampleMergesJob(recipe=session.draft.inputs.recipe(), device=session.device)
        self._operation = self._engine.run(job, receive, self._end, quiet=True)

    def _end(self, end: End) -> None:
        self._operation = None
        if not isinstance(end, JobDone):
            self._reports = {}  # of some only; not asked again
        self._show()
