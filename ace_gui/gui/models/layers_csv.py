"""All that is known of every tensor, as columns for CSV."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.figures.findings import LayerStatistics
from ace_gui.formatting import shape_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.state.session import Session


def layers_table(session: Session, names: Sequence[str]) -> tuple[FigureColumn, ...]:
    """One row per name: kind, disposition, γ, Var ln E and energies."""
    rows = [row for row in map(session.layers.row, names) if row is not None]
    known = partial(_figures, [session.layers.statistics.get(row.name) for row in rows])
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
        FigureColumn(title="γ", values=known(lambda each: each.gamma)),
        FigureColumn(title="Var ln E", values=known(lambda each: each.log_variance)),
        *(
            FigureColumn(title=f"‖ΔW‖² {expert}", values=known(partial(_energy, expert)))
            for expert in session.draft.inputs.names
        ),
    )


def _energy(expert: str, found: LayerStatistics) -> float | None:
    return found.energies.get(expert)


def _figures(
    found: Sequence[LayerStatistics | None], figure: Callable[[LayerStatistics], float | None]
) -> NDArray[np.float64]:
    values = (None if each is None else figure(each) for each in found)
    return np.array([math.nan if value is None else value for value in values])
