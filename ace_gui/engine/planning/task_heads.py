"""Task heads: whether the experts share a task, and a base extended by their heads."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

import numpy as np

from ace_gui.architecture.names import match_names
from ace_gui.architecture.scopes import DEFAULT
from ace_gui.architecture.traits import Role, TensorTraits
from ace_gui.checkpoints.derived import ExtendedInfo, TensorSource, extend
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.errors import RecipeError
from ace_gui.formatting import listing, plain
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import (
    UNNAMED_LABEL,
    Heads,
    Poolers,
    Vocabulary,
    unnamed_label,
)
from ace_gui.stored_formats import FORMATS, is_float

# Heads of other classes have outputs whose meaning the class fixes (start and end of an answer).
_LABELLED: Final = re.compile(r"Classification|Segmentation|Detection|Tagg")
# What a config says of a head: its labels, and how features are pooled for it.
_OF_HEADS: Final = re.compile(
    r"architectures|problem_type|finetuning_task|pad_token_id|label|classif|summary|pool"
)


@dataclass(frozen=True, kw_only=True)
class HeadChoice:
    """How the heads are merged. ``merged``: their names in the base; ``why``: the reason.

    ``poolers``: tensors of the base that feed only heads and are kept with them. ``asked``: by
    name, indices of the overrides that cause a head to be merged.
    """

    merged: frozenset[str] = frozenset()
    why: str = ""
    poolers: frozenset[str] = frozenset()
    asked: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @property
    def because(self) -> str:
        """The reason, appended to that of a tensor."""
        if self.why:
            return f": {self.why}"
        return ""

    def keeps(self, name: str, traits: TensorTraits) -> bool:
        """Whether a tensor of the base is not merged, but stays with each expert that has it."""
        return name in self.poolers or (traits.role is Role.HEAD and name not in self.merged)


@dataclass(frozen=True, kw_only=True)
class _Shared:
    """A tensor that every expert has in the same shape. ``own``: its name in each of them."""

    name: str
    own: tuple[str, ...]
    traits: TensorTraits
    info: TensorInfo

    @property
    def is_head(self) -> bool:
        return self.traits.role is Role.HEAD


def with_heads(
    base: OpenedModel, experts: Sequence[OpenedModel], recipe: Recipe
) -> tuple[OpenedModel, tuple[OpenedModel, ...], HeadChoice]:
    """The models, with every merged head added to the base, and the names of these heads.

    Raises RecipeError if the recipe merges heads that cannot be merged.
    """
    if not experts:
        return base, (), HeadChoice()
    tensors = (*_of_base(base, experts), *_of_experts(base, experts))
    shared = {tensor.name: tensor for tensor in tensors}
    heads = {name: head for name, head in shared.items() if head.is_head}
    one_task, why = _one_task(experts, heads)
    if recipe.heads is Heads.MERGE and not one_task and _conflict(experts, heads):
        raise RecipeError(
            f"The heads cannot be merged: {_conflict(experts, heads)}. Keep each for its expert "
            "(heads: keep).",
            key="heads",
        )
    merges = recipe.heads is Heads.MERGE or (
        recipe.heads is Heads.AUTO and one_task and recipe.scope == DEFAULT
    )
    merged = set(heads)
    rules_of = {}
    if not merges:  # only those that a rule merges
        rules_of = {name: _rules_for(head, base, recipe) for name, head in heads.items()}
        merged = {name for name, rules in rules_of.items() if rules}
    added = merged | _companions(merged, shared, base, experts, recipe)
    changes = _config_changes(base, experts) if added else {}
    new = []  # in the order of the files, on which the order in the output depends
    for name, tensor in shared.items():
        has_shape = base.has(name) and tensor.info.shape == base.shape(name)
        if name in added and not has_shape:
            new.append(tensor)
    if recipe.heads is not Heads.AUTO:
        why = f"as the recipe says (heads: {recipe.heads.value})"
    elif not merges and recipe.scope != DEFAULT:
        why = f"as {recipe.scope} does"
    poolers = frozenset[str]()
    if recipe.poolers is not Poolers.MERGE and recipe.scope == DEFAULT:
        poolers = frozenset().union(*(_poolers(base, expert, merged) for expert in experts))
    choice = HeadChoice(merged=frozenset(merged), why=why, poolers=poolers, asked=rules_of)
    if new or changes:
        base = _with_extensions(base, experts, new, changes)
    return base, _answering(experts, new), choice


def _poolers(base: OpenedModel, expert: OpenedModel, merged: Collection[str]) -> set[str]:
    """Tensors of the base that feed only the heads of an expert whose heads are kept."""
    if {expert.own_names.get(name, name) for name in merged}.issuperset(_heads_of(expert)):
        return set()
    traits = expert.architecture.traits
    poolers = set()
    for name, expert_name in expert.own_names.items():
        if traits[expert_name].before_head and base.has(name):
            poolers.add(name)
    return poolers


def is_new(base: OpenedModel, name: str) -> bool:
    """Whether the base has no value of its own for a tensor in the merged shape."""
    info = base.checkpoint.tensors.get(name)
    return isinstance(info, ExtendedInfo) and info.own is None


def has_one_head(base: OpenedModel, rows: Sequence[PlanRow]) -> bool:
    """Whether the merged model writes text, so that all experts answer through its one head.

    A head that is tied to the embedding is in no file: then the class of the model tells. A base
    that writes text may have experts with heads of their own.
    """
    per_expert = Disposition.PER_EXPERT
    if any(row.role == Role.HEAD and row.disposition is per_expert for row in rows):
        return False
    traits = base.architecture.traits.values()
    return base.architecture.writes_text or any(t.role is Role.VOCABULARY_HEAD for t in traits)


def _of_base(base: OpenedModel, experts: Sequence[OpenedModel]) -> list[_Shared]:
    """Heads that the base has, too, in the experts' shape."""
    shared = []
    for name, traits in base.architecture.traits.items():
        if traits.role is Role.HEAD and all(expert.has(name) for expert in experts):
            names = tuple(expert.own_names[name] for expert in experts)
            shared += _agreeing(name, names, traits, experts)
    return shared


