"""One text or picture that is tried on base, expert and merge, and what they say to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import Event, JobFailed
from ace_gui.engine.contract.jobs import TryJob
from ace_gui.engine.contract.shown_examples import Tried, TriedBegun, TriedText
from ace_gui.gui.control.engine_client import End, EngineClient, EngineLost, Operation
from ace_gui.gui.state.session import Session
from ace_gui.gui.told import told
from ace_gui.recipe.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a model has said so far; ``is_done``: that is all."""

    text: str = ""
    shares: tuple[tuple[str, float], ...] = ()
    error: str = ""
    is_done: bool = False


class TryOperation(QObject):
    """``said``: by model, in the order in which they are asked. ``changed`` follows more of it."""

    changed = Signal()

    def __init__(
        self, session: Session, engine: EngineClient, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._engine = session, engine
        self._operation: Operation | None = None
        self.said: dict[str, Said] = {}
        self.error = ""

    @property
    def is_running(self) -> bool:
        """Whether models are being asked."""
        return self._operation is not None

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
    ) -> None:
        """Ask base, the task's expert and these merges; what was asked before is dropped."""
        if self._session.draft.plan is None:
            return
        if self._operation is not None:
            self._operation.drop()
        self.said, self.error = {}, ""
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
            device=self._session.device,
        )
        self._operation = self._engine.run(job, self._hear, self._end, quiet=True)
        self.changed.emit()

    def stop(self) -> None:
        """Read no further; what is written stays."""
        if self._operation is not None:
            self._operation.cancel()

    def _hear(self, event: Event) -> None:
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
        self.changed.emit()

    def _end(self, end: End) -> None:
        self._operation = None
        if isinstance(end, JobFailed | EngineLost):
            self.error = told(end.error.sentence)
        self.said = {model: replace(said, is_done=True) for model, said in self.said.items()}
        self.changed.emit()
