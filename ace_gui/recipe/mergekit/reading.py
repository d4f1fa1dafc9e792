"""Reads mergekit's YAML as a recipe, for the same merge if both define a method alike.

Otherwise the recipe's notes name the difference. Settings that cannot be translated are refused by
name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Final, get_args

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.methods import (
    WITHOUT_BASE,
    MergekitSettings,
    Translation,
    translated,
)
from ace_gui.recipe.mergekit.recognising import could_be_ours
from ace_gui.recipe.mergekit.schema import (
    Document,
    MergekitSlice,
    Model,
    ModelPath,
    Reference,
    Setting,
    Token,
    TokenRow,
    rules_of,
)
from ace_gui.recipe.model_paths import ModelPaths, block_count
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
_BASE: Final = "base"

Pair = tuple[Path, Path | None]
"""A model, and the adapter on it."""

Scopes = Sequence[Mapping[str, Setting]]
"""Settings, the nearest first."""


def from_mergekit(document: Document, paths: ModelPaths) -> Recipe:
    """The recipe equivalent to a mergekit file. ``paths``: of its models.

    Raises RecipeError that names what cannot be translated.
    """
    models = ReferencedModels(paths=paths)
    document, scopes = _without_modules(document)
    parts = _parts(document)
    if _names_only_the_base(document, parts):
        models.notes.append("The only model is the base itself, so the result is the base.")
        document = document.model_copy(update={"merge_method": "passthrough"})
    if document.merge_method != "passthrough" and _are_whole(parts, models):
        recipe = _of_whole_models(document, parts[0], scopes, models)
    else:
        recipe = _of_slices(document, parts, scopes, models)
    return replace(
        _with_tokenizer(recipe, document, models),
        out_dtype=out_dtype_of(document.out_dtype, document.dtype),
        notes=tuple(dict.fromkeys((*models.notes, *recipe.notes))),
        from_mergekit=True,
    )


@dataclass(frozen=True, kw_only=True)
class ReferencedModels:
    """Finds the models of a file. ``notes``: what was left out, a sentence each."""

    paths: ModelPaths
    notes: list[str] = field(default_factory=list)

    def path(self, model: ModelPath) -> Path:
        """A local folder, which has no revision, or else a model in the cache at its revision."""
        with_revision = os.path.lexists(self.paths.folder / str(model))
        without = os.path.lexists(self.paths.folder / model.path)
        if model.revision and without:
            self.notes.append(
                f"A local folder has no revisions: {model.revision!r} of {model.path!r} is left "
                "out."
            )
        if without and not with_revision:
            return self.paths(model.path)
        return self.paths(str(model))

    def pair(self, reference: Reference) -> Pair:
        """A model, and the adapter on it."""
        if reference.override_architecture:
            self.notes.append(
                "'override_architecture' is left out: tensors are matched by their names."
            )
        adapter = None if reference.lora is None else self.path(reference.lora)
        return self.path(reference.model), adapter

    def blocks(self, reference: Reference) -> int | None:
        """The number of blocks of a model; None if its config does not have it."""
        path = replace(self, notes=[]).path(reference.model)  # ``pair`` notes it once
        if path.is_dir():
            return block_count(path)
        return block_count(path.parent)


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
    parts = {"models": modules[0].models, "slices": modules[0].slices}
    return document.model_copy(update=parts), [modules[0].parameters, document.parameters]


def _parts(document: Document) -> list[MergekitSlice]:
    """The slices; models without slices are one slice of all blocks."""
    if document.slices and document.models:
        raise RecipeError("'models' and 'slices' exclude each other; keep one.", key="slices")
    if document.slices:
        return document.slices
    if not document.models:
        raise RecipeError("there are no models; add some.", key="models")
    return [MergekitSlice(sources=document.models)]


def _names_only_the_base(document: Document, parts: Sequence[MergekitSlice]) -> bool:
    """Whether a merge over a base has no other model; mergekit then writes the base."""
    if document.base_model is None or document.merge_method in WITHOUT_BASE:
        return False
    models = {source.model for part in parts for source in part.sources}
    return models <= {document.base_model}


def _are_whole(parts: Sequence[MergekitSlice], models: ReferencedModels) -> bool:
    """Whether the output has the blocks of its models, in their order."""
    if len(parts) > 1 or parts[0].base_model is not None:
        return False
    ranged = [source for source in parts[0].sources if source.layer_range is not None]
    return all(source.layer_range == (0, models.blocks(source.model)) for source in ranged)


def _of_whole_models(
    document: Document, part: MergekitSlice, scopes: Scopes, models: ReferencedModels
) -> Recipe:
    """The recipe of a merge of whole models."""
    reference = document.base_model or _first(document, part)
    base, adapter = models.pair(reference)
    pairs = {source.model: models.pair(source.model) for source in part.sources}
    experts = [source for source in part.sources if pairs[source.model] != (base, adapter)]
    if not experts:
        raise RecipeError("there is no model besides the base; add one.", key="models")
    ends = [source.layer_range[1] for source in part.sources if source.layer_range]
    blocks = ends[0] if ends else models.blocks(reference)
    bases = [source for source in part.sources if source not in experts]
    settings = MergekitSettings(
        method=document.merge_method,
        base=bases[0] if bases else None,
        has_base=document.base_model is not None,
        experts=experts,
        shared=[part.parameters, *scopes],
        blocks=blocks,
    )
    translation = translated(settings)
    entries = []
    for source, chain in zip_longest(experts, translation.weights):
        model, lora = pairs[source.model]
        weight = 1.0
        if chain is not None:  # there are no chains where all have weight 1
            weight = float(chain[0].value)
        if lora is None:
            entries.append(ModelEntry(model=model, weight=weight))
        elif model == base and adapter is None:  # an adapter on the plain base needs no ``on``
            entries.append(ModelEntry(model=lora, weight=weight))
        else:
            entries.append(ModelEntry(model=lora, on=model, weight=weight))
    recipe = Recipe(
        base_model=base,
        adapter=adapter,
        models=tuple(entries),
        merge_method=translation.method,
        parameters={name: chain[0].value for name, chain in translation.chains.items()},
        notes=tuple(settings.notes),
        defaults_note=_defaults_note(settings) if could_be_ours(document) else "",
    )
    return replace(recipe, overrides=_rules(translation, recipe.expert_names))


def _rules(translation: Translation, names: Sequence[str], offset: int = 0) -> tuple[Override, ...]:
    """Rules for tensors with other values than those for all. ``names``: of the experts."""
    weights = dict(zip(names, translation.weights, strict=False))
    by_expert = dict(zip(names, translation.by_expert, strict=False))
    return rules_of(translation.chains, weights, by_expert, offset)


def _first(document: Document, part: MergekitSlice) -> Reference:
    """The first model, as the base of a merge that needs none; it counts like any other."""
    if document.merge_method not in WITHOUT_BASE:
        raise RecipeError(
            f"{document.merge_method!r} needs a base model here; add base_model.", key="base_model"
        )
    first = part.sources[0].model
    if document.merge_method != "linear":
        return first
    # An adapter needs the model that it is on as the base, which then has no weight of its own.
    return first.model_copy(update={"lora": None})


def _of_slices(
    document: Document, parts: Sequence[MergekitSlice], scopes: Scopes, models: ReferencedModels
) -> Recipe:
    """The recipe of an output made of ranges of blocks."""
    bases = [_base_of(document, part, number) for number, part in enumerate(parts)]
    pairs = {source.model: models.pair(source.model) for part in parts for source in part.sources}
    base = pairs[bases[0]]
    expert_pairs: dict[Pair, None] = {}
    for part, reference in zip(parts, bases, strict=True):
        for source in part.sources:
            is_base_of_all = source.model == reference and pairs[reference] == base
            if not is_base_of_all:
                expert_pairs[pairs[source.model]] = None
    recipe = Recipe(
        base_model=base[0],
        adapter=base[1],
        models=tuple(_entry(model, adapter) for model, adapter in expert_pairs),
    )
    names = dict(zip(expert_pairs, recipe.expert_names, strict=True))
    slices: list[RecipeSlice] = []
    notes: list[str] = []
    offset = 0
    for part, reference in zip(parts, bases, strict=True):
        _refuse_own_numbers(part, offset)
        ordered = sorted(part.sources, key=lambda source: source.model != reference)
        settings = _slice_settings(document, part, ordered, scopes, models)
        translation = translated(settings)
        if not slices:
            parameters = {name: chain[0].value for name, chain in translation.chains.items()}
            recipe = replace(recipe, merge_method=translation.method, parameters=parameters)
        experts = [names[pairs[source.model]] for source in settings.experts]
        rules = (
            *_rules_for_all(translation, recipe, experts),
            *_rules(translation, experts, offset),
        )
        sources = []
        for source in ordered:
            model, adapter = pairs[source.model]
            sources.append(Source(model=model, adapter=adapter, layers=source.layer_range))
        slices.append(RecipeSlice(sources=tuple(sources), overrides=rules))
        notes += settings.notes
        if part.residual_weight is not None:
            notes.append("'residual_weight' is left out: mergekit reads it and does not use it.")
        offset += settings.blocks or 0
    return replace(recipe, slices=tuple(slices), notes=tuple(notes))


def _entry(model: Path, adapter: Path | None) -> ModelEntry:
    if adapter is None:
        return ModelEntry(model=model)
    return ModelEntry(model=adapter, on=model)


def _slice_settings(
    document: Document,
    part: MergekitSlice,
    sources: Sequence[Model],
    scopes: Scopes,
    models: ReferencedModels,
) -> MergekitSettings:
    """The settings of a slice, whose base is the first of its ``sources``."""
    base, *experts = sources
    first, end = part.sources[0].layer_range or (0, models.blocks(base.model) or 0)
    return MergekitSettings(
        method=document.merge_method,
        base=base,
        has_base=document.base_model is not None or part.base_model is not None,
        experts=experts,
        shared=[part.parameters, *scopes],
        blocks=end - first or None,
    )


def _rules_for_all(
    translation: Translation, recipe: Recipe, names: Sequence[str]
) -> list[Override]:
    """Rules for all tensors of a slice, with the settings that differ from the recipe's."""
    rules = []
    for name, chain in translation.chains.items():
        value = chain[0].value
        if recipe.parameters.get(name) != value:
            rules.append(Override(pattern="*", parameters={name: value}))
    weights = {}
    for name, chain in zip(names, translation.weights, strict=False):
        weight = float(chain[0].value)
        if weight != 1.0:
            weights[name] = weight
    if weights:
        rules.append(Override(pattern="*", weights=weights))
    return rules


