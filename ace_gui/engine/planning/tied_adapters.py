"""What an adapter means for tensors that its base ties, such as head and embedding.

PEFT wraps each module for itself. What it saves whole (``modules_to_save``) unties the module, in
the live model and after its merge. What it adds, it adds to the one tensor that the base has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ace_gui.architecture.names import match_names
from ace_gui.architecture.traits import Architecture
from ace_gui.checkpoints.adapters.adapter_config import MERGE_FIRST
from ace_gui.checkpoints.adapters.lora import Adapter, same_bytes
from ace_gui.checkpoints.adapters.weight_changes import TokenRows
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.errors import CheckpointError
from ace_gui.formatting import path_text, plain

_Value = TypeVar("_Value")


def stored_once(
    checkpoint: Checkpoint, architecture: Architecture
) -> tuple[Checkpoint, Architecture]:
    """The model as if its files had one tensor for each tied group."""
    tied = {n: t.tied_to for n, t in architecture.traits.items() if t.tied_to is not None}
    if not tied:
        return checkpoint, architecture
    modules = {architecture.module_name(name): source for name, source in tied.items()}
    return (
        replace(checkpoint, tensors=_without(checkpoint.tensors, tied)),
        replace(
            architecture,
            traits=_without(architecture.traits, tied),
            modules=_without(architecture.modules, tied),
            absent={**architecture.absent, **modules},
        ),
    )


def _without(values: Mapping[str, _Value], names: Collection[str]) -> dict[str, _Value]:
    return {name: value for name, value in values.items() if name not in names}


@dataclass(frozen=True, kw_only=True)
class TiedNames:
    """Two names of one tensor. ``name``: not in the base's files; ``source``: the one that is.

    ``own_name``, ``own_source``: what the adapter has under these names; None if it has nothing.
    """

    name: str
    source: str
    own_name: str | None
    own_source: str | None


def without_copies(
    adapter: Adapter, checkpoint: Checkpoint, architecture: Architecture
) -> tuple[Adapter, dict[str, str]]:
    """The adapter without second copies of tied tensors, and the names that it unties.

    The base is ``stored_once``. What is returned is a part of its ``absent``. PEFT saves both names
    of a table whose rows are resized, of a weight that it was asked to keep tied, and of a shared
    bias. Raises CheckpointError if the adapter lacks rows of an untied tensor.
    """
    absent = architecture.absent
    sources = _own_names(adapter, architecture)
    expert_names = _swapped(match_names(absent, adapter.names))
    apart = {}
    said: dict[str, None] = {}
    for name, source in absent.items():
        pair = TiedNames(
            name=name,
            source=source,
            own_name=expert_names.get(name),
            own_source=sources.get(source),
        )
        if adapter.keeps_ties and pair.own_name is not None:
            adapter = _under_one_name(adapter, pair)
        elif _unties(adapter, pair, checkpoint.tensors[source]):
            apart[name] = source
        else:
            if pair.own_name is not None and pair.own_name not in adapter.deltas:
                adapter = replace(adapter, full=_without(adapter.full, {pair.own_name}))
            said |= dict.fromkeys(_tied_changes(adapter, pair))
    return replace(adapter, tied_changes=tuple(said)), apart


def _swapped(names: Mapping[str, str]) -> dict[str, str]:
    return {value: key for key, value in names.items()}


def _tied_changes(adapter: Adapter, pair: TiedNames) -> Iterator[str]:
    """A sentence if the adapter adds a change to one of two tensors that are one in the base."""
    if adapter.keeps_ties:
        return
    for expert_name in filter(None, (pair.own_name, pair.own_source)):
        change = adapter.deltas.get(expert_name)
        if change is not None and not isinstance(change, TokenRows):
            yield (
                f"Changes `{plain(expert_name)}`, but the base ties `{plain(pair.name)}` to "
                f"`{plain(pair.source)}`: the merge changes both, as "
                "PEFT's merge_and_unload does. The model as it was trained had the change in one."
            )


def _own_names(adapter: Adapter, architecture: Architecture) -> dict[str, str]:
    """The adapter's name of each tensor of the base; it names modules of the model."""
    files = {architecture.module_name(name): name for name in architecture.traits}
    own_names = _swapped(match_names(files.values(), adapter.names))
    for expert_name, module in match_names(files, adapter.names).items():
        own_names[files[module]] = expert_name
    return own_names


def with_tied_tokens(adapter: Adapter, architecture: Architecture) -> Adapter:
    """The adapter with the same trained rows in tensors that the base's config ties.

    These are ``apart`` in the base, but PEFT goes by the config.
    """
    sources = _own_names(adapter, architecture)
    deltas = dict(adapter.deltas)
    for name, source in architecture.apart.items():
        change = adapter.deltas.get(sources.get(source, ""))
        if isinstance(change, TokenRows) and name not in sources:
            deltas[name] = change
    return replace(adapter, deltas=deltas)


def _under_one_name(adapter: Adapter, pair: TiedNames) -> Adapter:
    """The adapter with what was trained as one tensor under the name in the base's files."""
    assert pair.own_name is not None
    full = _without(adapter.full, {pair.own_name})
    if pair.own_source is None:
        if pair.own_name in adapter.full:
            full[pair.source] = adapter.full[pair.own_name]
        return replace(adapter, full=full)
    return replace(adapter, full=full, deltas=_without(adapter.deltas, {pair.own_name}))


def _unties(adapter: Adapter, pair: TiedNames, stored: TensorInfo) -> bool:
    """Whether the two have other values in the adapter's model. ``stored``: the base's tensor."""
    own_name = pair.own_name
    own_source = pair.own_source
    is_replaced = own_source in adapter.full and own_source not in adapter.deltas
    if own_name is None:
        if not is_replaced or adapter.keeps_ties:
            return False
        assert own_source is not None
        _require_same_rows(adapter, pair, adapter.full[own_source], stored)
        return True
    if own_name in adapter.deltas:
        return is_replaced
    beside = stored
    if own_source is not None and own_source in adapter.full:
        beside = adapter.full[own_source]
    return not same_bytes(adapter.full[own_name], beside)


def _require_same_rows(
    adapter: Adapter, pair: TiedNames, saved: TensorInfo, stored: TensorInfo
) -> None:
    """Refuse a table with new rows if the one that is tied to it in the base was not saved."""
    if saved.shape == stored.shape:
        return
    raise CheckpointError(
        f"{path_text(adapter.path)}: `{plain(pair.source)}` has {saved.shape[0]} rows here and "
        f"{stored.shape[0]} in the base, but `{plain(pair.name)}`, which the base ties to it, was "
        f"not saved with it. {MERGE_FIRST}",
        path=adapter.path,
        tensor=pair.source,
    )


def with_copies(
    checkpoint: Checkpoint, architecture: Architecture, apart: Mapping[str, str]
) -> tuple[Checkpoint, Architecture]:
    """The model with a tensor of its own for each of these names. ``apart``: what it is now."""
    tensors = checkpoint.tensors
    copies = {name: replace(tensors[source], name=name) for name, source in apart.items()}
    traits = architecture.traits
    return (
        replace(checkpoint, tensors={**tensors, **copies}),
        replace(
            architecture,
            traits={**traits, **{name: traits[source] for name, source in apart.items()}},
            absent=_without(architecture.absent, apart),
        ),
    )
