"""The rules that decide how the merged model obtains each tensor, and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ace_gui.architecture.names import block_list, stack_of, whole_stacks
from ace_gui.architecture.scopes import DEFAULT, decide
from ace_gui.architecture.traits import Role, TensorTraits
from ace_gui.checkpoints.folder import part_of
from ace_gui.engine.contract.plan import NOTHING_AFTER, Disposition, PlanRow, RowAfter
from ace_gui.engine.planning.models import OpenedModel, answering_name
from ace_gui.engine.planning.split_rows import split_row
from ace_gui.engine.planning.task_heads import HeadChoice, is_new
from ace_gui.engine.planning.token_ids import token_of
from ace_gui.engine.planning.vocabulary import vocabulary_tensors
from ace_gui.errors import MismatchError
from ace_gui.formatting import dimensions, listing, plain
from ace_gui.methods.linear import LINEAR
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import After, Vocabulary
from ace_gui.stored_formats import is_float

HEADS = frozenset({Role.HEAD, Role.VOCABULARY_HEAD})
VOCABULARIES = frozenset({Role.EMBEDDING, Role.VOCABULARY_HEAD})

FATES: Final = {
    "merge": Disposition.MERGED,
    "average": Disposition.AVERAGED,
    "base": Disposition.BASE,
}

LEFT_OUT: Final = "left out, as asked for"
"""The reason of a tensor of another shape that is not extracted."""

LeftOut = Callable[[str], bool]
"""Whether a tensor is left out, by the base's name of it."""

AVERAGE_REASONS = {
    Role.EMBEDDING: "an embedding has no inputs to decorrelate: averaged",
    Role.POSITION: "a position embedding has no inputs to decorrelate: averaged",
    Role.VOCABULARY_HEAD: "the vocabulary head follows the embedding: averaged",
    Role.NORM: "not a matrix (norm): averaged",
    Role.BIAS: "not a matrix (bias): averaged",
    Role.CONVOLUTION: "not a matrix (convolution): averaged",
    Role.HEAD: "a task head: averaged",
}


def plan_rows(
    base: OpenedModel,
    experts: Sequence[OpenedModel],
    method: MergeMethod[object],
    recipe: Recipe,
    heads: HeadChoice,
    left_out: LeftOut | None = None,
) -> tuple[PlanRow, ...]:
    """A row for every tensor of the base, then for every tensor that only experts have.

    A tensor that holds several matrices has one row per matrix: always for the experts of a Mixture
    of Experts, and for fused projections if the recipe says so. ``left_out``: whether a tensor is
    not extracted, so that it may have any shape; None if nothing is extracted. Raises MismatchError
    if an expert lacks tensors of the base's blocks, has other shapes, or has tensors of blocks that
    the base lacks.
    """
    if not recipe.slices:
        _refuse_missing(base, experts)
    base_tensors = vocabulary_tensors(base) if recipe.vocabulary is Vocabulary.BASE else ()
    rules = _DispositionRules(
        base=base,
        experts=experts,
        method=method,
        recipe=recipe,
        heads=heads,
        kept=base_tensors,
        left_out=left_out,
    )
    rows: list[PlanRow] = []
    for name in base.checkpoint.tensors:
        row = rules.row(name)
        averaged = row.disposition is Disposition.AVERAGED and recipe.scope == DEFAULT
        # The authors' scripts average a stack of matrices as one tensor.
        if averaged or row.is_merged:
            traits = base.architecture.traits[name]
            parts = split_row(row, traits, split_fused=recipe.split_fused)
            rows += [averaged_if_narrow(part, method) for part in parts]
        else:
            rows.append(row)
    owners: dict[str, list[int]] = {}
    for t, expert in enumerate(experts):
        for name in expert.extra:
            owners.setdefault(name, []).append(t)
    rows += [rules.extra_row(name, tuple(indices)) for name, indices in owners.items()]
    return tuple(rows)


