"""Opens the models of a recipe: headers, configs, traits, and the matching of parts and tensors."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.architecture.names import match_names, match_part, stack_of, whole_stacks
from ace_gui.architecture.sandbox import Describer, remembered
from ace_gui.architecture.traits import Architecture, Role, TensorTraits, joined
from ace_gui.checkpoints.adapters import is_adapter, open_adapter
from ace_gui.checkpoints.adapters.lora import Adapter
from ace_gui.checkpoints.derived import StoredRows, compose, expand
from ace_gui.checkpoints.folder import full_name, part_of
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.index import Checkpoint, open_checkpoint
from ace_gui.checkpoints.pickle_conversion import find_converted
from ace_gui.engine.contract.plan import ExpertSummary, PlanRow
from ace_gui.engine.planning.stored_ties import as_loaded
from ace_gui.engine.planning.tied_adapters import (
    stored_once,
    with_copies,
    with_tied_tokens,
    without_copies,
)
from ace_gui.engine.planning.token_ids import Joined, side_files_of
from ace_gui.errors import MismatchError, PickleConsentError, RecipeError
from ace_gui.formatting import listing, path_text, plain
from ace_gui.paths import architectures_folder, conversions_folder
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.mixtures import MixtureRecipe
from ace_gui.recipe.values import model_name, public_name
from ace_gui.steps import Steps
from ace_gui.stored_formats import is_float

_EXPERT: Final = re.compile(
    r"(?P<block>.+)\.[^.]+\.experts\.(?P<expert>\d+)\.(?P<matrix>[^.]+)\.weight"
)
_JOINED: Final = {
    "gate_up_proj": ("gate_proj", "w1", "up_proj", "w3"),
    "down_proj": ("down_proj", "w2"),
}


@dataclass(frozen=True, kw_only=True)
class Untied:
    """Why a tensor of the base is merged by itself although the base's config ties it.

    ``source``: the tensor it would be tied to. ``owners``: the experts in which the two differ;
    empty if they differ in the base. ``in_config``: whether the merged model's config says so.
    """

    source: str
    owners: tuple[str, ...] = ()
    in_config: bool = True

    @property
    def reason(self) -> str:
        """The reason, for the tensor's row."""
        if self.owners:
            where = listing([plain(owner) for owner in self.owners])
        else:
            where = "the base"
        return f"not tied to {self.source}, from which it differs in {where}"


@dataclass(frozen=True, kw_only=True)
class OpenedModel:
    """A model of the recipe."""

    name: str
    """In the recipe; of the base its own."""
    checkpoint: Checkpoint
    """Its files and tensors."""
    architecture: Architecture
    """The traits of its tensors."""
    own_names: Mapping[str, str]
    """The base's name of a tensor → its name in this model's files; a head that is tied here has
    the embedding's name.
    """
    extra: tuple[str, ...] = ()
    """Names in this model's files without a counterpart in the base."""
    token_rows: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """For tensors with one row per token of another vocabulary, by the base's name: this model's
    row for each row of the base, negative if there is none.
    """
    lacks: frozenset[str] = frozenset()
    """Parts of the base that this model lacks."""
    joined: Joined | None = None
    """The vocabulary of a base extended with new tokens; None if it is as it was."""
    slices: Mapping[str, int] = field(default_factory=dict)
    """Of a base made of slices, the slice in which each tensor is."""
    untied: Mapping[str, Untied] = field(default_factory=dict)
    """Of a base, the tensors that are not tied although its config says so."""

    @property
    def outside(self) -> frozenset[str]:
        """Tensors outside the base, where the base is only a part of this model.

        These are whole block lists, and the tensors around them except heads.
        """
        stacks = whole_stacks(self.checkpoint.tensors, set(self.own_names.values()))
        traits = self.architecture.traits
        body = [n for n in self.extra if traits[n].role not in (Role.HEAD, Role.VOCABULARY_HEAD)]
        blocks = {n for n in body if traits[n].block is not None and stack_of(n) in stacks}
        if blocks:
            return frozenset(body)
        return frozenset()

    @property
    def answers(self) -> dict[str, str]:
        """The base's name of each tensor of this model.

        An embedding that is also the head keeps its own.
        """
        return {expert_name: name for name, expert_name in reversed(list(self.own_names.items()))}

    def has(self, base_name: str) -> bool:
        """Whether this model has the tensor that the base calls ``base_name``."""
        return base_name in self.own_names

    def shape(self, base_name: str) -> tuple[int, ...]:
        """Shape as stored of the tensor that the base calls ``base_name``."""
        return self.checkpoint.tensors[self.own_names[base_name]].shape

    @property
    def summary(self) -> ExpertSummary:
        """The model's line in a list."""
        architecture = self.architecture
        parts = self.checkpoint.parts
        is_adapter = self.checkpoint.adapter is not None
        if len(parts) > 1:
            unnamed = ", ".join(parts)
        else:
            unnamed = "from names alone"
        # adapters have no config of a model
        if is_adapter:
            note = ""
        else:
            note = architecture.note
        return ExpertSummary(
            name=self.name,
            path=str(self.checkpoint.path),
            folder=self.checkpoint.folder,
            bytes=self.checkpoint.bytes,
            dtype=self.checkpoint.dtype or "",
            architecture=architecture.model_class
            or architecture.family
            or ("adapter" if is_adapter else unnamed),
            warnings=self.checkpoint.warnings + ((note,) if note else ()),
        )


