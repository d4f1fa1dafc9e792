"""The rules that decide how the merged model obtains each tensor, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from ace_gui.architecture.names import block_list, stack_of, whole_stacks
from ace_gui.architecture.scopes import DEFAULT, decide
from ace_gui.architecture.traits import Role, TensorTraits
from ace_gui.checkpoints import part_of
from ace_gui.engine.contract.plan import COMBINED, NOTHING_AFTER, Disposition, PlanRow, RowAfter
from ace_gui.engine.planning.matrix_parts import split_row
from ace_gui.engine.planning.models import OpenedModel, answering_name
from ace_gui.engine.planning.task_heads import HeadChoice, is_new
from ace_gui.engine.planning.vocabulary.rows import vocabulary_tensors
from ace_gui.engine.planning.vocabulary.tokenizers import token_of
from ace_gui.errors import MismatchError
from ace_gui.formatting import dimensions, listing, plain
from ace_gui.methods.linear import LINEAR
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import After, Vocabulary
from ace_gui.stored_formats import is_float

HEADS = frozenset({Role.HEAD, Role.VOCABULARY_HEAD})
VOCABULARIES = frozenset({Role.EMBEDDING, Role.VOCABULARY_HEAD})

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
) -> tuple[PlanRow, ...]:
    """A row for every tensor of the base, then for every tensor that only experts have.

    A tensor that holds several matrices has one row per matrix: always for the experts of a Mixture
    of Experts, and for fused projections if the recipe says so. Raises MismatchError if an expert
    lacks tensors of the base's blocks, has other shapes, or has tensors of blocks that the base
    lacks.
    """
    if not recipe.slices:
        _refuse_missing(base, experts)
    kept = vocabulary_tensors(base) if recipe.vocabulary is Vocabulary.BASE else ()
    rows: list[PlanRow] = []
    for name in base.checkpoint.tensors:
        row = _base_row(name, base, experts, method, recipe, kept, heads)
        traits = base.architecture.traits[name]
        if _takes_matrices(row, recipe.scope):
            parts = split_row(row, traits, split_fused=recipe.split_fused)
            rows += [averaged_if_narrow(part, method) for part in parts]
        else:
            rows.append(row)
    return tuple(rows) + _extra_rows(experts, heads)


def scales_base(recipe: Recipe, method: MergeMethod[object]) -> bool:
    """Whether a tensor that only the base has may be changed: by a factor, in a slice."""
    return bool(recipe.slices) and method.name == LINEAR.name


def _takes_matrices(row: PlanRow, scope: str) -> bool:
    """Whether the matrices of a stacked tensor are merged one by one, whatever the method.

    The authors' scripts average a stack of matrices as one tensor.
    """
    averaged = row.disposition is Disposition.AVERAGED and scope == DEFAULT
    return averaged or row.disposition is Disposition.MERGED


def _base_row(
    name: str,
    base: OpenedModel,
    experts: Sequence[OpenedModel],
    method: MergeMethod[object],
    recipe: Recipe,
    kept: Collection[str],
    heads: HeadChoice,
) -> PlanRow:
    row, traits = _undecided(name, base, experts), base.architecture.traits[name]
    if traits.role == Role.BUFFER or not is_float(row.dtype):
        what = "buffer" if traits.role == Role.BUFFER else "not floating point"
        return replace(row, disposition=Disposition.COPIED, reason=f"{what}: copied from the base")
    if traits.role == Role.HEAD and row.experts and name not in heads.merged:
        reason = "task head: every expert's own is saved in heads/, the base's stays in the model"
        return replace(row, disposition=Disposition.PER_EXPERT, reason=reason + heads.because)
    if name in heads.poolers:
        reason = (
            "its output goes only to task heads: each expert's is saved with its head in heads/, "
            "and the model has the base's, because no head fits a mean of poolers"
        )
        return replace(row, disposition=Disposition.PER_EXPERT, reason=reason)
    if is_new(base, name):
        reason = f"the mean of the experts', as the base has none{heads.because}"
        return replace(row, disposition=Disposition.AVERAGED, reason=reason)
    if not row.experts and not scales_base(recipe, method):
        return replace(row, reason="no expert has this tensor: kept from the base")
    if name in kept:
        reason = "a row for each token: kept from the base, as the recipe's vocabulary asks"
        return replace(row, experts=(), reason=reason)
    if row.tied_to is not None:
        source = _base_row(row.tied_to, base, experts, method, recipe, kept, heads)
        return replace(
            row,
            disposition=source.disposition,
            transposed=source.transposed,
            experts=source.experts,
            reason=f"tied to {row.tied_to}: merged with it",
        )
    _refuse_shapes(name, base, experts, row.experts, recipe)
    # A preset leaves heads out; if the recipe merges them, the preset does not apply to them.
    is_head = traits.role is Role.HEAD
    row = combined(row, traits, method, DEFAULT if is_head else recipe.scope, len(experts))
    return replace(row, reason=row.reason + heads.because) if is_head else row


def _undecided(name: str, base: OpenedModel, experts: Sequence[OpenedModel]) -> PlanRow:
    """The row of a base tensor before its disposition is decided."""
    info, traits = base.checkpoint.tensors[name], base.architecture.traits[name]
    return PlanRow(
        name=name,
        role=traits.role.value,
        shape=info.shape,
        dtype=info.dtype,
        disposition=Disposition.BASE,
        reason="",
        block=traits.block,
        tied_to=traits.tied_to if traits.tied_to in base.checkpoint.tensors else None,
        experts=tuple(t for t, expert in enumerate(experts) if expert.has(name)),
    )


def combined(
    row: PlanRow, traits: TensorTraits, method: MergeMethod[object], scope: str, total: int
) -> PlanRow:
    """The row of a tensor that is merged by ``method``."""
    return averaged_if_narrow(_combined(row, traits, method, scope, total), method)


def averaged_if_narrow(row: PlanRow, method: MergeMethod[object]) -> PlanRow:
    """The row; averaged if ``method`` would lose the change of such a narrow matrix."""
    is_number = method.kind is Kind.MATRIX and prod(row.shape) == 1
    is_narrow = len(row.shape) == 2 and (min(row.shape) < method.narrowest or is_number)
    if row.disposition is not Disposition.MERGED or not is_narrow:
        return row
    outputs, inputs = row.shape[::-1] if row.transposed else row.shape
    side = f"{outputs} output" if outputs <= inputs else f"{inputs} input"
    reason = f"{row.reason}; with {side} {method.title} would lose its change: averaged"
    return replace(row, disposition=Disposition.AVERAGED, reason=reason)


def last_blocks(rows: Iterable[PlanRow]) -> dict[str, int]:
    """The index of the last block in each list of blocks, by ``block_list``."""
    found: dict[str, int] = {}
    for row in rows:
        blocks = block_list(row.name)
        if row.in_base and row.block is not None and blocks is not None:
            found[blocks] = max(row.block, found.get(blocks, 0))
    return found


def with_after(row: PlanRow, after: After, last: Mapping[str, int]) -> PlanRow:
    """The row with the later steps on its merged change, which only merged matrices have.

    ``last``: the ``last_blocks`` of the model.
    """
    if row.disposition is not Disposition.MERGED or len(row.shape) != 2:
        return replace(row, after=NOTHING_AFTER)
    depth, usual = 1.0, NOTHING_AFTER
    if after.depth is not None:
        first, end = after.depth
        share = (row.block or 0) / (last.get(block_list(row.name) or "") or 1)
        depth = first + (end - first) * share
    own = RowAfter(
        rank=usual.rank if after.rank is None else after.rank,
        spectrum=usual.spectrum if after.spectrum is None else after.spectrum,
        scale=depth if after.scale is None else depth * after.scale,
        cap=after.cap.delta if after.cap else None,
    )
    return replace(row, after=own)


def _combined(
    row: PlanRow, traits: TensorTraits, method: MergeMethod[object], scope: str, total: int
) -> PlanRow:
    found = len(row.experts)

    def with_count(reason: str) -> str:
        return reason if found == total else f"{reason} (in {found} of {total} experts)"

    if (0 < found < method.least) or (method.most is not None and found > method.most):
        reason = f"{method.title} cannot merge {found} of {total} experts: averaged"
        return replace(row, disposition=Disposition.AVERAGED, reason=reason)
    decision = decide(scope, row.name, len(row.shape))
    if decision is not None:
        disposition = {
            "merge": Disposition.MERGED,
            "average": Disposition.AVERAGED,
            "base": Disposition.BASE,
        }[decision.kind]
        return replace(
            row, disposition=disposition, transposed=False, reason=with_count(decision.reason)
        )
    if method.kind is Kind.ENTRY:
        reason = with_count(f"{method.title} applies to every entry")
        turned = traits.transposed  # matters if a cap makes the matrix merge whole
        return replace(row, disposition=Disposition.MERGED, transposed=turned, reason=reason)
    if traits.matrix and traits.role not in AVERAGE_REASONS:
        reason = "matrix of a linear layer"
        if traits.transposed:
            reason = "matrix of a linear layer, stored inputs × outputs"
        return replace(
            row,
            disposition=Disposition.MERGED,
            transposed=traits.transposed,
            reason=with_count(reason),
        )
    if method.kind in {Kind.TENSOR, Kind.ROW}:
        reason = with_count(f"{method.title} applies to tensors of any shape")
        return replace(row, disposition=Disposition.MERGED, reason=reason)
    reason = AVERAGE_REASONS.get(traits.role, "not the matrix of a linear layer: averaged")
    return replace(row, disposition=Disposition.AVERAGED, reason=with_count(reason))


def _extra_rows(experts: Sequence[OpenedModel], heads: HeadChoice) -> tuple[PlanRow, ...]:
    """Rows of tensors that the base lacks: heads and their parts, and leftovers, by name."""
    owners: dict[str, list[int]] = {}
    for t, expert in enumerate(experts):
        for name in expert.extra:
            owners.setdefault(name, []).append(t)
    return tuple(_extra_row(name, experts, tuple(having), heads) for name, having in owners.items())


def _extra_row(
    name: str, experts: Sequence[OpenedModel], owners: tuple[int, ...], heads: HeadChoice
) -> PlanRow:
    owner = experts[owners[0]]
    info = owner.checkpoint.tensors[name]
    traits = owner.architecture.traits[name]
    row = PlanRow(
        name=name,
        role=traits.role.value,
        shape=info.shape,
        dtype=info.dtype,
        disposition=Disposition.PER_EXPERT,
        reason=f"task head: saved with its expert in heads/{heads.because}",
        in_base=False,
        block=traits.block,
        tied_to=traits.tied_to,
        experts=owners,
    )
    if traits.role == Role.BUFFER:
        reason = "a buffer that the base does not have: dropped"
        return replace(row, disposition=Disposition.DROPPED, reason=reason)
    if traits.tied_to is not None:
        reason = f"tied to {traits.tied_to}, which is in the merged model: dropped"
        return replace(row, disposition=Disposition.DROPPED, reason=reason)
    if traits.role not in HEADS:
        return replace(row, reason="the base has no such tensor: saved with its expert in heads/")
    return row


def _refuse_missing(base: OpenedModel, experts: Sequence[OpenedModel]) -> None:
    """Refuse experts with missing blocks. Tensors outside of blocks (poolers, heads) may differ.

    A block list that the base lacks altogether, such as a decoder for pixels, may differ, too.
    """
    lists = {block_list(name) for name in base.architecture.traits}
    for expert in experts:
        # For example, a tower of the base when the expert lacks the other towers altogether.
        separate = whole_stacks(base.checkpoint.tensors, expert.own_names)
        missing = [
            name
            for name, traits in base.architecture.traits.items()
            if traits.block is not None
            and traits.role != Role.BUFFER
            and not expert.has(name)
            and part_of(name, base.checkpoint.parts) not in expert.lacks
            and not (stack_of(name) in separate and _has_blocks(expert, base))
        ]
        surplus = [
            name
            for name in expert.extra
            if (traits := expert.architecture.traits[name]).block is not None
            and traits.role not in HEADS | {Role.BUFFER}
            and block_list(name) in lists
        ]
        if missing or surplus:
            count = len(missing or surplus)
            what = f"has {count} tensors that the base lacks"
            raise MismatchError(
                f"{expert.name} {f'lacks {count} tensors of the base' if missing else what}: "
                f"{listing(missing or surplus)}. It is probably another architecture or size; "
                "choose experts fine-tuned from this base.",
                path=expert.checkpoint.path,
                tensor=(missing or surplus)[0],
                details="\n".join(missing or surplus),
            )


def _has_blocks(expert: OpenedModel, base: OpenedModel) -> bool:
    """Whether the expert has at least one of the base's stacks of blocks."""
    stacked = {stack for name in base.checkpoint.tensors if (stack := stack_of(name))}
    return bool(stacked - whole_stacks(base.checkpoint.tensors, expert.own_names))