def scales_base(recipe: Recipe, method: MergeMethod[object]) -> bool:
    """Whether a tensor that only the base has may be changed: by a factor, in a slice."""
    return bool(recipe.slices) and method.name == LINEAR.name


@dataclass(frozen=True, kw_only=True)
class _DispositionRules:
    """The inputs of the decisions."""

    base: OpenedModel
    """The base model."""
    experts: Sequence[OpenedModel]
    """In the recipe's order."""
    method: MergeMethod[object]
    """The recipe's method."""
    recipe: Recipe
    """The recipe."""
    heads: HeadChoice
    """What is done with task heads."""
    kept: Collection[str]
    """Vocabulary tensors that are kept from the base."""
    left_out: LeftOut | None = None
    """As for ``plan_rows``."""

    def row(self, name: str) -> PlanRow:
        """The row of a tensor of the base."""
        info = self.base.checkpoint.tensors[name]
        traits = self.base.architecture.traits[name]
        row = PlanRow(
            name=name,
            role=traits.role.value,
            shape=info.shape,
            dtype=info.dtype,
            disposition=Disposition.BASE,
            reason="",
            block=traits.block,
            tied_to=traits.tied_to if traits.tied_to in self.base.checkpoint.tensors else None,
            experts=tuple(t for t, expert in enumerate(self.experts) if expert.has(name)),
            written=info.written_dtype if info.written_dtype != info.dtype else "",
        )
        if row.tied_to is not None:
            return self._as_its_source(row)
        if simple := self._without_method(row, traits):
            return replace(row, disposition=simple[0], reason=simple[1])
        if name in self.kept:
            reason = "a row for each token: kept from the base, as the recipe's vocabulary asks"
            return replace(row, experts=(), reason=reason)
        if self.left_out is not None and self.left_out(name) and self._misfits(row):
            return replace(row, experts=(), reason=LEFT_OUT)
        self._refuse_shapes(row, traits.role)
        # A preset leaves heads out; if the recipe merges them, the preset does not apply to them.
        is_head = traits.role is Role.HEAD
        scope = DEFAULT if is_head else self.recipe.scope
        row = combined(row, traits, self.method, scope, len(self.experts))
        if name in self.base.untied:
            row = replace(row, reason=f"{row.reason}; {self.base.untied[name].reason}")
        return replace(row, reason=row.reason + self.heads.because) if is_head else row

    def _as_its_source(self, row: PlanRow) -> PlanRow:
        """The row of a tensor that is tied to another one: whatever becomes of that one."""
        assert row.tied_to is not None
        source = self.row(row.tied_to)
        reason = f"tied to {row.tied_to}: merged with it"
        if not source.is_combined:
            reason = f"tied to {row.tied_to}: {source.reason}"
        return replace(
            row,
            disposition=source.disposition,
            transposed=source.transposed,
            experts=source.experts,
            reason=reason,
        )

    def _without_method(self, row: PlanRow, traits: TensorTraits) -> tuple[Disposition, str] | None:
        """The disposition, whatever the method, and why; None if the method decides."""
        if traits.role == Role.BUFFER or not is_float(row.dtype):
            what = "buffer" if traits.role == Role.BUFFER else "not floating point"
            return Disposition.COPIED, f"{what}: copied from the base"
        if traits.role == Role.HEAD and row.experts and row.name not in self.heads.merged:
            reason = "task head: every expert's own is saved in heads/, the base's stays in the "
            return Disposition.PER_EXPERT, f"{reason}model{self.heads.because}"
        if row.name in self.heads.poolers:
            return Disposition.PER_EXPERT, (
                "its output goes only to task heads: each expert's is saved with its head in "
                "heads/, and the model has the base's, because no head fits a mean of poolers"
            )
        if is_new(self.base, row.name):
            reason = f"the mean of the experts', as the base has none{self.heads.because}"
            return Disposition.AVERAGED, reason
        if not row.experts and not scales_base(self.recipe, self.method):
            return Disposition.BASE, "no expert has this tensor: kept from the base"
        return None

    def extra_row(self, name: str, owners: tuple[int, ...]) -> PlanRow:
        """The row of a tensor that the base lacks: a head or a part of one, or a leftover."""
        owner = self.experts[owners[0]]
        info = owner.checkpoint.tensors[name]
        traits = owner.architecture.traits[name]
        disposition = Disposition.PER_EXPERT
        reason = f"task head: saved with its expert in heads/{self.heads.because}"
        if traits.role == Role.BUFFER:
            disposition = Disposition.DROPPED
            reason = "a buffer that the base does not have: dropped"
        elif traits.tied_to is not None:
            disposition = Disposition.DROPPED
            reason = f"tied to {traits.tied_to}, which is in the merged model: dropped"
        elif traits.role not in HEADS:
            reason = "the base has no such tensor: saved with its expert in heads/"
        return PlanRow(
            name=name,
            role=traits.role.value,
            shape=info.shape,
            dtype=info.dtype,
            disposition=disposition,
            reason=reason,
            in_base=False,
            block=traits.block,
            tied_to=traits.tied_to,
            experts=owners,
        )

    def _misfits(self, row: PlanRow) -> list[OpenedModel]:
        """The experts whose tensor has another shape than the base's."""
        misfits = []
        for expert in (self.experts[t] for t in row.experts):
            shape = expert.shape(row.name)
            same_width = len(shape) == len(row.shape) and shape[1:] == row.shape[1:]
            if shape != row.shape and not (row.name in expert.token_rows and same_width):
                misfits.append(expert)
        return misfits

    def _refuse_shapes(self, row: PlanRow, role: Role) -> None:
        """Raise MismatchError for an expert whose tensor has another shape than the base's."""
        name = row.name
        shape = row.shape
        for expert in self._misfits(row):
            theirs = expert.shape(name)
            sentence = (
                f"`{plain(name)}` is {dimensions(theirs)} in {expert.name} but "
                f"{dimensions(shape)} in the base; choose experts fine-tuned from this base."
            )
            if role in VOCABULARIES and theirs[1:] == shape[1:]:
                sentence = self._other_rows(row, expert)
            raise MismatchError(
                sentence,
                path=expert.checkpoint.path,
                tensor=name,
                shapes={"base": shape, expert.name: theirs},
            )

    def _other_rows(self, row: PlanRow, expert: OpenedModel) -> str:
        """The reason given for a vocabulary with more or fewer rows than the base's."""
        rows = row.shape[0]
        theirs = expert.shape(row.name)[0]
        tokens = "1 token" if abs(theirs - rows) == 1 else f"{abs(theirs - rows)} tokens"
        longer = expert if theirs > rows else self.base
        token = token_of(longer.checkpoint, min(rows, theirs))
        first = f" (the first is {token!r}, id {min(rows, theirs)})" if token is not None else ""
        advice = (
            "Choose under Vocabulary (`vocabulary` in a recipe) to have rows matched by token "
            "(tokens), or the base's kept (base)."
        )
        if self.left_out is not None:
            tables = [n for n in vocabulary_tensors(self.base) if expert.has(n)]
            options = " ".join(f"--exclude '{plain(n)}'" for n in tables)
            advice = (
                f"An adapter cannot add rows. Leave such tables out with `{options}` (`exclude` in "
                "Python), or keep the whole model."
            )
        elif self.recipe.from_mergekit:
            advice = (
                "Write `tokenizer_source: base` or `tokenizer_source: union`, and rows are matched "
                "by token."
            )
        return (
            f"`{plain(row.name)}` has {theirs} rows in {expert.name} but {rows} in the base: "
            f"{tokens} {'more' if theirs > rows else 'fewer'}{plain(first)}. {advice}"
        )


