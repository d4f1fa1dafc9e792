"""Reads mergekit's YAML as a recipe, for the same merge if both define a method alike.

Otherwise the recipe's notes name the difference. Settings that cannot be translated are refused by
name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.counterparts import MergekitSettings, Translation
from ace_gui.recipe.mergekit.methods import WITHOUT_BASE, names_by_model, translated
from ace_gui.recipe.mergekit.recognising import could_be_ours
from ace_gui.recipe.mergekit.referenced_models import Folders, ReferencedModels
from ace_gui.recipe.mergekit.schema import (
    Document,
    MergekitSlice,
    Model,
    Reference,
    Scalar,
    Setting,
    Token,
    conditions_of,
    rules_of,
)
from ace_gui.recipe.model_paths import ModelPaths
from ace_gui.recipe.values import (
    ModelEntry,
    OutputDtype,
    Override,
    Recipe,
    Source,
    TokenSource,
    Vocabulary,
)
from ace_gui.recipe.values import Slice as RecipeSlice

_DTYPES: Final[dict[str, OutputDtype]] = {str(name): name for name in get_args(OutputDtype)}


_NUMBERED: Final = re.compile(r"(?:^|\.)\d+(?:\.|$)")
"""A number between points, as that of a block in a tensor's name."""

_BASE: Final = "base"
"""The name of the base among the models."""

Scopes = Sequence[Mapping[str, Setting]]
"""The sections of a file that may have a setting, the nearest first."""


def from_mergekit(document: Document, paths: ModelPaths) -> Recipe:
    """The recipe equivalent to a mergekit file. ``paths``: of its models.

    Raises RecipeError that names what cannot be translated.
    """
    models = ReferencedModels(paths=paths)
    document, scopes = _without_modules(document)
    slices = _slices(document)
    if _names_only_the_base(document, slices):
        models.notes.append("The only model is the base itself, so the result is the base.")
        document = document.model_copy(update={"merge_method": "passthrough"})
    if document.merge_method != "passthrough" and _are_whole(slices, models):
        recipe = _of_whole_models(document, slices[0], scopes, models)
    else:
        recipe = _of_slices(document, slices, scopes, models)
    return replace(
        _with_tokenizer(recipe, document, models),
        out_dtype=out_dtype_of(document.out_dtype, document.dtype),
        notes=tuple(dict.fromkeys((*models.notes, *recipe.notes))),
        from_mergekit=True,
    )


def _without_modules(document: Document) -> tuple[Document, Scopes]:
    """The file with its only module as the model, and the settings for all of it."""
    modules = list((document.modules or {}).values())
    if not modules:
        return document, [document.parameters]
    if len(modules) > 1:
        raise RecipeError(
            "'modules' merges several models inside a model by recipes of their own, which is not "
            "possible here; write one recipe per part.",
            key="modules",
        )
    module = modules[0]
    content = {"models": module.models, "slices": module.slices}
    return document.model_copy(update=content), [module.parameters, document.parameters]


def _slices(document: Document) -> list[MergekitSlice]:
    """The slices; models without slices are one slice of all blocks."""
    if document.slices and document.models:
        raise RecipeError("'models' and 'slices' exclude each other; keep one.", key="slices")
    if document.slices:
        return document.slices
    if not document.models:
        raise RecipeError("there are no models; add some.", key="models")
    return [MergekitSlice(sources=document.models)]


def _names_only_the_base(document: Document, slices: Sequence[MergekitSlice]) -> bool:
    """Whether a merge over a base has no other model; mergekit then writes the base."""
    if document.base_model is None or document.merge_method in WITHOUT_BASE:
        return False
    sources = itertools.chain.from_iterable(file_slice.sources for file_slice in slices)
    return all(source.model == document.base_model for source in sources)


def _are_whole(slices: Sequence[MergekitSlice], models: ReferencedModels) -> bool:
    """Whether the output has the blocks of its models, in their order."""
    if len(slices) > 1 or slices[0].base_model is not None:
        return False
    for source in slices[0].sources:
        has_range = source.layer_range is not None
        if has_range and source.layer_range != (0, models.blocks(source.model)):
            return False
    return True


