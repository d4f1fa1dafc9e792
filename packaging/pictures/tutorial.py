"""Numbered pictures of the tutorial, each step done as a person would."""

from __future__ import annotations

from pathlib import Path

from ace_gui.gui.picture import Studio
from ace_gui.gui.shell.tours.tour import Tour
from ace_gui.gui.theme import Scheme


def take_tutorial_pictures(recipe: Path, folder: Path, scheme: Scheme) -> list[Path]:
    """``tutorial-1-light.png`` and so on, in ``folder``. Raises WorkbenchError."""
    folder.mkdir(parents=True, exist_ok=True)
    studio = Studio(scheme)
    window, taken = studio.window, []
    try:
        studio.settle()
        tour = window.help.begin_tutorial()
        while tour.is_running:
            number = tour.place + 1
            studio.settle()
            taken.append(studio.take(window, folder / f"tutorial-{number}-{scheme}.png"))
            _do(studio, tour, number, recipe)
            if tour.is_running and tour.place + 1 == number:  # a step to read
                tour.mark.next.click()
    finally:
        studio.close()
    return taken


def _do(studio: Studio, tour: Tour, number: int, recipe: Path) -> None:
    """What the step with this number asks for."""
    window, session = studio.window, studio.window.session
    workspace = lambda: window.workspace  # noqa: E731
    match number:
        case 1:
            studio.open(recipe)
        case 2:
            studio.select_most_heterogeneous()
        case 3:
            workspace().heterogeneity.tau_committed.emit(0.2)
            ready = lambda: session.can_merge and session.layers.is_analysed  # noqa: E731
            studio.wait(ready, window.engine.idle)
        case 4:
            studio.merge()
        case 6:
            window.header.workspaces.choose(1)
            window.header.workspaces.chosen.emit(1)
        case 7:
            window.scoring.evaluate()
            studio.wait(lambda: tour.place + 1 > number, session.activity.changed)