def combined(
    row: PlanRow, traits: TensorTraits, method: MergeMethod[object], scope: str, total: int
) -> PlanRow:
    """The row of a tensor that ``method`` merges, if the scope allows it."""
    count = len(row.experts)
    turned = traits.transposed
    stays = row.transposed
    share = "" if count == total else f" (in {count} of {total} experts)"
    decision = decide(scope, row.name, len(row.shape))
    fate = Disposition.MERGED
    if (0 < count < method.least) or (method.most is not None and count > method.most):
        fate = Disposition.AVERAGED
        turned = stays
        share = ""
        reason = f"{method.title} cannot merge {count} of {total} experts: averaged"
    elif decision is not None:
        fate = FATES[decision.kind]
        reason = decision.reason
        turned = False
    elif method.kind is Kind.ENTRY:  # the orientation matters if a cap requires the whole matrix
        reason = f"{method.title} applies to every entry"
    elif traits.matrix and traits.role not in AVERAGE_REASONS:
        reason = "matrix of a linear layer" + (", stored inputs × outputs" if turned else "")
    elif method.kind in {Kind.TENSOR, Kind.ROW}:
        reason = f"{method.title} applies to tensors of any shape"
        turned = stays
    else:
        fate = Disposition.AVERAGED
        turned = stays
        reason = AVERAGE_REASONS.get(traits.role, "not the matrix of a linear layer: averaged")
    row = replace(row, disposition=fate, transposed=turned, reason=reason + share)
    return averaged_if_narrow(row, method)


