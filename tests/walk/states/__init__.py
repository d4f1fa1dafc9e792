"""Every state of the window in turn, with the sample or with models of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ace_gui.gui.picture import Studio
from tests.walk.states.doing import Step
from tests.walk.states.inputs import (
    before_merging,
    choices,
    covariances,
    empty,
    first_merge,
    learning,
    only_merge,
)
from tests.walk.states.panels import (
    all_tabs,
    comparison,
    dialogs,
    looks_at_a_layer,
    menus,
    panels,
    routing,
    runs,
    scores,
)


def states(
    studio: Studio, recipe: Path, during: Callable[[Step], None], *, brief: bool = False
) -> Iterator[Step]:
    """What is seen in each state: its name and the window, the dialog or the menu.

    ``during`` is called in the middle of a merge, which does not wait for anybody. ``brief``:
    without what has to be computed first, one merge apart.
    """
    yield from empty(studio, recipe)
    if brief:
        studio.open(recipe)
        yield from only_merge(studio, during)
        yield from panels(studio)
        yield from all_tabs(studio)
        yield from dialogs(studio)
        return
    yield from before_merging(studio, recipe)
    yield from first_merge(studio, recipe, during)
    yield from panels(studio)
    yield from all_tabs(studio)
    yield from looks_at_a_layer(studio)
    yield from covariances(studio)
    yield from choices(studio)
    yield from scores(studio)
    yield from comparison(studio)
    yield from runs(studio)
    yield from menus(studio)
    yield from dialogs(studio)
    yield from learning(studio)
    yield from routing(studio)
