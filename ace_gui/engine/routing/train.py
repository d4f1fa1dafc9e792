"""Trains the modules of a merge that need it, after the weights are merged.

The router of Twin-Merging and FREE-Merging is here: multinomial logistic regression from the mean
of the merged body's last hidden states, standardised, to the expert. N inputs of all tasks, H wide;
T experts.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ace_gui.engine.calibrating.calibration_data import calibration
from ace_gui.engine.contract.events import LearningProgress, PassProgress
from ace_gui.engine.evaluating.loaded_models import Loaded, stacked_batches
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.modules.stored import TRAINED
from ace_gui.engine.modules.whole_model import features
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import require_calibration
from ace_gui.engine.routing.block_routers import Changes, trained_blocks
from ace_gui.engine.routing.head_corrections import trained_corrections
from ace_gui.methods.shared.expert_modules import (
    ROUTED_WHOLE,
    Corrections,
    Differences,
    kind_of,
    learns,
)

TITLE: Final = "training the router"
STEPS: Final = 1000
"""Most iterations of the regression."""


def trained_tensors(
    prepared: Prepared, folder: Path, device: torch.device, changes: Changes, training_folder: Path
) -> Generator[PassProgress | LearningProgress, None, dict[str, Tensor]]:
    """The trained tensors by their names in ``modules.safetensors``, float32; often none.

    ``folder``: of the merged model. ``changes``: gives D_t of a row. ``training_folder``: for
    unfinished training, which can be resumed. Raises TaskError without calibration inputs, and the
    errors of reading data and loading models.
    """
    modules = prepared.method.modules
    if learns(modules):
        require_calibration(prepared.plan.recipe, prepared.method.title)
    if modules is not None and kind_of(modules) in ROUTED_WHOLE:
        return (yield from _trained_router(prepared, folder, device))
    if isinstance(modules, Differences) and modules.shared is not None:
        return (
            yield from trained_blocks(prepared, modules, folder, device, changes, training_folder)
        )
    if isinstance(modules, Corrections):
        return (yield from trained_corrections(prepared, modules, folder, device, training_folder))
    return {}


def _trained_router(
    prepared: Prepared, folder: Path, device: torch.device
) -> Generator[PassProgress, None, dict[str, Tensor]]:
    """The router's tensors by name, float32. Raises the errors of ``trained_tensors``."""
    sources = [calibration(prepared, t) for t in range(len(prepared.experts))]
    total = sum(source.examples for source in sources)
    loaded, seen, owners = Loaded(device), list[Tensor](), list[int]()
    models = Models(prepared, (folder,), with_base=False)
    for t, source in enumerate(sources):
        for data, _ in source.tasks:
            loading = models.loading(models.subjects()[-1], data.task)
            evaluator = loaded.evaluator(data, loading)
            for batch in stacked_batches(evaluator):
                with torch.inference_mode():
                    found = features(evaluator.model, batch.inputs)
                seen.append(found.double().cpu())
                owners += [t] * len(found)
                yield PassProgress(title=TITLE, done=len(owners), total=total)
    return fitted(torch.cat(seen), owners)


def fitted(features_NH: Tensor, owners_N: Sequence[int]) -> dict[str, Tensor]:
    """Centre, scale, weight and bias of the regression from features to experts."""
    from sklearn.linear_model import LogisticRegression

    centre_H, scale_H = features_NH.mean(dim=0), features_NH.std(dim=0).clamp(min=1e-6)
    given_NH = ((features_NH - centre_H) / scale_H).numpy()
    model = LogisticRegression(max_iter=STEPS).fit(given_NH, owners_N)
    weight, bias = np.asarray(model.coef_), np.asarray(model.intercept_)
    if len(model.classes_) == 2:  # it then has a single row, for the second class
        weight, bias = np.vstack([-weight, weight]) / 2, np.append(-bias, bias) / 2
    return {
        f"{TRAINED}centre": centre_H.float(),
        f"{TRAINED}scale": scale_H.float(),
        f"{TRAINED}weight": torch.tensor(weight).float(),
        f"{TRAINED}bias": torch.tensor(bias).float(),
    }
