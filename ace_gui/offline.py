"""Disable network access, whatever the user's settings are."""

from __future__ import annotations

import os
import sys
from typing import Final

_SETTINGS: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}


def go_offline() -> None:
    """Set huggingface_hub and the libraries built on it to offline mode, here and in child
    processes.

    Call it before they are imported, because they read their settings once. If huggingface_hub is
    already imported, its setting is changed too.
    """
    os.environ.update(_SETTINGS)
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
        constants.HF_HUB_DISABLE_TELEMETRY = True  # type: ignore[attr-defined]
