"""The recipe in the making: the inputs as they are edited, and the plan they led to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.engine.contract.plan import AUTOMATIC, Plan, PlanRow
from ace_gui.gui.state.activity import RecipeKey
from ace_gui.gui.state.chosen.inputs import RECOMMENDED_MERGE, Inputs
from ace_gui.recipe import Recipe, recommended
from ace_gui.recipe.tasks import Task
from ace_gui.recipe.values import ParameterValue


def by_family(methods: Sequence[MethodInfo]) -> Iterator[tuple[str, Iterator[MethodInfo]]]:
    """The families of methods, each with its methods, in the order of ``methods``."""
    return groupby(methods, key=lambda method: method.family)


class Draft(QObject):
    """``inputs`` is one immutable value; every edit puts another in its place.

    An edit has two steps: ``propose`` shows it, then it is adopted with the plan it led to, or
    ``reject`` goes back to ``planned``, the inputs of the latest plan. ``changed`` follows whenever
    the inputs, the plan or the known methods are others, ``tau_changed`` when the threshold is,
    also while it is dragged.
    """

    changed = Signal()
    tau_changed = Signal(float)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.inputs = self.planned = Inputs().recommended()
        self.plan: Plan | None = None
        self.methods: tuple[MethodInfo, ...] = ()
        self._dragged: float | None = None

    # Edits

    def propose(self, inputs: Inputs) -> None:
        """Show a change; adoption or ``reject`` follows where it needs a plan."""
        if inputs != self.inputs:
            self._replace(inputs)

    def keep(self, inputs: Inputs) -> None:
        """A change that needs no plan: it is good as it stands."""
        self.planned = inputs
        self.propose(inputs)

    def set_parameter(self, name: str, value: ParameterValue | None) -> None:
        """Set a parameter, or leave it to its default. A later ``reject`` does not undo it."""
        if self.planned.method == self.inputs.method:
            self.planned = self.planned.with_parameter(name, value)
        self._replace(self.inputs.with_parameter(name, value))

    def set_tasks(self, tasks: tuple[Task, ...]) -> None:
        """Try the models on other tasks; no plan depends on them, and ``reject`` keeps them."""
        self.planned = replace(self.planned, tasks=tasks)
        self._replace(replace(self.inputs, tasks=tasks))

    @contextmanager
    def adopting(self, inputs: Inputs, plan: Plan | None) -> Iterator[None]:
        """The inputs are good, and this is their plan; None: there are no models to plan.

        What depends on them is brought up to date inside, before anybody is told.
        """
        before = self.tau
        self.planned, self.plan = inputs, plan
        self.inputs, self._dragged = inputs, None
        yield
        self._tell(before)

    def reject(self) -> None:
        """The inputs lead nowhere: back to those of the plan."""
        self.propose(self.planned)

    def preview_tau(self, tau: float) -> None:
        """The threshold while it is dragged: regimes follow, the recipe does not yet."""
        if tau != self.tau:
            self._dragged = tau
            self.tau_changed.emit(tau)

    def set_methods(self, methods: Sequence[MethodInfo]) -> None:
        """The engine has said which methods there are."""
        self.methods = tuple(methods)
        self._replace(self.inputs)

    def _replace(self, inputs: Inputs) -> None:
        before, self.inputs, self._dragged = self.tau, inputs, None
        self._tell(before)

    def _tell(self, before: float) -> None:
        self.changed.emit()
        if self.tau != before:
            self.tau_changed.emit(self.tau)

    # What follows from the inputs

    @property
    def method(self) -> MethodInfo | None:
        """The chosen method; None until the engine has said what it is."""
        return next((method for method in self.methods if method.name == self.inputs.method), None)

    @property
    def recommended(self) -> tuple[MethodInfo, ...]:
        """The recommended merge, as the methods are listed; empty until these are known."""
        known = (each for each in self.methods if each.name == recommended.METHOD)
        made = next(known, None)
        if made is None:
            return ()
        return (
            replace(
                made,
                name=RECOMMENDED_MERGE,
                title=recommended.TITLE,
                family="Recommended",
                summary=f"{made.summary} In its automatic variant, with a more even spectrum of "
                "the merged change, and with each expert's pooler kept with its head.",
            ),
        )

    @property
    def has_gamma(self) -> bool:
        """Whether the planned method parts tensors by γ."""
        return self.plan is not None and self.plan.heterogeneity

    @property
    def tau(self) -> float:
        """The threshold: as dragged at this moment, else as set, else the method's own.

        Infinite under a method or variant that has none: nothing is above it.
        """
        if self.parameter("variant") == AUTOMATIC:
            return math.inf
        if self._dragged is not None:
            return self._dragged
        known = self.parameter("tau")
        return math.inf if known is None else float(known)

    @property
    def tau_is_set(self) -> bool:
        """Whether the threshold is the person's, set or under the mouse, not the method's own."""
        return self._dragged is not None or "tau" in self.inputs.touched

    def tau_of(self, row: PlanRow) -> float:
        """The threshold that holds for a tensor: its own where an override names one."""
        own = row.override is not None and any(
            "tau" in self.inputs.overrides[index].parameters
            for index in row.override.rules
            if index < len(self.inputs.overrides)
        )
        own |= row.override is not None and math.isinf(self.tau)
        known = self.plan.tau_of(row) if own and self.plan is not None else None
        return self.tau if known is None else known

    def parameter(self, name: str) -> ParameterValue | None:
        """The value in force of a parameter of the chosen method."""
        if name in self.inputs.touched:
            return self.inputs.touched[name]
        plan = self.plan
        if plan is not None and plan.recipe.merge_method == self.inputs.method:
            planned = plan.parameters.get(name)
            if planned is not None:
                return planned
        fields = self.method.fields if self.method else ()
        return next((field.default for field in fields if field.name == name), None)

    def resolved_parameters(self) -> dict[str, ParameterValue]:
        """Every parameter of the chosen method with the value in force, as far as it is known."""
        names = dict.fromkeys(self.inputs.touched)
        if self.plan is not None and self.plan.recipe.merge_method == self.inputs.method:
            names = {**dict.fromkeys(self.plan.parameters), **names}
        values = ((name, self.parameter(name)) for name in names)
        return {name: value for name, value in values if value is not None}

    def recipe_to_save(self) -> Recipe:
        """The recipe with the values that follow from the base model, where that is known."""
        recipe, plan = self.inputs.recipe(), self.plan
        if plan is None or plan.recipe != recipe:
            return recipe
        found = {name: plan.parameters[name] for name in plan.parameter_notes}
        return replace(recipe, parameters={**found, **recipe.parameters})

    def recipe_key(self) -> RecipeKey:
        """Equal for inputs that lead to the same merge; () without a base."""
        if self.inputs.base is None:
            return ()
        return (replace(self.inputs.recipe(), parameters=self.resolved_parameters()),)

    def measured_key(self) -> RecipeKey:
        """As ``models_key``, with the same tasks, whose inputs the experts are measured with."""
        return (*self.models_key(), self.inputs.tasks)

    def models_key(self) -> RecipeKey:
        """Equal for inputs with the same task vectors under the same names."""
        return (*self.inputs.task_vectors, self.inputs.names)
