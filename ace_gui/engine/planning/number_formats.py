"""Number formats that can be merged: floating point with floating point.

Only floats have task vectors. An integer buffer is copied from the base. An integer weight is
quantised, and is refused, because its integers are not the weights themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from ace_gui.architecture.traits import Role
from ace_gui.engine.contract.plan import COMBINED, Disposition, PlanRow
from ace_gui.engine.planning.models import OpenedModel, answering_name
from ace_gui.errors import MismatchError
from ace_gui.formatting import plain
from ace_gui.stored_formats import is_float


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