def _of_whole_models(
    document: Document, file_slice: MergekitSlice, scopes: Scopes, models: ReferencedModels
) -> Recipe:
    """The recipe of a merge of whole models."""
    reference = document.base_model or _first_as_base(document, file_slice)
    base, adapter = models.folders_of(reference)
    # Experts are all models in other folders than the base: a file may name one folder in two ways.
    folders = {source.model: models.folders_of(source.model) for source in file_slice.sources}
    experts = [source for source in file_slice.sources if folders[source.model] != (base, adapter)]
    if not experts:
        raise RecipeError("there is no model besides the base; add one.", key="models")
    bases = [source for source in file_slice.sources if source not in experts]
    base_among_models = None
    if bases:
        base_among_models = bases[0]
    settings = MergekitSettings(
        method=document.merge_method,
        base=base_among_models,
        has_base=document.base_model is not None,
        experts=experts,
        common_scopes=[file_slice.parameters, *scopes],
        blocks=_number_of_blocks(file_slice, reference, models),
    )
    translation = translated(settings)
    entries = []
    for index, source in enumerate(experts):
        weight = 1.0
        if translation.weights:  # there are none where all have weight 1
            weight = float(translation.weights[index][0].value)
        entries.append(_expert_entry(folders[source.model], weight, (base, adapter)))
    defaults_note = ""
    if could_be_ours(document):
        defaults_note = _defaults_note(settings)
    recipe = Recipe(
        base_model=base,
        adapter=adapter,
        models=tuple(entries),
        merge_method=translation.method,
        parameters=_values_for_all(translation),
        notes=tuple(settings.notes),
        defaults_note=defaults_note,
    )
    return replace(recipe, overrides=_rules(translation, recipe.expert_names))


def _expert_entry(expert: Folders, weight: float, base: Folders) -> ModelEntry:
    """An expert of the recipe."""
    model, adapter = expert
    if adapter is None:
        return ModelEntry(model=model, weight=weight)
    if base == (model, None):  # an adapter on the plain base needs no ``on``
        return ModelEntry(model=adapter, weight=weight)
    return ModelEntry(model=adapter, on=model, weight=weight)


def _number_of_blocks(
    file_slice: MergekitSlice, base: Reference, models: ReferencedModels
) -> int | None:
    """The blocks of a merge of whole models: as the file says, or as many as the base has."""
    for source in file_slice.sources:
        if source.layer_range:
            return source.layer_range[1]
    return models.blocks(base)


def _values_for_all(translation: Translation) -> dict[str, Scalar]:
    """The values of parameters for all tensors, which come first among a parameter's values."""
    parameters = translation.conditional_parameters
    return {name: values[0].value for name, values in parameters.items()}


def _rules(translation: Translation, names: Sequence[str], offset: int = 0) -> tuple[Override, ...]:
    """Rules for tensors with other values than those for all. ``names``: of the experts."""
    # Both may be empty: all weights are 1, and no parameter differs by expert.
    weights = dict(zip(names, translation.weights, strict=False))
    by_expert = dict(zip(names, translation.by_expert, strict=False))
    return rules_of(translation.conditional_parameters, weights, by_expert, offset)


def _first_as_base(document: Document, file_slice: MergekitSlice) -> Reference:
    """The first model, as the base of a merge that needs none; it counts like any other.

    In an average, a first model with an adapter becomes two: the model alone is the base, and the
    model with the adapter is an expert.
    """
    if document.merge_method not in WITHOUT_BASE:
        raise RecipeError(
            f"{document.merge_method!r} needs a base model here; add base_model.", key="base_model"
        )
    first = file_slice.sources[0].model
    if document.merge_method != "linear":
        return first
    # An adapter needs the model that it is on as the base, which then has no weight of its own.
    return first.model_copy(update={"lora": None})


def _of_slices(
    document: Document,
    file_slices: Sequence[MergekitSlice],
    scopes: Scopes,
    models: ReferencedModels,
) -> Recipe:
    """The recipe of an output made of ranges of blocks."""
    bases = [_base_of(document, part, number) for number, part in enumerate(file_slices)]
    folders: dict[Reference, Folders] = {}
    for file_slice in file_slices:
        for source in file_slice.sources:
            folders[source.model] = models.folders_of(source.model)
    base, base_adapter = folders[bases[0]]
    expert_folders = _expert_folders(file_slices, bases, folders)
    recipe = Recipe(
        base_model=base,
        adapter=base_adapter,
        models=tuple(_entry_in_slices(model, adapter) for model, adapter in expert_folders),
    )
    names = dict(zip(expert_folders, recipe.expert_names, strict=True))
    slices: list[RecipeSlice] = []
    notes: list[str] = []
    offset = 0
    for file_slice, slice_base in zip(file_slices, bases, strict=True):
        by_model = names_by_model(document.merge_method)
        _refuse_numbered_filters(file_slice, scopes, by_model, offset)
        sources = _base_first(file_slice, slice_base)
        settings = _slice_settings(document, file_slice, sources, scopes, models)
        translation = translated(settings)
        if not slices:  # the first slice gives the method, which is that of all
            parameters = _values_for_all(translation)
            recipe = replace(recipe, merge_method=translation.method, parameters=parameters)
        experts = [names[folders[source.model]] for source in settings.experts]
        rules = _rules_for_all(translation, recipe, experts)
        rules += _rules(translation, experts, offset)
        recipe_sources = [_recipe_source(source, folders[source.model]) for source in sources]
        slices.append(RecipeSlice(sources=tuple(recipe_sources), overrides=tuple(rules)))
        notes += settings.notes
        if file_slice.residual_weight is not None:
            notes.append("'residual_weight' is left out: mergekit reads it and does not use it.")
        offset += settings.blocks or 0
    return replace(recipe, slices=tuple(slices), notes=tuple(notes))


