"""What a merge would do: the expected change of the model, and trial values on one layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from ace_gui.engine.contract.after_fields import AFTER_FIELDS, value_of, with_value
from ace_gui.engine.contract.events import MethodInfo
from ace_gui.engine.contract.findings import LayerReport, LayerSpectrum
from ace_gui.engine.contract.jobs import SampleMergesJob, SpectrumJob
from ace_gui.engine.contract.model_figures import Forecast, forecast
from ace_gui.engine.contract.plan import Plan, PlanRow
from ace_gui.gui.control.engine_client import EngineClient, Operation
from ace_gui.gui.control.layer_queries import LatestQuestion, Question
from ace_gui.gui.state.activity import RecipeKey
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.planned_layers import governing
from ace_gui.recipe import Override
from ace_gui.recipe.values import ParameterValue

Reports = Mapping[str, LayerReport]

FORECAST_DELAY: Final = 500  # ms without any engine work


class Forecasting(QObject):
    """The expected change of the model.

    ``current`` is estimated from a few matrices before a merge and exact after it. It is None if
    nothing is known about the current inputs. ``changed`` carries each new value. The engine is
    asked only while the figure is visible and no other work runs; any user action comes first.
    """

    changed = Signal(object)

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self._session = engine.session
        self._engine = engine
        session = engine.session
        self._key: RecipeKey = ()
        self._reports: dict[str, LayerReport] = {}
        self._evaluated: tuple[Plan | None, Reports | None] = (None, None)
        self.current: Forecast | None = None
        self._sample = Operation(engine)
        self._sample.changed.connect(self._take)
        self._is_visible = False
        self._timer = QTimer(self, singleShot=True, interval=FORECAST_DELAY)
        self._timer.timeout.connect(self._ask)
        for part in (session.draft, session.results, session.activity):
            part.changed.connect(self._settle)
        session.layers.learnt.connect(lambda name: None if name else self._settle())
        engine.idle.connect(self._settle)

    def set_visible(self, is_visible: bool) -> None:
        """Set whether the figure is visible."""
        self._is_visible = is_visible
        self._settle()

    def _settle(self) -> None:
        """Stop if something has changed, and ask again once no work runs."""
        key = self._session.draft.recipe_key()
        busy = len(self._engine.running(object)) > 1
        if self._sample.is_running and (key != self._key or busy or not self._is_visible):
            self._key = ()
            self._sample.drop()
        if self._is_needed():
            self._timer.start()
        else:
            self._timer.stop()
        self._show()

    def _show(self) -> None:
        """Update ``current`` and emit ``changed`` if the figure has changed."""
        session = self._session
        plan = session.draft.plan
        reports = self._known_reports()
        subject = (plan, reports)
        if plan is self._evaluated[0] and reports is self._evaluated[1]:
            return
        self._evaluated = subject
        self.current = None
        if plan is not None and reports is not None:
            self.current = forecast(plan, session.layers.statistics, reports)
        self.changed.emit(self.current)

    def _known_reports(self) -> Reports | None:
        """The reports of the merge of the current inputs, once they are complete."""
        session = self._session
        unsettled = session.activity.plan_is_due or self._sample.is_running
        if not session.layers.is_analysed or unsettled:
            return None
        if self._is_merged and session.results.merge is not None:
            return session.results.merge.reports
        if self._key == session.draft.recipe_key():
            return self._reports
        return None

    @property
    def _is_merged(self) -> bool:
        return self._session.results.is_merged and self._session.merge_is_current

    def _is_needed(self) -> bool:
        session = self._session
        is_known = self._is_merged or self._key == session.draft.recipe_key()
        ready = session.can_merge and session.layers.is_analysed
        return self._is_visible and ready and not is_known and not self._engine.is_busy

    def _ask(self) -> None:
        if not self._is_needed():
            return
        session = self._session
        self._key = session.draft.recipe_key()
        self._sample.run(
            SampleMergesJob(recipe=session.draft.inputs.recipe(), device=session.device)
        )

    def _take(self) -> None:
        """A sample that failed is not used, and not requested again."""
        if not self._sample.is_running:
            reports = () if self._sample.error else self._sample.all(LayerReport)
            self._reports = {report.name: report for report in reports}
            self._show()


SCOPE: Final = "scope"
_AFTER: Final = {field.name: field for field in AFTER_FIELDS}


class WhatIf(QObject):
    """The merge of the selected layer with other parameters or another scope.

    The parameters, with ``SCOPE`` as one of them, belong to the override that governs the layer, or
    else to the recipe; each keeps its own trial values. Without trial values, a visible panel shows
    the method's other variant, if it has one. ``changed``: the trial values have changed, or they
    cannot be computed. The answers are among the session's findings; ``awaited`` carries whether
    one is still missing.
    """

    changed = Signal()
    awaited = Signal(bool)

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self._session = session = engine.session
        self._tried: dict[int | None, dict[str, ParameterValue]] = {}
        self._rules: tuple[Override, ...] = session.draft.inputs.overrides
        self._is_visible = False
        self._latest = LatestQuestion(engine, self._find, quiet=True)
        self._latest.changed.connect(self._follow)
        session.selection_changed.connect(self._ask_again)
        session.draft.changed.connect(self._keep_what_differs)

    # Trial values

    @property
    def is_on(self) -> bool:
        """Whether any trial value differs from the recipe."""
        return bool(self._parameters)

    @property
    def override(self) -> int | None:
        """The index of the override that governs the selected layer's parameters, or None."""
        row = self._row
        if row is None or row.override is None:
            return None
        inputs = self._session.draft.inputs
        return governing(inputs.overrides, row.override.rules, inputs.method)

    @property
    def method(self) -> MethodInfo | None:
        """The method whose parameters are tried. None until the engine has listed the methods."""
        row = self._row
        session = self._session
        if self.override is None or row is None or row.override is None:
            return session.draft.method
        return next((m for m in session.draft.methods if m.name == row.override.method), None)

    def parameter(self, name: str) -> ParameterValue | None:
        tried = self._parameters.get(name)
        if tried is None:
            return self._own_value(name)
        return tried

    def is_tried(self, name: str) -> bool:
        """Whether a parameter's trial value differs from the recipe."""
        return name in self._parameters

    def try_parameter(self, name: str, value: ParameterValue | None) -> None:
        """Try another value. None, or the layer's own value, ends the trial."""
        if value is None or value == self._own_value(name):
            self._parameters.pop(name, None)
        else:
            self._parameters[name] = value
        self._ask_again()

    def back(self) -> None:
        self._parameters.clear()
        self._ask_again()

    def inputs(self) -> Inputs:
        """The session's inputs with the trial values, in the override that governs the layer or in
        the recipe."""
        return self._inputs_with(self._parameters)

    def set_visible(self, is_visible: bool) -> None:
        """Set whether the answers are visible."""
        self._is_visible = is_visible
        self._ask_again()

    @property
    def other_variant(self) -> str | None:
        """The other variant of the layer's method, or None."""
        if self.method is not None:
            variants = self.method.variants
        else:
            variants = ()
        return next(
            (variant for variant in variants if variant != self._own_value("variant")), None
        )

    @property
    def labels(self) -> tuple[str, str]:
        """The labels of ``old`` and ``new``."""
        second_variant = self.other_variant
        if self.is_on or second_variant is None:
            return "recipe", "tried"
        return str(self._own_value("variant")), second_variant

    def _inputs_with(self, parameters: Mapping[str, ParameterValue]) -> Inputs:
        inputs = self._session.draft.inputs
        index = self.override
        rules = list(inputs.overrides)
        for name, value in parameters.items():
            if name == SCOPE:
                inputs = replace(inputs, scope=str(value))
            elif index is None and name in _AFTER:
                inputs = replace(inputs, after=with_value(inputs.after, name, value))
            elif index is None:
                inputs = inputs.with_parameter(name, value)
            elif name in _AFTER:
                after = with_value(rules[index].after, name, value)
                rules[index] = replace(rules[index], after=after)
            else:
                changed = {**rules[index].parameters, name: value}
                rules[index] = replace(rules[index], parameters=changed)
        return replace(inputs, overrides=tuple(rules))

    @property
    def _row(self) -> PlanRow | None:
        return self._session.layers.row(self._session.selection)

    @property
    def _parameters(self) -> dict[str, ParameterValue]:
        """The trial values of the parameters that govern the selected layer."""
        return self._tried.setdefault(self.override, {})

    def _own_value(self, name: str) -> ParameterValue | None:
        """The value of a parameter on the selected layer without trial values."""
        index = self.override
        row = self._row
        if name == SCOPE:
            return self._session.draft.inputs.scope
        if name in _AFTER:
            return self._own_after(name, index)
        if index is None or row is None or row.override is None:
            return self._session.draft.parameter(name)
        # until the next plan, the rule may have values that the plan does not know
        planned = row.override.parameters.get(name)
        return self._session.draft.inputs.overrides[index].parameters.get(name, planned)

    def _own_after(self, name: str, index: int | None) -> float:
        """The value of one of ``AFTER_FIELDS`` in the recipe or in one of its overrides."""
        inputs = self._session.draft.inputs
        if index is None:
            after = inputs.after
        else:
            after = inputs.overrides[index].after.over(inputs.after)
        value = value_of(after, name)
        if value is None:
            return float(_AFTER[name].default)
        return value

    # Results

    @property
    def old(self) -> LayerSpectrum | None:
        """The selected layer's spectrum under the recipe, once known."""
        name = self._session.selection
        if name is not None:
            return self._session.spectrum(name)
        return None

    @property
    def new(self) -> LayerSpectrum | None:
        """The layer's spectrum under the trial values or the other variant, once known."""
        row = self._compared_row
        findings = self._session.results.findings
        if row is None:
            return None
        return findings.get(LayerSpectrum, row.name, self._key())

    @property
    def _compared(self) -> Mapping[str, ParameterValue]:
        """The parameters that differ in ``new``."""
        second_variant = self.other_variant
        if self.is_on or second_variant is None:
            return self._parameters
        return {"variant": second_variant}

    @property
    def _compared_row(self) -> PlanRow | None:
        """The selected layer, if there is a visible difference to compute."""
        row = self._row
        differs = self.is_on or (self._is_visible and bool(self._compared))
        if row is not None and differs and self._session.layers.has_spectrum(row):
            return row
        return None

    def _key(self) -> RecipeKey:
        tried = tuple(sorted(self._compared.items()))
        return (*self._session.draft.recipe_key(), tried)

    def _find(self) -> Question | None:
        session = self._session
        row = self._compared_row
        if row is None or self.new is not None:
            return None
        recipe = self._inputs_with(self._compared).recipe()
        job = SpectrumJob(recipe=recipe, row=row, device=session.device)
        return Question(row.name, {LayerSpectrum: self._key()}, job)

    @property
    def error(self) -> str:
        """The reason why the trial values cannot be computed, or an empty string."""
        return self._latest.error

    def _follow(self) -> None:
        self.awaited.emit(self._latest.is_running)
        if self.error:
            self.changed.emit()

    def _keep_what_differs(self) -> None:
        """Drop the trial values that the changed recipe now contains."""
        draft = self._session.draft
        if draft.inputs.overrides != self._rules:
            self._rules = draft.inputs.overrides
            self._tried = {None: self._tried.get(None, {})}
        if draft.method is None or not draft.inputs.experts:
            self._tried.clear()
        values: dict[str, ParameterValue | None] = {}
        values |= {name: self._own_after(name, None) for name in _AFTER}
        values |= {field.name: draft.parameter(field.name) for field in draft.fields}
        for index, tried in self._tried.items():
            for name, value in tuple(tried.items()):
                if index is None:
                    stored = values.get(name, value)
                else:
                    stored = None
                if value == (draft.inputs.scope if name == SCOPE else stored):
                    del tried[name]
        self._ask_again()

    def _ask_again(self) -> None:
        self._latest.error = ""
        self.changed.emit()
        self._latest.ask()
