"""From a file that describes a mixture of experts to its folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
import yaml

from ace_gui.architecture.sandbox import Describer
from ace_gui.architecture.transformers_library import load_tokenizer
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.pickle_conversion import with_consent
from ace_gui.engine.contract.events import Exported, JobProgress, exported
from ace_gui.engine.mixtures.mixture_folder import MixtureOutput, write_mixture
from ace_gui.engine.mixtures.mixture_plan import (
    DenseModel,
    MixtureModels,
    MixturePlan,
    plan_mixture,
)
from ace_gui.engine.mixtures.routers import (
    FixedRouters,
    PromptRouters,
    TokenPrompts,
    blocks_alike,
    check_prompts,
    random_routers,
    tokens_of,
)
from ace_gui.engine.planning.models import open_files, open_whole, refuse_unfound
from ace_gui.errors import CheckpointError, RecipeError
from ace_gui.formatting import counted, human_bytes, listing, plain
from ace_gui.output_files import RECIPE
from ace_gui.paths import conversions_folder
from ace_gui.recipe.mergekit.key_fates import sentence_on
from ace_gui.recipe.mixtures import MixtureExpert, MixtureRecipe, mixture_keys
from ace_gui.recipe.values import hub_name, model_name
from ace_gui.steps import result_of

CARD: Final = "README.md"


@dataclass(frozen=True, kw_only=True)
class PreparedMixture:
    """A mixture whose models are opened and fit together; no tensor was read."""

    recipe: MixtureRecipe
    plan: MixturePlan

    @property
    def sources(self) -> tuple[MixtureExpert, ...]:
        """The recipe's experts, the shared one last, as the routers have them."""
        if self.recipe.shared is None:
            return self.recipe.experts
        return (*self.recipe.experts, self.recipe.shared)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know before, a sentence each."""
        notes = list(self.recipe.notes)
        if self.recipe.key_fates:
            notes.append(sentence_on(self.recipe.key_fates))
        count = len(self.recipe.experts)
        if count & (count - 1):
            notes.append(
                f"{count} experts are not a power of two; llama.cpp and others may refuse that."
            )
        files = {(expert.model, expert.adapter) for expert in self.recipe.experts}
        if self.recipe.attention is not None:
            method = self.recipe.attention.merge_method
            size = human_bytes(self.plan.models.base.checkpoint.bytes)
            notes.append(
                f"The base and the experts are merged by {plain(method)} first, for attention, "
                f"norms and embeddings; that merge takes {size} in the cache."
            )
        if len(files) == 1:
            notes.append(
                "All experts are the same model, so the mixture answers as that model does until "
                "it is trained."
            )
        return tuple(notes)


def refuse_options(options: Mapping[str, object]) -> None:
    """Raise RecipeError if one of these options, by its name, is set; a mixture has none."""
    for name, value in options.items():
        if value:
            raise RecipeError(f"A mixture of experts is built without {name}; leave it out.")


def prepare_mixture(
    recipe: MixtureRecipe, *, convert: bool = False, merged: Path | None = None
) -> PreparedMixture:
    """Open the models and check that they fit together, from headers alone.

    ``convert``: convert PyTorch pickles among them. ``merged``: the folder of the merge that has
    attention, norms and embeddings; None: the base has them. Raises RecipeError, CheckpointError,
    ArchitectureError and MismatchError.
    """
    refuse_unfound(recipe)
    prepared = with_consent(lambda: _opened(recipe, merged), conversions_folder(), convert=convert)
    check_prompts(recipe.gate_mode, prepared.sources)
    return prepared


def _opened(recipe: MixtureRecipe, merged: Path | None) -> PreparedMixture:
    with Describer() as describer:
        opened: dict[tuple[Path, Path | None], Checkpoint] = {}

        def model(path: Path, adapter: Path | None) -> DenseModel:
            key = path, adapter
            if key not in opened:
                if adapter is None:
                    opened[key] = open_files(path)
                else:
                    opened[key] = result_of(open_whole(path, describer, adapter)).checkpoint
            return DenseModel(name=model_name(adapter or path), checkpoint=opened[key])

        if merged is None:
            base = model(recipe.base_model, recipe.adapter)
        else:
            base = replace(model(merged, None), name=model_name(recipe.base_model))
        models = MixtureModels(
            base=base,
            experts=tuple(model(expert.model, expert.adapter) for expert in recipe.experts),
            shared=_shared(recipe, model),
        )
    plan = plan_mixture(
        models, experts_per_token=recipe.experts_per_token, architecture=recipe.architecture
    )
    return PreparedMixture(recipe=recipe, plan=plan)


def _shared(
    recipe: MixtureRecipe, model: Callable[[Path, Path | None], DenseModel]
) -> DenseModel | None:
    if recipe.shared is None:
        return None
    return model(recipe.shared.model, recipe.shared.adapter)


def build_mixture(
    prepared: PreparedMixture, out: Path, *, device: torch.device, resume: bool
) -> Iterator[JobProgress | Exported]:
    """Build a mixture of experts and write it to ``out``, completely or not at all.

    ``device``: computes the routers of prompts. ``resume``: continue an unfinished mixture. Raises
    OutputError, ResourceError, ResumeError, NonFiniteError, CheckpointError and TaskError.
    """
    recipe = prepared.recipe
    tokens = _tokens(prepared) if recipe.gate_mode.needs_prompts else ()
    routers = _routers(prepared, tokens, device)
    texts = {
        RECIPE: yaml.safe_dump(mixture_keys(recipe, None), sort_keys=False, allow_unicode=True),
        CARD: _card(prepared),
    }
    output = MixtureOutput(
        dtype=recipe.out_dtype,
        texts=texts,
        recipe=repr((mixture_keys(recipe, Path("/")), tokens)),
        device=str(device),
        resume=resume,
    )
    yield from write_mixture(prepared.plan, routers, out, output)
    yield replace(exported(out), notes=(*prepared.notes, *_about(routers)))


def _routers(
    prepared: PreparedMixture, tokens: Sequence[TokenPrompts], device: torch.device
) -> FixedRouters | PromptRouters:
    """The routers; those of prompts are computed when the mixture is written."""
    plan = prepared.plan
    mode = prepared.recipe.gate_mode
    if mode.needs_prompts:
        return PromptRouters(mode, plan.models.base.checkpoint, tokens, device)
    count = len(prepared.sources)
    weights = random_routers(mode, plan.blocks, count, plan.hidden, prepared.recipe.seed)
    return FixedRouters(weights_BEH=weights)


def _tokens(prepared: PreparedMixture) -> tuple[TokenPrompts, ...]:
    """The prompts of all experts as the base's tokens. Raises CheckpointError, TaskError."""
    base = prepared.plan.models.base.checkpoint
    if base.folder is None:
        raise CheckpointError(
            f"{plain(prepared.plan.models.base.name)} has no tokenizer for the prompts; open the "
            "folder of the model, or choose `gate_mode: random`.",
            path=base.path,
        )
    tokenizer = load_tokenizer([base.folder])
    prompts = []
    for expert in prepared.sources:
        positive = tokens_of(tokenizer, expert.positive)
        negative = tokens_of(tokenizer, expert.negative)
        prompts.append(TokenPrompts(positive=positive, negative=negative))
    return tuple(prompts)