def answering_name(row: PlanRow, model: OpenedModel) -> str:
    """The base's name under which an expert has the row's tensor.

    It is the row's name, or that of the tensor it is tied to. Raises KeyError if there is neither.
    """
    if model.has(row.tensor) or row.tied_to is None:
        return row.tensor
    return row.tied_to


def open_whole(path: Path, describer: Describer, adapter: Path | None = None) -> Steps[OpenedModel]:
    """Open a model on its own, with an optional adapter on it; its tensors match themselves.

    With an adapter, tensors are read in float32 or wider. The output has the model's formats.
    """
    checkpoint = open_files(path)
    model = OpenedModel(
        name=model_name(path),
        checkpoint=checkpoint,
        architecture=(yield from describe(checkpoint, describer)),
        own_names={name: name for name in checkpoint.tensors},
    )
    if adapter is None:
        return model
    adapted = _with_adapter(adapter, model)
    if adapted.tensors.keys() != checkpoint.tensors.keys():
        architecture = yield from describe(adapted, describer)
        model = replace(model, architecture=architecture)
    tensors = dict(adapted.tensors)
    for name, info in adapted.tensors.items():
        if name in checkpoint.tensors and is_float(info.dtype):
            tensors[name] = replace(info, dtype=checkpoint.tensors[name].dtype)
    return replace(
        model,
        checkpoint=replace(adapted, tensors=tensors, path=path, folder=checkpoint.folder),
        own_names={name: name for name in tensors},
    )


def _with_adapter(adapter: Path, model: OpenedModel) -> Checkpoint:
    """A model with an adapter on it as a whole model, which need not be the recipe's base."""
    adapted = _adapted(adapter, model)
    model_checkpoint = model.checkpoint
    return compose(
        model_checkpoint,
        {name: (adapted, name) for name in adapted.tensors},
        path=adapter,
        folder=adapter,
        side_files={**model_checkpoint.side_files, **side_files_of(adapted)},
        warnings=(*model_checkpoint.warnings, *adapted.warnings),
    )


