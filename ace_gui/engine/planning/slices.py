"""A model made of blocks of several models, as a recipe's ``slices`` say, from headers alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Final

from ace_gui.architecture.names import block_list, match_names
from ace_gui.architecture.sandbox import Describer
from ace_gui.architecture.traits import Role
from ace_gui.checkpoints.derived import compose
from ace_gui.checkpoints.folder import MAIN, ModelPart
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.planning.models import (
    OpenedModel,
    describe,
    open_models,
    open_whole,
    refuse_unfound,
)
from ace_gui.engine.planning.slice_configs import full_config, joined_config
from ace_gui.engine.planning.stages import require_results
from ace_gui.engine.planning.tied_groups import with_tied_groups
from ace_gui.errors import MismatchError, RecipeError
from ace_gui.formatting import listing, plain
from ace_gui.recipe import Override, Recipe
from ace_gui.recipe.values import Slice, Source
from ace_gui.steps import Steps

COPIED: Final = "the only source of its slice: copied"

_Key = tuple[Path, Path | None]


@dataclass(frozen=True, kw_only=True)
class _SlicedModel:
    """A source. ``names``: the first model's name of a tensor → its name here."""

    opened: OpenedModel
    names: Mapping[str, str]
    blocks: int


@dataclass(frozen=True, kw_only=True)
class _SlicedOutput:
    """The tensors of the output. ``base``: of the bases; ``tensors``: of the other models, by name.

    ``slices``: in which slice a tensor is.
    """

    base: dict[str, tuple[Checkpoint, str]] = field(default_factory=dict)
    tensors: dict[_Key, dict[str, tuple[Checkpoint, str]]] = field(default_factory=dict)
    slices: dict[str, int] = field(default_factory=dict)

    def add(
        self, name: str, number: int, sources: Sequence[tuple[Source, _SlicedModel, str]]
    ) -> None:
        """Add a tensor of the output, from the sources that have it; ``str``: the first's name."""
        for position, (source, model, first) in enumerate(sources):
            own_name = model.names.get(first)
            if own_name is not None:
                self.put(name, number, position, source, model, own_name)
            elif block_list(name) is not None:
                raise MismatchError(
                    f"{plain(source.model.name)} lacks `{plain(first)}`, which a slice has; choose "
                    "models of one architecture.",
                    path=source.model,
                    tensor=first,
                )

    def put(
        self,
        name: str,
        number: int,
        position: int,
        source: Source,
        model: _SlicedModel,
        own_name: str,
    ) -> None:
        """Set a tensor of one source of a slice; the first source is the base."""
        self.slices[name] = number
        if position:
            into = self.tensors.setdefault(_key(source), {})
        else:
            into = self.base
        into[name] = (model.opened.checkpoint, own_name)


def _key(source: Source) -> _Key:
    return source.model, source.adapter


def open_recipe(recipe: Recipe) -> Steps[tuple[OpenedModel, tuple[OpenedModel, ...]]]:
    """The base and every expert of a recipe, with or without slices; raises the errors of both.

    Raises RecipeError if the result of a stage is there, but out of date.
    """
    require_results(recipe)
    refuse_unfound(recipe)
    with Describer() as describer:
        if recipe.slices:
            return (yield from _open_slices(recipe, describer))
        base, experts = yield from open_models(recipe, describer)
        return (yield from with_tied_groups(base, experts, describer))


def _open_slices(
    recipe: Recipe, describer: Describer
) -> Steps[tuple[OpenedModel, tuple[OpenedModel, ...]]]:
    """The bases of all slices as one base, and each expert's part of the output.

    Raises RecipeError if ranges do not fit, or a config cannot be written for such blocks.
    """
    models = yield from _opened(recipe, describer)
    layers = [_layers(recipe, number, models) for number in range(len(recipe.slices))]
    output = _output(recipe, models, layers)
    first = models[_key(recipe.slices[0].sources[0])]
    untied = _untie_heads(recipe, models, output)
    config = _config(recipe, models, layers, untied=untied)
    base = yield from _base(first.opened, output, config, describer)
    experts = []
    for name, entry in zip(recipe.expert_names, recipe.models, strict=True):
        key = (entry.on, entry.model) if entry.on else (entry.model, None)
        if key not in models:
            raise RecipeError(f"{plain(name)} is in no slice; remove it.", key="slices")
        replaced = output.tensors.get(key, {})
        view = compose(models[key].opened.checkpoint, replaced)
        experts.append(
            OpenedModel(
                name=name,
                checkpoint=view,
                architecture=base.architecture,
                own_names={n: n for n in replaced if n in base.checkpoint.tensors},
            )
        )
    return replace(base, slices=output.slices), tuple(experts)


