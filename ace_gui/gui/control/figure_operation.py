"""Draws the figure of the Figures page, and writes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ace_gui.engine.contract.events import FigureMade
from ace_gui.engine.contract.jobs import FigureJob
from ace_gui.engine.contract.scored import BASE, EXPERTS, TaskScore
from ace_gui.figures.charts import PanelKind
from ace_gui.figures.sheet import Sheet
from ace_gui.gui.control.engine_client import EngineClient, Operation
from ace_gui.gui.state.run_names import run_titles
from ace_gui.gui.state.session import NO_MODEL, Session

COMPARING: Final = "The experts are being compared; the figure follows."


@dataclass(frozen=True, kw_only=True)
class FigureRequest:
    """What a figure shows."""

    kinds: tuple[PanelKind, ...]
    sheet: Sheet

    matrices: tuple[str, ...] = ()
    """Names; empty: those that stand out."""


class FigureOperation(Operation):
    """Draws a figure for the screen, and again when something that it shows has changed."""

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self.saving = Operation(engine)
        """Writes the figure; ``last(FigureMade)`` has its files."""

        self._drawn_key: tuple[object, ...] = ()

    @property
    def obstacle(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        if self._session.draft.plan is None:
            return NO_MODEL
        if self._session.layers.is_analysed:
            return ""
        return COMPARING

    @property
    def made(self) -> FigureMade | None:
        """The latest figure."""
        return self.last(FigureMade)

    def draw(self, request: FigureRequest, dots_per_inch: float) -> None:
        """Draw a figure, unless it is drawn or being drawn already."""
        if self.obstacle:
            return
        key = (request, dots_per_inch, *self._state())
        if key != self._drawn_key:
            self._drawn_key = key
            self.run(replace(self._job(request), dots_per_inch=dots_per_inch))

    def save(self, request: FigureRequest, file: Path, *, replaces: bool) -> None:
        """Write a figure with the table of its data. ``replaces``: also over an existing figure."""
        job = replace(self._job(request), file=file, replaces=(file,) if replaces else ())
        self.saving.run(job)

    def _state(self) -> tuple[object, ...]:
        """What a figure depends on, apart from what was asked for."""
        session = self._session
        merge = session.results.merge
        if merge is None:
            reports = 0
        else:
            reports = len(merge.reports)
        return (
            session.draft.recipe_key(),
            session.results.runs.store_of(session.draft.recipe_key()),
            reports,
            scores_in(session),
        )

    def _job(self, request: FigureRequest) -> FigureJob:
        session = self._session
        key = session.draft.recipe_key()
        run = session.results.runs.find(key)
        return FigureJob(
            recipe=session.draft.inputs.recipe(),
            kinds=request.kinds,
            sheet=request.sheet,
            matrices=request.matrices,
            statistics=dict(session.layers.statistics),
            reports={} if run is None else dict(run.reports),
            scores=scores_in(session),
            store=session.results.runs.store_of(key),
            device=session.device,
        )


def scores_in(session: Session) -> tuple[TaskScore, ...]:
    """The known scores of base, experts and finished merges, under the names that people see."""
    known_scores = session.results.scores
    runs = session.results.runs.all
    names = {BASE: BASE, EXPERTS: EXPERTS}
    for run, title in zip(runs, run_titles(runs, session.draft.methods), strict=True):
        names[str(run.store)] = title
    scores = []
    for model, name in names.items():
        for score in known_scores.line(model).values():
            scores.append(replace(score, model=name))
    return tuple(scores)
