"""Reading a file that describes a mixture of experts, and the merge in it; mergekit's keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ace_gui.errors import RecipeError
from ace_gui.formatting import listing, quoted_value
from ace_gui.recipe import recommended
from ace_gui.recipe.file_schema import Document, values_of
from ace_gui.recipe.mergekit.explaining import explained_mixture
from ace_gui.recipe.mergekit.key_fates import KeyFate
from ace_gui.recipe.mixtures import (
    ATTENTION_KEYS,
    MIXTURE_KEYS,
    MixtureDocument,
    MixtureRecipe,
    describes_mixture,
    mixture_of,
)
from ace_gui.recipe.model_paths import ModelPaths
from ace_gui.recipe.recipe_file import (
    SEVERAL,
    documents_of,
    load_recipe,
    naming,
    plain_paths,
    validated,
    with_after,
)
from ace_gui.recipe.values import ModelEntry, Recipe, SanityCheck


def mixture_from(source: Path | str | Mapping[str, object] | Recipe) -> MixtureRecipe | None:
    """A mixture of experts from its file, or from a mapping; None if this is another merge.

    Relative paths start from the file's folder, or the working directory. Raises RecipeError.
    """
    if isinstance(source, Recipe):
        return None
    documents: Sequence[object]
    if isinstance(source, Mapping):
        file = Path("recipe")
        documents = [plain_paths(source)]
    else:
        file = Path(source)
        documents = documents_of(file)
    content = documents[0]
    if not isinstance(content, dict) or not describes_mixture(content):
        return None
    with naming(file):
        if len(documents) > 1:
            raise RecipeError(f"{SEVERAL}; a mixture of experts needs a file of its own.")
        document = validated(content, MixtureDocument, keys_of=MIXTURE_KEYS)
        mixture = mixture_of(document, ModelPaths(folder=file.parent))
        is_theirs = not {"merge_method", "schema", "attention"} & content.keys()
        return replace(
            mixture,
            attention=_attention(document.attention, mixture),
            key_fates=explained_mixture(content) if is_theirs else (),
        )


def _attention(settings: str | Mapping[str, Any] | None, mixture: MixtureRecipe) -> Recipe | None:
    """The merge that gives a mixture its attention; None: the base has it. Raises RecipeError."""
    if settings is None or settings == "base":
        return None
    models = []
    for expert in mixture.experts:
        if expert.adapter is None:
            models.append(ModelEntry(model=expert.model))
        else:
            models.append(ModelEntry(model=expert.adapter, on=expert.model))
    merge = Recipe(base_model=mixture.base_model, adapter=mixture.adapter, models=tuple(models))
    merge = replace(merge, out_dtype=mixture.out_dtype, check=SanityCheck.OFF)
    if settings == recommended.NAME:
        return recommended.with_recommended(merge)
    keys = {"merge_method": settings} if isinstance(settings, str) else dict(settings)
    unknown = [key for key in keys if key not in ATTENTION_KEYS]
    if unknown:
        raise RecipeError(
            f"'attention' has no key {quoted_value(unknown[0])}; it may have "
            f"{listing(ATTENTION_KEYS)}.",
            key=f"attention.{unknown[0]}",
        )
    content = {**with_after(keys), "base_model": ".", "models": [{"model": "."}]}
    written = validated(content, Document, ModelPaths(folder=Path()))
    values = values_of(written)
    return replace(merge, **{key: values[key] for key in ATTENTION_KEYS if key in values})


def explained_file(path: Path) -> dict[str, tuple[KeyFate, ...]]:
    """What becomes of the keys of a file of mergekit's, by the name of the merge; "" for one.

    Raises the errors of reading it, and RecipeError for a recipe of this application.
    """
    mixture = mixture_from(path)
    if mixture is not None:
        fates = {"": mixture.key_fates}
    else:
        last = load_recipe(path)
        recipes = (*last.stages.values(), last)
        fates = {recipe.stage_name: recipe.key_fates for recipe in recipes}
    if not all(fates.values()):
        sentence = "this is a recipe of this application; give a file of mergekit's."
        raise RecipeError(f"{path}: {sentence}", path=path)
    return fates
