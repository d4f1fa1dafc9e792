"""Whether the methods of a merge need data of the experts, and whether the recipe has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ace_gui.engine.contract.checks import EVERYTHING, Check, Verdict
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.planning.overridden_rows import method_of
from ace_gui.formatting import plain
from ace_gui.methods import checked_parameters
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.measured import Need
from ace_gui.recipe import Recipe

TITLE: Final = "Calibration data"


def needs_of(rows: Sequence[PlanRow], method: MergeMethod[Any], parameters: Any) -> dict[Need, str]:
    """The measurements that the rows' methods need, each with the title of one such method."""
    found = {}
    for row in rows:
        if row.disposition is Disposition.MERGED and row.in_base:
            own = method_of(row, method)
            if row.override is not None:
                need = own.need(checked_parameters(own, row.override.parameters))
            else:
                need = own.need(parameters)
            if need is not None:
                found[need] = own.title
    return found


def lacking_sentence(title: str, experts: Sequence[str]) -> str:
    """The message for a method for which experts lack data."""
    names = ", ".join(map(plain, experts))
    return (
        f"{title} needs inputs of each expert's task, but none are given for {names}; "
        "add tasks with `calibration` data to the recipe, or choose a method without data."
    )


def data_checks(recipe: Recipe, needs: dict[Need, str]) -> tuple[Check, ...]:
    """The check of a merge that needs data; none for other merges."""
    if not needs:
        return ()
    lacking, title = recipe.without_calibration, next(iter(needs.values()))
    return (
        Check(
            subject=EVERYTHING,
            title=TITLE,
            verdict=Verdict.ERROR if lacking else Verdict.OK,
            sentence=lacking_sentence(title, lacking) if lacking else "Every expert has inputs.",
        ),
    )
