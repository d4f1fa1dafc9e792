"""A mixture of experts as a file describes it: mergekit-moe's, or ours with ``merge_method: moe``.

Both have the same keys. Imports are light but for pydantic, which reads every recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from ace_gui.errors import RecipeError
from ace_gui.formatting import listing, quoted_value
from ace_gui.recipe.file_schema import SCHEMA, in_file, placed
from ace_gui.recipe.mergekit.key_fates import KeyFate
from ace_gui.recipe.mergekit.reading import out_dtype_of
from ace_gui.recipe.mergekit.referenced_models import ReferencedModels
from ace_gui.recipe.mergekit.schema import FilePart, ReferenceInFile, Text
from ace_gui.recipe.model_paths import ModelPaths
from ace_gui.recipe.values import OutputDtype, Recipe, model_name
from ace_gui.recipe.yaml_reader import text_of

MIXTURE: Final = "moe"
"""The value of ``merge_method`` in a mixture's file."""


class GateMode(StrEnum):
    """How the weights of routers are made. The value is written in recipes.

    ``HIDDEN``: the hidden state of the last token of each prompt, before each block.
    ``HIDDEN_AVG``: the mean over all tokens of a prompt. ``CHEAP_EMBED``: the sum of the tokens'
    embeddings, the same for all blocks. ``RANDOM``: normally distributed. ``UNIFORM_RANDOM``:
    uniform, as torch begins a linear layer.
    """

    HIDDEN = "hidden"
    HIDDEN_AVG = "hidden_avg"
    CHEAP_EMBED = "cheap_embed"
    RANDOM = "random"
    UNIFORM_RANDOM = "uniform_random"

    @property
    def needs_prompts(self) -> bool:
        """Whether each expert needs a prompt."""
        return self not in (GateMode.RANDOM, GateMode.UNIFORM_RANDOM)


@dataclass(frozen=True, kw_only=True)
class MixtureExpert:
    """A dense model whose MLPs become an expert."""

    model: Path
    """Its folder or file."""
    adapter: Path | None = None
    """An adapter on it."""
    positive: tuple[str, ...] = ()
    """Prompts that belong to it."""
    negative: tuple[str, ...] = ()
    """Prompts that do not."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return model_name(self.adapter or self.model)


@dataclass(frozen=True, kw_only=True)
class MixtureRecipe:
    """Everything that determines a mixture of experts."""

    base_model: Path
    """The model with the attention, norms and embeddings."""
    adapter: Path | None = None
    """An adapter on the base."""
    experts: tuple[MixtureExpert, ...]
    """In the order of the routers' rows."""
    shared: MixtureExpert | None = None
    """The expert that sees every token; only some classes have it."""
    attention: Recipe | None = None
    """The merge of the base and the experts that has attention, norms and embeddings; None: they
    are the base's.
    """
    gate_mode: GateMode = GateMode.HIDDEN
    """How the routers are made."""
    experts_per_token: int = 2
    """How many experts compute each token."""
    architecture: str | None = None
    """The model type of the output; None: the first one that fits."""
    out_dtype: OutputDtype | None = None
    """None: as the base."""
    seed: int = 0
    """For random routers."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What of the file was left out."""
    key_fates: tuple[KeyFate, ...] = field(default=(), compare=False)
    """What became of each key of mergekit-moe's file; empty for a recipe of this application."""
    unfound: Mapping[Path, str] = field(default_factory=dict, compare=False)
    """Models that were missing when the file was read, with a message for each."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every model and adapter, the base model first."""
        experts = list(self.experts)
        if self.shared:
            experts.append(self.shared)
        paths = [self.base_model, self.adapter]
        for expert in experts:
            paths += [expert.model, expert.adapter]
        return tuple(path for path in paths if path)


_Prompts = Annotated[list[Text], BeforeValidator(lambda value: [] if value is None else value)]


class MixtureExpertEntry(FilePart):
    """An expert in a file."""

    source_model: ReferenceInFile
    positive_prompts: _Prompts = Field(default_factory=list)
    negative_prompts: _Prompts = Field(default_factory=list)
    noise_scale: float | None = None
    residual_scale: float | None = None


class MixtureDocument(FilePart):
    """A file that describes a mixture."""

    merge_method: Literal["moe"] = "moe"
    base_model: ReferenceInFile
    attention: dict[str, Any] | str | None = None
    gate_mode: Annotated[str, BeforeValidator(text_of)] = GateMode.HIDDEN.value
    experts: Annotated[list[MixtureExpertEntry], Field(min_length=1)]
    shared_experts: list[MixtureExpertEntry] | None = None
    experts_per_token: int = 2
    architecture: Annotated[str | None, BeforeValidator(text_of)] = None
    dtype: str | None = None
    out_dtype: str | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    schema_: Annotated[Literal[1], Field(alias="schema")] = SCHEMA


ATTENTION_KEYS: Final = ("merge_method", "parameters", "scope", "after", "overrides", "poolers")
"""The keys that ``attention`` may have."""