def _opened(recipe: Recipe, describer: Describer) -> Steps[dict[_Key, _SlicedModel]]:
    """Every source of the slices, by model and adapter."""
    listed = {(recipe.base_model, recipe.adapter)}
    listed |= {(e.on, e.model) if e.on else (e.model, None) for e in recipe.models}
    models: dict[_Key, _SlicedModel] = {}
    first: OpenedModel | None = None
    for source in chain.from_iterable(part.sources for part in recipe.slices):
        if _key(source) in models:
            continue
        if _key(source) not in listed:
            raise RecipeError(
                f"A slice has {source.model}, which is not a model of the recipe; list it there.",
                path=source.model,
                key="slices",
            )
        opened = yield from open_whole(source.model, describer, source.adapter)
        first = first or opened
        blocks = _count(opened)
        models[_key(source)] = _SlicedModel(
            opened=opened, names=_named_as(first, opened, blocks), blocks=blocks
        )
    return models


def _named_as(first: OpenedModel, second: OpenedModel, blocks: int) -> dict[str, str]:
    """The first model's name of each tensor → its name in the other, which may have more blocks.

    Raises MismatchError if a block has other tensors, or tensors of other shapes.
    """
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for name, info in first.checkpoint.tensors.items():
        for block in range(blocks) if block_list(name) else [0]:
            shapes.setdefault(renumbered(name, block), set()).add(info.shape)
    answers = match_names(shapes, second.checkpoint.tensors)
    for key, info in second.checkpoint.tensors.items():
        traits = second.architecture.traits[key]
        if traits.block is None or traits.role is Role.BUFFER:
            continue
        if key not in answers or info.shape not in shapes[answers[key]]:
            what = "lacks it" if key not in answers else "has another shape there"
            raise MismatchError(
                f"`{plain(key)}` of {plain(second.name)} cannot be in a slice: {plain(first.name)} "
                f"{what}; choose models of one architecture and width.",
                path=second.checkpoint.path,
                tensor=key,
                shapes={second.name: info.shape},
            )
    return {theirs: key for key, theirs in answers.items()}


def _count(model: OpenedModel) -> int:
    """The number of blocks. Raises RecipeError unless there is one list of blocks."""
    names = model.checkpoint.tensors
    lists = {stack for name in names if (stack := block_list(name)) is not None}
    if len(lists) != 1 or len(model.checkpoint.parts) > 1:
        if lists:
            has = f"has {listing(sorted(lists))}"
        else:
            has = "has none"
        raise RecipeError(
            f"Slices need a model with one list of blocks, but {plain(model.name)} {has}; merge "
            "whole models.",
            path=model.checkpoint.path,
            key="slices",
        )
    traits = model.architecture.traits.values()
    return max(trait.block for trait in traits if trait.block is not None) + 1


def _layers(
    recipe: Recipe, number: int, models: Mapping[_Key, _SlicedModel]
) -> list[tuple[int, int]]:
    """The range of blocks of each source of a slice. Raises RecipeError if they do not fit."""
    sources = recipe.slices[number].sources
    ranges = []
    for source in sources:
        blocks = models[_key(source)].blocks
        first, end = source.layers or (0, blocks)
        if not 0 <= first < end <= blocks:
            raise RecipeError(
                f"Slice {number} has blocks [{first}, {end}] of {plain(source.model.name)}, which "
                f"has {blocks} blocks; name blocks that it has.",
                path=source.model,
                key="slices",
            )
        ranges.append((first, end))
    if len({end - first for first, end in ranges}) > 1:
        counts = []
        for source, (first, end) in zip(sources, ranges, strict=True):
            counts.append(f"{end - first} of {plain(source.model.name)}")
        raise RecipeError(
            f"The sources of slice {number} have different numbers of blocks ({', '.join(counts)});"
            " name "
            "ranges of one length.",
            key="slices",
        )
    if len({_key(source) for source in sources}) < len(sources):
        raise RecipeError(f"Slice {number} has a model twice; name it once.", key="slices")
    return ranges


def _output(
    recipe: Recipe, models: Mapping[_Key, _SlicedModel], layers: Sequence[Sequence[tuple[int, int]]]
) -> _SlicedOutput:
    """The sources of each tensor of the output: first those before the blocks, then the blocks."""
    output = _SlicedOutput()
    start = 0
    first = models[_key(recipe.slices[0].sources[0])].opened
    names_by_block = defaultdict[int | None, list[str]](list)
    for name, traits in first.architecture.traits.items():
        names_by_block[traits.block].append(name)
    outside = names_by_block[None]
    for number, part in enumerate(recipe.slices):
        used = [(source, models[_key(source)]) for source in part.sources]
        if number == 0:
            for name in outside:
                if _is_before(name, first):
                    output.add(name, number, [(*source, name) for source in used])
        length = layers[number][0][1] - layers[number][0][0]
        for k in range(length):
            numbers = [layer[0] + k for layer in layers[number]]
            for name in names_by_block[numbers[0]]:
                named = []
                for layer, block in zip(used, numbers, strict=True):
                    named.append((*layer, renumbered(name, block)))
                output.add(renumbered(name, start + k), number, named)
        start += length
    for name in outside:
        if not _is_before(name, first):
            output.add(name, len(recipe.slices) - 1, [(*layer, name) for layer in used])
    return output


