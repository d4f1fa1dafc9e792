"""mergekit's YAML read as a recipe: the same merge if both define a method alike.

Otherwise the recipe's notes name the difference. Settings that cannot be translated are refused by
name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

from ace_gui.errors import RecipeError
from ace_gui.recipe.base_config import base_config
from ace_gui.recipe.mergekit.counterparts import Settings, translated
from ace_gui.recipe.mergekit.schema import Document, Model, Setting, could_be_ours
from ace_gui.recipe.mergekit.settings_at_depth import rules_of
from ace_gui.recipe.values import ModelEntry, OutputDtype, Recipe, Vocabulary

_DTYPES: Final[dict[str, OutputDtype]] = {str(name): name for name in get_args(OutputDtype)}
_MOST_BLOCKS: Final = 10_000
"""No model has more; a gradient over more would take for ever."""

_BLOCK_KEYS: Final = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")


def from_mergekit(document: Document, path: Path, resolve: Callable[[str], Path]) -> Recipe:
    """The recipe equivalent to a mergekit file.

    ``resolve``: returns a model's path. Raises RecipeError that names what cannot be translated.
    """
    _refuse_other_merges(document, path)
    models, nearer = _models(document, path)
    folder = resolve(_base_of(document, path))
    _refuse_parts(models, path, resolve)
    models = [
        model.model_copy(update={"model": _on_base(model.model, folder, path, resolve)})
        for model in models
    ]
    experts = [model for model in models if resolve(model.model) != folder]
    if not experts:
        raise RecipeError(
            f"{path} has no model besides the base; add one.", path=path, key="models"
        )
    settings = Settings(
        method=document.merge_method,
        base=next((model for model in models if model not in experts), None),
        has_base=document.base_model is not None,
        experts=experts,
        shared=[*nearer, document.parameters],
        blocks=_blocks(document, folder),
    )
    found = translated(settings)
    recipe = Recipe(
        base_model=folder,
        models=tuple(
            ModelEntry(model=resolve(model.model), weight=float(chain[0].value))
            for model, chain in zip(experts, found.weights, strict=True)
        ),
        merge_method=found.method,
        parameters={name: chain[0].value for name, chain in found.parameters.items()},
        vocabulary=_vocabulary(document),
        out_dtype=_out_dtype(document, path),
        notes=(*settings.notes, *_tokenizer_notes(document)),
        from_mergekit=True,
        defaults_note=_defaults_note(settings) if could_be_ours(document) else "",
    )
    weights = dict(zip(recipe.expert_names, found.weights, strict=True))
    densities = dict(zip(recipe.expert_names, found.own, strict=False))
    return replace(recipe, overrides=rules_of(found.parameters, weights, densities))


def _refuse_other_merges(document: Document, path: Path) -> None:
    """Raise RecipeError for mergekit features other than merging whole models."""
    if document.modules:
        raise RecipeError(
            f"{path}: 'modules' merges the parts of a model by recipes of their own, which is not "
            "possible here; write one recipe a part.",
            path=path,
            key="modules",
        )
    if document.merge_method == "passthrough":
        raise RecipeError(
            f"{path}: mergekit's passthrough copies and stacks parts of models, which is not "
            "possible here; merge whole models.",
            path=path,
            key="merge_method",
        )


def _models(document: Document, path: Path) -> tuple[list[Model], list[Mapping[str, Setting]]]:
    """The models, and settings of a slice for all of them."""
    if not document.slices:
        if not document.models:
            raise RecipeError(f"{path} has no models; add some.", path=path, key="models")
        return document.models, []
    only = document.slices[0]
    if len(document.slices) > 1 or only.base_model is not None:
        raise RecipeError(
            f"{path}: 'slices' stacks parts of models into a new one, which is not possible here; "
            "one slice with all blocks of every model is.",
            path=path,
            key="slices",
        )
    return only.sources, [only.parameters]


def _refuse_parts(models: Sequence[Model], path: Path, resolve: Callable[[str], Path]) -> None:
    """Raise RecipeError for a range that is not known to be all blocks of its model."""
    for model in models:
        if model.layer_range is None:
            continue
        folder = resolve(model.model.partition("+")[0])
        count = block_count(folder if folder.is_dir() else folder.parent)
        if model.layer_range == (0, count):
            continue
        first, end = model.layer_range
        has = "has no number of blocks in its config" if count is None else f"has {count} blocks"
        raise RecipeError(
            f"{path}: layer_range is [{first}, {end}], but {model.model!r} {has}; parts of models "
            "cannot be merged here, so name all blocks of every model, or write 'models'.",
            path=path,
            key="layer_range",
        )


def _base_of(document: Document, path: Path) -> str:
    """The base model, else the first: averages need none, and the result is the same."""
    if document.base_model is not None:
        return _without_adapter(document.base_model, path)
    models, _ = _models(document, path)
    first, plus, _ = models[0].model.partition("+")
    if document.merge_method not in {"linear", "nuslerp"}:
        raise RecipeError(
            f"{path}: {document.merge_method!r} needs a base model here; add base_model.",
            path=path,
            key="base_model",
        )
    if plus:
        raise RecipeError(
            f"{path} names no base_model; add `base_model: {first}`, and {models[0].model!r} is "
            "that adapter as an expert.",
            path=path,
            key="base_model",
        )
    return first


def _on_base(model: str, base: Path, path: Path, resolve: Callable[[str], Path]) -> str:
    """The model as a recipe names it: of ``base+adapter``, the adapter, which is an expert here."""
    trained_on, plus, adapter = model.partition("+")
    if plus and adapter and resolve(trained_on) == base:
        model = adapter
    return _without_adapter(model, path)


def _without_adapter(model: str, path: Path) -> str:
    if "+" in model:
        raise RecipeError(
            f"{path}: {model!r} adds an adapter to a model other than the base; merge the two with "
            "PEFT's `merge_and_unload`, and name the folder you get.",
            path=path,
            key="model",
        )
    return model


def _blocks(document: Document, base: Path) -> int | None:
    """The models' number of blocks: from a slice, else from the base's config."""
    ranges = [source.layer_range for part in document.slices for source in part.sources]
    return next((each[1] for each in ranges if each), None) or block_count(base)


def block_count(folder: Path) -> int | None:
    """The number of blocks in a model's config.json; None if it has no such entry."""
    config = base_config(folder)
    inner = config.get("text_config")
    indices: Sequence[dict[str, object]] = [config, inner if isinstance(inner, dict) else {}]
    found = (index[key] for index in indices for key in _BLOCK_KEYS if key in index)
    counts = (count for count in found if isinstance(count, int) and 0 < count <= _MOST_BLOCKS)
    return next(counts, None)


