"""Try it: one input, answered by base, expert and merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject

from ace_gui.engine.contract.events import Event
from ace_gui.engine.contract.jobs import TryJob
from ace_gui.engine.contract.scored.shown_examples import Tried, TriedBegun, TriedText
from ace_gui.gui.control.engine.engine_client import EngineClient
from ace_gui.gui.control.operations.one_operation import OneOperation
from ace_gui.gui.state.session import Session
from ace_gui.recipe.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Said:
    """A model's answer so far; ``is_done``: the answer is complete."""

    text: str = ""
    shares: tuple[tuple[str, float], ...] = ()
    error: str = ""
    is_done: bool = False


class TryOperation(OneOperation):
    """``said`` maps each model to its answer, in the order of the run."""

    def __init__(
        self, session: Session, engine: EngineClient, parent: QObject | None = None
    ) -> None:
        super().__init__(session, engine, parent)
        self.said: dict[str, Said] = {}

    def start(
        self,
        task: Task,
        stores: Sequence[Path],
        *,
        row: str = "",
        text: str = "",
        pair: str = "",
        picture: Path | None = None,
        seed: int = 0,
        temperature: float = 0.0,
        most_tokens: int = 120,
    ) -> None:
        """Run base, the task's expert and these merges. The previous question is dropped."""
        if self._session.draft.plan is None:
            return
        self.said = {}
        job = TryJob(
            recipe=self._session.draft.inputs.recipe(),
            task=task,
            stores=tuple(stores),
            row=row,
            text=text,
            pair=pair,
            picture=picture,
            seed=seed,
            temperature=temperature,
            most_tokens=most_tokens,
            device=self._session.device,
        )
        self._begin(job, quiet=True)

    def take(self, event: Event) -> None:
        """Take more of a model's answer."""
        match event:
            case TriedBegun(model=model):
                self.said[model] = Said()
            case TriedText(model=model, piece=piece):
                known = self.said[model]
                self.said[model] = replace(known, text=known.text + piece)
            case Tried(model=model):
                known = self.said[model]
                self.said[model] = replace(
                    known,
                    text=known.text or event.words,
                    shares=event.shares,
                    error=event.error,
                    is_done=True,
                )

    def end(self) -> None:
        """No more answers will follow."""
        self.said = {model: replace(said, is_done=True) for model, said in self.said.items()}
