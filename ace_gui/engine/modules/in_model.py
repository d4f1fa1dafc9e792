"""Modules in a loaded model: loads a folder with modules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ace_gui.engine.modules.head_inputs import put_correction
from ace_gui.engine.modules.manifest import has_modules
from ace_gui.engine.modules.mlp_blocks import put_blocks
from ace_gui.engine.modules.one_by_one import one_by_one
from ace_gui.engine.modules.smile_layers import put_smile
from ace_gui.engine.modules.task_tensors import (
    TaskTensors,
    base_of,
    open_modules,
    open_task,
    read_described,
)
from ace_gui.engine.modules.whole_model import put_whole
from ace_gui.methods.shared.expert_modules import ModuleKind


@dataclass(frozen=True, kw_only=True)
class ModulesOf:
    """The modules of a folder, for one model.

    ``kind``: how the model uses them. ``expert``: the expert of the task; None if unknown.
    ``base``: the base model's folder if known, required by modules that change base weights.
    """

    folder: Path
    kind: ModuleKind
    expert: str | None
    base: Path | None = None

    def tensors(self) -> dict[str, Tensor] | None:
        """All tensors of the expert's model, if that is an ordinary model; None otherwise.

        Raises the errors of ``open_task``.
        """
        if self.kind is not ModuleKind.TASK or self.expert is None:
            return None
        task: TaskTensors = open_task(self.folder, self.expert, self.base)
        return dict(task.tensors())

    def put(self, model: Any) -> None:
        """Attach the modules that are not changes of weights to the loaded model.

        Raises CheckpointError and ArchitectureError.
        """
        if self.kind is ModuleKind.TASK:
            return
        modules = open_modules(self.folder)
        if self.kind is ModuleKind.SURGERY:
            if self.expert is not None:
                put_correction(model, modules, self.expert)
            return
        if self.kind is ModuleKind.SMILE:
            put_smile(model, modules)
        elif self.kind is ModuleKind.BLOCKS:
            put_blocks(model, modules)
        else:
            put_whole(model, modules)
        one_by_one(model)


def modules_of(folder: Path, expert: str | None, base: Path | None) -> ModulesOf | None:
    """The modules of a merged folder for a task of ``expert``; None if it has none.

    ``base``: its folder, instead of the one in the folder's recipe. Raises CheckpointError, and
    RecipeError if the modules need a base and it is unknown.
    """
    if not has_modules(folder):
        return None
    manifest, _ = read_described(folder)
    known = expert if expert in manifest.experts else None
    if base is None and manifest.base is not None:
        base = base_of(folder)
    return ModulesOf(folder=folder, kind=manifest.kind, expert=known, base=base)