def _open_expert(
    name: str, entry: ModelEntry, base: OpenedModel, describer: Describer
) -> Steps[OpenedModel]:
    """Open an expert and match its tensors with the base's by name, ignoring prefixes.

    An adapter becomes a whole model in name only: its change of the base is computed tensor by
    tensor. Raises MismatchError if none of its tensors matches one of the base.
    """
    path = entry.model
    if entry.on is None and is_adapter(path):
        checkpoint = _adapted(path, base)
        answers = match_names(base.checkpoint.tensors, checkpoint.tensors)
    else:
        if entry.on is None:
            opened = open_files(path)
        else:
            opened = None
        if opened is None:
            opened = _with_adapter(path, (yield from open_whole(entry.on or path, describer)))
        checkpoint, name_pairs = answered(name, opened, base.checkpoint)
        answers = _with_part(name_pairs, checkpoint, base.checkpoint)
    if not answers:
        raise MismatchError(
            f"{name} has no tensor in common with the base: its first is "
            f"{listing(list(checkpoint.tensors)[:1])}, the base's "
            f"{listing(list(base.checkpoint.tensors)[:1])}. Choose experts fine-tuned from this "
            "base.",
            path=path,
        )
    architecture = yield from describe(checkpoint, describer)
    if checkpoint.adapter is not None:
        architecture = replace(architecture, traits=_traits_of_base(architecture, base))
    own_names = {theirs: expert_name for expert_name, theirs in answers.items()}
    parts = base.checkpoint.parts
    return OpenedModel(
        name=name,
        checkpoint=checkpoint,
        architecture=architecture,
        own_names=own_names,
        extra=tuple(name for name in checkpoint.tensors if name not in answers),
        lacks=frozenset(parts) - {part_of(name, parts) for name in answers.values()},
    )


def _traits_of_base(architecture: Architecture, base: OpenedModel) -> dict[str, TensorTraits]:
    """The traits of an adapter's tensors; those of the base's tensors are known from its class."""
    traits_of = dict(base.architecture.traits)
    for name in base.architecture.traits:
        traits_of.setdefault(base.architecture.module_name(name), traits_of[name])
    for name, source in base.architecture.absent.items():
        traits_of.setdefault(name, traits_of[source])
    answered_traits = dict(architecture.traits)
    for name in architecture.traits:
        if name in traits_of:
            answered_traits[name] = replace(traits_of[name], tied_to=None)
    return answered_traits


def _with_part(answers: dict[str, str], expert: Checkpoint, base: Checkpoint) -> dict[str, str]:
    """The matches, with those of a nested model if whole block lists have none."""
    if not whole_stacks(expert.tensors, answers) or not whole_stacks(
        base.tensors, set(answers.values())
    ):
        return answers
    shapes_of_base = {name: info.shape for name, info in base.tensors.items()}
    shapes_of_expert = {name: info.shape for name, info in expert.tensors.items()}
    inner = match_part(shapes_of_base, shapes_of_expert)
    if len(inner) <= len(answers):
        return answers
    taken = set(inner.values())
    return inner | {o: n for o, n in answers.items() if o not in inner and n not in taken}


def _adapted(path: Path, base: OpenedModel) -> Checkpoint:
    adapter = _opened_adapter(path, base.checkpoint.tensors)
    adapter = with_tied_tokens(adapter, base.architecture)
    checkpoint, architecture = stored_once(base.checkpoint, base.architecture)
    adapter, apart = without_copies(adapter, checkpoint, architecture)
    checkpoint, architecture = with_copies(checkpoint, architecture, apart)
    base = replace(base, checkpoint=checkpoint, architecture=architecture)
    named = adapter.named_base
    opened = public_name(base.checkpoint.path, base.checkpoint.config or {})
    lasts = {name.rpartition("/")[2].casefold() for name in (named, opened)}
    if opened and len(lasts) > 1 and re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", named):
        warning = (
            f"{path_text(adapter.path)}: Its config names {named} as the base, but the base is "
            f"{plain(opened)}. Choose that base, unless the two are the same."
        )
        adapter = replace(adapter, warnings=(*adapter.warnings, warning))
    answers, pieces = _answers(adapter, base)
    turned = {name for name, traits in base.architecture.traits.items() if traits.transposed}
    expanded = expand(adapter, base.checkpoint, answers, turned, pieces)
    return replace(expanded, tied_changes=adapter.tied_changes)


