"""Pictures of the ridge: both variants' forms, the cap, Health's offer and What if."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tabs import turn_to

from ace_gui.gui.app import make_application
from ace_gui.gui.panels.health_panel import HealthPanel
from ace_gui.gui.panels.what_if_panel import WhatIfPanel
from ace_gui.gui.picture import Studio
from ace_gui.gui.state.inputs import Inputs
from ace_gui.gui.theme import Scheme
from ace_gui.recipe.values import Cap

SMALL_RIDGE = 1e-9
"""With it the published variant moves the sample far more than its experts did."""


def take_ridge_pictures(
    recipe: Path, folder: Path, scheme: Scheme, size: tuple[int, int], font: int
) -> list[Path]:
    """The window at ``size`` with fonts of so many percent. Raises WorkbenchError."""
    folder.mkdir(parents=True, exist_ok=True)
    application = make_application()
    larger = application.font()
    larger.setPointSizeF(larger.pointSizeF() * font / 100)
    application.setFont(larger)  # before there are widgets, as where the system's is larger
    studio = Studio(scheme)
    window, taken = studio.window, []
    window.resize(*size)

    def take(name: str) -> None:
        for _ in range(4):  # some panels ask the engine
            studio.settle()
        studio.wait(lambda: not window.engine.is_busy, window.engine.idle)
        file = folder / f"ridge-{name}-{size[0]}-{font}-{scheme}.png"
        taken.append(studio.take(window, file))

    try:
        studio.open(recipe)
        studio.select_most_heterogeneous()
        lower = window.workspace.heterogeneity.tabs
        turn_to(lower, WhatIfPanel)
        take("what-if")
        _change(studio, replace(window.session.draft.inputs, cap=Cap()))
        take("cap")
        ours = replace(window.session.draft.inputs, cap=None)
        _change(studio, ours.with_parameter("epsilon", SMALL_RIDGE))
        studio.merge()
        turn_to(lower, HealthPanel)
        take("health")
        _change(studio, ours.with_parameter("variant", "automatic"))
        take("automatic")
    finally:
        studio.close()
    return taken


def _change(studio: Studio, inputs: Inputs) -> None:
    window = studio.window
    window.conductor.change(inputs)
    studio.wait(lambda: window.session.can_merge and not window.engine.is_busy, window.engine.idle)
