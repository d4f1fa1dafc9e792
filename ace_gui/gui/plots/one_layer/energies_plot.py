"""How much each expert changed one layer: ‖ΔW_t‖²_F by expert."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.bars_plot import BarsPlot
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.spec import Axis, Bar, PlotSpec
from ace_gui.gui.theme import Tokens

_ENERGY_TIP = "Squared Frobenius norm of the expert's change: the sum of its squared entries"
_NORM_TIP = "Frobenius norm of the expert's change"


class EnergiesPlot(BarsPlot):
    """One bar per expert, the first expert on top, with its energy next to it."""

    called = "Energy of each expert in the layer"
    empty = "Choose a layer to see how much each expert changed it."
    logarithmic_first = False

    def show_energies(
        self, name: str, energies: Mapping[str, float], colours: Mapping[str, str]
    ) -> None:
        """Draw ``energies`` of the layer ``name``; ``colours`` maps expert to "#rrggbb"."""
        if not energies:
            self.clear("The energies of this layer are not known.")
            return
        names, words = list(energies), [number_text(e, 3) for e in energies.values()]

        def spec(theme: Tokens) -> PlotSpec:
            return PlotSpec(
                title=name,
                sentence=_spread(energies),
                bars=[
                    Bar(
                        group=row,
                        value=energy,
                        text=words[row] if energy else "0, unchanged",
                        colour=in_theme(colours.get(expert, theme.text2), theme),
                    )
                    for row, (expert, energy) in enumerate(energies.items())
                ],
                y=Axis(names=names),
                words=lambda row: f"{names[row]}: ‖ΔW‖² = {number_text(energies[names[row]], 4)}",
                x=Axis(title="energy ‖ΔW‖²", logarithmic=self.log_box.isChecked()),
                columns=lambda: _columns(energies),
                logarithmic_choice=True,
                description=f"{name}: "
                + ", ".join(f"{each} {word}" for each, word in zip(names, words, strict=True)),
            )

        self.present(spec, name, dict(energies), dict(colours))


def _columns(energies: Mapping[str, float]) -> tuple[FigureColumn, ...]:
    """The energies and the norms of the experts as a table."""
    values = np.array(list(energies.values()), dtype=np.float64)
    return (
        FigureColumn(title="expert", values=tuple(energies)),
        FigureColumn(title="energy ‖ΔW‖²", values=values, tip=_ENERGY_TIP),
        FigureColumn(title="norm ‖ΔW‖", values=np.sqrt(values), tip=_NORM_TIP),
    )


def _spread(energies: Mapping[str, float]) -> str:
    """The spread of the energies as text."""
    changed = {name: energy for name, energy in energies.items() if energy > 0}
    if len(changed) < 2:
        return ""
    most, least = max(changed, key=changed.__getitem__), min(changed, key=changed.__getitem__)
    ratio = number_text(changed[most] / changed[least], 2)
    return f"the energy of {most} is {ratio} times that of {least}"
