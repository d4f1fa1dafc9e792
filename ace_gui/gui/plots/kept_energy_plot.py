"""How much of a merge's change an adapter keeps, by its rank."""

from __future__ import annotations

import numpy as np

from ace_gui.engine.contract.events import EnergyByRank
from ace_gui.formatting import counted
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.spec import Axis, Curve, Mark, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Tokens


class KeptEnergyPlot(SpecPlot):
    """The mean share of energy over all matrices, with the chosen rank or share marked."""

    called = "Share of the change kept, by rank"

    def show_shares(self, found: EnergyByRank, rank: int | None, energy: float | None) -> None:
        """Draw the curve. ``rank`` or ``energy``: what is chosen."""
        shares = np.array(found.shares)
        matrices = counted(found.matrices, "matrix", "matrices")
        if rank is None:
            mark = Mark(value=energy or 0.0, label=f"{energy:.1%} of each matrix", share=0.7)
            chosen = f"each matrix gets the rank that keeps {energy:.1%}"
        else:
            end = min(rank, len(shares))
            kept = f"{shares[end - 1]:.1%}"
            mark = Mark(value=end, label=f"rank {rank}: {kept}", upright=True, share=0.08)
            chosen = f"rank {rank} keeps {kept}"

        def spec(theme: Tokens) -> PlotSpec:
            curve = Curve(
                key="kept",
                label="kept",
                y=shares,
                colour=theme.merged,
                width=1.8,
                symbol="o" if len(shares) == 1 else "",
                words=lambda index: f"{shares[index]:.1%}",
                in_legend=False,
            )
            return PlotSpec(
                title="Share of the change kept",
                sentence=f"Mean of {matrices}: {chosen}.",
                curves=[curve],
                x=Axis(title="rank", low=1.0, padding=0.01),
                y=Axis(title="share of energy", low=0.0, high=1.05),
                marks=[mark],
                columns=lambda: [
                    FigureColumn(title="rank", values=np.arange(1, len(shares) + 1)),
                    FigureColumn(title="share of energy", values=shares),
                ],
                position=lambda x: f"rank {x:.0f}",
                description=f"Mean of {matrices}: {chosen}.",
            )

        self.present(spec)