def _base_first(file_slice: MergekitSlice, base: Reference) -> list[Model]:
    """The sources of a slice, its base before the others, which stay in their order."""
    return sorted(file_slice.sources, key=lambda source: source.model != base)


def _recipe_source(source: Model, folders: Folders) -> Source:
    """A source of a slice in the recipe."""
    model, adapter = folders
    return Source(model=model, adapter=adapter, layers=source.layer_range)


def _expert_folders(
    file_slices: Sequence[MergekitSlice],
    bases: Sequence[Reference],
    folders: Mapping[Reference, Folders],
) -> list[Folders]:
    """The models of all slices, once each, in order, without the base of the whole output.

    ``bases``: of each slice, the first one also of the output. That model is left out where it is
    the base of a slice. In another slice it may be an expert, and is then listed.
    """
    base = folders[bases[0]]
    experts: list[Folders] = []
    for file_slice, slice_base in zip(file_slices, bases, strict=True):
        for source in file_slice.sources:
            source_folders = folders[source.model]
            is_base_of_all = source.model == slice_base and source_folders == base
            if not is_base_of_all and source_folders not in experts:
                experts.append(source_folders)
    return experts


def _entry_in_slices(model: Path, adapter: Path | None) -> ModelEntry:
    """An expert of a recipe with slices, whose weights are in rules."""
    if adapter is None:
        return ModelEntry(model=model)
    return ModelEntry(model=adapter, on=model)


def _slice_settings(
    document: Document,
    file_slice: MergekitSlice,
    sources: Sequence[Model],
    scopes: Scopes,
    models: ReferencedModels,
) -> MergekitSettings:
    """The settings of a slice, whose base is the first of its ``sources``."""
    base, *experts = sources
    # The sources of a slice have the same number of blocks, so that of any source will do.
    layer_range = file_slice.sources[0].layer_range
    blocks = None  # also for an empty range, over which no gradient is possible
    if layer_range is None:
        blocks = models.blocks(base.model) or None
    elif layer_range[0] != layer_range[1]:
        blocks = layer_range[1] - layer_range[0]
    return MergekitSettings(
        method=document.merge_method,
        base=base,
        has_base=document.base_model is not None or file_slice.base_model is not None,
        experts=experts,
        common_scopes=[file_slice.parameters, *scopes],
        blocks=blocks,
    )


def _rules_for_all(
    translation: Translation, recipe: Recipe, names: Sequence[str]
) -> list[Override]:
    """Rules for all tensors of a slice, with the settings that differ from the recipe's."""
    rules = []
    for name, value in _values_for_all(translation).items():
        if recipe.parameters.get(name) != value:
            rules.append(Override(pattern="*", parameters={name: value}))
    weights = {}
    for name, values in zip(names, translation.weights, strict=False):
        weight = float(values[0].value)
        if weight != 1.0:
            weights[name] = weight
    if weights:
        rules.append(Override(pattern="*", weights=weights))
    return rules


def _base_of(document: Document, file_slice: MergekitSlice, number: int) -> Reference:
    """The base of a slice, which is one of its models."""
    references = [source.model for source in file_slice.sources]
    if len(set(references)) < len(references):
        raise RecipeError(
            f"slice {number} has a model twice; weights belong to models, so name it once.",
            key="slices",
        )
    if document.merge_method == "passthrough" and len(references) > 1:
        raise RecipeError(
            f"passthrough takes one model per slice, but slice {number} has {len(references)}.",
            key="slices",
        )
    base = file_slice.base_model or document.base_model
    if base in references:
        return base
    if document.merge_method in ("passthrough", "linear"):
        return references[0]
    if base is None and document.merge_method in WITHOUT_BASE:
        return references[0]
    failure = "none is named"
    if base is not None:
        failure = f"{base} is not"
    raise RecipeError(
        f"{document.merge_method} needs its base model among the sources of slice {number}, but "
        f"{failure}; add it there.",
        key="base_model",
    )


