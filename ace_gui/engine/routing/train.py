"""Trains the modules of a merge that need it, after the weights are merged."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import torch
from torch import Tensor

from ace_gui.engine.contract.events import LearningProgress, PassProgress
from ace_gui.engine.planning.calibration_needs import lacking_sentence
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.routing.block_routers import Changes, trained_blocks
from ace_gui.engine.routing.feature_router import trained_router
from ace_gui.engine.routing.head_corrections import trained_corrections
from ace_gui.errors import TaskError
from ace_gui.methods.shared.expert_modules import (
    ROUTED_WHOLE,
    Corrections,
    Differences,
    kind_of,
    learns,
)


def trained_tensors(
    prepared: Prepared, folder: Path, device: torch.device, changes: Changes, training_folder: Path
) -> Generator[PassProgress | LearningProgress, None, dict[str, Tensor]]:
    """The trained tensors by their names in ``modules.safetensors``, float32; often none.

    ``folder``: of the merged model. ``changes``: gives D_t of a row. ``training_folder``: for
    unfinished training, which can be resumed. Raises TaskError without calibration inputs, and the
    errors of reading data and loading models.
    """
    modules = prepared.method.modules
    lacking = prepared.plan.recipe.without_calibration if learns(modules) else ()
    if lacking:
        raise TaskError(lacking_sentence(prepared.method.title, lacking), key="calibration")
    if modules is not None and kind_of(modules) in ROUTED_WHOLE:
        return (yield from trained_router(prepared, folder, device))
    if isinstance(modules, Differences) and modules.shared is not None:
        return (
            yield from trained_blocks(prepared, modules, folder, device, changes, training_folder)
        )
    if isinstance(modules, Corrections):
        return (yield from trained_corrections(prepared, modules, folder, device, training_folder))
    return {}
