"""What an output's config.json says otherwise than that of its base."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ace_gui.checkpoints.index import CONFIG_LIMIT
from ace_gui.checkpoints.input_files import JSON_LIMIT, read_config, read_json
from ace_gui.checkpoints.quantised import without_quantisation


def set_config_dtype(config: Path, dtype: str | None) -> None:
    """Tell loaders the dtype of the tensors, where it is no longer the base's.

    transformers casts to the config's dtype on loading, which would undo the person's choice.
    """
    if dtype is None or not config.exists():
        return
    content = read_config(config, limit=CONFIG_LIMIT)
    if not ("model_type" in content or "architectures" in content):  # of another library
        return
    present = [key for key in ("dtype", "torch_dtype") if key in content] or ["dtype"]
    change_json(config, dict.fromkeys(present, dtype))


def without_quantisation_settings(config: Path) -> None:
    """Leave out what a config says of quantised weights: merged ones are not."""
    if not config.exists():
        return
    content = read_config(config, limit=CONFIG_LIMIT)
    if (kept := without_quantisation(content)) != content:
        _write(config, kept)


def change_json(file: Path, changes: Mapping[str, object]) -> None:
    """Set keys of a file beside the weights; it is not written where they are so already."""
    if not changes:
        return
    content = read_json(file, limit=JSON_LIMIT) if file.exists() else {}
    changed = {**content, **changes}
    if changed != content:
        _write(file, changed)


def _write(file: Path, content: Mapping[str, object]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # What only an escape can spell stays one.
    file.write_bytes(f"{text}\n".encode("utf-8", "backslashreplace"))
