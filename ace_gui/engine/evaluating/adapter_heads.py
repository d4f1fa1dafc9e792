"""The config of a model that an adapter gives a task head, which its base lacks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ace_gui.architecture.names import head_role, is_pretraining_head, unwrapped
from ace_gui.architecture.traits import Role
from ace_gui.architecture.transformers_library import class_with_head
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import CONFIG_LIMIT, read_config, read_json
from ace_gui.recipe.values import unnamed_label


def config_with_head(
    base: Mapping[str, Any], adapter: Path, adapted: Checkpoint
) -> Mapping[str, Any] | None:
    """The config of the base with the adapter's head; None if the adapter brings none.

    ``base``: the base's config. ``adapter``: its folder. ``adapted``: base and adapter as one
    model. The class and the labels are those of a config.json beside the adapter, if it is of the
    same kind of model; else they follow from PEFT's ``task_type`` and the rows of the head. Raises
    CheckpointError.
    """
    rows = _head_rows(adapted)
    if rows is None or not adapter.is_dir():
        return None
    beside = _config_beside(base, adapter)
    if beside is not None and beside.get("architectures") != base.get("architectures"):
        return beside
    settings = read_json(adapter / "adapter_config.json", limit=CONFIG_LIMIT)
    named = class_with_head(base.get("model_type"), settings.get("task_type"))
    if not named:
        return None
    config = {**(beside or base), "architectures": [named]}
    if len(config.get("id2label") or ()) != rows:
        labels = {str(index): unnamed_label(index) for index in range(rows)}
        config["id2label"] = labels
        config["label2id"] = {name: int(index) for index, name in labels.items()}
    return config


def _config_beside(base: Mapping[str, Any], adapter: Path) -> Mapping[str, Any] | None:
    """A config.json in the adapter's folder, if it is of the base's kind of model."""
    path = adapter / "config.json"
    if not path.is_file():
        return None
    config = read_config(path)
    if config.get("model_type") != base.get("model_type") or not config.get("architectures"):
        return None
    return config


def _head_rows(adapted: Checkpoint) -> int | None:
    """The number of outputs of the task head; None without one."""
    shapes = [adapted.tensors[name].shape for name in head_tensors(adapted)]
    return min((shape[0] for shape in shapes if len(shape) == 2), default=None)


def head_tensors(adapted: Checkpoint) -> list[str]:
    """The names of the tensors of a task head."""
    heads = [name for name in adapted.tensors if head_role(name) is Role.HEAD]
    return [name for name in heads if not is_pretraining_head(unwrapped(name))]
