"""Tensors that the base ties, such as head and embedding: found in every expert, or untied.

A model may store any of the names of a tied group, in some or all of its files. The merged model
stays tied if every model has one value for all names of the group. Otherwise each name is merged
for itself: an expert with one value counts with that under all names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from ace_gui.architecture.names import match_names
from ace_gui.architecture.sandbox import Describer
from ace_gui.architecture.traits import Architecture
from ace_gui.checkpoints.derived import compose
from ace_gui.checkpoints.folder import MAIN
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.engine.planning.models import OpenedModel, Untied, describe
from ace_gui.engine.planning.stored_ties import same_values
from ace_gui.steps import Steps
from ace_gui.stored_formats import is_float

SCALED_BY_TIE: Final = frozenset(
    ("t5", "mt5", "umt5", "longt5", "pop2piano", "switch_transformers", "udop")
)
"""Families in which ``tie_word_embeddings`` also decides whether hidden states are scaled.

Their config stays as it is. transformers compares the tensors in the files and ties only equal
ones.
"""

_Places = Mapping[str, str]
"""By the base's name of a tensor, an expert's name of the tensor that has its value."""


@dataclass(frozen=True, kw_only=True)
class _TiedGroup:
    """One tied group of the base. ``source``: the name in the base's files that is read for all.

    ``names``: the source first; those in no file are the model's. ``classes``: for each name, a
    number; names with one number have one value in every model. ``owners``: the experts that have
    other values than the source's, by name.
    """

    source: str
    names: tuple[str, ...]
    classes: Mapping[str, int]
    owners: Mapping[str, tuple[str, ...]]

    @property
    def is_split(self) -> bool:
        return len(set(self.classes.values())) > 1

    @property
    def firsts(self) -> dict[str, str]:
        """For each name the first name with the same value, to which it stays tied."""
        firsts: dict[int, str] = {}
        for name in self.names:
            firsts.setdefault(self.classes[name], name)
        return {name: firsts[self.classes[name]] for name in self.names}


def with_tied_groups(
    base: OpenedModel, experts: Sequence[OpenedModel], describer: Describer
) -> Steps[tuple[OpenedModel, tuple[OpenedModel, ...]]]:
    """The models, with the tensors of tied groups matched, and untied where an expert needs it.

    Raises CheckpointError.
    """
    named = dict(_tied_names(base))
    places = [_places(base, expert, named) for expert in experts]
    renamed = _file_names(base, places)
    named = {source: _renamed(names, renamed) for source, names in named.items()}
    places = [_with_keys(places_of_expert, renamed) for places_of_expert in places]
    groups = [_grouped(source, names, experts, places) for source, names in named.items()]
    untied = yield from _untied(base, groups, describer)
    stored = untied.checkpoint.tensors
    matched = []
    for expert, places_of_expert in zip(experts, places, strict=True):
        added = {}
        for name, expert_name in places_of_expert.items():
            if name in stored and not expert.has(name):
                added[name] = expert_name
        taken = set(places_of_expert.values())
        matched.append(
            replace(
                expert,
                own_names={**expert.own_names, **added},
                extra=tuple(extra_name for extra_name in expert.extra if extra_name not in taken),
            )
        )
    return untied, tuple(matched)


def _with_keys(places: Mapping[str, str], renamed: Mapping[str, str]) -> dict[str, str]:
    return {renamed.get(name, name): expert_name for name, expert_name in places.items()}


def _tied_names(base: OpenedModel) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The tied groups of floating-point tensors: the source and all names."""
    groups: dict[str, list[str]] = {}
    architecture = base.architecture
    for name, traits in architecture.traits.items():
        if traits.tied_to is not None:
            groups.setdefault(traits.tied_to, []).append(name)
    for name, source in architecture.absent.items():
        groups.setdefault(source, []).append(name)
    for source, names in groups.items():
        info = base.checkpoint.tensors.get(source)
        if info is not None and is_float(info.dtype):
            yield source, (source, *names)