def _refuse_shapes(
    name: str,
    base: OpenedModel,
    experts: Sequence[OpenedModel],
    owners: Sequence[int],
    recipe: Recipe,
) -> None:
    shape, role = base.shape(name), base.architecture.traits[name].role
    for t in owners:
        expert, theirs = experts[t], experts[t].shape(name)
        same_width = len(theirs) == len(shape) and theirs[1:] == shape[1:]
        if theirs == shape or (name in expert.token_rows and same_width):
            continue
        if role in VOCABULARIES and same_width:
            sentence = _other_rows(name, base, expert, recipe)
        else:
            sentence = (
                f"`{plain(name)}` is {dimensions(theirs)} in {expert.name} but "
                f"{dimensions(shape)} in the base; choose experts fine-tuned from this base."
            )
        raise MismatchError(
            sentence,
            path=expert.checkpoint.path,
            tensor=name,
            shapes={"base": shape, expert.name: theirs},
        )


def _other_rows(name: str, base: OpenedModel, expert: OpenedModel, recipe: Recipe) -> str:
    """The reason given for a vocabulary with more or fewer rows than the base's."""
    rows, theirs = base.shape(name)[0], expert.shape(name)[0]
    tokens = "1 token" if abs(theirs - rows) == 1 else f"{abs(theirs - rows)} tokens"
    longer = expert if theirs > rows else base
    token = token_of(longer.checkpoint, min(rows, theirs))
    first = f" (the first is {token!r}, id {min(rows, theirs)})" if token is not None else ""
    advice = (
        "Choose under Vocabulary (`vocabulary` in a recipe) to have rows matched by token "
        "(tokens), or the base's kept (base)."
    )
    if recipe.from_mergekit:
        advice = (
            "Write `tokenizer_source: base` or `tokenizer_source: union`, and rows are matched by "
            "token."
        )
    return (
        f"`{plain(name)}` has {theirs} rows in {expert.name} but {rows} in the base: "
        f"{tokens} {'more' if theirs > rows else 'fewer'}{plain(first)}. {advice}"
    )