def _about(routers: FixedRouters | PromptRouters) -> Iterator[str]:
    """A sentence about blocks whose experts cannot be told apart."""
    blocks = blocks_alike(routers.weights_BEH)
    if blocks:
        where = counted(len(blocks), "block", "blocks")
        yield (
            f"In {where} the prompts of the experts look alike, so some experts will get few "
            "tokens; choose prompts that differ more, or train the routers."
        )


def _card(prepared: PreparedMixture) -> str:
    """The model card. It gives no paths of this machine."""
    recipe = prepared.recipe
    paths = [recipe.base_model, *(expert.model for expert in recipe.experts)]
    public = [hub_name(path) for path in paths]
    matter: dict[str, object] = {"library_name": "transformers", "tags": ["merge", "moe"]}
    if all(public):
        matter["base_model"] = list(dict.fromkeys(public))
    layout = prepared.plan.layout
    names = listing([expert.name for expert in recipe.experts])
    count = len(recipe.experts)
    if recipe.attention is None:
        attention = f"`{plain(model_name(recipe.base_model))}`"
    else:
        method = plain(recipe.attention.merge_method)
        attention = (
            f"`{plain(model_name(recipe.base_model))}` and the experts, merged by `{method}`"
        )
    lines = [
        f"---\n{yaml.safe_dump(matter, sort_keys=False)}---\n",
        "# A mixture of experts\n",
        f"Made of dense models by ACE workbench, as a `{layout.model_class}`: attention, norms and "
        f"embeddings of {attention}, and the MLPs of {names} as experts, "
        f"{recipe.experts_per_token} of {count} for each token.\n",
        f"The routers are of the mode `{recipe.gate_mode.value}` and were not trained. "
        f"`{RECIPE}` has the prompts and all settings.\n",
    ]
    return "\n".join(lines)


def bytes_of(prepared: PreparedMixture) -> int:
    """About how many bytes the mixture takes on disk."""
    plan = prepared.plan
    base = plan.models.base.checkpoint
    width = int(plan.config["intermediate_size"])
    mlp = 3 * width * plan.hidden * plan.blocks
    parameters = sum(math.prod(info.shape) for info in base.tensors.values())
    item = base.bytes / max(1, parameters)
    return round(item * (parameters + mlp * (len(plan.models.sources) - 1)))
