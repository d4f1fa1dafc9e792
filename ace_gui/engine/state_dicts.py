"""Merges of tensors in memory. They pass through temporary files, so the numbers are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import CheckpointError
from ace_gui.formatting import plain
from ace_gui.recipe.new_recipes import recipe_keys
from ace_gui.recipe.recipe_file import recipe_from
from ace_gui.recipe.recommended import NAME
from ace_gui.recipe.values import ParameterValue

StateDict = Mapping[str, Tensor]


def merged_state_dicts(
    base: StateDict,
    experts: Sequence[StateDict] | Mapping[str, StateDict],
    *,
    method: str,
    device: str,
    parameters: Mapping[str, ParameterValue],
) -> dict[str, Tensor]:
    """See ``ace_gui.merge_state_dicts``."""
    named = experts
    if not isinstance(named, Mapping):
        named = {f"expert-{index}": state for index, state in enumerate(named, 1)}
    with TemporaryDirectory(prefix="ace-in-memory-") as name:
        folder = Path(name)
        for index, state in enumerate((base, *named.values())):
            _write(folder / f"{index}.safetensors", state)
        keys = recipe_keys(str(folder / "0.safetensors"), [], None if method == NAME else method)
        keys["models"] = [
            {"model": str(folder / f"{index}.safetensors"), "name": name}
            for index, name in enumerate(named, 1)
        ]
        if parameters:
            keys["parameters"] = {**keys.get("parameters", {}), **parameters}
        for _ in merge_to_folder(recipe_from(keys), folder / "out", Options(device=device)):
            pass
        merged: dict[str, Tensor] = {}
        for file in sorted((folder / "out").glob("model*.safetensors")):
            merged |= safetensors.torch.load(file.read_bytes())
    return {name: merged[name] for name in base if name in merged}


def _write(file: Path, state: StateDict) -> None:
    """Write copies of the tensors, as tied ones share their memory. Raises CheckpointError."""
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise CheckpointError(
                f"`{plain(str(name))}` of a state dict is not a tensor; leave it out."
            )
    copies: dict[str, Any] = {
        name: value.detach().to("cpu", copy=True).contiguous() for name, value in state.items()
    }
    with torch.no_grad():
        safetensors.torch.save_file(copies, file)