def _base_of(document: Document, part: MergekitSlice, number: int) -> Reference:
    """The base of a slice, which is one of its models."""
    references = [source.model for source in part.sources]
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
    base = part.base_model or document.base_model
    if base in references:
        return base
    if document.merge_method in ("passthrough", "linear"):
        return references[0]
    if base is None and document.merge_method in WITHOUT_BASE:
        return references[0]
    named = "none is named" if base is None else f"{base} is not"
    raise RecipeError(
        f"{document.merge_method} needs its base model among the sources of slice {number}, but "
        f"{named}; add it there.",
        key="base_model",
    )


def _refuse_own_numbers(part: MergekitSlice, offset: int) -> None:
    """Raise RecipeError for a filter with block numbers that are different in the output."""
    for source in part.sources:
        if source.layer_range is None or source.layer_range[0] == offset:
            continue
        for name, setting in source.parameters.items():
            conditions = setting if isinstance(setting, list) else [setting]
            filters = [getattr(condition, "filter", None) for condition in conditions]
            if any(_NUMBERED.search(text) for text in filters if text):
                raise RecipeError(
                    f"a filter of {name!r} of {source.model} names a block number, which is "
                    "different in the output; write a gradient instead.",
                    key=name,
                )


def out_dtype_of(out_dtype: str | None, dtype: str | None) -> OutputDtype | None:
    """The format of the output by the two keys of a file. Raises RecipeError for another one."""
    name = (out_dtype or dtype or "").removeprefix("torch.")
    if name and name not in _DTYPES:
        raise RecipeError(
            f"the number format {name!r} is not known here; choose one of {', '.join(_DTYPES)}.",
            key="out_dtype" if out_dtype else "dtype",
        )
    return _DTYPES[name] if name else None