MIXTURE_KEYS: Final = {
    (): tuple(name.rstrip("_") for name in MixtureDocument.model_fields),
    ("experts",): tuple(MixtureExpertEntry.model_fields),
    ("shared_experts",): tuple(MixtureExpertEntry.model_fields),
}
"""The keys that a mixture's file may have, by section."""

_ARCHITECTURES: Final = {
    "mixtral": "mixtral",
    "qwen": "qwen2_moe",
    "qwen moe": "qwen2_moe",
    "qwen2_moe": "qwen2_moe",
    "qwen3": "qwen3_moe",
    "qwen3 moe": "qwen3_moe",
    "qwen3_moe": "qwen3_moe",
}
"""The names of classes of mixtures in files, and their model types."""

_MODES: Final = {"hidden_last": GateMode.HIDDEN} | {mode.value: mode for mode in GateMode}


def describes_mixture(content: Mapping[str, Any]) -> bool:
    """Whether the content of a file describes a mixture of experts."""
    listed = "experts" in content and "models" not in content
    return listed or content.get("merge_method") == MIXTURE


def mixture_of(document: MixtureDocument, paths: ModelPaths) -> MixtureRecipe:
    """The mixture that a file describes. ``paths``: of its models. Raises RecipeError."""
    models = ReferencedModels(paths=paths)
    if document.gate_mode not in _MODES:
        raise RecipeError(
            f"'gate_mode' is {quoted_value(document.gate_mode)}, but must be one of "
            f"{listing(tuple(_MODES))}.",
            key="gate_mode",
        )
    architecture = (document.architecture or "").lower()
    if architecture and architecture not in _ARCHITECTURES:
        raise RecipeError(
            f"'architecture' is {quoted_value(document.architecture)}, which is not possible here; "
            f"choose one of {listing(tuple(_ARCHITECTURES))}.",
            key="architecture",
        )
    shared = document.shared_experts or []
    if len(shared) > 1:
        raise RecipeError(
            "A mixture has at most one shared expert; keep one.", key="shared_experts"
        )
    base, adapter = models.folders_of(document.base_model)
    return MixtureRecipe(
        base_model=base,
        adapter=adapter,
        experts=tuple(_expert(entry, models) for entry in document.experts),
        shared=_expert(shared[0], models) if shared else None,
        gate_mode=_MODES[document.gate_mode],
        experts_per_token=document.experts_per_token,
        architecture=_ARCHITECTURES.get(architecture),
        out_dtype=out_dtype_of(document.out_dtype, document.dtype),
        seed=document.seed,
        notes=tuple(dict.fromkeys(models.notes)),
        unfound=paths.unfound,
    )


def _expert(entry: MixtureExpertEntry, models: ReferencedModels) -> MixtureExpert:
    for key, neutral in (("noise_scale", 0.0), ("residual_scale", 1.0)):
        if getattr(entry, key) not in (None, neutral):
            raise RecipeError(
                f"{key!r} of {entry.source_model} is not possible here; leave it out.", key=key
            )
    model, adapter = models.folders_of(entry.source_model)
    return MixtureExpert(
        model=model,
        adapter=adapter,
        positive=tuple(entry.positive_prompts),
        negative=tuple(entry.negative_prompts),
    )


def mixture_keys(recipe: MixtureRecipe, folder: Path | None) -> dict[str, Any]:
    """The content of a file for this mixture; its paths as ``placed`` has them."""
    keys: dict[str, Any] = {"schema": SCHEMA, "merge_method": MIXTURE}
    keys["base_model"] = _reference(recipe.base_model, recipe.adapter, folder)
    if recipe.attention is not None:
        merge = in_file(recipe.attention, folder)
        keys["attention"] = {key: merge[key] for key in ATTENTION_KEYS if key in merge}
    keys["gate_mode"] = recipe.gate_mode.value
    keys["experts_per_token"] = recipe.experts_per_token
    if recipe.architecture is not None:
        keys["architecture"] = recipe.architecture
    if recipe.out_dtype is not None:
        keys["out_dtype"] = recipe.out_dtype
    if not recipe.gate_mode.needs_prompts:
        keys["seed"] = recipe.seed
    keys["experts"] = [_entry(expert, folder) for expert in recipe.experts]
    if recipe.shared is not None:
        keys["shared_experts"] = [_entry(recipe.shared, folder)]
    return keys


def _entry(expert: MixtureExpert, folder: Path | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"source_model": _reference(expert.model, expert.adapter, folder)}
    if expert.positive:
        entry["positive_prompts"] = list(expert.positive)
    if expert.negative:
        entry["negative_prompts"] = list(expert.negative)
    return entry


def _reference(model: Path, adapter: Path | None, folder: Path | None) -> str:
    if adapter is None:
        return placed(model, folder)
    return f"{placed(model, folder)}+{placed(adapter, folder)}"
