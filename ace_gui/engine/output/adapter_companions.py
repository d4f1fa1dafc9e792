"""The files that are written beside an adapter's weights: its config, its card and the recipe."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

from ace_gui.architecture.names import embedding_role
from ace_gui.engine.merging.merge_manifest import Manifest
from ace_gui.engine.output.adapter_store import AdapterStore
from ace_gui.engine.output.model_card import CARD, adapter_card, lineage_of
from ace_gui.engine.planning.adapter_tensors import (
    AdapterPlan,
    is_inside,
    owner_of,
    patterns,
)
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.output_files import RECIPE
from ace_gui.recipe.recipe_file import dump_recipe

CONFIG: Final = "adapter_config.json"


def write_companions(
    store: AdapterStore,
    plan: AdapterPlan,
    prepared: Prepared,
    manifest: Manifest,
    target: Path,
    hashes: Mapping[str, str],
) -> None:
    """The config, the card and the recipe."""
    config = adapter_config(plan, prepared)
    (store.model / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    shares = {item.tensor: store.entry(item.tensor).kept for item in plan.factored}
    known_shares = {tensor: share for tensor, share in shares.items() if share is not None}
    card = adapter_card(target.name, manifest, plan, known_shares, hashes)
    (store.model / CARD).write_text(card, encoding="utf-8")
    text = dump_recipe(manifest.resolved_recipe, target)
    (store.model / RECIPE).write_text(text, encoding="utf-8")


def adapter_config(plan: AdapterPlan, prepared: Prepared) -> dict[str, Any]:
    """``adapter_config.json``: every scale is 1, so alphas are ranks, and rsLoRA is off."""
    recipe = prepared.recipe
    ranks = patterns(plan.factored, plan.rank)
    layers = [item for item in plan.factored if not item.bare]
    unfactored_names = chain.from_iterable(item.names for item in plan.unfactored)
    beside = [name for name in unfactored_names if ".base_layer." in name]
    turned = [item for item in layers if item.turned and not item.embedding]
    tied = list(chain.from_iterable(item.parameter.names[1:] for item in plan.unfactored))
    public = lineage_of(recipe).base
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": public or str(recipe.base_model.absolute()),
        "r": plan.rank,
        "lora_alpha": plan.rank,
        "lora_dropout": 0.0,
        "bias": "lora_only" if beside else "none",
        "target_modules": [item.target for item in layers],
        "target_parameters": [item.target for item in plan.factored if item.bare] or None,
        "rank_pattern": ranks,
        "alpha_pattern": ranks,
        "modules_to_save": list(plan.whole_modules) or None,
        "fan_in_fan_out": bool(turned),
        "use_rslora": False,
        "use_dora": False,
        "init_lora_weights": True,
        "inference_mode": True,
        "ensure_weight_tying": _are_heads(tied, plan),
    }


def _are_heads(tied: Collection[str], plan: AdapterPlan) -> bool:
    """Whether all parameters that are tied to whole ones are the only ones of layers of their own.

    PEFT makes linear layers without biases of the modules that it ties, also of a decoder's
    embedding, and of a head with several layers.
    """
    if not tied or any(map(embedding_role, tied)):
        return False
    owners = {owner_of(name) for name in tied}
    names = [name for parameter in plan.parameters for name in parameter.names]
    beside = any(is_inside(name, owners) for name in names if name not in tied)
    return not beside and owners <= set(plan.whole_modules)
