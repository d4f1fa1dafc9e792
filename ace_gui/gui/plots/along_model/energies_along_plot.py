"""The energies of every expert along the model (ACE, Figs. 4 to 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PySide6.QtWidgets import QWidget

from ace_gui.formatting import counted, number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.along_model.layer_plot import LayerCurvesPlot, same_figures, symbol_size
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.plots.frame.spec import Axis, Curve, PlotSpec
from ace_gui.gui.theme import Tokens

EMPTY = "The experts' energies appear here once a base and its experts are open."
_ENERGY_TIP = "‖ΔW‖², the squared Frobenius norm"
_ROLE_TIP = "Show the layers of one role only, joined by lines"
_SYMBOLS = ("o", "s", "t1", "d")  # for experts that share a colour


class EnergiesAlongPlot(LayerCurvesPlot):
    """One curve per expert: its energy in every layer, from the model's input to its output.

    Lines are only drawn for a single role: between layers of different roles they mean nothing.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        self._layers: tuple[tuple[str, str, int | None], ...] = ()
        self._shown = np.zeros(0, dtype=np.intp)
        self._colours: dict[str, str] = {}
        self._energies: NDArray[np.float64] = np.zeros((0, 0))
        super().__init__(
            name="Energies along the model",
            empty=EMPTY,
            toggles=True,
            wraps=False,
            logarithmic=True,
            parent=parent,
        )
        self.role = Choice("Role whose energies are shown", _role_options(()))
        self.role.chosen.connect(self._show_role)
        self.add_control(self.role)

    def set_layers(
        self,
        names: Sequence[str],
        roles: Sequence[str],
        blocks: Sequence[int | None],
        colours: Mapping[str, str],
    ) -> None:
        """Set the layers and the experts with their colours. Their energies are unknown at
        first."""
        self._layers = tuple(zip(names, roles, blocks, strict=True))
        self._colours = dict(colours)
        self._energies = np.full((len(names), len(colours)), np.nan)
        self.role.offer(_role_options(roles))
        self._show_role()

    def set_figures(self, energies_LT: NDArray[np.float64]) -> None:
        """‖ΔW_t‖²_F of every layer and expert, NaN if unknown."""
        if not same_figures(energies_LT, self._energies):
            self._energies = energies_LT.copy()
            if self._names:
                self.present(self._spec, zoomed=True)

    def _show_role(self) -> None:
        role = self.role.current
        shown = [i for i, (_, other, _) in enumerate(self._layers) if role in (None, other)]
        self._shown = np.array(shown, dtype=np.intp)
        self.set_columns(
            [self._layers[index][0] for index in shown], [self._layers[index][2] for index in shown]
        )
        if shown and self._colours:
            self.present(self._spec)
        else:
            self.clear()

    def _spec(self, theme: Tokens) -> PlotSpec:
        energies, one_role = self._energies[self._shown], self.role.current is not None
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
            x=replace(self.across, titles=("layer, input → output (numbers: block)", "layer")),
            y=Axis(
                titles=("energy ‖ΔW‖²", "‖ΔW‖²"),
                low=None if self.log_box.isChecked() else 0.0,
                padding=0.08,
            ),
            columns=self._columns,
            logarithmic_choice=True,
            description=f"Energies over the layers shown: {words}",
        )

    def _columns(self) -> tuple[FigureColumn, ...]:
        """One row per shown layer, one column per expert."""
        energies = zip(self._colours, self._energies[self._shown].T, strict=True)
        return (
            FigureColumn(title="layer", values=self._names),
            FigureColumn(title="role", values=self.short_names),
            *(FigureColumn(title=e, values=values, tip=_ENERGY_TIP) for e, values in energies),
        )

    @property
    def short_names(self) -> Sequence[str]:
        return [self._layers[index][1] for index in self._shown]

    def _describe(self, index: int) -> str:
        energies = zip(self._colours, self._energies[self._shown[index]], strict=True)
        words = ", ".join(f"{e} {number_text(v, 3)}" for e, v in energies if np.isfinite(v))
        return f"{self._names[index]}: {words or 'not known yet'}"

    @property
    def hint(self) -> str:
        return "Choose a layer to see its energies; the legend hides experts."


def _role_options(roles: Iterable[str]) -> dict[Hashable, tuple[str, str]]:
    """None means all roles."""
    every: dict[Hashable, tuple[str, str]] = {None: ("All roles", _ROLE_TIP)}
    return every | {role: (role, _ROLE_TIP) for role in roles}
