"""What an owner sends to an engine process: jobs to run, and what to do with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar


class Job:
    """One kind of work of the engine: a frozen value of arguments with the function that uses them.

    ``state``: what the window shows while it runs, a name of its ``State``; empty for quick jobs.
    """

    state: ClassVar[str] = ""

    def __init_subclass__(cls, state: str = "") -> None:
        cls.state = state

    def run(self, engine: Any) -> Iterator[object]:
        """The steps of the job, with an event or None each. ``engine``: the process's Runner."""
        return self._steps(engine)

    def _steps(self, engine: Any) -> Iterator[object]:
        raise NotImplementedError


@dataclass(frozen=True)
class Submit:
    """Queue a job."""

    number: int
    job: Job


@dataclass(frozen=True)
class Cancel:
    """Stop a job at its next step."""

    number: int


@dataclass(frozen=True)
class Quit:
    """End the process."""


Message = Submit | Cancel | Quit
