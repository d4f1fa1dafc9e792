"""The recipe that is being edited: the user's inputs and their plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count, groupby
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ace_gui.ace_variants import AUTOMATIC
from ace_gui.engine.contract.events import MethodInfo
from ace_gui.engine.contract.plan import Plan, PlanRow
from ace_gui.field_info import FieldInfo
from ace_gui.gui.state.activity import RecipeKey, recipe_key
from ace_gui.recipe import ModelEntry, Recipe, recommended
from ace_gui.recipe.overrides import with_names
from ace_gui.recipe.values import After, Choices, ParameterValue, Task


@dataclass(frozen=True, kw_only=True)
class Expert:
    """An expert in the list. ``colour``: its index in the palette, which does not change.

    ``on``: the model on which an adapter is merged, None for the base.
    """

    path: Path
    on: Path | None = None
    name: str | None = None
    weight: float = 1.0
    colour: int = 0


@dataclass(frozen=True, kw_only=True)
class Inputs(Choices):
    """All inputs. Without a base model they are not a recipe yet.

    ``parameters``: by method, only those that the user has changed.
    """

    base: Path | None = None
    experts: tuple[Expert, ...] = ()
    method: str = "ace"
    parameters: Mapping[str, Mapping[str, ParameterValue]] = field(default_factory=dict)

    @classmethod
    def from_recipe(cls, recipe: Recipe) -> Inputs:
        experts = tuple(
            Expert(
                path=entry.model, on=entry.on, name=entry.name, weight=entry.weight, colour=colour
            )
            for colour, entry in enumerate(recipe.models)
        )
        return cls(
            base=recipe.base_model,
            experts=experts,
            method=recipe.merge_method,
            parameters={recipe.merge_method: dict(recipe.parameters)} if recipe.parameters else {},
            **recipe.choices(),
        )

    def recommended(self) -> Inputs:
        """A copy with the settings of the recommended merge; other inputs stay."""
        method = recommended.METHOD
        parameters = {**self.parameters, method: dict(recommended.PARAMETERS)}
        return replace(self, method=method, parameters=parameters, **recommended.CHOICES)

    @property
    def is_recommended(self) -> bool:
        return self == self.recommended()

    @property
    def with_defaults(self) -> Inputs:
        """The recommended merge's settings if this is that merge with changes, or the defaults."""
        start = Inputs().recommended()
        keeps_start = self.method == start.method and start.touched.items() <= self.touched.items()
        if keeps_start and self.after != After():
            return start
        return Inputs()

    def with_method(self, name: str) -> Inputs:
        """A copy with another method, or with the recommended merge.

        Another method drops the recommended settings and starts with its own defaults. Every method
        keeps its own parameters.
        """
        if name == recommended.NAME:
            return self.recommended()
        if not self.is_recommended:
            return replace(self, method=name)
        carried_over = {
            method: values for method, values in self.parameters.items() if method != self.method
        }
        return replace(self, method=name, parameters=carried_over, **recommended.USUAL)

    @property
    def touched(self) -> Mapping[str, ParameterValue]:
        """The parameters of the current method that the user has set."""
        return self.parameters.get(self.method, {})

    @property
    def names(self) -> tuple[str, ...]:
        """A distinct name for every expert."""
        if self.base is not None:
            return self.recipe().expert_names
        return ()

    @property
    def models(self) -> tuple[Path, ...]:
        base = () if self.base is None else (self.base,)
        return (*base, *(expert.path for expert in self.experts))

    @property
    def task_vectors(self) -> tuple[object, ...]:
        """A key that is equal for inputs with the same task vectors, weights included, because
        energies are weighted."""
        experts = tuple((expert.path, expert.on, expert.weight) for expert in self.experts)
        return (self.base, experts, *self.of_task_vectors())

    def recipe(self) -> Recipe:
        """The recipe. Requires a base model."""
        if self.base is None:
            raise ValueError("a recipe needs a base model")
        return Recipe(
            base_model=self.base,
            models=tuple(
                ModelEntry(model=expert.path, on=expert.on, name=expert.name, weight=expert.weight)
                for expert in self.experts
            ),
            merge_method=self.method,
            parameters=dict(self.touched),
            **self.choices(),
        )

    def with_experts(self, paths: Iterable[Path]) -> Inputs:
        """A copy with more experts, each in the first free colour."""
        taken = {expert.colour for expert in self.experts}
        free = (colour for colour in count() if colour not in taken)
        added = (
            Expert(path=path, colour=colour) for path, colour in zip(paths, free, strict=False)
        )
        return self._with((*self.experts, *added))

    def without_experts(self, indices: Iterable[int]) -> Inputs:
        """A copy without the experts at these indices. The others keep their colours."""
        removed = set(indices)
        return self._with(
            tuple(expert for n, expert in enumerate(self.experts) if n not in removed)
        )

    def with_expert(self, index: int, expert: Expert) -> Inputs:
        return self._with((*self.experts[:index], expert, *self.experts[index + 1 :]))

    def with_parameter(self, name: str, value: ParameterValue | None) -> Inputs:
        """A copy with another value of the method's parameter; None restores the default."""
        touched = dict(self.touched)
        if value is None:
            touched.pop(name, None)
        else:
            touched[name] = value
        of_methods = {
            method: touched_values
            for method, touched_values in self.parameters.items()
            if method != self.method
        }
        return replace(
            self, parameters={**of_methods, self.method: touched} if touched else of_methods
        )

    def _with(self, experts: tuple[Expert, ...]) -> Inputs:
        """A copy with other experts. Overrides and tasks follow experts that have new names."""
        changed = replace(self, experts=experts)
        new_names = dict(zip((e.colour for e in experts), changed.names, strict=False))
        old = zip(self.experts, self.names, strict=False)
        names = {
            name: new_names[expert.colour] for expert, name in old if expert.colour in new_names
        }
        tasks = tuple(
            replace(task, expert=names.get(task.expert, task.expert)) if task.expert else task
            for task in self.tasks
        )
        return replace(changed, overrides=with_names(self.overrides, names), tasks=tasks)


