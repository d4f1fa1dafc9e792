"""The card of an adapter: what was merged, and how much of the change each layer keeps."""

from __future__ import annotations

from collections.abc import Mapping

from ace_gui.engine.contract.libraries import PEFT
from ace_gui.engine.merging.store import Manifest
from ace_gui.engine.output.adapter_plan import AdapterPlan
from ace_gui.engine.output.lineage import lineage_of
from ace_gui.engine.output.model_card import (
    about_lines,
    file_lines,
    front_lines,
    licence_lines,
    method_lines,
    plain_text,
    recipe_lines,
    warning_lines,
)
from ace_gui.formatting import counted


def adapter_card(
    title: str,
    manifest: Manifest,
    plan: AdapterPlan,
    kept: Mapping[str, float],
    hashes: Mapping[str, str],
) -> str:
    """The text of README.md. ``kept``: the share of energy that each factored tensor keeps."""
    lineage = lineage_of(manifest.recipe)
    sections = (
        front_lines(manifest.recipe.merge_method, PEFT, lineage, relation="adapter"),
        about_lines(title, manifest, manifest.recipe.out_dtype or "float32", what="one adapter"),
        method_lines(manifest),
        _kept_lines(plan, kept),
        warning_lines((*manifest.warnings, *plan.notes)),
        ["## Use", "", "```python", *PEFT.lines("ADAPTER_FOLDER"), "```"],
        licence_lines(lineage),
        file_lines(hashes),
        recipe_lines(manifest),
    )
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _kept_lines(plan: AdapterPlan, kept: Mapping[str, float]) -> list[str]:
    factored = counted(len(plan.factored), "tensor", "tensors")
    whole = counted(len(plan.whole), "tensor", "tensors")
    return [
        "## What the adapter keeps",
        "",
        f"- {factored} as factors of rank {plan.rank} at most",
        f"- {whole} written whole",
        "",
        "The share of the squared norm of each merged change that its factors keep:",
        "",
        "| tensor | rank | energy kept |",
        "|---|---|---|",
        *(
            f"| {plain_text(each.tensor)} | {each.rank} | {kept.get(each.tensor, 1.0):.4%} |"
            for each in plan.factored
        ),
    ]