def _of_experts(base: OpenedModel, experts: Sequence[OpenedModel]) -> list[_Shared]:
    """Tensors that every expert has and the base lacks: heads, and layers between body and head."""
    first = experts[0]
    names = []  # by expert: from the first expert's name to this one's
    for expert in experts:
        matches = match_names(first.extra, expert.extra)
        names.append({of_first: of_expert for of_expert, of_first in matches.items()})
    shared: list[_Shared] = []
    outside = first.outside
    for name in first.extra:
        traits = first.architecture.traits[name]
        usable = traits.role is not Role.BUFFER and traits.tied_to is None
        free = name not in base.checkpoint.tensors and name not in outside
        if usable and free and all(name in expert_name for expert_name in names):
            own_names = tuple(expert_name[name] for expert_name in names)
            shared += _agreeing(name, own_names, traits, experts)
    return shared


def _agreeing(
    name: str, names: tuple[str, ...], traits: TensorTraits, experts: Sequence[OpenedModel]
) -> list[_Shared]:
    """The tensor, if all experts have it in floating point and in one shape."""
    infos = [e.checkpoint.tensors[n] for e, n in zip(experts, names, strict=True)]
    for info in infos:
        if info.shape != infos[0].shape or not is_float(info.dtype):
            return []
    return [_Shared(name=name, own=names, traits=replace(traits, tied_to=None), info=infos[0])]


def _one_task(experts: Sequence[OpenedModel], heads: Mapping[str, _Shared]) -> tuple[bool, str]:
    """Whether all experts have the same task, judging by shapes and labels, and why."""
    if not heads or (conflict := _conflict(experts, heads)):
        return False, conflict if heads else ""
    if len(experts) == 1:
        return True, "there is one expert"
    labels = labels_of(experts[0])
    model_class = experts[0].architecture.model_class
    if model_class is not None and not _LABELLED.search(model_class):
        return True, f"all experts are {model_class}"
    if labels is not None and len(labels) == 1:
        return True, "every expert has one output"
    named = labels and not all(map(UNNAMED_LABEL.fullmatch, labels))
    if named and {labels_of(expert) for expert in experts} == {labels}:
        return True, "all experts have the same labels"
    return False, (
        "the labels have no names, so they may mean different things (heads: merge in a "
        "recipe merges them)"
    )


def _conflict(experts: Sequence[OpenedModel], heads: Mapping[str, _Shared]) -> str:
    """The reason why the heads cannot be merged; empty if they can."""
    for t, expert in enumerate(experts):
        head_names = {head.own[t] for head in heads.values()}
        alone = [n for n in _heads_of(expert) if n not in head_names]
        if alone:
            where = f"{listing(alone[:1])} of {plain(expert.name)}"
            return f"{where} is not in all experts in that shape"
    if not heads:
        return ""
    classes = {expert.architecture.model_class for expert in experts} - {None}
    if len(classes) > 1:
        return f"the experts are of different classes ({', '.join(sorted(filter(None, classes)))})"
    labelled = [(e, expert_labels) for e in experts if (expert_labels := labels_of(e))]
    named = [pair for pair in labelled if not all(map(UNNAMED_LABEL.fullmatch, pair[1]))]
    for expert, labels in named[1:]:
        if labels != named[0][1]:
            first = plain(named[0][0].name)
            second = plain(expert.name)
            return f"{first} and {second} have different labels"
    return ""