def by_family(methods: Sequence[MethodInfo]) -> Iterator[tuple[str, Iterator[MethodInfo]]]:
    """The families of methods, each with its methods in their order."""
    return groupby(methods, key=lambda method: method.family)


class Draft(QObject):
    """The inputs and their plan. ``inputs`` is one immutable value, which every edit replaces.

    An edit has two steps. ``propose`` shows it. Then the edit is adopted together with its plan, or
    ``reject`` restores ``planned``, the inputs of the latest plan. ``changed``: of the inputs, the
    plan or the known methods. ``tau_changed``: of the threshold, also while it is dragged.
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
        """Show a change. If it needs a plan, ``adopting`` or ``reject`` follows."""
        if inputs != self.inputs:
            self._replace(inputs)

    def keep(self, inputs: Inputs) -> None:
        """Keep a change that needs no plan."""
        self.planned = inputs
        self.propose(inputs)

    def set_parameter(self, name: str, value: ParameterValue | None) -> None:
        """Set a parameter, or restore its default. A later ``reject`` does not undo it."""
        if self.planned.method == self.inputs.method:
            self.planned = self.planned.with_parameter(name, value)
        self._replace(self.inputs.with_parameter(name, value))

    def set_tasks(self, tasks: tuple[Task, ...]) -> None:
        """Set the tasks. No plan depends on them, and ``reject`` keeps them."""
        self.planned = replace(self.planned, tasks=tasks)
        self._replace(replace(self.inputs, tasks=tasks))

    @contextmanager
    def adopting(self, inputs: Inputs, plan: Plan | None) -> Iterator[None]:
        """Adopt the inputs and their plan, None without models.

        The body of the ``with`` updates what depends on them before any signal is sent.
        """
        old_tau = self.tau
        self.planned = inputs
        self.plan = plan
        self.inputs = inputs
        self._dragged = None
        yield
        self._announce(old_tau)

    def reject(self) -> None:
        """Restore the inputs of the plan, because the proposed ones failed."""
        self.propose(self.planned)

    def preview_tau(self, tau: float) -> None:
        """Set the threshold while it is dragged. The regimes follow it, the recipe not yet."""
        if tau != self.tau:
            self._dragged = tau
            self.tau_changed.emit(tau)

    def set_methods(self, methods: Sequence[MethodInfo]) -> None:
        self.methods = tuple(methods)
        self._replace(self.inputs)

    def _replace(self, inputs: Inputs) -> None:
        old_tau = self.tau
        self.inputs = inputs
        self._dragged = None
        self._announce(old_tau)

    def _announce(self, old_tau: float) -> None:
        self.changed.emit()
        if self.tau != old_tau:
            self.tau_changed.emit(self.tau)

    # Derived from the inputs

    @property
    def method(self) -> MethodInfo | None:
        """The chosen method. None until the engine has reported it."""
        return next((method for method in self.methods if method.name == self.inputs.method), None)

    @property
    def fields(self) -> tuple[FieldInfo, ...]:
        """The parameters of the chosen method; empty until they are known."""
        if self.method is not None:
            return self.method.fields
        return ()

    @property
    def shown_method(self) -> MethodInfo | None:
        """The chosen method, or the recommended merge under its own name."""
        return next(iter(self.recommended if self.inputs.is_recommended else ()), self.method)

    @property
    def label(self) -> str:
        """What the merge of the inputs is called."""
        method = self.shown_method
        if method is None:
            return self.inputs.method
        return method.label(self.parameter("variant"))

    @property
    def choices(self) -> tuple[MethodInfo, ...]:
        """What can be chosen. Each title is the label of the variant that it would have."""
        titled = []
        for method in self.methods:
            variant = self.inputs.with_method(method.name).touched.get("variant")
            titled.append(replace(method, title=method.label(variant)))
        return (*self.recommended, *titled)

    @property
    def recommended(self) -> tuple[MethodInfo, ...]:
        """The recommended merge as an entry among the methods; empty until these are known."""
        matches = (method for method in self.methods if method.name == recommended.METHOD)
        method = next(matches, None)
        if method is None:
            return ()
        settings = recommended.PARAMETERS
        value_of = {field.name: settings.get(field.name, field.default) for field in method.fields}
        fields = (f for f in method.fields if f.applies(value_of.get))
        return (
            replace(
                method,
                fields=tuple(replace(f, default=value_of[f.name]) for f in fields),
                name=recommended.NAME,
                title=recommended.TITLE,
                formula=recommended.FORMULA,
                family="Recommended",
                summary=f"{method.summary} Uses the automatic variant, a more even spectrum of "
                "the merged change, and each expert's pooler with its head.",
            ),
        )

    @property
    def has_gamma(self) -> bool:
        """Whether the planned method has regimes by γ."""
        return self.plan is not None and self.plan.heterogeneity

    @property
    def tau(self) -> float:
        """The threshold that the user drags or has set, or else the method's default.

        Infinite for a method or variant without a threshold.
        """
        if self.parameter("variant") == AUTOMATIC:
            return math.inf
        if self._dragged is not None:
            return self._dragged
        value = self.parameter("tau")
        if value is None:
            return math.inf
        return float(value)

    @property
    def tau_is_set(self) -> bool:
        """Whether the user has set or is dragging the threshold."""
        return self._dragged is not None or "tau" in self.inputs.touched

    def tau_of(self, row: PlanRow) -> float:
        """The threshold of a tensor, from an override if there is one."""
        overriding = self.override_tau(row)
        if overriding is None:
            return self.tau
        return overriding

    def override_tau(self, row: PlanRow) -> float | None:
        """The threshold that an override sets for a tensor; None if none does."""
        if row.override is None or self.plan is None:
            return None
        rules = [r for i, r in enumerate(self.inputs.overrides) if i in row.override.rules]
        differs = math.isinf(self.tau) or any("tau" in rule.parameters for rule in rules)
        if differs:
            return self.plan.tau_of(row)
        return None

    def parameter(self, name: str) -> ParameterValue | None:
        """The effective value of a parameter of the chosen method."""
        if name in self.inputs.touched:
            return self.inputs.touched[name]
        plan = self.plan
        if plan is not None and plan.recipe.merge_method == self.inputs.method:
            planned = plan.parameters.get(name)
            if planned is not None:
                return planned
        return next((field.default for field in self.fields if field.name == name), None)

    def resolved_parameters(self) -> dict[str, ParameterValue]:
        """The effective value of every parameter of the chosen method, as far as known."""
        names = dict.fromkeys(self.inputs.touched)
        if self.plan is not None and self.plan.recipe.merge_method == self.inputs.method:
            names = {**dict.fromkeys(self.plan.parameters), **names}
        values = ((name, self.parameter(name)) for name in names)
        return {name: value for name, value in values if value is not None}

    def recipe_to_save(self) -> Recipe:
        """The recipe with the values that the base model determines, if they are known."""
        recipe = self.inputs.recipe()
        plan = self.plan
        if plan is None or plan.recipe != recipe:
            return recipe
        determined = {name: plan.parameters[name] for name in plan.parameter_notes}
        return replace(recipe, parameters={**determined, **recipe.parameters})

    def recipe_key(self) -> RecipeKey:
        """A key that is equal for inputs of the same merge; () without a base model."""
        if self.inputs.base is None:
            return ()
        return recipe_key(self.inputs.recipe(), self.resolved_parameters())

    def measured_key(self) -> RecipeKey:
        """``models_key`` with the tasks, on whose inputs the experts are measured."""
        return (*self.models_key(), self.inputs.tasks)

    def models_key(self) -> RecipeKey:
        """A key that is equal for inputs with the same task vectors under the same names."""
        return (*self.inputs.task_vectors, self.inputs.names)
