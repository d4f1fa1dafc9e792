"""The content of an adapter: which tensors it holds as two factors, and which whole."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

import torch

from ace_gui.architecture.traits import Role
from ace_gui.checkpoints.adapters.weight_changes import LowRank
from ace_gui.checkpoints.derived import NOWHERE, ChangedInfo, ExtendedInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.writer import OutputTensor
from ace_gui.engine.contract.plan import (
    ADAPTER,
    NOTHING_AFTER,
    Check,
    Disposition,
    PlanRow,
    Verdict,
)
from ace_gui.engine.planning.dispositions import LEFT_OUT
from ace_gui.engine.planning.models import OpenedModel, answering_name
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import MismatchError, RecipeError, WorkbenchError
from ace_gui.formatting import listing, plain
from ace_gui.methods.linear import LinearParameters, linear
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import Output

PREFIX: Final = "base_model.model."

_JOINED_ON_LOADING: Final = re.compile(r"\.experts\.\d+\.")
_LEFT_WHOLE: Final = frozenset({Role.EMBEDDING, Role.POSITION, Role.HEAD, Role.VOCABULARY_HEAD})


@dataclass(frozen=True, kw_only=True)
class Factored:
    """A tensor whose change is written as B·A. ``module``: PEFT's name for its module.

    ``turned``: stored inputs × outputs, or an embedding.
    """

    tensor: str
    module: str
    shape: tuple[int, ...]
    turned: bool
    embedding: bool
    rank: int

    @property
    def sides(self) -> tuple[int, int]:
        """Outputs and inputs of the change; the positions of a kernel are inputs."""
        rows, columns = self.shape[0], math.prod(self.shape[1:])
        return (columns, rows) if self.turned else (rows, columns)

    def outputs(self, dtype: str) -> tuple[OutputTensor, OutputTensor]:
        """A and B in the adapter's file."""
        outputs, inputs = self.sides
        kernel = self.shape[2:]
        a = (self.rank, *self.shape[1:]) if kernel else (self.rank, inputs)
        b = (outputs, self.rank, *(1 for _ in kernel))
        name = f"{PREFIX}{self.module}." + (
            "lora_embedding_{}" if self.embedding else "lora_{}.weight"
        )
        return (
            OutputTensor(name=name.format("A"), dtype=dtype, shape=a),
            OutputTensor(name=name.format("B"), dtype=dtype, shape=b),
        )


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A tensor that is written whole. ``parameter``: PEFT's name for it.

    ``copies``: the names of tensors that are tied to it, which PEFT saves, too.
    """

    tensor: str
    parameter: str
    shape: tuple[int, ...]
    dtype: str
    copies: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The module that has it."""
        return self.parameter.rpartition(".")[0]


@dataclass(frozen=True, kw_only=True)
class AdapterPlan:
    """The tensors of an adapter, in plan order.

    ``rows``: those of the merge, by tensor. ``notes``: parts of the merge that it cannot hold.
    """

    factored: tuple[Factored, ...]
    whole: tuple[Whole, ...]
    rows: dict[str, tuple[PlanRow, ...]]
    notes: tuple[str, ...] = ()

    def with_ranks(self, ranks: dict[str, int], changed: Collection[str]) -> AdapterPlan:
        """The plan with these ranks, without tensors that do not change."""
        return replace(
            self,
            factored=tuple(
                replace(each, rank=ranks[each.tensor])
                for each in self.factored
                if ranks[each.tensor]
            ),
            whole=tuple(each for each in self.whole if each.tensor in changed),
        )

    @property
    def rank(self) -> int:
        """The largest rank."""
        return max((each.rank for each in self.factored), default=1)

    @property
    def whole_modules(self) -> tuple[str, ...]:
        """The modules that PEFT saves whole, without modules inside other ones."""
        factored = {each.module for each in self.factored}
        owners = dict.fromkeys(each.module for each in self.whole if each.module not in factored)
        copies = (name for each in self.whole for name in each.copies)
        owners |= dict.fromkeys(name.rpartition(".")[0] for name in copies)
        return tuple(n for n in owners if not any(n.startswith(f"{o}.") for o in owners))

    def names_of(self, whole: Whole) -> tuple[str, ...]:
        """The names of a whole tensor in the adapter's file."""
        if whole.module in {each.module for each in self.factored}:
            leaf = whole.parameter.rpartition(".")[2]
            return (f"{PREFIX}{whole.module}.base_layer.{leaf}",)
        return tuple(PREFIX + name for name in (whole.parameter, *whole.copies))


