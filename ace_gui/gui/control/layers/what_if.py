"""What-if: other parameters for the selected layer, without changing the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.after_fields import AFTER_FIELDS, value_of, with_value
from ace_gui.engine.contract.events import MethodInfo
from ace_gui.engine.contract.findings import LayerSpectrum
from ace_gui.engine.contract.jobs import SpectrumJob
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.errors import WorkbenchError
from ace_gui.gui.control.engine.engine_client import EngineClient
from ace_gui.gui.control.layers.layer_queries import LatestQuestion, Question
from ace_gui.gui.state.activity import RecipeKey
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.state.chosen.layer_rules import governing
from ace_gui.recipe import Override
from ace_gui.recipe.values import ParameterValue

_AFTER: Final = {field.name: field for field in AFTER_FIELDS}


class WhatIf(QObject):
    """The merge of the selected layer with other parameters or another scope.

    The parameters are those of the override that governs the layer, or else the recipe's; trial
    values of the two are kept separately. If nothing is being tried and the panel is visible, the
    method's other variant is computed, if it has one. ``changed``: the trial values changed, or
    they cannot be computed. Answers are among the session's findings. ``awaited`` carries whether
    one is pending.
    """

    changed = Signal()
    awaited = Signal(bool)

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self._session = session = engine.session
        self._tried: dict[int | None, dict[str, ParameterValue]] = {}
        self._rules: tuple[Override, ...] = session.draft.inputs.overrides
        self._scope: str | None = None
        self._is_visible = False
        self.error: WorkbenchError | None = None
        self._latest = LatestQuestion(engine, self._find, self._fail)
        self._latest.awaited.connect(self.awaited)
        session.selection_changed.connect(self._ask_again)
        session.draft.changed.connect(self._keep_what_differs)

    # Trial values

    @property
    def is_on(self) -> bool:
        """Whether any trial value differs from the recipe."""
        return bool(self._parameters) or self._scope is not None

    @property
    def scope(self) -> str:
        return self._session.draft.inputs.scope if self._scope is None else self._scope

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
        """The method of these parameters. None until the engine has listed the methods."""
        row, session = self._row, self._session
        if self.override is None or row is None or row.override is None:
            return session.draft.method
        return next((m for m in session.draft.methods if m.name == row.override.method), None)

    def parameter(self, name: str) -> ParameterValue | None:
        tried = self._parameters.get(name)
        return self._own(name) if tried is None else tried

    def is_tried(self, name: str) -> bool:
        """Whether a parameter's trial value differs from the recipe."""
        return name in self._parameters

    def try_parameter(self, name: str, value: ParameterValue | None) -> None:
        """Try another value. None, or the layer's own value, returns to the recipe."""
        if value is None or value == self._own(name):
            self._parameters.pop(name, None)
        else:
            self._parameters[name] = value
        self._ask_again()

    def try_scope(self, scope: str) -> None:
        self._scope = None if scope == self._session.draft.inputs.scope else scope
        self._ask_again()

    def back(self) -> None:
        self._parameters.clear()
        self._scope = None
        self._ask_again()

    def inputs(self) -> Inputs:
        """The session's inputs with the trial values, written to the override that governs the
        layer if there is one."""
        return self._inputs_with(self._parameters)

    def set_visible(self, is_visible: bool) -> None:
        """Set whether the answers are visible."""
        self._is_visible = is_visible
        self._ask_again()

    @property
    def other_variant(self) -> str | None:
        """The other variant of the layer's method, or None."""
        known = self.method.variants if self.method is not None else ()
        return next((each for each in known if each != self._own("variant")), None)

    @property
    def labels(self) -> tuple[str, str]:
        """The labels of ``old`` and ``new``."""
        other = self.other_variant
        if self.is_on or other is None:
            return "recipe", "tried"
        return str(self._own("variant")), other

    def _inputs_with(self, parameters: Mapping[str, ParameterValue]) -> Inputs:
        inputs, index = replace(self._session.draft.inputs, scope=self.scope), self.override
        rules = list(inputs.overrides)
        for name, value in parameters.items():
            if index is None and name in _AFTER:
                inputs = replace(inputs, after=with_value(inputs.after, name, value))
            elif index is None:
                inputs = inputs.with_parameter(name, value)
            elif name in _AFTER:
                after = with_value(rules[index].after, name, value)
                rules[index] = replace(rules[index], after=after)
            else:
                own = {**rules[index].parameters, name: value}
                rules[index] = replace(rules[index], parameters=own)
        return replace(inputs, overrides=tuple(rules))

    @property
    def _row(self) -> PlanRow | None:
        return self._session.layers.row(self._session.selection)

    @property
    def _parameters(self) -> dict[str, ParameterValue]:
        """The trial values of the parameters that govern the selected layer."""
        return self._tried.setdefault(self.override, {})

    def _own(self, name: str) -> ParameterValue | None:
        """The selected layer's value of a parameter without trial values."""
        index, row = self.override, self._row
        if name in _AFTER:
            return self._own_after(name, index)
        if index is None or row is None or row.override is None:
            return self._session.draft.parameter(name)
        # until the next plan, the rule may contain more
        planned = row.override.parameters.get(name)
        return self._session.draft.inputs.overrides[index].parameters.get(name, planned)

    def _own_after(self, name: str, index: int | None) -> float:
        """The value of one of ``AFTER_FIELDS`` in the recipe or in one of its overrides."""
        inputs = self._session.draft.inputs
        own = inputs.after if index is None else inputs.overrides[index].after.over(inputs.after)
        known = value_of(own, name)
        return float(_AFTER[name].default) if known is None else known

    # Results

    @property
    def old(self) -> LayerSpectrum | None:
        """The selected layer under the recipe, as far as it is known."""
        name = self._session.selection
        return self._session.spectrum(name) if name is not None else None

    @property
    def new(self) -> LayerSpectrum | None:
        """The selected layer under the trial values or the other variant, once known."""
        row, findings = self._compared_row, self._session.results.findings
        return None if row is None else findings.get(LayerSpectrum, row.name, self._key())

    @property
    def _compared(self) -> Mapping[str, ParameterValue]:
        """The parameters that differ in ``new``."""
        other = self.other_variant
        return self._parameters if self.is_on or other is None else {"variant": other}

    @property
    def _compared_row(self) -> PlanRow | None:
        """The selected layer, if there is a visible difference to compute."""
        row = self._row
        differs = self.is_on or (self._is_visible and bool(self._compared))
        return (
            row if row is not None and differs and self._session.layers.has_spectrum(row) else None
        )

    def _key(self) -> RecipeKey:
        tried = tuple(sorted(self._compared.items()))
        return (*self._session.draft.recipe_key(), tried, self.scope)

    def _find(self) -> Question | None:
        session, row = self._session, self._compared_row
        if row is None or self.new is not None:
            return None
        recipe = self._inputs_with(self._compared).recipe()
        job = SpectrumJob(recipe=recipe, row=row, device=session.device)
        return Question(row.name, {LayerSpectrum: self._key()}, job)

    def _fail(self, error: WorkbenchError) -> None:
        self.error = error
        self.changed.emit()

    def _keep_what_differs(self) -> None:
        """After a change of the recipe, drop trial values that it now contains."""
        session, known = self._session, self._tried.get(None, {})
        if session.draft.inputs.overrides != self._rules:
            self._rules = session.draft.inputs.overrides
            self._tried.clear()
        if session.draft.method is None or not session.draft.inputs.experts:
            self._tried.clear()
            known, self._scope = {}, None
        method = session.draft.method
        fields = {field.name for field in method.fields} if method else set[str]()
        self._tried[None] = {
            name: value
            for name, value in known.items()
            if (name in fields and value != session.draft.parameter(name))
            or (name in _AFTER and value != self._own_after(name, None))
        }
        if self._scope == session.draft.inputs.scope:
            self._scope = None
        self._ask_again()

    def _ask_again(self) -> None:
        self.error = None
        self.changed.emit()
        self._latest.ask()