def _opened_adapter(path: Path, base: Collection[str]) -> Adapter:
    """Open an adapter; a pickle only if the user had it converted before."""
    try:
        return open_adapter(path, base)
    except PickleConsentError:
        converted = find_converted(path, conversions_folder())
        if converted is None:
            raise
        return replace(open_adapter(converted, base), path=path)


def _answers(
    adapter: Adapter, base: OpenedModel
) -> tuple[dict[str, str], dict[str, list[StoredRows]]]:
    """Match an adapter's tensors with the base's, also where the base keeps parts of others.

    An adapter names the modules of the model that it was trained on, so an exact module name is
    preferred. Next come the names in the files, which are older names of the modules, and last
    similar module names. A change of a tensor that is tied to another and not stored counts as a
    change of the other one, as in PEFT's merge.
    """
    parts: dict[str, list[StoredRows]] = {}
    for file, rows in base.architecture.modules.items():
        at = 0
        for row in rows:
            piece = StoredRows(tensor=file, at=at, start=row.start, rows=row.rows)
            parts.setdefault(row.module, []).append(piece)
            at += row.rows
    shapes = base.checkpoint.tensors
    for name in adapter.deltas:
        if name in shapes or name in parts:
            continue
        of_experts = _experts_of(name, shapes)
        if of_experts:
            parts[name] = of_experts
    exact = {name: name for name in adapter.names if name in parts}
    taken = {piece.tensor for name in exact for piece in parts[name]}
    free = (name for name in shapes if name not in taken)
    answers = match_names(free, [name for name in adapter.names if name not in exact])
    unanswered = [name for name in adapter.names if name not in answers]
    pieces: dict[str, list[StoredRows]] = {}
    for adapter_name, module in (match_names(parts, unanswered) | exact).items():
        (first, *further) = parts[module]
        row_count = (*shapes[first.tensor].shape, 1)[0]
        if not further and (first.at, first.start, first.rows) == (0, 0, row_count):
            answers[adapter_name] = first.tensor
        else:
            pieces[adapter_name] = parts[module]
    unanswered = [name for name in adapter.deltas if name not in {*answers, *pieces}]
    absent = base.architecture.absent
    answers |= {
        expert_name: absent[name] for expert_name, name in match_names(absent, unanswered).items()
    }
    return answers, pieces


def _experts_of(stack: str, tensors: Mapping[str, TensorInfo]) -> list[StoredRows]:
    """The rows of a stack of experts in files that have a tensor for each expert's matrix.

    transformers joins them when it loads the model, gate before up.
    """
    prefix, _, parameter = stack.rpartition(".experts.")
    block = prefix.rpartition(".")[0]
    infos = {}
    for name, info in tensors.items():
        match = _EXPERT.fullmatch(name)
        if match and match["block"] == block and match["matrix"] in _JOINED.get(parameter, ()):
            infos[int(match["expert"]), _JOINED[parameter].index(match["matrix"])] = info
    pieces = []
    start = 0
    for _, info in sorted(infos.items()):
        pieces.append(StoredRows(tensor=info.name, at=0, start=start, rows=info.shape[0]))
        start += info.shape[0]
    return pieces


def open_files(path: Path) -> Checkpoint:
    """Open a model; a pickle only if the user had it converted before."""
    folder = conversions_folder()
    try:
        return open_checkpoint(path, lambda part: find_converted(part, folder))
    except PickleConsentError:
        converted = find_converted(path, folder)
        if converted is None:
            raise
        return open_checkpoint(converted)


def refuse_unfound(recipe: Recipe | MixtureRecipe) -> None:
    """Raise RecipeError for a model that is neither a path nor in the cache."""
    for path in recipe.paths:
        if path in recipe.unfound and not path.exists():
            raise RecipeError(recipe.unfound[path], path=path, key="model")