def _places(
    base: OpenedModel, expert: OpenedModel, groups: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """An expert's tensors for the names of tied groups, and for names that only it ties.

    Names that are in no file are the model's, so that stored ones are compared as the model's, too.
    """
    grouped = set(chain.from_iterable(groups.values()))
    places = {
        name: expert_name for name, expert_name in expert.own_names.items() if name in grouped
    }
    base_names = dict.fromkeys((*base.checkpoint.tensors, *sorted(grouped)))
    missing = {}
    for name in base_names:
        if not expert.has(name):
            missing[base.architecture.module_name(name)] = name
    extra = {expert.architecture.module_name(extra_name): extra_name for extra_name in expert.extra}
    for expert_name, module in match_names(missing, extra).items():
        if missing[module] in grouped:
            places[missing[module]] = extra[expert_name]
    absent = expert.architecture.absent
    missing = {module: name for module, name in missing.items() if name not in places}
    for expert_name, module in match_names(missing, absent).items():
        if absent[expert_name] in expert.checkpoint.tensors:
            places[missing[module]] = absent[expert_name]
    if expert.architecture.model_class is None:  # without a config it is taken to be as the base
        for names in groups.values():
            first = next((places[name] for name in names if name in places), None)
            if first is not None:
                places |= {name: first for name in names if name not in places}
    return places


def _renamed(names: Sequence[str], renamed: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(renamed.get(name, name) for name in names)


def _file_names(base: OpenedModel, places: Sequence[_Places]) -> dict[str, str]:
    """For names that are in no file of the base, those in experts' files with names like its."""
    names: dict[str, str] = {}
    for places_of_expert in places:
        for name, source in base.architecture.absent.items():
            expert_name = places_of_expert.get(name)
            is_alike = places_of_expert.get(source) == source and expert_name != source
            if expert_name is not None and is_alike and expert_name not in base.checkpoint.tensors:
                names.setdefault(name, expert_name)
    return names


def _grouped(
    source: str,
    names: Sequence[str],
    experts: Sequence[OpenedModel],
    places: Sequence[_Places],
) -> _TiedGroup:
    """The group with the names that have one value in every expert."""
    keys: dict[str, list[int]] = {name: [] for name in names}
    owners: dict[str, list[str]] = {name: [] for name in names}
    for expert, places_of_expert in zip(experts, places, strict=True):
        values = _values(expert, names, places_of_expert)
        for name in names:
            keys[name].append(values[name])
            if values[name]:
                owners[name].append(expert.name)
    numbers: dict[tuple[int, ...], int] = {}
    classes = {name: numbers.setdefault(tuple(keys[name]), len(numbers)) for name in names}
    return _TiedGroup(
        source=source,
        names=tuple(names),
        classes=classes,
        owners={name: tuple(owner_indices) for name, owner_indices in owners.items()},
    )


def _values(expert: OpenedModel, names: Sequence[str], places: _Places) -> dict[str, int]:
    """For each name the number of its value in an expert; 0 for the source's, and without any."""
    differing: list[str] = []
    numbers = {}
    for name in names:
        expert_name = places.get(name)
        if expert_name is None:
            numbers[name] = 0
            continue
        expert_name = expert.architecture.traits[expert_name].tied_to or expert_name
        for number, differing_name in enumerate(differing):
            if same_values(expert.checkpoint, differing_name, expert_name):
                numbers[name] = number
                break
        else:
            numbers[name] = len(differing)
            differing.append(expert_name)
    return numbers


def _sources_by_name(groups: Iterable[_TiedGroup]) -> dict[str, str]:
    """The name whose tensor has the values of each name in the groups."""
    sources = {}
    for group in groups:
        for name in group.names:
            sources[name] = group.source
    return sources


def _untied(
    base: OpenedModel, groups: Sequence[_TiedGroup], describer: Describer
) -> Steps[OpenedModel]:
    """The base with every name that has a value of its own, and a config that says so."""
    split = [group for group in groups if group.is_split]
    untied = {}
    for group in split:
        for name, owners in group.owners.items():
            if owners:
                untied[name] = Untied(source=group.source, owners=owners)
    apart = base.architecture.apart
    untied |= {name: Untied(source=source) for name, source in apart.items()}
    if not untied:
        return base
    config = _untied_config(base.checkpoint)
    if config is not None:
        everything = _sources_by_name(groups)
        changed = _composed(base, everything, config)
        architecture = yield from describe(changed, describer)
        if all(architecture.traits[name].tied_to is None for name in untied):
            return _with_ties(replace(base, checkpoint=changed), architecture, groups, untied)
    untied = {name: replace(why, in_config=False) for name, why in untied.items()}
    if not split:
        return replace(base, untied=untied)
    needed = _sources_by_name(split)
    changed = _composed(base, needed, base.checkpoint.config)
    architecture = yield from describe(changed, describer)
    return _with_ties(replace(base, checkpoint=changed), architecture, groups, untied)


def _composed(
    base: OpenedModel, sources: Mapping[str, str], config: Mapping[str, object] | None
) -> Checkpoint:
    """The base's files with a tensor for each of these names. ``sources``: what it is read from."""
    before = base.checkpoint
    names = {**{name: name for name in before.tensors}, **_missing(before, sources)}
    tensors = {name: (before, source) for name, source in names.items()}
    if config == before.config:
        return compose(before, tensors)
    changes = dict(before.changes.get("config.json", {}))
    for key, value in (config or {}).items():
        if (before.config or {}).get(key) != value:
            changes[key] = value
    return compose(
        before,
        tensors,
        config=config,
        parts={MAIN: replace(before.parts[MAIN], config=config)},
        changes={**before.changes, "config.json": changes},
    )


def _missing(checkpoint: Checkpoint, sources: Mapping[str, str]) -> dict[str, str]:
    return {n: source for n, source in sources.items() if n not in checkpoint.tensors}


def _with_ties(
    base: OpenedModel,
    architecture: Architecture,
    groups: Sequence[_TiedGroup],
    untied: Mapping[str, Untied],
) -> OpenedModel:
    """The base in its new form, where names with one value are tied and no others."""
    traits = dict(architecture.traits)
    for group in groups:
        for name, first in group.firsts.items():
            if name in traits:
                traits[name] = replace(traits[name], tied_to=None if first == name else first)
    return replace(
        base,
        architecture=replace(architecture, traits=traits),
        own_names={name: name for name in base.checkpoint.tensors},
        untied=untied,
    )


def _untied_config(checkpoint: Checkpoint) -> dict[str, object] | None:
    """The config of the same model with a head of its own; None if a config cannot say that."""
    config = checkpoint.config
    if config is None or checkpoint.parts.keys() != {MAIN}:
        return None
    families = {config.get("model_type"), *(inner.get("model_type") for inner in _inner(config))}
    if families & SCALED_BY_TIE:
        return None
    return _with_own_head(config)


def _inner(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The configs in a config, at any depth."""
    for value in config.values():
        if isinstance(value, Mapping):
            yield value
            yield from _inner(value)


def _with_own_head(config: Mapping[str, Any]) -> dict[str, object]:
    """The config and those of language models in it, each untied."""
    changed = dict(config)
    for key, value in config.items():
        if isinstance(value, Mapping) and _may_tie(key, value):
            changed[key] = _with_own_head(value)
    return {**changed, "tie_word_embeddings": False}


def _may_tie(key: str, config: Mapping[str, Any]) -> bool:
    """Whether a nested config is that of a model with a vocabulary, or has one in it."""
    if key == "text_config" or not {"tie_word_embeddings", "vocab_size"}.isdisjoint(config):
        return True
    return any(_may_tie(inner, value) for inner, value in config.items() if isinstance(value, dict))
