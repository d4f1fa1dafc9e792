"""The version and the name of the application; imports nothing."""

from __future__ import annotations

from typing import Final

__version__ = "0.1.0"

APPLICATION_ID: Final = "io.github.ace_workbench"
"""The name that desktops use for the application's entry, icons, file types and windows."""