def _is_before(name: str, model: OpenedModel) -> bool:
    """Whether a tensor outside of the blocks comes before them, as embeddings do."""
    role = model.architecture.traits[name].role
    heads = (Role.HEAD, Role.VOCABULARY_HEAD)
    return role in (Role.EMBEDDING, Role.POSITION) or ("embed" in name and role not in heads)


_NUMBER = re.compile(r"((?:^|\.)(?:layers?|h|blocks?|resblocks|\w+_layers)\.)\d+(?=\.|$)")


def renumbered(name: str, block: int) -> str:
    """The name of the same tensor of another block."""
    return _NUMBER.sub(lambda match: f"{match[1]}{block}", name, count=1)


def _rules_outside(part: Slice) -> list[Override]:
    """A slice's rules for tensors outside of the blocks."""
    return [rule for rule in part.overrides if rule.blocks is None]


def _untie_heads(
    recipe: Recipe, models: Mapping[_Key, _SlicedModel], output: _SlicedOutput
) -> bool:
    """Add a separate head if embedding and head come from different sources.

    Returns whether the output's head is untied.
    """
    first = recipe.slices[0]
    last = recipe.slices[-1]
    # Whether both merge the same models with the same settings outside of blocks.
    same_models = [*map(_key, first.sources)] == [*map(_key, last.sources)]
    if same_models and _rules_outside(first) == _rules_outside(last):
        return False
    untied = False
    for position, source in enumerate(last.sources):
        model = models[_key(source)]
        architecture = model.opened.architecture
        tied = {n: t.tied_to for n, t in architecture.traits.items() if t.tied_to is not None}
        for name, table in {**architecture.absent, **tied}.items():
            if block_list(name) is None and name.endswith("weight"):
                output.put(name, len(recipe.slices) - 1, position, source, model, table)
                untied = True
    return untied


def _config(
    recipe: Recipe,
    models: Mapping[_Key, _SlicedModel],
    layers: Sequence[Sequence[tuple[int, int]]],
    *,
    untied: bool,
) -> dict[str, object] | None:
    """The output's config, of the blocks of the bases; None if these have none."""
    blocks = []
    for part, ranges in zip(recipe.slices, layers, strict=True):
        model = models[_key(part.sources[0])]
        config = model.opened.checkpoint.config
        if config is None:
            return None
        blocks += [(full_config(config), model.blocks, block) for block in range(*ranges[0])]
    return joined_config(blocks, untied=untied)


def _base(
    first: OpenedModel,
    output: _SlicedOutput,
    config: Mapping[str, object] | None,
    describer: Describer,
) -> Steps[OpenedModel]:
    """The bases of all slices as one model."""
    before = first.checkpoint
    changes = {}
    if config is not None:
        first_config = before.config or {}
        changed = {key: value for key, value in config.items() if first_config.get(key) != value}
        changes["config.json"] = changed
    part = ModelPart(stem=before.parts[MAIN].stem, config=config)
    checkpoint = compose(
        before, output.base, config=config, parts={MAIN: part}, changes=changes, metadata={}
    )
    architecture = yield from describe(checkpoint, describer)
    return replace(
        first,
        checkpoint=checkpoint,
        architecture=architecture,
        own_names={name: name for name in output.base},
    )


def with_slice_rules(recipe: Recipe, base: OpenedModel) -> Recipe:
    """The recipe with the rules of its slices, each for the tensors of its slice alone."""
    rules = list(recipe.overrides)
    for number, part in enumerate(recipe.slices):
        names = [name for name, block_number in base.slices.items() if block_number == number]
        for rule in part.overrides:
            named = [n for n in names if rule.pattern is None or fnmatchcase(n, rule.pattern)]
            chosen = tuple(n for n in named if not rule.tensors or n in rule.tensors)
            if chosen:
                rules.append(replace(rule, pattern=None, tensors=chosen))
    return replace(recipe, overrides=tuple(rules))


def without_idle_rows(
    rows: Sequence[PlanRow], recipe: Recipe, parameters: Mapping[str, object]
) -> tuple[PlanRow, ...]:
    """The rows; a row is copied from the base if only the base has it and no factor changes it."""
    if not recipe.slices:
        return tuple(rows)
    needed = []
    for row in rows:
        values = row.override.parameters if row.override else parameters
        is_mean = bool(values.get("normalize", True))
        idle = not row.experts and (is_mean or values.get("base_weight", 1.0) == 1.0)
        if idle and row.is_merged:
            row = replace(row, disposition=Disposition.BASE, override=None, reason=COPIED)
        needed.append(row)
    return tuple(needed)
