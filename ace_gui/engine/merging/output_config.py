"""Changes of an output's config.json compared with that of its base."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ace_gui.checkpoints.index import CONFIG_LIMIT
from ace_gui.checkpoints.input_files import JSON_LIMIT, read_config, read_json
from ace_gui.checkpoints.quantised import without_quantisation


def set_config_dtype(config: Path, dtype: str | None) -> None:
    """Set the dtype in the config, if the tensors no longer have the base's.

    transformers casts to the dtype of the config on loading, which would undo the user's choice.
    """
    if dtype is None or not config.exists():
        return
    content = read_config(config, limit=CONFIG_LIMIT)
    if not ("model_type" in content or "architectures" in content):  # of another library
        return
    present = [key for key in ("dtype", "torch_dtype") if key in content] or ["dtype"]
    change_json(config, dict.fromkeys(present, dtype))


def without_quantisation_settings(config: Path) -> None:
    """Remove the quantisation settings of a config, as merged weights are not quantised."""
    if not config.exists():
        return
    content = read_config(config, limit=CONFIG_LIMIT)
    if (kept := without_quantisation(content)) != content:
        _write(config, kept)


def change_json(file: Path, changes: Mapping[str, object]) -> None:
    """Set keys of a JSON side file; it is not written if they have these values already."""
    if not changes:
        return
    content = read_json(file, limit=JSON_LIMIT) if file.exists() else {}
    changed = {**content, **changes}
    if changed != content:
        _write(file, changed)


def _write(file: Path, content: Mapping[str, object]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # Characters that JSON can only write as an escape stay escaped.
    file.write_bytes(f"{text}\n".encode("utf-8", "backslashreplace"))