def open_models(
    recipe: Recipe, describer: Describer
) -> Steps[tuple[OpenedModel, tuple[OpenedModel, ...]]]:
    """Open the base and every expert of a recipe.

    Raises CheckpointError, MismatchError, and RecipeError if a model is listed twice.
    """
    base = yield from open_whole(recipe.base_model, describer, recipe.adapter)
    experts = []
    for name, entry in zip(recipe.expert_names, recipe.models, strict=True):
        experts.append((yield from _open_expert(name, entry, base, describer)))
    seen = {base.checkpoint.identity: "the base"}
    for expert in experts:
        identity = expert.checkpoint.identity
        path = expert.checkpoint.path
        if identity in seen:
            if seen[identity] == "the base":
                which = "it from the models"
            else:
                which = "one of them"
            raise RecipeError(
                f"{expert.name} is the same model as {seen[identity]} ({path}); remove {which}.",
                path=path,
            )
        seen[identity] = expert.name
    return base, tuple(experts)


def describe(checkpoint: Checkpoint, describer: Describer) -> Steps[Architecture]:
    """The traits of a checkpoint's tensors, tied as transformers loads them.

    Tensors that may be tied are compared. Raises CheckpointError.
    """
    folder = architectures_folder()
    parts = {}
    for name, part in checkpoint.parts.items():
        shapes = {
            expert_name: info.shape for expert_name, info in checkpoint.tensors_of(name).items()
        }
        parts[name] = yield from remembered(part.config, shapes, folder, describer.describe)
    return as_loaded(checkpoint, joined(parts))


def answered(name: str, expert: Checkpoint, base: Checkpoint) -> tuple[Checkpoint, dict[str, str]]:
    """The expert without parts that the base lacks, and the base's names of its tensors.

    An expert may lack parts of the base, or be a single part. Raises MismatchError if two parts of
    the base fit a part of the expert equally well.
    """
    pairs = _pairs(name, expert, base)
    answers = {}
    for theirs, ours in pairs.items():
        matched = match_names(base.tensors_of(ours), expert.tensors_of(theirs))
        for expert_name, answer in matched.items():
            answers[full_name(theirs, expert_name)] = full_name(ours, answer)
    unmatched = [part for part in expert.parts if part not in pairs]
    if not unmatched:
        return expert, answers
    sentence = f"The base has no {listing(unmatched)}, so it is left out."
    tensors = {}
    for tensor, info in expert.tensors.items():
        if part_of(tensor, expert.parts) not in unmatched:
            tensors[tensor] = info
    answering = replace(
        expert,
        tensors=tensors,
        parts={part: layout for part, layout in expert.parts.items() if part not in unmatched},
        warnings=(*expert.warnings, f"{path_text(expert.path)}: {sentence}"),
    )
    return answering, answers


def _pairs(name: str, expert: Checkpoint, base: Checkpoint) -> dict[str, str]:
    """For each part of the expert the base's part of that name, or else the best match."""
    if len(base.parts) == len(expert.parts) == 1:
        return dict(zip(expert.parts, base.parts, strict=True))
    pairs = {part: part for part in expert.parts if part in base.parts}
    for part in expert.parts:
        if part not in pairs:
            free = [ours for ours in base.parts if ours not in pairs.values()]
            if (ours := _suiting(name, expert, part, base, free)) is not None:
                pairs[part] = ours
    return pairs


def _suiting(
    name: str, expert: Checkpoint, part: str, base: Checkpoint, free: list[str]
) -> str | None:
    """The part of the base named as the expert's folder, or else with most equal tensors."""
    if expert.path.name in free:
        return expert.path.name
    shapes = {tensor: info.shape for tensor, info in expert.tensors_of(part).items()}
    counts = {}
    for ours in free:
        there = base.tensors_of(ours)
        matched = match_names(there, shapes)
        counts[ours] = sum(there[answer].shape == shapes[mine] for mine, answer in matched.items())
    most = max(counts.values(), default=0)
    best = [ours for ours, count in counts.items() if count == most]
    if 2 * most < len(shapes):
        return None
    if len(best) > 1:
        raise MismatchError(
            f"{name} could be any of {listing(best)} of the base. Put it into a folder with the "
            "name of the one that it is.",
            path=expert.path,
        )
    return best[0]
