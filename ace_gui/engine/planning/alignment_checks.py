"""What aligning a merge with its experts needs (the recipe's ``distil``), from the plan alone.

The activations of a batch are not counted, because they depend on the inputs.
"""

from __future__ import annotations

from math import prod

from ace_gui.engine.contract.plan import ALIGNMENT, Check, CheckVerdict
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import COPIES, FLOAT32
from ace_gui.engine.planning.trained_tensors import shared_rows, trained_tensors
from ace_gui.errors import RecipeError
from ace_gui.formatting import counted, listing, plain
from ace_gui.recipe.values import Output


def alignment_bytes(prepared: Prepared) -> int:
    """Estimated peak while the merge is aligned; 0 if that is not wanted or not possible.

    The merged model in float32, one expert's beside it while it is loaded, the gradients of what is
    trained, and the trained numbers.
    """
    distil = prepared.recipe.distil
    if not distil or alignment_obstacle(prepared):
        return 0
    plan = trained_tensors(prepared, distil)
    shapes = {row.tensor: row.tensor_shape for row in shared_rows(prepared)}
    model = FLOAT32 * sum(map(prod, shapes.values()))
    gradients = FLOAT32 * sum(prod(row.tensor_shape) for row in plan.rows)
    return 2 * model + gradients + COPIES * FLOAT32 * plan.numbers


def alignment_checks(prepared: Prepared) -> tuple[Check, ...]:
    """The check of a merge that is aligned with its experts; none for other merges."""
    distil = prepared.recipe.distil
    if not distil:
        return ()
    obstacle = alignment_obstacle(prepared)
    if obstacle:
        return (Check(ALIGNMENT, obstacle, CheckVerdict.ERROR),)
    plan = trained_tensors(prepared, distil)
    numbers = counted(plan.numbers, "number", "numbers")
    sentence = f"{numbers} will be trained, on {distil.inputs} inputs of each task."
    left_out = left_out_sentence(prepared)
    if left_out:
        return (Check(ALIGNMENT, f"{sentence} {left_out}", CheckVerdict.WARNING),)
    return (Check(ALIGNMENT, sentence),)


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
        trained_tensors(prepared, distil)
    except RecipeError as error:
        return error.sentence
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
