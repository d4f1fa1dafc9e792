"""The events of a job, reported to the caller's function as they pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ace_gui.engine.contract.events import Event

Progress = Callable[[Event], object]
Result = TypeVar("Result")


def watched(events: Iterable[Any], progress: Progress | None) -> Iterator[Any]:
    """The events, each after ``progress`` was called with it."""
    for event in events:
        if progress is not None and event is not None:
            progress(event)
        yield event


def last_of(events: Iterable[Any], result_type: type[Result], progress: Progress | None) -> Result:
    """The last event of a class."""
    *_, last = (event for event in watched(events, progress) if isinstance(event, result_type))
    return last