def averaged_if_narrow(row: PlanRow, method: MergeMethod[object]) -> PlanRow:
    """The row; averaged if ``method`` would lose the change of such a narrow matrix."""
    is_number = method.kind is Kind.MATRIX and prod(row.shape) == 1
    is_narrow = len(row.shape) == 2 and (min(row.shape) < method.narrowest or is_number)
    if not row.is_merged or not is_narrow:
        return row
    outputs, inputs = row.shape[::-1] if row.transposed else row.shape
    side = f"{outputs} output" if outputs <= inputs else f"{inputs} input"
    reason = f"{row.reason}; with {side} {method.title} would lose its change: averaged"
    return replace(row, disposition=Disposition.AVERAGED, reason=reason)


def last_blocks(rows: Iterable[PlanRow]) -> dict[str, int]:
    """The index of the last block in each list of blocks, by ``block_list``."""
    last: dict[str, int] = {}
    for row in rows:
        blocks = block_list(row.name)
        if row.in_base and row.block is not None and blocks is not None:
            last[blocks] = max(row.block, last.get(blocks, 0))
    return last


def with_after(
    row: PlanRow, after: After, last: Mapping[str, int], *, one_head: bool = False
) -> PlanRow:
    """The row with the later steps on its merged change, which only merged matrices have.

    A convolution counts as the matrix of its outputs × all else. ``last``: the ``last_blocks`` of
    the model. ``one_head``: whether all experts answer through one head.
    """
    if not row.is_merged or not _is_matrix(row):
        return replace(row, after=NOTHING_AFTER)
    depth = 1.0
    defaults = NOTHING_AFTER
    if after.depth is not None:
        first, end = after.depth
        share = (row.block or 0) / (last.get(block_list(row.name) or "") or 1)
        depth = first + (end - first) * share
    row_after = RowAfter(
        rank=defaults.rank if after.rank is None else after.rank,
        spectrum=defaults.spectrum if after.spectrum is None else after.spectrum,
        scale=depth if after.scale is None else depth * after.scale,
        cap=after.cap.for_heads(single=one_head) if after.cap else None,
    )
    return replace(row, after=row_after)


def _is_matrix(row: PlanRow) -> bool:
    """Whether a tensor has singular values: it maps inputs to outputs, or is a table of rows."""
    if row.role in (Role.BIAS, Role.NORM, Role.BUFFER):  # those of stacked experts have two axes
        return False
    return len(row.shape) == 2 or (len(row.shape) > 2 and row.role == Role.CONVOLUTION)


