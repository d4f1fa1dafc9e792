"""All that is known of every tensor, as columns for a CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import shape_text


def layers_table(session: Session, names: Sequence[str]) -> tuple[FigureColumn, ...]:
    """One row for each of ``names``: what it is, what becomes of it, γ and energies."""
    rows = [row for row in map(session.row, names) if row is not None]
    gammas = [session.gamma(row.name) for row in rows]
    texts = {
        "tensor": [row.name for row in rows],
        "role": [row.role for row in rows],
        "shape": [shape_text(row.shape) for row in rows],
        "format": [row.dtype for row in rows],
        "outcome": [row.disposition.value for row in rows],
        "reason": [row.reason for row in rows],
    }
    return (
        *(FigureColumn(title=title, values=values) for title, values in texts.items()),
        FigureColumn(title="γ", values=_known(gammas)),
        *(
            FigureColumn(title=f"‖ΔW‖² {expert}", values=_energies(session, rows, expert))
            for expert in session.inputs.names
        ),
    )


def _energies(session: Session, rows: Sequence[PlanRow], expert: str) -> NDArray[np.float64]:
    known = (session.statistics.get(row.name) for row in rows)
    return _known([s.energies.get(expert) if s is not None else None for s in known])


def _known(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in values])
