"""Functions that plan and write merges, and adapters made of fine-tuned models."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ace_gui.engine import workflow
from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.events import Event, Exported, MergeFinished, PlanReady
from ace_gui.engine.contract.plan import Plan
from ace_gui.engine.contract.sanity import SanityResult
from ace_gui.engine.mixture_workflow import mixture_to_folder
from ace_gui.engine.mixtures.building import refuse_options
from ace_gui.engine.output.exporters import with_output_checks
from ace_gui.engine.planning.prepare import prepare
from ace_gui.library.arguments import GivenRecipe
from ace_gui.library.progress import Progress, last_of, watched
from ace_gui.library_results import MergeResult
from ace_gui.recipe import Recipe
from ace_gui.recipe.distillation import distillation_of
from ace_gui.recipe.mixture_file import mixture_from
from ace_gui.recipe.mixtures import MixtureRecipe
from ace_gui.recipe.new_recipes import recipe_for_extraction
from ace_gui.recipe.recipe_file import recipe_from
from ace_gui.recipe.values import SanityCheck


def plan(recipe: GivenRecipe) -> Plan:
    """Plan what a merge does with every tensor, and why. Reads only headers and configs.

    >>> [(row.name, row.disposition.value) for row in ace_gui.plan(recipe).rows]
    [('layers.0.norm.weight', 'merged'), ('layers.0.q_proj.weight', 'merged')]
    """
    return with_output_checks(prepare(recipe_from(recipe))).plan


def merge(
    recipe: GivenRecipe,
    out: Path | str,
    *,
    device: str = "auto",
    threads: int | None = None,
    resume: bool = False,
    distil: bool | Mapping[str, Any] | None = None,
    check: bool | None = None,
    progress: Progress | None = None,
    memory_bytes: int | None = None,
    convert: bool = False,
    complete_heads: bool = False,
    evaluate: bool = False,
    cluster: str = "",
) -> MergeResult:
    """Merge into the new folder ``out``, which appears only when it is complete.

    ``device``: auto, cpu or cuda:N. ``threads`` None: torch chooses. ``resume``: continue an
    unfinished merge of the same recipe. ``distil``: align the merge with its experts; True, or the
    keys of the recipe's ``distil``; None: as the recipe says. ``check``: whether a language model
    is tried on usual text; None: as the recipe says. For the rest see ``workflow.Options``. A
    recipe with ``merge_method: moe``, or a file of mergekit-moe, builds a mixture of experts; what
    it cannot use is refused.

    >>> ace_gui.merge(recipe, "merged").files
    ('README.md', 'merge_recipe.yaml', 'model.safetensors')
    """
    options = workflow.Options(
        device=device,
        threads=threads,
        memory_bytes=memory_bytes,
        resume=resume,
        convert=convert,
        complete_heads=complete_heads,
        evaluate=evaluate,
        cluster=cluster,
    )
    mixture = mixture_from(recipe)
    if mixture is not None:
        _refuse_idle(mixture, options, distil=distil, check=check)
        return _built_mixture(mixture, Path(out), options, progress)
    loaded = _with_choices(recipe_from(recipe), distil, check)
    return _result(workflow.merge_to_folder(loaded, Path(out), options), progress)


def _with_choices(
    recipe: Recipe, distil: bool | Mapping[str, Any] | None, check: bool | None
) -> Recipe:
    """The recipe with the arguments of ``merge`` that replace its own choices."""
    if distil is not None:
        recipe = replace(recipe, distil=distillation_of(distil))
    if check is not None:
        recipe = replace(recipe, check=SanityCheck.ON if check else SanityCheck.OFF)
    return recipe


def _refuse_idle(mixture: MixtureRecipe, options: workflow.Options, **others: object) -> None:
    """Refuse the arguments of ``merge`` that a mixture does not use."""
    names = ["evaluate", "complete_heads"]
    if mixture.attention is None:
        names += ["memory_bytes", "cluster"]
    refuse_options({**others, **{name: getattr(options, name) for name in names}})


def _built_mixture(
    mixture: MixtureRecipe, out: Path, options: workflow.Options, progress: Progress | None
) -> MergeResult:
    begin = time.perf_counter()
    built = last_of(mixture_to_folder(mixture, out, options), Exported, progress)
    return MergeResult(
        folder=built.folder,
        seconds=time.perf_counter() - begin,
        warnings=built.notes,
        files=built.files,
    )


def extract(
    base: Path | str,
    model: Path | str,
    out: Path | str,
    *,
    rank: int | None = None,
    energy: float | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    device: str = "auto",
    resume: bool = False,
    progress: Progress | None = None,
) -> MergeResult:
    """Write the change from ``base`` to ``model`` as an adapter in PEFT's format, into ``out``.

    ``rank``: the adapter's rank (default 32). ``energy``: instead of a rank, the share of each
    change's squared norm to keep. ``include``, ``exclude``: patterns of tensor names, with ``*``.

    >>> ace_gui.extract("base", "expert-a", "adapter", rank=4).folder.name
    'adapter'
    """
    recipe = recipe_for_extraction(base, model, rank, energy)
    options = workflow.Options(device=device, resume=resume)
    events = workflow.extract_adapter(recipe, Path(out), options, include=include, exclude=exclude)
    return _result(events, progress)


def _result(events: Iterable[Event], progress: Progress | None) -> MergeResult:
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds = 0.0
    exported = None
    distilled: Distilled | None = None
    sanity: SanityResult | None = None
    for event in watched(events, progress):
        match event:
            case PlanReady(plan=planned):
                warnings = tuple(check.line for check in planned.checks if check.is_worry)
            case MergeFinished():
                warnings = (*event.warnings, *warnings)
                seconds = event.seconds
                notes = event.notes
                distilled = event.distilled
                sanity = event.sanity
            case Exported():
                exported = event
    assert exported is not None
    return MergeResult(
        folder=exported.folder,
        seconds=seconds,
        warnings=tuple(dict.fromkeys(warnings)),
        files=exported.files,
        notes=notes,
        distilled=distilled,
        sanity=sanity,
    )
