"""The energies of every expert along the model (ACE, Figs. 4 to 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from ace_gui.formatting import counted, number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.along_model.layer_plot import LayerCurvesPlot, symbol_size
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.spec import Axis, Curve, PlotSpec
from ace_gui.gui.theme import Tokens
from ace_gui.gui.widgets.controls import Choice

_ENERGY_TIP = "‖ΔW‖², the squared Frobenius norm"
_ROLE_TIP = "Show the layers of one role only, joined by lines"
_SYMBOLS = ("o", "s", "t1", "d")  # for experts that share a colour


class EnergiesAlongPlot(LayerCurvesPlot):
    """One curve per expert: its energy in every layer, from the model's input to its output.

    Lines are only drawn for a single role: between layers of different roles they mean nothing.
    """

    called = "Energies along the model"
    empty = "The experts' energies appear here once a base and its experts are open."
    toggles = True
    wraps = False
    logarithmic_first = True

    def __init__(self) -> None:
        self._shown = np.zeros(0, dtype=np.intp)
        super().__init__()
        self.keep_title()
        self.role = Choice("Role whose energies are shown", _role_options(()))
        self.role.chosen.connect(lambda: self._take_layers(same=False))
        self.add_control(self.role)

    def _take_layers(self, same: bool) -> None:
        """Show the layers of the chosen role."""
        found = self.layers
        self.role.offer(_role_options(found.roles))
        role = self.role.current
        shown = [i for i, other in enumerate(found.roles) if role in (None, other)]
        self._shown = np.array(shown, dtype=np.intp)
        self.set_columns([found.names[i] for i in shown], [found.blocks[i] for i in shown])
        if shown and self._colours:
            self.present(self._spec, zoomed=same)
        else:
            self.clear()

    def _spec(self, theme: Tokens) -> PlotSpec:
        energies, one_role = self.layers.energies_LT[self._shown], self.role.current is not None
        size = max(symbol_size(self._shown.size) - 3, 3)
        used: Counter[str] = Counter()
        curves = []
        for expert, y in zip(self._colours, energies.T, strict=True):
            colour = in_theme(self._colours[expert], theme)
            curves.append(
                Curve(
                    key=expert,
                    label=expert,
                    x=np.arange(len(y), dtype=np.float64),
                    y=y,
                    colour=colour,
                    width=1.0 if one_role else 0.0,
                    symbol=_SYMBOLS[used[colour] % len(_SYMBOLS)],
                    size=size,
                )
            )
            used[colour] += 1
        totals = zip(self._colours, np.nansum(energies, axis=0), strict=True)
        words = ", ".join(f"{e} {number_text(v, 3)}" for e, v in totals if v > 0)
        experts = counted(len(self._colours), "expert", "experts")
        return PlotSpec(
            title=f"{experts} in {counted(self._shown.size, 'matrix', 'matrices')}",
            curves=curves,
            x=replace(self.across, title="layer, input → output (numbers: block)"),
            y=Axis(
                title="energy ‖ΔW‖²",
                low=None if self.log_box.isChecked() else 0.0,
                padding=0.08,
            ),
            columns=self._columns,
            logarithmic_choice=True,
            description=f"Energies over the layers shown: {words}",
        )

    def _columns(self) -> tuple[FigureColumn, ...]:
        """One row per shown layer, one column per expert."""
        energies = zip(self._colours, self.layers.energies_LT[self._shown].T, strict=True)
        return (
            FigureColumn(title="layer", values=self._names),
            FigureColumn(title="role", values=self.short_names),
            *(FigureColumn(title=e, values=values, tip=_ENERGY_TIP) for e, values in energies),
        )

    @property
    def short_names(self) -> Sequence[str]:
        return [self.layers.roles[index] for index in self._shown]

    def _describe(self, index: int) -> str:
        energies = zip(self._colours, self.layers.energies_LT[self._shown[index]], strict=True)
        words = ", ".join(f"{e} {number_text(v, 3)}" for e, v in energies if np.isfinite(v))
        return f"{self._names[index]}: {words or 'not known yet'}"

    @property
    def hint(self) -> str:
        return "Choose a layer to see its energies; the legend hides experts."


def _role_options(roles: Iterable[str]) -> dict[Hashable, tuple[str, str]]:
    """None means all roles."""
    every: dict[Hashable, tuple[str, str]] = {None: ("All roles", _ROLE_TIP)}
    return every | {role: (role, _ROLE_TIP) for role in roles}
