"""The router of Twin-Merging and FREE-Merging: predicts the expert from the merged body's features.

Multinomial logistic regression on the mean of the last hidden states, standardised. N inputs of all
tasks, H wide; T experts.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ace_gui.engine.calibrating.calibration_data import calibration
from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.evaluating.answering import stacked_batches
from ace_gui.engine.evaluating.loaded_models import Loaded
from ace_gui.engine.evaluating.subjects import experts_of
from ace_gui.engine.modules.stored import TRAINED
from ace_gui.engine.modules.whole_model import features
from ace_gui.engine.planning.prepare import Prepared

TITLE: Final = "training the router"
STEPS: Final = 1000
"""Most iterations of the regression."""


def trained_router(
    prepared: Prepared, folder: Path, device: torch.device
) -> Generator[PassProgress, None, dict[str, Tensor]]:
    """The router's tensors by name, float32. Raises the errors of ``trained_tensors``."""
    sources = [calibration(prepared, t) for t in range(len(prepared.experts))]
    total = sum(source.examples for source in sources)
    loaded, seen, owners = Loaded(device), list[Tensor](), list[int]()
    models = experts_of(prepared, (folder,))
    for t, source in enumerate(sources):
        for data, _ in source.tasks:
            loading = models.loading(models.subjects()[-1], data.task)
            asker = loaded.asker(data, loading)
            for batch in stacked_batches(asker):
                with torch.inference_mode():
                    found = features(asker.model, batch.inputs)
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