def _with_tokenizer(recipe: Recipe, document: Document, models: ReferencedModels) -> Recipe:
    """The recipe with the file's tokenizer and chat template."""
    if document.tokenizer is not None and document.tokenizer_source is not None:
        raise RecipeError(
            "'tokenizer' and 'tokenizer_source' exclude each other; keep one.", key="tokenizer"
        )
    chosen = document.tokenizer
    recipe = replace(recipe, chat_template=document.chat_template or "")
    names = _names(recipe)

    def named(reference: Reference) -> str:
        pair = models.pair(reference)
        if pair not in names:
            raise RecipeError(
                f"the tokenizer is that of {reference}, which is not among the models; choose one "
                "of them.",
                key="tokenizer_source",
            )
        return names[pair]

    def token_source(token: Token) -> TokenSource:
        source = token.source
        force = token.force
        if not isinstance(source, TokenRow):
            return TokenSource(model="" if source is None else named(source), force=force)
        return TokenSource(
            model="" if source.model is None else named(source.model),
            token=source.token,
            token_id=source.token_id,
            zero=source.kind == "zero",
            force=force,
        )

    if chosen is not None:
        tokens = {text: token_source(token) for text, token in chosen.tokens.items()}
        recipe = replace(recipe, tokens=tokens, pad_to_multiple_of=chosen.pad_to_multiple_of)
    source = document.tokenizer_source if chosen is None else chosen.source
    if source is None:
        return recipe
    if source == "union":
        return replace(recipe, vocabulary=Vocabulary.UNION)
    if isinstance(source, str) or named(source) == _BASE:
        return replace(recipe, vocabulary=Vocabulary.BASE_TOKENS)
    return replace(recipe, tokenizer=named(source))


def _names(recipe: Recipe) -> dict[Pair, str]:
    """The recipe's names of its models."""
    names: dict[Pair, str] = {}
    for entry, name in zip(recipe.models, recipe.expert_names, strict=True):
        if entry.on is None:
            names[entry.model, None] = name
        else:
            names[entry.on, entry.model] = name
    return names | {(recipe.base_model, recipe.adapter): _BASE}


def _defaults_note(settings: MergekitSettings) -> str:
    """The sentence that names the defaults which the file leaves open."""
    filled = ", ".join(f"{name} {value:g}" for name, value in settings.filled.items())
    if filled:
        defaults = f", with its defaults ({filled})"
    else:
        defaults = ""
    return (
        "This file has no schema and only keys that mergekit has, too, so it is read as "
        f"mergekit's{defaults}; write `schema: 1` in a recipe of this application."
    )
