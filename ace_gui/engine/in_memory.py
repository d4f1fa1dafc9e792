"""Merges of tensors that are in memory; they pass through temporary files, as others do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import safetensors.torch
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from ace_gui.checkpoints.header import tag_of
from ace_gui.engine.contract.events import PlanReady
from ace_gui.engine.contract.plan import Disposition, Plan
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import CheckpointError, RecipeError, WorkbenchError
from ace_gui.formatting import listing, path_text, plain
from ace_gui.recipe import Recipe
from ace_gui.recipe.new_recipes import recipe_keys
from ace_gui.recipe.recipe_file import recipe_from
from ace_gui.recipe.recommended import NAME
from ace_gui.recipe.values import ParameterValue

StateDict = Mapping[str, Tensor]

BASE: Final = "the base"
"""The name of the base in errors."""

METADATA: Final = "__metadata__"
"""A name that the file format needs for itself."""


@dataclass(frozen=True, kw_only=True)
class MergedTensors:
    """The result of a merge in memory."""

    tensors: dict[str, Tensor]
    """The merged tensors, under the base's names and in its order."""

    warnings: tuple[str, ...]
    """What the merge left out, or took from the base alone; sentences."""


def merged_state_dicts(
    base: StateDict,
    experts: Sequence[StateDict] | Mapping[str, StateDict],
    *,
    method: str,
    device: str,
    heads: str | None,
    parameters: Mapping[str, ParameterValue],
) -> MergedTensors:
    """See ``ace_gui.merge_state_dicts``."""
    named = _named(experts)
    if not isinstance(method, str):
        raise RecipeError(
            f"The method is {type(method).__name__}; give its name as text.", key="merge_method"
        )
    with TemporaryDirectory(prefix="ace-in-memory-") as name:
        folder = Path(name)
        states = {BASE: base, **named}
        for owner, state in states.items():
            _require_state(state, owner)
        tied = _tied_names(base, tuple(named.values()))
        files = {owner: folder / f"{index}.safetensors" for index, owner in enumerate(states)}
        for owner, state in states.items():
            stored_once = {key: value for key, value in state.items() if key not in tied}
            _write_state(files[owner], stored_once, owner)
        keys = recipe_keys(str(files[BASE]), [], None if method == NAME else method)
        keys["models"] = [{"model": str(files[owner]), "name": owner} for owner in named]
        if heads is not None:
            keys["heads"] = heads
        if parameters:
            keys["parameters"] = {**keys.get("parameters", {}), **parameters}
        try:
            warnings = _merge(recipe_from(keys), folder / "out", device)
        except WorkbenchError as error:
            _rename_files(error, files)
            raise
        merged: dict[str, Tensor] = {}
        for file in sorted((folder / "out").glob("model*.safetensors")):
            merged |= safetensors.torch.load(file.read_bytes())
    merged |= {name: merged[source].clone() for name, source in tied.items() if source in merged}
    tensors = {name: merged[name] for name in base if name in merged}
    return MergedTensors(tensors=tensors, warnings=warnings)


def _merge(recipe: Recipe, out: Path, device: str) -> tuple[str, ...]:
    """Merge into a folder; returns what the merge left out, in sentences."""
    warnings: tuple[str, ...] = ()
    for event in merge_to_folder(recipe, out, Options(device=device)):
        if isinstance(event, PlanReady):
            warnings = _left_out(event.plan)
    return warnings


def _named(experts: Any) -> Mapping[str, StateDict]:
    """The experts by name. Raises RecipeError unless they are a sequence or a mapping of some."""
    if isinstance(experts, Mapping):
        misnamed = [name for name in experts if not isinstance(name, str) or name == BASE]
        if misnamed:
            raise RecipeError(
                f"{misnamed[0]!r} cannot name an expert; give another text.", key="name"
            )
        return experts
    if isinstance(experts, str | Tensor) or not hasattr(experts, "__iter__"):
        raise RecipeError(
            f"The experts are {type(experts).__name__}; give a list or a mapping of state dicts.",
            key="models",
        )
    return {f"expert-{index}": state for index, state in enumerate(experts, 1)}