def _out_dtype(document: Document, path: Path) -> OutputDtype | None:
    written = (document.out_dtype or document.dtype or "").removeprefix("torch.") or None
    if written is not None and written not in _DTYPES:
        raise RecipeError(
            f"{path}: the number format {written!r} is not known here; choose one of "
            f"{', '.join(_DTYPES)}.",
            path=path,
            key="out_dtype" if document.out_dtype else "dtype",
        )
    return None if written is None else _DTYPES[written]


def _vocabulary(document: Document) -> Vocabulary:
    source = _tokenizer_source(document)
    if source is None:
        return Vocabulary.POSITION
    return Vocabulary.UNION if source == "union" else Vocabulary.BASE_TOKENS


def _defaults_note(settings: Settings) -> str:
    """The sentence that names the defaults which the file leaves open."""
    filled = ", ".join(f"{name} {value:g}" for name, value in settings.filled.items())
    return (
        "This file has no schema and only keys that mergekit has, too, so it is read as "
        f"mergekit's{f', with its defaults ({filled})' if filled else ''}; write `schema: 1` in a "
        "recipe of this application."
    )


def _tokenizer_source(document: Document) -> object:
    if document.tokenizer is None:
        return document.tokenizer_source
    return document.tokenizer.get("source", "union")  # its default


def _tokenizer_notes(document: Document) -> list[str]:
    notes = []
    source = _tokenizer_source(document)
    if source not in (None, "base", "union", document.base_model):
        notes.append(f"The tokenizer is the base's, not {source!r} as in the file.")
    if left_out := (document.tokenizer or {}).keys() - {"source"}:
        named = ", ".join(f"{key!r}" for key in sorted(left_out))
        notes.append(f"Keys of 'tokenizer' other than its source are ignored: {named}.")
    if document.chat_template is not None:
        notes.append("The chat template is the base's, not the one the file names.")
    return notes