def labels_of(model: OpenedModel) -> tuple[str, ...] | None:
    """The names of a model's labels, by index; None if their number is unknown.

    timm has them under ``label_names``, in the config or in its ``pretrained_cfg``.
    """
    config = model.checkpoint.config
    if config is None:
        return None
    names = config.get("id2label")
    if isinstance(names, Mapping) and all(str(key).isdecimal() for key in names):
        return tuple(str(names[key]) for key in sorted(names, key=lambda key: int(str(key))))
    for index in (config, config.get("pretrained_cfg")):
        if isinstance(index, Mapping):
            labels = index.get("label_names")
        else:
            labels = None
        if isinstance(labels, list) and labels:
            return tuple(map(str, labels))
    if config.get("num_labels", config.get("_num_labels")) == 1:
        return (unnamed_label(0),)
    return None


def _heads_of(model: OpenedModel) -> list[str]:
    """A model's own heads, under its own names."""
    return [n for n, traits in model.architecture.traits.items() if traits.role is Role.HEAD]


def _rules_for(head: _Shared, base: OpenedModel, recipe: Recipe) -> frozenset[int]:
    """Indices of the overrides for heads only that cause this one to be merged."""
    non_heads = [item for item in base.architecture.traits.items() if item[1].role is not Role.HEAD]
    indices = []
    for index, rule in enumerate(recipe.overrides):
        merges = rule.disposition in ("merge", "average") or rule.merge_method is not None
        if not merges or not rule.holds_for(head.name, head.traits.role, head.traits.block):
            continue
        if not any(rule.holds_for(name, traits.role, traits.block) for name, traits in non_heads):
            indices.append(index)
    return frozenset(indices)


def _companions(
    merged_heads: Collection[str],
    shared: Mapping[str, _Shared],
    base: OpenedModel,
    experts: Sequence[OpenedModel],
    recipe: Recipe,
) -> set[str]:
    """Tensors other than heads that are added to the base; none if all experts' heads are kept."""
    if not merged_heads and any(_heads_of(expert) for expert in experts):
        return set()
    companions = set()
    for name, tensor in shared.items():
        if not tensor.is_head and _goes_along(tensor, base, experts, recipe):
            companions.add(name)
    return companions


def _goes_along(
    head: _Shared, base: OpenedModel, experts: Sequence[OpenedModel], recipe: Recipe
) -> bool:
    """Whether a tensor other than a head is added to the base with the heads.

    The base's config must allow for it: a tied base cannot have a separate vocabulary head.
    """
    if recipe.heads is Heads.KEEP or head.traits.block is not None:
        return False
    if head.traits.role is not Role.VOCABULARY_HEAD:
        return True
    configs = [model.checkpoint.config or {} for model in (base, *experts)]
    ties = [config.get("tie_word_embeddings") for config in configs]
    tied = ties[0] is not False and False in ties[1:]
    return recipe.matching is Vocabulary.POSITION and not tied


def _config_changes(base: OpenedModel, experts: Sequence[OpenedModel]) -> dict[str, object]:
    """Settings of heads in which the experts' configs agree, but differ from the base's."""
    configs = [expert.checkpoint.config for expert in experts]
    ours = base.checkpoint.config
    first = configs[0]
    if ours is None or first is None:
        return {}
    changes = {}
    for key, value in first.items():
        differs = _OF_HEADS.search(key) and ours.get(key) != value
        if differs and all(config is not None and config.get(key) == value for config in configs):
            changes[key] = value
    return changes


def _with_extensions(
    base: OpenedModel,
    experts: Sequence[OpenedModel],
    added: Sequence[_Shared],
    changes: Mapping[str, object],
) -> OpenedModel:
    traits = {**base.architecture.traits, **{tensor.name: tensor.traits for tensor in added}}
    extensions = {tensor.name: _extension_of(tensor, experts) for tensor in added}
    return replace(
        base,
        checkpoint=extend(base.checkpoint, extensions, {"config.json": changes}),
        architecture=replace(base.architecture, traits=traits),
        own_names={**base.own_names, **{tensor.name: tensor.name for tensor in added}},
    )


def _extension_of(head: _Shared, experts: Sequence[OpenedModel]) -> ExtendedInfo:
    rows = np.arange(head.info.shape[0] if head.info.shape else 1, dtype=np.int64)
    sources = tuple(
        TensorSource(owner=expert.name, checkpoint=expert.checkpoint, name=expert_name, rows=rows)
        for expert, expert_name in zip(experts, head.own, strict=True)
    )
    nbytes = prod(head.info.shape) * FORMATS[head.info.dtype].bits // 8
    fields = {**head.info.fields, "name": head.name, "nbytes": nbytes}
    return ExtendedInfo(**fields, own=None, sources=sources)


def _answering(experts: Sequence[OpenedModel], added: Sequence[_Shared]) -> tuple[OpenedModel, ...]:
    """The experts, with these tensors matched to the base's new ones."""
    answering = []
    for t, expert in enumerate(experts):
        new_names = {tensor.name: tensor.own[t] for tensor in added}
        extra = tuple(name for name in expert.extra if name not in new_names.values())
        own_names = {**expert.own_names, **new_names}
        answering.append(replace(expert, own_names=own_names, extra=extra))
    return tuple(answering)