def adapter_plan(
    prepared: Prepared, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> AdapterPlan:
    """The content of the adapter of a merge.

    ``include``, ``exclude``: patterns of tensors' names, with ``*``. Without a rank in the recipe,
    the rank is the sum of the experts' ranks. Raises RecipeError if it is not known, MismatchError
    for a tensor that PEFT could not address.
    """
    rows: dict[str, tuple[PlanRow, ...]] = {}
    for row in prepared.plan.rows:
        is_tied = row.tied_to is not None  # it is a copy of the tensor that it is tied to
        if row.in_base and row.is_combined and row.experts and 0 not in row.shape and not is_tied:
            rows[row.tensor] = (*rows.get(row.tensor, ()), row)
    wanted = [name for name in rows if is_chosen(name, include, exclude)]
    changed = [name for name in wanted if any(_changes(prepared, r) for r in rows[name])]
    refuse_unaddressed(prepared, changed)
    factored: list[Factored] = []
    whole: list[Whole] = []
    for name in changed:
        factors = _factored(prepared, rows[name][0])
        if factors is None:
            tied = _tied_names(prepared, name)
            parameter = _module_name(prepared.base, name)
            whole.append(_whole(prepared, rows[name][0], parameter, tied))
        else:
            factored.append(factors)
    plan = AdapterPlan(factored=tuple(factored), whole=tuple(whole), rows=rows)
    return _with_notes(_in_modules(plan, prepared), prepared, include, exclude)


def _tied_names(prepared: Prepared, source: str) -> tuple[str, ...]:
    """What the model calls the tensors that are tied to one of the base's."""
    architecture = prepared.base.architecture
    absent = [name for name, at in architecture.absent.items() if at == source]
    stored = [row.tensor for row in prepared.plan.rows if row.tied_to == source]
    return (*absent, *map(architecture.module_name, dict.fromkeys(stored)))


def adapter_checks(prepared: Prepared) -> tuple[Check, ...]:
    """Whether the merge can be written as an adapter; none if the recipe does not ask for one."""
    if prepared.recipe.output != Output.ADAPTER or not prepared.experts:
        return ()
    try:
        require_adapter(prepared.recipe)
        require_factors(adapter_plan(prepared))
    except WorkbenchError as error:
        return (Check(ADAPTER, error.sentence, Verdict.ERROR),)
    return (Check(ADAPTER, "The merge can be written as an adapter."),)


def require_adapter(recipe: Recipe) -> None:
    """Raise RecipeError for a recipe that cannot give an adapter, whatever its models are."""
    for key in ("slices", "adapter", "tokenizer", "chat_template"):
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


def _whole(prepared: Prepared, row: PlanRow, parameter: str, copies: tuple[str, ...] = ()) -> Whole:
    return Whole(
        tensor=row.tensor,
        parameter=parameter,
        shape=row.tensor_shape,
        dtype=row.output_dtype(prepared.recipe.out_dtype),
        copies=copies,
    )


def _in_modules(plan: AdapterPlan, prepared: Prepared) -> AdapterPlan:
    """The plan in which all tensors of a module that is saved whole are whole."""
    owners = tuple(f"{name}." for name in plan.whole_modules)
    inside = [each for each in plan.factored if each.module.startswith(owners)]
    more = tuple(
        _whole(prepared, plan.rows[each.tensor][0], f"{each.module}.weight") for each in inside
    )
    factored = tuple(each for each in plan.factored if each not in inside)
    return replace(plan, factored=factored, whole=plan.whole + more)


def _with_notes(
    plan: AdapterPlan, prepared: Prepared, include: Sequence[str], exclude: Sequence[str]
) -> AdapterPlan:
    rootless = [each for each in plan.whole if not each.module]
    notes = []
    if rootless:
        names = listing([each.tensor for each in rootless])
        notes.append(f"{names}: in no module, so not in the adapter; the base's is kept.")
    own = [r.name for r in prepared.plan.rows if r.disposition is Disposition.PER_EXPERT]
    if own:
        notes.append(f"{listing(own)}: kept for each expert, so not in the adapter.")
    left = [name for name in plan.rows if not is_chosen(name, include, exclude)]
    left += [row.name for row in prepared.plan.rows if row.reason == LEFT_OUT]
    if left:
        notes.append(f"{listing(left)}: left out, as asked for.")
    whole = tuple(each for each in plan.whole if each.module)
    return replace(plan, whole=whole, notes=tuple(notes))


def is_chosen(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Whether the patterns let a tensor into an adapter."""
    inside = not include or any(fnmatchcase(name, pattern) for pattern in include)
    return inside and not any(fnmatchcase(name, pattern) for pattern in exclude)


def _changes(prepared: Prepared, row: PlanRow) -> bool:
    """Whether any expert may change a tensor, as far as its headers tell."""
    for t in row.experts:
        expert = prepared.experts[t]
        checkpoint, name = expert.checkpoint, answering_name(row, expert)
        if checkpoint.adapter is None or _of_adapter(checkpoint, name):
            return True
    return False


def _of_adapter(checkpoint: Checkpoint, name: str) -> bool:
    """Whether an adapter on a base changes the tensor, or replaces it."""
    files = checkpoint.adapter.files if checkpoint.adapter is not None else ()
    return any(checkpoint.tensors[name].file == stamp.path for stamp in files)


def low_rank_changes(prepared: Prepared, row: PlanRow) -> list[tuple[int, LowRank]] | None:
    """Each expert's change of a tensor if all are plain LoRA, else None.

    Experts that do not change the tensor are left out.
    """
    changes = []
    for t in row.experts:
        expert = prepared.experts[t]
        checkpoint, name = expert.checkpoint, answering_name(row, expert)
        if checkpoint.adapter is None or row.tensor in expert.token_rows:
            return None
        if not _of_adapter(checkpoint, name):
            continue
        info = checkpoint.tensors[name]
        if not isinstance(info, ChangedInfo) or len(info.changes) != 1 or info.brought:
            return None
        ((change, piece),) = info.changes
        whole = (piece.at, piece.start, piece.rows) == (0, 0, row.tensor_shape[0])
        if not whole or not isinstance(change, LowRank) or not change.is_plain:
            return None
        if not change.fits(row.tensor_shape):
            return None
        changes.append((t, change))
    return changes


def shares_of(prepared: Prepared, row: PlanRow) -> Sequence[float] | None:
    """The factors c of a merge Σ c·ΔW; None if it is another function of the task vectors.

    They are the method's results for unit vectors.
    """
    weights, count = prepared.weights_of(row), len(row.experts)
    method, averaged = prepared.method_of(row), row.disposition is Disposition.AVERAGED
    plain = row.after == NOTHING_AFTER and prepared.own_of(row) is None
    if not averaged and (not (method.sums and plain)):
        return None
    probes = list(torch.eye(count))
    if averaged:
        return [float(c) for c in linear(probes, weights, LinearParameters()).delta]
    results = [
        method.merge(probes, weights, prepared.parameters_of(row), base=base).delta
        for base in (torch.zeros(count), torch.ones(count))
    ]
    return [float(c) for c in results[0]] if torch.equal(*results) else None


def _factored(prepared: Prepared, row: PlanRow) -> Factored | None:
    """How a tensor is written as factors; None if it is written whole."""
    base, shape = prepared.base, row.tensor_shape
    traits = base.architecture.traits[row.tensor]
    changes = low_rank_changes(prepared, row)
    embedding = bool(changes) and all(change.embedding for _, change in changes or ())
    matrix = traits.matrix and len(shape) == 2 and not traits.stack
    convolution = len(shape) > 2 and bool(changes)
    if changes is None and (not matrix or traits.role in _LEFT_WHOLE):
        return None
    if not (matrix or embedding or convolution) or not row.tensor.endswith(".weight"):
        return None
    recipe, limit = prepared.recipe, min(shape[0], math.prod(shape[1:]))
    rank = most = limit
    if changes is not None:
        rank = min(sum(change.a.shape[0] for _, change in changes), limit)
        if row.part is None and shares_of(prepared, row) is not None:  # the sum is exact
            most = rank
    if recipe.energy is not None or recipe.rank is not None:
        rank = most if recipe.energy is not None else min(recipe.rank or 0, most)
    elif changes is None:
        raise RecipeError(
            f"The rank of the change of {plain(row.tensor)} is not known, because not all experts "
            "are plain LoRA: give `rank` or `energy`.",
            key="rank",
        )
    return Factored(
        tensor=row.tensor,
        module=_module_name(base, row.tensor).removesuffix(".weight"),
        shape=shape,
        turned=embedding or (traits.transposed and len(shape) == 2),
        embedding=embedding,
        rank=rank,
    )


def _module_name(base: OpenedModel, tensor: str) -> str:
    """The name of a stored tensor in the model that is loaded from the files."""
    rows = base.architecture.modules.get(tensor)
    return rows[0].module if rows else tensor


def refuse_unaddressed(prepared: Prepared, tensors: Sequence[str]) -> None:
    """Raise MismatchError for tensors whose change an adapter cannot express.

    Loading joins or divides them, or they have rows of tokens that the base lacks.
    """
    base, names = prepared.base, []
    pieces = Counter(row.module for rows in base.architecture.modules.values() for row in rows)
    for tensor in tensors:
        rows = base.architecture.modules.get(tensor, ())
        divided = len(rows) > 1 or any(pieces[row.module] > 1 for row in rows)
        if divided or (_JOINED_ON_LOADING.search(tensor) and base.architecture.model_class):
            names.append(tensor)
    if names:
        raise MismatchError(
            f"{listing(names)}: the library joins or divides them when it loads the model, so that "
            "an adapter cannot address them. Leave them out (`--exclude`), or write a whole model.",
            path=base.checkpoint.path,
            tensor=names[0],
        )
    infos = {name: base.checkpoint.tensors.get(name) for name in tensors}
    extended = {name: info.rows for name, info in infos.items() if isinstance(info, ExtendedInfo)}
    larger = [name for name, own in extended.items() if NOWHERE in own]
    if larger:
        raise MismatchError(
            f"{listing(larger)}: the merge has tokens that the base lacks, so an adapter with them "
            "fits no base. Keep the base's tokens (`tokenizer: base`), or write a whole model.",
            tensor=larger[0],
        )