def _refuse_numbered_filters(
    file_slice: MergekitSlice, scopes: Scopes, by_model: Sequence[str], offset: int
) -> None:
    """Raise RecipeError for a filter with block numbers that are different in the output.

    mergekit compares a filter with the name of a tensor. For the settings in ``by_model`` that is
    the name in a source, wherever in the file the setting stands; for others it is the name in the
    output.
    """
    for source in file_slice.sources:
        if source.layer_range is None or source.layer_range[0] == offset:
            continue
        for name in dict.fromkeys([*source.parameters, *by_model]):
            sections: list[Mapping[str, Setting]] = [source.parameters]
            if name in by_model:
                sections += [file_slice.parameters, *scopes]
            if _has_numbered_filter(name, sections):
                raise RecipeError(
                    f"a filter of {name!r} of {source.model} names a block number, which is "
                    "different in the output; write a gradient instead.",
                    key=name,
                )


def _has_numbered_filter(name: str, scopes: Scopes) -> bool:
    """Whether a condition of a setting has a filter with a block number.

    Conditions that can never hold do not matter: those after one for all tensors.
    """
    for condition in conditions_of(name, scopes):
        if _NUMBERED.search(condition.filter or ""):
            return True
        if condition.is_for_all:
            return False
    return False


def out_dtype_of(out_dtype: str | None, dtype: str | None) -> OutputDtype | None:
    """The format of the output by the two keys of a file. Raises RecipeError for another one."""
    key = "dtype"
    if out_dtype:
        key = "out_dtype"
    name = (out_dtype or dtype or "").removeprefix("torch.")
    if not name:
        return None
    if name not in _DTYPES:
        raise RecipeError(
            f"the number format {name!r} is not known here; choose one of {', '.join(_DTYPES)}.",
            key=key,
        )
    return _DTYPES[name]


def _with_tokenizer(recipe: Recipe, document: Document, models: ReferencedModels) -> Recipe:
    """The recipe with the file's tokenizer and chat template."""
    if document.tokenizer is not None and document.tokenizer_source is not None:
        raise RecipeError(
            "'tokenizer' and 'tokenizer_source' exclude each other; keep one.", key="tokenizer"
        )
    recipe = replace(recipe, chat_template=document.chat_template or "")
    names = _names(recipe)

    def name_of(reference: Reference) -> str:
        folders = models.folders_of(reference)
        if folders not in names:
            raise RecipeError(
                f"the tokenizer is that of {reference}, which is not among the models; choose one "
                "of them.",
                key="tokenizer_source",
            )
        return names[folders]

    source = document.tokenizer_source
    choice = document.tokenizer
    if choice is not None:
        tokens = {text: _token_source(token, name_of) for text, token in choice.tokens.items()}
        recipe = replace(recipe, tokens=tokens, pad_to_multiple_of=choice.pad_to_multiple_of)
        source = choice.source
    if source is None:
        return recipe
    if source == "union":
        return replace(recipe, vocabulary=Vocabulary.UNION)
    if source == "base":
        return replace(recipe, vocabulary=Vocabulary.BASE_TOKENS)
    assert isinstance(source, Reference)
    name = name_of(source)
    if name == _BASE:
        return replace(recipe, vocabulary=Vocabulary.BASE_TOKENS)
    return replace(recipe, tokenizer=name)


def _token_source(token: Token, name_of: Callable[[Reference], str]) -> TokenSource:
    """Where a token's row comes from. ``name_of``: the recipe's name of a model."""
    source = token.source
    if source is None:
        return TokenSource(model="", force=token.force)
    if isinstance(source, Reference):
        return TokenSource(model=name_of(source), force=token.force)
    model = ""
    if source.model is not None:
        model = name_of(source.model)
    return TokenSource(
        model=model,
        token=source.token,
        token_id=source.token_id,
        zero=source.kind == "zero",
        force=token.force,
    )


def _names(recipe: Recipe) -> dict[Folders, str]:
    """The recipe's names of its models."""
    names: dict[Folders, str] = {}
    for entry, name in zip(recipe.models, recipe.expert_names, strict=True):
        if entry.on is None:
            names[entry.model, None] = name
        else:
            names[entry.on, entry.model] = name
    names[recipe.base_model, recipe.adapter] = _BASE
    return names


def _defaults_note(settings: MergekitSettings) -> str:
    """The sentence that names the defaults which the file leaves open."""
    numbers = [f"{name} {value:g}" for name, value in settings.default_numbers.items()]
    defaults = ""
    if numbers:
        defaults = f", with its defaults ({', '.join(numbers)})"
    return (
        "This file has no schema and only keys that mergekit has, too, so it is read as "
        f"mergekit's{defaults}; write `schema: 1` in a recipe of this application."
    )
