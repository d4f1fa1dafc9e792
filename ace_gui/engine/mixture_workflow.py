"""The complete workflow of a mixture of experts: its merge, if it has one, then the mixture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ace_gui.engine.capabilities import resolve_device, use_threads
from ace_gui.engine.contract.events import Exported, JobProgress, MixturePlanned
from ace_gui.engine.mixtures.building import (
    PreparedMixture,
    build_mixture,
    bytes_of,
    prepare_mixture,
)
from ace_gui.engine.workflow import Options, prepared_with_consent, stage_to_folder
from ace_gui.output_files import check_output_folder
from ace_gui.recipe.mixtures import MixtureExpert, MixtureRecipe
from ace_gui.recipe.recipe_file import stage_folder
from ace_gui.recipe.values import model_name


def mixture_to_folder(
    recipe: MixtureRecipe, out: Path, options: Options
) -> Iterator[JobProgress | Exported]:
    """Build a mixture of experts and write it to ``out``, completely or not at all.

    Yields the progress of its merge, if it has one, then of the mixture, then Exported. Closing the
    generator keeps what is unfinished, and ``options.resume`` continues it. Raises the errors of
    preparing and building, and those of ``merge_to_folder``.
    """
    use_threads(options.threads)
    device = resolve_device(options.device)
    prepared = plan_mixture(recipe, convert=options.convert)
    check_output_folder(out, recipe.paths)
    if recipe.attention is not None:
        merged = stage_folder(recipe.attention)
        for event in stage_to_folder(recipe.attention, merged, options):
            if isinstance(event, JobProgress):
                yield event
        prepared = prepare_mixture(recipe, convert=options.convert, merged=merged)
    yield from build_mixture(prepared, out, device=device, resume=options.resume)


def plan_mixture(recipe: MixtureRecipe, *, convert: bool = False) -> PreparedMixture:
    """The mixture, with the base in the place of its merge, after both were checked.

    Reads headers alone. Raises the errors of preparing.
    """
    prepared = prepare_mixture(recipe, convert=convert)
    if recipe.attention is not None:
        prepared_with_consent(recipe.attention, convert=convert)
    return prepared


def mixture_planned(file: Path, recipe: MixtureRecipe) -> MixturePlanned:
    """What a person should see before it is built. Raises the errors of preparing."""
    prepared = plan_mixture(recipe)
    base = model_name(recipe.adapter or recipe.base_model)
    if recipe.attention is None:
        attention = f"of {base}"
    else:
        attention = f"of {base} and the experts, merged by {recipe.attention.merge_method}"
    count = len(recipe.experts)
    routers = f"{recipe.gate_mode.value}; {recipe.experts_per_token} of {count} experts a token"
    experts = [(expert.name, _prompts_of(expert)) for expert in recipe.experts]
    if recipe.shared is not None:
        experts.append((f"{recipe.shared.name} (shared)", _prompts_of(recipe.shared)))
    return MixturePlanned(
        file=file,
        model_class=prepared.plan.layout.model_class,
        attention=attention,
        routers=routers,
        experts=tuple(experts),
        bytes=bytes_of(prepared),
        models=recipe.paths,
        notes=prepared.notes,
    )


def _prompts_of(expert: MixtureExpert) -> str:
    """The prompts of an expert in one line."""
    prompts = " · ".join(expert.positive)
    if expert.negative:
        return f"{prompts}; not: {' · '.join(expert.negative)}"
    return prompts
