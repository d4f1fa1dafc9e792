"""What aligning a merge with its experts needs (the recipe's ``distil``), from the plan alone.

The activations of a batch are not counted, because they depend on the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ace_gui.architecture.traits import Role
from ace_gui.engine.contract.plan import ALIGNMENT, Check, CheckVerdict, PlanRow
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import COPIES, FLOAT32
from ace_gui.engine.planning.trained_tensors import shared_rows, trained_tensors
from ace_gui.errors import RecipeError
from ace_gui.formatting import counted, human_bytes, listing, plain
from ace_gui.machine import free_memory
from ace_gui.recipe.distillation import How
from ace_gui.recipe.values import Output

_HEADS: Final = frozenset({Role.HEAD, Role.VOCABULARY_HEAD})


@dataclass(frozen=True, kw_only=True)
class AlignmentWay:
    """In which pieces a merge is aligned with its experts."""

    how: How
    """``WHOLE`` or ``BLOCKS``."""

    whole_fits: bool
    """Whether the memory suffices for the whole model."""


def alignment_bytes(prepared: Prepared, allowed: int | None = None) -> int:
    """Estimated peak while the merge is aligned; 0 if that is not wanted or not possible.

    ``allowed``: memory that may be used; None: what is free.
    """
    distil = prepared.recipe.distil
    if not distil or alignment_obstacle(prepared):
        return 0
    return _bytes_of(prepared, way_of_alignment(prepared, allowed))


def _bytes_of(prepared: Prepared, way: AlignmentWay) -> int:
    if way.how is How.WHOLE:
        return whole_bytes(prepared)
    if way.whole_fits:  # then each expert is asked about all inputs first
        return max(block_bytes(prepared), _model_bytes(prepared))
    return block_bytes(prepared)


def whole_bytes(prepared: Prepared) -> int:
    """Estimated peak while the whole merge is aligned at once.

    The merged model in float32, one expert's beside it while it is loaded, and the trained numbers
    with their gradients.
    """
    assert prepared.recipe.distil
    plan = trained_tensors(prepared, prepared.recipe.distil)
    return 2 * _model_bytes(prepared) + (1 + COPIES) * FLOAT32 * plan.numbers


def _model_bytes(prepared: Prepared) -> int:
    """The size of a model in float32."""
    shapes = {row.tensor: row.tensor_shape for row in shared_rows(prepared)}
    return FLOAT32 * sum(map(prod, shapes.values()))


def block_bytes(prepared: Prepared) -> int:
    """Estimated peak while one block after another is aligned.

    What is before the blocks; later a block in float32, and the numbers that are trained in it with
    their gradients. The hidden states of the inputs are not counted.
    """
    assert prepared.recipe.distil
    plan = trained_tensors(prepared, prepared.recipe.distil)
    blocks: dict[int | None, int] = {}
    for row in shared_rows(prepared):
        block = block_of(prepared, row)
        if block is not None or row.role not in _HEADS:
            blocks[block] = blocks.get(block, 0) + FLOAT32 * prod(row.tensor_shape)
    before = blocks.pop(None, 0)
    trained: dict[int | None, int] = {}
    for row in plan.rows:
        block = block_of(prepared, row)
        numbers = replace(plan, rows=(row,)).numbers
        trained[block] = trained.get(block, 0) + (1 + COPIES) * FLOAT32 * numbers
    sizes = [size + trained.get(block, 0) for block, size in blocks.items()]
    return max(before, max(sizes, default=0))


def block_of(prepared: Prepared, row: PlanRow) -> int | None:
    """The number of the block that a row belongs to."""
    return prepared.base.architecture.traits[row.tensor].block


def way_of_alignment(prepared: Prepared, allowed: int | None = None) -> AlignmentWay:
    """How a merge is aligned. ``allowed``: memory that may be used; None: what is free."""
    assert prepared.recipe.distil
    if allowed is None:
        limit = free_memory()
    else:
        limit = allowed
    fits = whole_bytes(prepared) <= limit
    how = chosen_way(prepared.recipe.distil.how, fits=fits)
    return AlignmentWay(how=how, whole_fits=fits)


def chosen_way(how: How, *, fits: bool) -> How:
    """``WHOLE`` or ``BLOCKS``. ``fits``: whether the memory suffices for the whole model."""
    if how is not How.AUTO:
        return how
    if fits:
        return How.WHOLE
    return How.BLOCKS


def _cost(prepared: Prepared, way: AlignmentWay) -> str:
    """How the merge is aligned and what that costs, in a sentence."""
    size = human_bytes(whole_bytes(prepared))
    if way.how is How.WHOLE:
        return f"The whole model is trained at once, in about {size} of memory."
    block = human_bytes(_bytes_of(prepared, way))
    return (
        f"One block after another is trained, in about {block} of memory besides the hidden states "
        f"of the inputs; the whole model at once takes {size}."
    )


def alignment_checks(prepared: Prepared) -> tuple[Check, ...]:
    """The check of a merge that is aligned with its experts; none for other merges."""
    distil = prepared.recipe.distil
    if not distil:
        return ()
    obstacle = alignment_obstacle(prepared)
    if obstacle:
        return (Check(ALIGNMENT, obstacle, CheckVerdict.ERROR),)
    way = way_of_alignment(prepared)
    plan = trained_tensors(prepared, distil)
    sentence = f"{plan.numbers:,} numbers will be trained, on {distil.inputs} inputs of each task."
    sentence += f" {_cost(prepared, way)}"
    remarks = (_risk_by_block(way), left_out_sentence(prepared))
    warnings = [remark for remark in remarks if remark]
    if warnings:
        return (Check(ALIGNMENT, " ".join([sentence, *warnings]), CheckVerdict.WARNING),)
    return (Check(ALIGNMENT, sentence),)


def _risk_by_block(way: AlignmentWay) -> str:
    """A sentence on what training by block gained in the evidence; empty for the whole model."""
    if way.how is How.WHOLE:
        return ""
    return (
        "By block, merges of adapters and of a chat model gained about as much as with `how: "
        "whole`; merges of full fine-tunes gained nothing, and some became slightly worse: compare "
        "with the merge without `distil`."
    )


def left_out_sentence(prepared: Prepared) -> str:
    """Which tasks have no inputs though their expert has some of others; empty if none."""
    names = [plain(task.title) for task in prepared.recipe.tasks if task.calibration is None]
    if not names:
        return ""
    return (
        f"{counted(len(names), 'task has', 'tasks have')} no `calibration` data, so the merge may "
        f"become worse on {listing(names)}."
    )


def alignment_obstacle(prepared: Prepared) -> str:
    """Why a merge whose recipe has ``distil`` cannot be aligned, in a sentence; empty if it can."""
    recipe = prepared.recipe
    distil = recipe.distil
    assert distil
    output = Output(recipe.output).traits
    if not output.through_model:
        noun = output.noun[0].upper() + output.noun[1:]
        return f"{noun} cannot be aligned with the experts; write a model, or leave `distil` out."
    if recipe.slices:
        return (
            "The experts of a recipe with slices are no whole models, whose answers are needed; "
            "leave `distil` out."
        )
    if prepared.method.modules is not None:
        return (
            f"{prepared.method.title} leaves modules for each expert, which fit the merge as it "
            "is; choose another method, or leave `distil` out."
        )
    if recipe.without_calibration:
        return (
            "To align the merge with its experts, each needs inputs of its task, but none are "
            f"given for {listing(recipe.without_calibration)}; add tasks with `calibration` data, "
            "or leave `distil` out."
        )
    if sentence := _other_rows(prepared):
        return sentence
    try:
        plan = trained_tensors(prepared, distil)
    except RecipeError as error:
        return error.sentence
    if distil.how is How.BLOCKS and all(block_of(prepared, row) is None for row in plan.rows):
        return (
            "Nothing that would be trained is in one of the model's blocks; choose `distil: {how: "
            "whole}`."
        )
    return ""


def _other_rows(prepared: Prepared) -> str:
    """A sentence on an expert whose tensors have other shapes than the merged ones, or none."""
    for expert in prepared.experts:
        for row in shared_rows(prepared):
            name = row.tensor
            if not expert.has(name):
                continue
            if name in expert.token_rows or expert.shape(name) != row.tensor_shape:
                return (
                    f"`{name}` of {expert.name} has other rows than in the merged model, so the "
                    "inputs of its task do not fit that model; leave `distil` out."
                )
    return ""
