"""The ``config.json`` of a base model, as far as a recipe needs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

CONFIG_BYTES: Final = 1_000_000
"""A larger file is no config."""


def base_config(folder: Path) -> dict[str, Any]:
    """What the config holds; empty where there is none, or none that can be read."""
    file = folder / "config.json"
    try:
        if not file.is_file() or file.stat().st_size > CONFIG_BYTES:
            return {}  # a pipe or a device would not end
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