def _left_out(plan: Plan) -> tuple[str, ...]:
    """What a caller does not find merged in the result."""
    from_base = (Disposition.PER_EXPERT, Disposition.BASE)
    unchanged = [row.tensor for row in plan.rows if row.in_base and row.disposition in from_base]
    sentences = [sentence for sentence in plan.warnings if sentence not in plan.base.warnings]
    if unchanged:
        sentences.append(
            f"Taken from the base unchanged: {listing(list(dict.fromkeys(unchanged)))}. "
            "Each expert has "
            'its own; heads="merge" merges them.'
        )
    return tuple(sentences)


def _tied_names(base: StateDict, experts: Sequence[StateDict]) -> dict[str, str]:
    """Names of tensors that share the memory of an earlier one in the base, each with that one.

    In every expert that has both, the two are equal.
    """
    sources: dict[tuple[object, ...], str] = {}
    tied = {}
    for name, value in base.items():
        if _problem(name, value) or not value.numel():
            continue
        memory = (value.device, value.data_ptr(), value.dtype, value.shape, value.stride())
        source = sources.setdefault(memory, name)
        if source != name and all(_has_equal(state, name, source) for state in experts):
            tied[name] = source
    return tied


def _has_equal(state: StateDict, name: str, source: str) -> bool:
    copy = state.get(name)
    original = state.get(source)
    if _problem(name, copy) or _problem(source, original):
        return False
    assert copy is not None
    assert original is not None
    return copy.shape == original.shape and torch.equal(copy, original)


def _require_state(state: Any, owner: str) -> None:
    """Raise CheckpointError unless this is a mapping with something in it."""
    if not isinstance(state, Mapping):
        raise CheckpointError(
            f"{plain(owner)} is {type(state).__name__}; give a dictionary of names and tensors, "
            "such as `model.state_dict()`."
        )
    if not state:
        raise CheckpointError(f"{plain(owner)} holds no tensors; give its state dict.")


def _write_state(file: Path, state: StateDict, owner: str) -> None:
    """Write copies of the tensors, as tied ones share their memory. Raises CheckpointError."""
    copies = {name: _storable(name, value, owner) for name, value in state.items()}
    with torch.no_grad():
        safetensors.torch.save_file(copies, file)


def _storable(name: Any, value: Any, owner: str) -> Tensor:
    """A copy of a tensor in memory of the CPU. Raises CheckpointError if a file cannot hold it."""
    problem = _problem(name, value)
    if problem:
        plain_name = plain(str(name).encode(errors="replace").decode())
        raise CheckpointError(f"`{plain_name}` of {plain(owner)} {problem}.", tensor=str(name))
    copy: Tensor = value.detach().to("cpu", copy=True).contiguous()
    return copy


def _problem(name: Any, value: Any) -> str:
    """Why a tensor cannot be stored under this name, as the end of a sentence; "" if it can."""
    if not isinstance(name, str):
        return f"has a name of type {type(name).__name__}; names are texts"
    if name == METADATA or (not name.isascii() and not _is_unicode(name)):
        return "has a name that no file can hold; rename it"
    if not isinstance(value, Tensor):
        return "is not a tensor; leave it out"
    if is_lazy(value) or value.is_meta:
        return "has no values; load the model first"
    if value.layout is not torch.strided or value.is_nested:
        return "is sparse or nested; make it dense first"
    try:
        tag_of(value.dtype)
    except KeyError:
        return f"is {str(value.dtype).removeprefix('torch.')}; convert it to float32 first"
    return ""


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _rename_files(error: WorkbenchError, files: Mapping[str, Path]) -> None:
    """Name state dicts in an error's sentence instead of temporary files."""
    for owner, file in files.items():
        error.sentence = error.sentence.replace(path_text(file), owner)
