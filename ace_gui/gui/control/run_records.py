"""The record next to the store of a finished merge, for later windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ace_gui.engine.contract.events import MergeFinished
from ace_gui.gui.state.activity import MergeRun
from ace_gui.output_files import replacing
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import ParameterValue

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA: Final = 1


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A finished merge in the list of runs. Its tensors and reports are in the store."""

    recipe: Recipe
    parameters: Mapping[str, ParameterValue]
    name: str
    made: float
    seconds: float
    peak_bytes: int
    bytes: int
    norm: float | None
    accuracies: Mapping[str, float]
    exported: bool
    schema: int = SCHEMA

    @classmethod
    def of(cls, run: MergeRun) -> RunRecord:
        """The record of a finished merge."""
        finished = run.finished
        return cls(
            recipe=run.recipe,
            parameters=dict(run.parameters),
            name=run.name,
            made=run.made,
            seconds=finished.seconds if finished is not None else 0.0,
            peak_bytes=finished.peak_bytes if finished is not None else 0,
            bytes=run.bytes,
            norm=run.norm,
            accuracies=dict(run.accuracies),
            exported=run.exported,
        )

    def run(self, store: Path) -> MergeRun:
        """The merge, as far as it is known without its store."""
        finished = MergeFinished(store=store, seconds=self.seconds, peak_bytes=self.peak_bytes)
        return MergeRun(
            recipe=self.recipe,
            store=store,
            parameters=self.parameters,
            finished=finished,
            accuracies=self.accuracies,
            exported=self.exported,
            name=self.name,
            made=self.made,
            bytes=self.bytes,
            norm=self.norm,
        )


def write_record(file: Path, record: RunRecord) -> None:
    """Write the record atomically. Raises OSError."""
    with replacing(file) as fresh:
        fresh.write_bytes(_adapter().dump_json(record))


def read_record(file: Path) -> RunRecord | None:
    """The record, or None if there is none that this version can read."""
    try:
        record = _adapter().validate_json(file.read_bytes())
    except (OSError, ValueError):
        return None
    return record if record.schema == SCHEMA else None


@cache
def _adapter() -> TypeAdapter[RunRecord]:
    from pydantic import TypeAdapter  # takes a third of a second: not when the window opens

    return TypeAdapter(RunRecord)
