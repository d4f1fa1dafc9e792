"""No way to the network, whatever the person's settings say."""

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
    """Shut the ways of huggingface_hub and of what is built on it, here and in child processes.

    Call it before they are imported: they read their settings once. A huggingface_hub that is
    there already is told, too.
    """
    os.environ.update(_SETTINGS)
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
        constants.HF_HUB_DISABLE_TELEMETRY = True  # type: ignore[attr-defined]