def refuse_other_than_floats(
    rows: Sequence[PlanRow], base: OpenedModel, experts: Sequence[OpenedModel]
) -> None:
    """Raise MismatchError, naming tensor, format and model, for weights that are not floats."""
    for row in rows:
        if row.disposition in COMBINED:
            for t in row.experts:
                _require_float(row, experts[t])
        elif row.disposition is Disposition.COPIED:
            _refuse_weights(row, base, [experts[t] for t in row.experts])


def kept_integers(rows: Sequence[PlanRow]) -> tuple[str, ...]:
    """Tensors other than known buffers that are copied from the base as they are not floats."""
    return tuple(
        row.name
        for row in rows
        if row.disposition is Disposition.COPIED and row.role != Role.BUFFER and row.experts
    )


def _require_float(row: PlanRow, expert: OpenedModel) -> None:
    found = _format(row, expert)
    if not is_float(found):
        raise _refusal(
            row,
            expert,
            f"is {found} in {plain(expert.name)} but {row.dtype} in the base, and only floating "
            f"point can be merged; dequantise or convert {plain(expert.name)}, or keep the base's "
            "tensor (`overrides` in a recipe).",
        )


def _refuse_weights(row: PlanRow, base: OpenedModel, experts: Sequence[OpenedModel]) -> None:
    """Buffers may have any type; other integer tensors of the base must not be weights."""
    traits = base.architecture.traits[row.tensor]
    if traits.role is Role.BUFFER:
        return
    for expert in experts:
        found = _format(row, expert)
        if is_float(found):
            raise _refusal(
                row,
                base,
                f"is {row.dtype} in the base but {found} in {plain(expert.name)}, and only "
                "floating point can be merged; dequantise or convert the base.",
            )
    if experts and (traits.matrix or traits.role is Role.EMBEDDING):
        raise _refusal(
            row,
            base,
            f"is {row.dtype} in the base and in {plain(experts[0].name)}, and only floating point "
            "can be merged; dequantise or convert both.",
        )


def _format(row: PlanRow, expert: OpenedModel) -> str:
    own = expert.own_names[answering_name(row, expert)]
    return expert.checkpoint.tensors[own].dtype


def _refusal(row: PlanRow, culprit: OpenedModel, what: str) -> MismatchError:
    return MismatchError(
        f"`{plain(row.tensor)}` {what}", path=culprit.checkpoint.path, tensor=row.tensor
    )
