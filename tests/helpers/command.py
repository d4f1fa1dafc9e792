"""The command line as a person runs it."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from ace_gui.cli import commands
from ace_gui.engine.inspecting import model_diff  # noqa: F401
from ace_gui.engine.planning import models, slices  # noqa: F401  (conftest.py changes these)

Ended = subprocess.CompletedProcess[str]


def ace_gui_process(*arguments: str | Path, seconds: float = 120, **environment: str) -> Ended:
    """``ace-gui`` with these arguments as a process of its own; its output is text."""
    return subprocess.run(
        [sys.executable, "-m", "ace_gui", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env={**os.environ, **environment},
    )


def ace_gui(*arguments: str | Path, **environment: str) -> Ended:
    """The same within this process, which stays as it was.

    The imports of a process take far longer than a merge of tiny models.
    """
    command = ["ace-gui", *map(str, arguments)]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    streams = sys.stdin, sys.excepthook
    out = io.StringIO()
    err = io.StringIO()
    with (
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", command),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            with pytest.raises(SystemExit) as end:
                commands.main()
        finally:
            sys.stdin, sys.excepthook = streams
            for number, handler in handlers.items():
                signal.signal(number, handler)
    assert isinstance(end.value.code, int)
    return Ended(command, end.value.code, out.getvalue(), err.getvalue())
