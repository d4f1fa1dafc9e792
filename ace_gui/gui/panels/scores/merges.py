"""The finished merges as the lists of the Scores page name them."""

from __future__ import annotations

from dataclasses import dataclass

from ace_gui.gui.state.found.runs import run_titles
from ace_gui.gui.state.session import Session


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model in the lists: its key in the scores, and its title."""

    key: str
    title: str


def merges_of(session: Session) -> list[Model]:
    """The finished merges, oldest first."""
    runs = session.results.runs.all
    titles = run_titles(runs, session.draft.methods)
    return [Model(key=str(run.store), title=title) for run, title in zip(runs, titles, strict=True)]
