"""The command line as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


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
