"""Opens a recipe's models without a plan, and finds what stays with each expert."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ace_gui.architecture.traits import Role
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.recipe_models import RecipeModels
from ace_gui.engine.planning.slices import open_recipe
from ace_gui.engine.planning.task_heads import HeadChoice, with_heads
from ace_gui.recipe import Recipe
from ace_gui.steps import Steps
from ace_gui.stored_formats import is_float


def open_recipe_models(recipe: Recipe) -> Steps[RecipeModels]:
    """Open the models of a recipe and find their heads; nothing is planned.

    A recipe whose models can be opened can be scored, also where they could not be merged. Raises
    RecipeError, CheckpointError, ArchitectureError or MismatchError.
    """
    base, experts = yield from open_recipe(recipe)
    base, experts, heads = with_heads(base, experts, recipe)
    kept_T = tuple(kept_names(base, experts, heads, t) for t in range(len(experts)))
    return RecipeModels(recipe=recipe, base=base, experts=experts, kept_T=kept_T)


def kept_names(
    base: OpenedModel, experts: Sequence[OpenedModel], heads: HeadChoice, t: int
) -> tuple[str, ...]:
    """Expert ``t``'s own names of the tensors that stay with it, as the plan keeps them.

    These are heads and poolers that are not merged, and what the base lacks.
    """
    expert = experts[t]
    answering = _answering_names(base, expert, heads)
    names = [expert.own_names.get(name, name) for name in answering]
    names += [name for name in expert.extra if _is_kept_extra(name, experts)]
    return tuple(dict.fromkeys(names))  # tied tensors once


def _answering_names(base: OpenedModel, expert: OpenedModel, heads: HeadChoice) -> Iterator[str]:
    """The base's names under which the expert has tensors of the base that stay with it."""
    for name in base.checkpoint.tensors:
        source = name
        while (tied_to := _stored_source(base, source)) is not None:
            source = tied_to
        traits = base.architecture.traits[source]
        info = base.checkpoint.tensors[source]
        is_fixed = traits.role is Role.BUFFER or not is_float(info.dtype)
        if expert.has(source) and not is_fixed and heads.keeps(source, traits):
            yield name if expert.has(name) else _stored_source(base, name) or name


def _stored_source(base: OpenedModel, name: str) -> str | None:
    """The tensor of the base to which another is tied, if it is stored."""
    tied_to = base.architecture.traits[name].tied_to
    if tied_to in base.checkpoint.tensors:
        return tied_to
    return None


def _is_kept_extra(name: str, experts: Sequence[OpenedModel]) -> bool:
    """Whether a tensor that the base lacks is saved. Its first owner says what it is."""
    owner = next(expert for expert in experts if name in expert.extra)
    traits = owner.architecture.traits[name]
    return traits.role is not Role.BUFFER and traits.tied_to is None
