"""Merges of tensors that a program has in memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ace_gui.engine.in_memory import StateDict, merged_state_dicts
from ace_gui.recipe.values import ParameterValue


def merge_state_dicts(
    base: StateDict,
    experts: Sequence[StateDict] | Mapping[str, StateDict],
    *,
    method: str = "ace",
    device: str = "auto",
    heads: str | None = None,
    **parameters: ParameterValue,
) -> dict[str, Any]:
    """Merge tensors that are in memory; the result has the base's names, shapes and dtypes.

    ``method``: as in a recipe, or ``METHOD:VARIANT``, or ``recommended``; ``parameters``: of the
    method. The numbers are those of a merge of the same tensors in files without a config: roles,
    blocks and ties are guessed from the tensors' names, and matrices are taken as outputs × inputs,
    unlike GPT-2's, so merge folders where these must be right. Tensors that share their memory in
    the base are merged as one if they are equal in all experts. The inputs are not changed.

    Task heads, and poolers that feed only them, stay the base's, because every expert has its own;
    a UserWarning names them, and whatever else is left out. ``heads``: the recipe's key; "merge"
    merges them.

    Tensors pass through temporary files, which need the disk space of all models. Results are on
    the CPU. Raises RecipeError for an unknown method or parameter, MismatchError, CheckpointError
    for names or values that cannot be stored, NonFiniteError and ResourceError.

    >>> experts = [{"w": ones}, {"w": -ones}]
    >>> merged = ace_gui.merge_state_dicts({"w": zeros}, experts, method="linear")
    >>> float(merged["w"].sum())
    0.0
    """
    merged = merged_state_dicts(
        base, experts, method=method, device=device, heads=heads, parameters=parameters
    )
    for sentence in merged.warnings:
        warnings.warn(sentence, UserWarning, stacklevel=2)
    return merged.tensors
