"""The command line as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ace_gui.cli import commands


def ace_gui(
    *arguments: str | Path, seconds: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """``ace-gui`` with these arguments as a process of its own; its output is text."""
    return subprocess.run(
        [sys.executable, "-m", "ace_gui", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env={**os.environ, **environment},
    )


@dataclass(frozen=True)
class Ended:
    """The status of a command line, and what it printed."""

    status: object
    out: str
    err: str


Run = Callable[..., Ended]
"""``ace-gui`` with these arguments, within the test's process."""


def in_process(capfd: pytest.CaptureFixture[str], *arguments: str) -> Ended:
    """``ace-gui`` with these arguments in this process, whose streams are its own again."""
    streams = sys.stdin, sys.stdout, sys.stderr, sys.excepthook
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ace-gui", *arguments])
        try:
            with pytest.raises(SystemExit) as end:
                commands.main()
            sys.stdout.flush()
        finally:
            sys.stdin, sys.stdout, sys.stderr, sys.excepthook = streams
    captured = capfd.readouterr()
    return Ended(end.value.code, captured.out, captured.err)