def _refuse_missing(base: OpenedModel, experts: Sequence[OpenedModel]) -> None:
    """Refuse experts with missing blocks. Tensors outside of blocks (poolers, heads) may differ.

    A block list that the base lacks altogether, such as a decoder for pixels, may differ, too.
    """
    lists = {block_list(name) for name in base.architecture.traits}
    stacked = {stack for name in base.checkpoint.tensors if (stack := stack_of(name))}
    for expert in experts:
        # For example, a tower of the base when the expert lacks the other towers altogether.
        separate = whole_stacks(base.checkpoint.tensors, expert.own_names)
        missing = []
        for name, traits in base.architecture.traits.items():
            in_block = traits.block is not None and traits.role != Role.BUFFER
            may_lack = part_of(name, base.checkpoint.parts) in expert.lacks
            is_apart = stack_of(name) in separate and stacked - separate
            if in_block and not expert.has(name) and not may_lack and not is_apart:
                missing.append(name)
        surplus = []
        for name in expert.extra:
            traits = expert.architecture.traits[name]
            in_block = traits.block is not None and traits.role not in HEADS | {Role.BUFFER}
            if in_block and block_list(name) in lists:
                surplus.append(name)
        if names := missing or surplus:
            count = f"{len(names)} tensors"
            what = f"lacks {count} of the base" if missing else f"has {count} that the base lacks"
            raise MismatchError(
                _other_architecture(base, expert)
                or f"{expert.name} {what}: {listing(names)}. It is probably another architecture "
                "or size; choose experts fine-tuned from this base.",
                path=expert.checkpoint.path,
                tensor=names[0],
                details="\n".join(names),
            )


def _other_architecture(base: OpenedModel, expert: OpenedModel) -> str:
    """The sentence for an expert whose config names another architecture; empty for others."""
    ours = base.architecture.family
    theirs = expert.architecture.family
    if ours is None or theirs is None or ours == theirs:
        return ""
    return (
        f"{expert.name} is of the architecture {theirs}, the base of {ours}; choose experts "
        "fine-tuned from this base."
    )


def refuse_other_than_floats(
    rows: Sequence[PlanRow], base: OpenedModel, experts: Sequence[OpenedModel]
) -> None:
    """Raise MismatchError, naming tensor, format and model, for weights that are not floats.

    Buffers may have any type; other integer tensors of the base must not be weights.
    """
    for row in rows:
        copied = row.disposition is Disposition.COPIED
        if (copied and row.role == Role.BUFFER) or not (copied or row.is_combined):
            continue
        in_base = f"is {row.dtype} in the base"
        for expert in (experts[t] for t in row.experts):
            own_name = expert.own_names[answering_name(row, expert)]
            name = plain(expert.name)
            dtype = expert.checkpoint.tensors[own_name].dtype
            if not copied and not is_float(dtype):
                advice = f"{name}, or keep the base's tensor (`overrides` in a recipe)"
                raise _refusal(row, expert, f"is {dtype} in {name} but {in_base[3:]}", advice)
            if copied and is_float(dtype):
                raise _refusal(row, base, f"{in_base} but {dtype} in {name}", "the base")
        traits = base.architecture.traits.get(row.tensor)
        if copied and row.experts and traits and (traits.matrix or traits.role is Role.EMBEDDING):
            name = plain(experts[row.experts[0]].name)
            raise _refusal(row, base, f"{in_base} and in {name}", "both")


def kept_integers(rows: Sequence[PlanRow]) -> tuple[str, ...]:
    """Tensors other than known buffers that are copied from the base as they are not floats."""
    names = []
    for row in rows:
        is_copied = row.disposition is Disposition.COPIED and row.experts
        if is_copied and row.role != Role.BUFFER:
            names.append(row.name)
    return tuple(names)


def _refusal(row: PlanRow, culprit: OpenedModel, formats: str, which: str) -> MismatchError:
    return MismatchError(
        f"`{plain(row.tensor)}` {formats}, and only floating point can be merged; dequantise or "
        f"convert {which}.",
        path=culprit.checkpoint.path,
        tensor=row.tensor,
    )
