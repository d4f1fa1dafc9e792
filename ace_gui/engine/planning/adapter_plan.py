"""The content of an adapter: which tensors it holds as two factors, and which whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final

import torch

from ace_gui.architecture.traits import Architecture, Role
from ace_gui.checkpoints.adapters.lora import STACKS, same_bytes
from ace_gui.checkpoints.adapters.weight_changes import LowRank
from ace_gui.checkpoints.derived import NOWHERE, ChangedInfo, ExtendedInfo, StoredRows
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.reader import DerivedInfo
from ace_gui.engine.contract.plan import (
    NOTHING_AFTER,
    Disposition,
    PlanRow,
)
from ace_gui.engine.planning.adapter_tensors import (
    AdapterPlan,
    Factored,
    Parameter,
    UnfactoredParameter,
    is_inside,
    leaf_of,
)
from ace_gui.engine.planning.dispositions import LEFT_OUT
from ace_gui.engine.planning.models import OpenedModel, answering_name
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import MismatchError, RecipeError
from ace_gui.formatting import listing, plain
from ace_gui.methods.linear import LinearParameters, linear
from ace_gui.recipe import Recipe

_NUMBERED: Final = re.compile(r"\.experts\.(\d+)\.")
_OF_EXPERTS: Final = frozenset(("gate_proj", "up_proj", "down_proj", "w1", "w2", "w3", "gate"))
_MAMBA: Final = ("out_proj", "conv1d")
# Layers by family that PEFT refuses, because their classes use the weights themselves.
_REFUSED: Final = dict.fromkeys(
    ("mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h"), _MAMBA
)
_LEFT_WHOLE: Final = frozenset({Role.EMBEDDING, Role.POSITION, Role.HEAD, Role.VOCABULARY_HEAD})


def adapter_plan(
    prepared: Prepared, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> AdapterPlan:
    """The changed parameters of the adapter of a merge; see ``AdapterPlan.completed``.

    ``include``, ``exclude``: patterns of tensors' names, with ``*``. Without a rank in the recipe,
    the rank is the sum of the experts' ranks. Raises RecipeError if it is not known, MismatchError
    for a tensor that PEFT could not address.
    """
    rows: dict[str, tuple[PlanRow, ...]] = {}
    left_out: dict[str, None] = {}
    for row in prepared.plan.rows:
        is_copy = row.tied_to is not None
        if row.in_base and row.is_combined and row.experts and 0 not in row.shape and not is_copy:
            if is_chosen(row.tensor, include, exclude):
                rows[row.tensor] = (*rows.get(row.tensor, ()), row)
            else:
                left_out[row.tensor] = None
    changed = [name for name in rows if any(_changes(prepared, row) for row in rows[name])]
    _refuse_unaddressed(prepared, rows, changed)
    parameters = _parameters(prepared)
    factored: list[Factored] = []
    unfactored: list[UnfactoredParameter] = []
    dtypes = {row.tensor: row.output_dtype(prepared.recipe.out_dtype) for row in prepared.plan.rows}
    for parameter in parameters:
        if not {*parameter.tensors}.isdisjoint(changed):
            factors = _factored(prepared, parameter, rows)
            if factors is None:
                unfactored.append(
                    UnfactoredParameter(parameter=parameter, dtype=dtypes[parameter.tensor])
                )
            else:
                factored.append(factors)
    plan = AdapterPlan(
        factored=tuple(factored),
        unfactored=tuple(unfactored),
        rows=rows,
        dtypes=dtypes,
        parameters=parameters,
    )
    return _with_notes(plan, prepared, left_out)


def _parameters(prepared: Prepared) -> tuple[Parameter, ...]:
    """The model's parameters, in the order of their first tensors in the files."""
    base = prepared.base
    architecture = base.architecture
    shapes = base.checkpoint.tensors
    tied: dict[str, list[str]] = {}
    for name, source in architecture.absent.items():
        tied.setdefault(source, []).append(name)
    copies = {row.tensor: row.tied_to for row in prepared.plan.rows if row.tied_to is not None}
    for name, source in copies.items():
        tied.setdefault(source, []).append(architecture.module_name(name))
    stacks: dict[str, list[str]] = {}
    by_row = sorted(architecture.stacked, key=lambda name: architecture.stacked[name].start)
    for name in by_row:
        stacks.setdefault(architecture.stacked[name].module, []).append(name)
    parameters = []
    for name, info in shapes.items():
        if name in copies:
            continue
        stack = architecture.stacked.get(name)
        if stack is None:
            names = (architecture.module_name(name), *tied.get(name, ()))
            parameters.append(Parameter(names=names, tensors=(name,), shape=info.shape))
        elif stack.start == 0:
            members = tuple(stacks[stack.module])
            rows = sum(shapes[member].shape[0] for member in members)
            numbers = set()
            for name in members:
                numbers.update(_NUMBERED.findall(name))
            experts = len(numbers)
            shape = (experts, rows // experts, info.shape[1])
            parameters.append(Parameter(names=(stack.module,), tensors=members, shape=shape))
    return tuple(parameters)


def require_adapter(recipe: Recipe) -> None:
    """Raise RecipeError for a recipe that cannot give an adapter, whatever its models are."""
    for key in ("slices", "adapter", "tokenizer", "chat_template", "distil"):
        if getattr(recipe, key):
            raise RecipeError(f"{key} needs a whole model, not an adapter.", key=key)
    if None not in (recipe.rank, recipe.energy):
        raise RecipeError("Give either `rank` or `energy`, not both.", key="energy")


def require_factors(plan: AdapterPlan) -> None:
    """Raise RecipeError for an adapter without factors, which PEFT does not load."""
    if not plan.factored:
        raise RecipeError(
            "No matrix of a linear layer changes, or all are left out, so that the adapter would "
            "have no factors. Write a whole model instead.",
            key="output",
        )


def _with_notes(plan: AdapterPlan, prepared: Prepared, left_out: Collection[str]) -> AdapterPlan:
    """The plan without parameters that PEFT cannot save, and with notes on all that is left out."""
    notes = []
    rootless = [item for item in plan.unfactored if not item.parameter.module]
    if rootless:
        names = listing([item.tensor for item in rootless])
        notes.append(f"{names}: in no module, so not in the adapter; the base's is kept.")
    around = []
    for item in plan.unfactored:
        if item not in rootless and _holds_layers(item, plan):
            around.append(item)
    if any(expert.checkpoint.adapter is not None for expert in prepared.experts):
        around = []  # PEFT has saved these modules whole before
    if around:
        names = listing([item.tensor for item in around])
        notes.append(
            f"{names}: saved by PEFT only together with all layers of the modules around them, so "
            "not in the adapter; the base's are kept."
        )
    per_expert = [r.name for r in prepared.plan.rows if r.disposition is Disposition.PER_EXPERT]
    if per_expert:
        notes.append(f"{listing(per_expert)}: kept for each expert, so not in the adapter.")
    unread = [row.name for row in prepared.plan.rows if row.reason == LEFT_OUT]
    if left_out or unread:
        notes.append(f"{listing([*left_out, *unread])}: left out, as asked for.")
    absent = {item.tensor for item in (*rootless, *around)}
    return replace(
        plan,
        unfactored=tuple(item for item in plan.unfactored if item.tensor not in absent),
        rows={name: rows for name, rows in plan.rows.items() if name not in absent},
        notes=tuple(notes),
    )


def _holds_layers(item: UnfactoredParameter, plan: AdapterPlan) -> bool:
    """Whether layers with factors are inside the module that has a parameter."""
    return any(is_inside(layer.module, (item.parameter.module,)) for layer in plan.factored)


def is_chosen(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Whether the patterns let a tensor into an adapter."""
    inside = not include or any(fnmatchcase(name, pattern) for pattern in include)
    return inside and not any(fnmatchcase(name, pattern) for pattern in exclude)


def _changes(prepared: Prepared, row: PlanRow) -> bool:
    """Whether any expert may change a tensor, as far as its headers tell."""
    for t in row.experts:
        expert = prepared.experts[t]
        checkpoint = expert.checkpoint
        name = answering_name(row, expert)
        if checkpoint.adapter is None or _of_adapter(checkpoint, name):
            return True
    return False


def _of_adapter(checkpoint: Checkpoint, name: str) -> bool:
    """Whether an adapter on a base changes the tensor, or replaces it."""
    if checkpoint.adapter is not None:
        files = checkpoint.adapter.files
    else:
        files = ()
    return any(checkpoint.tensors[name].file == stamp.path for stamp in files)


def low_rank_changes(prepared: Prepared, row: PlanRow) -> list[tuple[int, LowRank]] | None:
    """Each expert's change of a tensor if all are plain LoRA, else None.

    Experts that do not change the tensor are left out.
    """
    changes = []
    for t in row.experts:
        expert = prepared.experts[t]
        checkpoint = expert.checkpoint
        name = answering_name(row, expert)
        if checkpoint.adapter is None or row.tensor in expert.token_rows:
            return None
        if not _of_adapter(checkpoint, name):
            continue
        info = checkpoint.tensors[name]
        if not isinstance(info, ChangedInfo) or len(info.changes) != 1 or info.brought:
            return None
        ((change, piece),) = info.changes
        covers_tensor = (piece.at, piece.start, piece.rows) == (0, 0, row.tensor_shape[0])
        if not covers_tensor or not isinstance(change, LowRank) or not change.is_plain:
            return None
        if not change.fits(row.tensor_shape):
            return None
        changes.append((t, change))
    return changes


def shares_of(prepared: Prepared, row: PlanRow) -> Sequence[float] | None:
    """The factors c of a merge Σ c·ΔW; None if it is another function of the task vectors.

    They are the method's results for unit vectors.
    """
    weights = prepared.weights_of(row)
    count = len(row.experts)
    method = prepared.method_of(row)
    averaged = row.disposition is Disposition.AVERAGED
    plain = row.after == NOTHING_AFTER and prepared.expert_parameters_of(row) is None
    if not averaged and (not (method.sums and plain)):
        return None
    probes = list(torch.eye(count))
    if averaged:
        return [float(c) for c in linear(probes, weights, LinearParameters()).delta]
    parameters = prepared.parameters_of(row)
    with_zeros = method.merge(probes, weights, parameters, base=torch.zeros(count)).delta
    with_ones = method.merge(probes, weights, parameters, base=torch.ones(count)).delta
    if torch.equal(with_zeros, with_ones):
        return [float(c) for c in with_zeros]
    return None


def _factored(
    prepared: Prepared, parameter: Parameter, rows: Mapping[str, Sequence[PlanRow]]
) -> Factored | None:
    """How a parameter is written as factors; None if it is written whole."""
    base = prepared.base
    traits = base.architecture.traits[parameter.tensor]
    if traits.stack or parameter.tensor in base.architecture.stacked:
        if leaf_of(parameter.name) not in STACKS or len(parameter.shape) != 3:
            return None
        if parameter.shape[0] < 2 or not parameter.module:
            return None
        if base.architecture.model_class:
            turned = traits.inputs_first
        else:
            turned = traits.transposed
        item = Factored(parameter=parameter, bare=True, turned=turned, embedding=False, rank=0)
        stack_rank = _rank_of_stack(prepared, parameter, rows)
        stack_rows = chain.from_iterable(rows[name] for name in parameter.tensors)
        exact = stack_rank is not None and all(
            shares_of(prepared, row) is not None for row in stack_rows
        )
        return replace(item, rank=_rank(prepared, item, stack_rank, exact))
    row = rows[parameter.tensor][0]
    shape = parameter.shape
    changes = low_rank_changes(prepared, row)
    embedding = bool(changes) and all(change.embedding for _, change in changes or ())
    matrix = traits.matrix and len(shape) == 2
    convolution = len(shape) > 2 and bool(changes)
    if changes is None and (not matrix or traits.role in _LEFT_WHOLE):
        return None
    layer = traits.takes_lora and leaf_of(parameter.name) == "weight" and bool(parameter.module)
    if not layer or not (matrix or embedding or convolution):
        return None
    if leaf_of(parameter.module) in _REFUSED.get(base.architecture.family or "", ()):
        return None
    if parameter.names[1:]:  # PEFT does not add a table's factors to what is tied to it
        return None
    turned = embedding or (traits.transposed and len(shape) == 2)
    bare = leaf_of(parameter.module) in _OF_EXPERTS and _has_stacks(base) and not turned
    item = Factored(parameter=parameter, bare=bare, turned=turned, embedding=embedding, rank=0)
    stack_rank = None
    if changes is not None:
        stack_rank = sum(change.a.shape[0] for _, change in changes)
    exact = stack_rank is not None and row.part is None and shares_of(prepared, row) is not None
    return replace(item, rank=_rank(prepared, item, stack_rank, exact))


def _has_stacks(base: OpenedModel) -> bool:
    """Whether the model has stacks of experts.

    PEFT then takes some layers' names for older ones of matrices in a stack, so that the layers'
    parameters are named instead.
    """
    traits = base.architecture.traits.values()
    return bool(base.architecture.stacked) or any(trait.stack for trait in traits)


def _rank(prepared: Prepared, item: Factored, known_rank: int | None, exact: bool) -> int:
    """The rank, or the largest one if ``energy`` decides it.

    ``known_rank``: the sum of the experts' ranks; ``exact``: whether the change has no higher rank.
    Raises RecipeError if nothing gives the rank.
    """
    recipe = prepared.recipe
    limit = min(item.sides)
    if known_rank is not None and exact:
        most = min(known_rank, limit)
    else:
        most = limit
    if recipe.energy is not None:
        return most
    if recipe.rank is not None:
        return min(recipe.rank, most)
    if known_rank is None:
        raise RecipeError(
            f"The rank of the change of {plain(item.tensor)} is not known, because not all experts "
            "are plain LoRA: give `rank` or `energy`.",
            key="rank",
        )
    return min(known_rank, limit)


def stack_changes(prepared: Prepared, row: PlanRow) -> list[tuple[int, LowRank, StoredRows]] | None:
    """Each expert's changes of a stack, or of a matrix in it, if all are LoRA, else None.

    With an adapter, its change, and the rows of the change that are in the tensor.
    """
    changes: list[tuple[int, LowRank, StoredRows]] = []
    for t in row.experts:
        expert = prepared.experts[t]
        checkpoint = expert.checkpoint
        name = answering_name(row, expert)
        if checkpoint.adapter is None:
            return None
        if not _of_adapter(checkpoint, name):
            continue
        info = checkpoint.tensors[name]
        if not isinstance(info, ChangedInfo) or info.brought:
            return None
        for change, piece in info.changes:
            if not isinstance(change, LowRank) or change.uses_base or change.middle is not None:
                return None
            changes.append((t, change, piece))
    return changes


def _rank_of_stack(
    prepared: Prepared, parameter: Parameter, rows: Mapping[str, Sequence[PlanRow]]
) -> int | None:
    """The largest sum of the experts' ranks for a matrix of a stack; None if it is not known.

    A change that covers several tensors of a matrix counts once.
    """
    matrices: dict[int, dict[tuple[int, str], int]] = {}
    height = parameter.shape[1]
    for name in parameter.tensors:
        stacked = prepared.base.architecture.stacked.get(name)
        if name in rows:
            changes = stack_changes(prepared, rows[name][0])
        else:
            changes = []
        if changes is None:
            return None
        matrix = matrices.setdefault(0 if stacked is None else stacked.start // height, {})
        for t, change, _ in changes:
            matrix[t, change.a.name] = change.a.shape[0] // change.experts
    return max(sum(ranks.values()) for ranks in matrices.values())


def _refuse_unaddressed(
    prepared: Prepared, rows: Mapping[str, Sequence[PlanRow]], tensors: Sequence[str]
) -> None:
    """Raise MismatchError for tensors whose change an adapter cannot express.

    Loading joins or divides them, or they have rows of tokens that the base lacks.
    """
    base = prepared.base
    pieces = Counter[str]()
    for stored_rows in base.architecture.modules.values():
        pieces.update(stored.module for stored in stored_rows)
    rebuilt = (name for name in tensors if _is_rebuilt(base.architecture, name, pieces))
    names = [name for name in rebuilt if any(_differs(prepared, row) for row in rows[name])]
    if names:
        raise MismatchError(
            f"{listing(names)}: the library joins or divides them when it loads the model, so that "
            "an adapter cannot address them. Write a whole model, or make the adapter from it with "
            "`ace-gui extract` and leave them out there (`--exclude`).",
            path=base.checkpoint.path,
            tensor=names[0],
        )
    infos = {name: base.checkpoint.tensors.get(name) for name in tensors}
    extended = {name: info.rows for name, info in infos.items() if isinstance(info, ExtendedInfo)}
    larger = [name for name, token_rows in extended.items() if NOWHERE in token_rows]
    if larger:
        raise MismatchError(
            f"{listing(larger)}: the merge has tokens that the base lacks, so an adapter with them "
            "fits no base. Keep the base's tokens (`tokenizer: base`), or write a whole model.",
            tensor=larger[0],
        )


def _is_rebuilt(architecture: Architecture, tensor: str, pieces: Mapping[str, int]) -> bool:
    """Whether loading joins a tensor with others, or divides it; stacks of experts are known.

    ``pieces``: the number of tensors in each of the model's.
    """
    rows = architecture.modules.get(tensor, ())
    if len(rows) > 1 or any(pieces[row.module] > 1 for row in rows):
        return True
    inside = _NUMBERED.search(tensor) and architecture.model_class
    layer = architecture.traits[tensor].takes_lora
    return bool(inside) and tensor not in architecture.stacked and not layer


def _differs(prepared: Prepared, row: PlanRow) -> bool:
    """Whether an expert's tensor is not the base's, bit by bit."""
    stored = prepared.base.checkpoint.tensors[row.tensor]
    for t in row.experts:
        expert = prepared.experts[t]
        info = expert.checkpoint.tensors[expert.own_names[answering_name(row, expert)]]
        of_files = not isinstance(stored, DerivedInfo) and not isinstance(info, DerivedInfo)
        if not of_files or not same_bytes(stored, info):
            return True
    return False
