"""The user's inputs: the recipe being edited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from ace_gui.recipe import ModelEntry, Recipe, recommended
from ace_gui.recipe.overrides import with_names
from ace_gui.recipe.values import After, Choices, ParameterValue


@dataclass(frozen=True, kw_only=True)
class Expert:
    """An expert in the list. ``colour`` is its palette index, which does not change.

    ``on``: the model on which an adapter is merged; None: the base.
    """

    path: Path
    on: Path | None = None
    name: str | None = None
    weight: float = 1.0
    colour: int = 0


@dataclass(frozen=True, kw_only=True)
class Inputs(Choices):
    """All inputs, possibly without a base model and so without a recipe.

    ``parameters``: by method, only those that were changed.
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
        """With the settings of the recommended merge; the rest stays."""
        method = recommended.METHOD
        parameters = {**self.parameters, method: dict(recommended.PARAMETERS)}
        return replace(self, method=method, parameters=parameters, **recommended.CHOICES)

    @property
    def is_recommended(self) -> bool:
        return self == self.recommended()

    @property
    def usual(self) -> Inputs:
        """The settings of the recommended merge if this is that merge with changes, or the
        defaults."""
        start = Inputs().recommended()
        same = self.method == start.method and start.touched.items() <= self.touched.items()
        return start if same and self.after != After() else Inputs()

    def with_method(self, name: str) -> Inputs:
        """With another method, or the recommended merge.

        A change of method drops the recommended settings, so it starts with its defaults. Every
        method keeps its own parameters.
        """
        if name == recommended.NAME:
            return self.recommended()
        if not self.is_recommended:
            return replace(self, method=name)
        kept = {method: own for method, own in self.parameters.items() if method != self.method}
        return replace(self, method=name, parameters=kept, **recommended.USUAL)

    @property
    def touched(self) -> Mapping[str, ParameterValue]:
        """The parameters of the current method that the user has set."""
        return self.parameters.get(self.method, {})

    @property
    def names(self) -> tuple[str, ...]:
        """A distinct name for every expert."""
        return self.recipe().expert_names if self.base is not None else ()

    @property
    def models(self) -> tuple[Path, ...]:
        base = () if self.base is None else (self.base,)
        return (*base, *(expert.path for expert in self.experts))

    @property
    def task_vectors(self) -> tuple[object, ...]:
        """Equal for inputs with the same task vectors. Weights count, because energies are
        weighted."""
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
        """With more experts, each in the first free colour."""
        taken = {expert.colour for expert in self.experts}
        free = (colour for colour in count() if colour not in taken)
        added = (
            Expert(path=path, colour=colour) for path, colour in zip(paths, free, strict=False)
        )
        return self._with((*self.experts, *added))

    def without_experts(self, indices: Iterable[int]) -> Inputs:
        """Without the experts at these indices. The others keep their colours."""
        gone = set(indices)
        return self._with(tuple(each for n, each in enumerate(self.experts) if n not in gone))

    def with_expert(self, index: int, expert: Expert) -> Inputs:
        return self._with((*self.experts[:index], expert, *self.experts[index + 1 :]))

    def with_parameter(self, name: str, value: ParameterValue | None) -> Inputs:
        """With one parameter of the current method set, or its default restored (None)."""
        touched = dict(self.touched)
        if value is None:
            touched.pop(name, None)
        else:
            touched[name] = value
        others = {
            method: known for method, known in self.parameters.items() if method != self.method
        }
        return replace(self, parameters={**others, self.method: touched} if touched else others)

    def _with(self, experts: tuple[Expert, ...]) -> Inputs:
        """With other experts. Overrides and tasks follow the renamed ones."""
        changed = replace(self, experts=experts)
        now = dict(zip((e.colour for e in experts), changed.names, strict=False))
        before = zip(self.experts, self.names, strict=False)
        names = {name: now[expert.colour] for expert, name in before if expert.colour in now}
        tasks = tuple(
            replace(task, expert=names.get(task.expert, task.expert)) if task.expert else task
            for task in self.tasks
        )
        return replace(changed, overrides=with_names(self.overrides, names), tasks=tasks)
