"""Messages from the owner to an engine process."""

from __future__ import annotations

from dataclasses import dataclass

from ace_gui.engine.contract.jobs import Job


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
