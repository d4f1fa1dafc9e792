"""Tasks of pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.architecture.transformers_library import load_tokenizer
from ace_gui.engine.evaluating.data.table import refused
from ace_gui.engine.evaluating.evaluators import Batch, JudgedByLabels, Labelled, OfPictures
from ace_gui.engine.evaluating.subjects import Loading
from ace_gui.engine.evaluating.task_data import IMAGE, LABEL, Example, TaskData
from ace_gui.formatting import shown
from ace_gui.recipe.values import TaskKind

PROMPT: Final = "a photo of a {}."


class ImageClassification(Labelled, OfPictures):
    """The label of a picture."""

    kind = TaskKind.IMAGE_CLASSIFICATION
    classes = r"ForImageClassification(WithTeacher)?$"
    roles = (IMAGE, LABEL)


class ClipZeroShot(JudgedByLabels, OfPictures):
    """The label whose prompt is most similar to the picture."""

    kind = TaskKind.CLIP_ZERO_SHOT
    classes = r"^(?!.*For)(Chinese|Alt)?(CLIP|SigLIP|Siglip)\w*Model$"
    roles = (IMAGE, LABEL)
    has_gradients = False

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        tokenizer = load_tokenizer(loading.preprocessing)
        prompt = data.task.prompt or PROMPT
        prompts = [prompt.replace("{}", label) for label in self.names(data, {})]
        full = {"padding": "max_length"} if "siglip" in str(model.config.model_type) else {}
        asked = (tokenizer(p, truncation=True, return_tensors="pt", **full) for p in prompts)
        with torch.no_grad():  # unlike inference mode, this allows gradients later
            rows = [_pooled(model.get_text_features(**each.to(model.device))) for each in asked]
        self.text_CD = functional.normalize(torch.cat(rows), dim=1)
        self.label_indices = range(len(rows))

    @classmethod
    def preprocessor(cls, data: TaskData, loading: Loading) -> Any:
        """The image processor. Raises CheckpointError without a tokenizer for the prompts, too."""
        load_tokenizer(loading.preprocessing)
        return super().preprocessor(data, loading)

    @classmethod
    def names(cls, data: TaskData, config: Mapping[str, Any]) -> Sequence[str]:  # noqa: ARG003
        """The possible labels: given by the task, or all labels in the data, sorted."""
        if data.task.labels:
            return list(data.task.labels)
        return sorted({_name(data, example) for example in data.examples})

    @classmethod
    def targets(cls, data: TaskData, config: Mapping[str, Any]) -> list[Any]:  # noqa: D102
        names = cls.names(data, config)
        return [names.index(_name(data, example)) for example in data.examples]

    def logits(self, batch: Batch) -> Tensor:
        """Cosines multiplied by the model's own temperature."""
        seen_ND = functional.normalize(
            _pooled(self.model.get_image_features(**batch.inputs)), dim=1
        )
        found: Tensor = self.model.logit_scale.exp() * (seen_ND @ self.text_CD.T)
        return found


def _name(data: TaskData, example: Example) -> str:
    """The label of an example in words. Raises TaskError if it has none."""
    value = example.label
    for names in (data.label_names, data.task.labels):
        if isinstance(value, int) and 0 <= value < len(names):
            value = names[value]
    known = data.task.labels
    if not isinstance(value, str) or (known and value not in known):
        problem = (
            "is no label of the task" if known else "is no name of a label; add labels to the task"
        )
        raise refused(data.table.path, f"{shown(value)} {problem}.", example.row)
    return value


def _pooled(found: Any) -> Tensor:
    features: Tensor = found if isinstance(found, Tensor) else found.pooler_output
    return features
