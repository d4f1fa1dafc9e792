"""All kinds of tasks; those of pictures, and of texts for models with a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.architecture.transformers_library import has_chat_template, load_tokenizer
from ace_gui.engine.evaluating.evaluators import (
    Batch,
    CutInputs,
    Evaluator,
    JudgedByLabels,
    Labelled,
    OfHead,
    OfPictures,
    OfText,
    OfWholeText,
    Piece,
    label_index,
    label_text,
)
from ace_gui.engine.evaluating.generated_text import TextToText
from ace_gui.engine.evaluating.language_kinds import CausalLM, MultipleChoice
from ace_gui.engine.evaluating.metrics import correlation, of_words
from ace_gui.engine.evaluating.subjects import Loading, Subject, class_of
from ace_gui.engine.evaluating.task_data import (
    Example,
    TaskData,
    labels_cell,
    labels_of,
    number_cell,
    refused,
)
from ace_gui.engine.planning.recipe_models import experts_with_heads
from ace_gui.errors import TaskError
from ace_gui.formatting import listing, number_text, quoted_value
from ace_gui.recipe.task_kinds import TOKENS, TaskKind
from ace_gui.recipe.values import Chat, Task

PROMPT: Final = "a photo of a {}."


class ImageClassification(Labelled, OfPictures):
    """The label of a picture."""

    kind = TaskKind.IMAGE_CLASSIFICATION


class ClipZeroShot(JudgedByLabels, OfPictures):
    """The label whose prompt is most similar to the picture."""

    kind = TaskKind.CLIP_ZERO_SHOT
    has_gradients = False

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        tokenizer = load_tokenizer(loading.preprocessing)
        prompt = data.task.prompt or PROMPT
        prompts = [prompt.replace("{}", label) for label in self.names(data, {})]
        padding = {}
        if "siglip" in str(model.config.model_type):
            padding = {"padding": "max_length"}
        rows = []
        with torch.no_grad():  # unlike inference mode, this allows gradients later
            for text in prompts:
                encoding = tokenizer(text, truncation=True, return_tensors="pt", **padding)
                rows.append(_pooled(model.get_text_features(**encoding.to(model.device))))
        self.text_CD = functional.normalize(torch.cat(rows), dim=1)
        self.label_indices = range(len(rows))

    @classmethod
    def preprocessor(cls, data: TaskData, loading: Loading) -> Any:
        """The image processor. Raises CheckpointError without a tokenizer for the prompts, too."""
        load_tokenizer(loading.preprocessing)
        return super().preprocessor(data, loading)

    @classmethod
    def names(cls, data: TaskData, config: Mapping[str, Any]) -> Sequence[str]:
        """The possible labels: given by the task, or all labels in the data, sorted."""
        if data.task.labels:
            return list(data.task.labels)
        return sorted({_name(data, example) for example in data.examples})

    @classmethod
    def chance(cls, data: TaskData, config: Mapping[str, Any]) -> float | None:
        return 1 / len(cls.names(data, config))

    @classmethod
    def targets(cls, data: TaskData, config: Mapping[str, Any]) -> list[Any]:
        names = cls.names(data, config)
        return [names.index(_name(data, example)) for example in data.examples]

    def logits(self, batch: Batch) -> Tensor:
        """Cosines multiplied by the model's own temperature."""
        picture_ND = functional.normalize(
            _pooled(self.model.get_image_features(**batch.inputs)), dim=1
        )
        logits_NC: Tensor = self.model.logit_scale.exp() * (picture_ND @ self.text_CD.T)
        return logits_NC


def _name(data: TaskData, example: Example) -> str:
    """The label of an example in words. Raises TaskError if it has none."""
    value = example.label
    for names in (data.label_names, data.task.labels):
        if isinstance(value, int) and 0 <= value < len(names):
            value = names[value]
    labels = data.task.labels
    if not isinstance(value, str) or (labels and value not in labels):
        if labels:
            problem = "is no label of the task"
        else:
            problem = "is no name of a label; add labels to the task"
        raise refused(data.table.path, f"{quoted_value(value)} {problem}.", example.row)
    return value


def _pooled(output: Any) -> Tensor:
    features: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return features


class TextClassification(Labelled, OfWholeText):
    """The label of a text, or of a pair."""

    kind = TaskKind.TEXT_CLASSIFICATION

    @classmethod
    def suits(cls, task: Task, config: Mapping[str, Any], columns: Sequence[str]) -> bool:
        return not _has_one_number(config)


def _has_one_number(config: Mapping[str, Any]) -> bool:
    """Whether the head of a model that classifies texts has a number instead of labels."""
    return len(config.get("id2label") or "12") == 1 or config.get("problem_type") == "regression"


class Regression(OfWholeText):
    """A number for a text, or for a pair."""

    kind = TaskKind.REGRESSION
    judge = staticmethod(correlation)
    label_cell = staticmethod(number_cell)
    has_entropy = False
    answers_numbers = True

    @classmethod
    def suits(cls, task: Task, config: Mapping[str, Any], columns: Sequence[str]) -> bool:
        return _has_one_number(config)

    @classmethod
    def text(cls, example: Example, answer: Any, names: Sequence[str]) -> str:
        return number_text(float(answer), 3)

    def run(self, batch: Batch) -> list[Any]:
        numbers: list[float] = self.model(**batch.inputs).logits[:, 0].double().tolist()
        return numbers

    def rows(self, batch: Batch) -> list[Tensor]:
        return list(self.model(**batch.inputs).logits[:, None].unbind())

    def loss(self, outputs_RC: Tensor, target: Any, pieces: Sequence[Piece]) -> Tensor:
        return (outputs_RC[0, 0] - float(target)) ** 2


class TokenClassification(OfHead, OfText):
    """A label for each word: that of its first token; −1 for a word that is cut off."""

    kind = TaskKind.TOKEN_CLASSIFICATION
    judge = staticmethod(of_words)
    label_cell = staticmethod(labels_cell)

    @classmethod
    def preprocessor(cls, data: TaskData, loading: Loading) -> Any:
        tokenizer = super().preprocessor(data, loading)
        if not tokenizer.is_fast:
            raise TaskError(f"{data.name}: labels of words need a tokenizer with tokenizer.json.")
        return tokenizer

    @classmethod
    def targets(cls, data: TaskData, config: Mapping[str, Any]) -> list[Any]:
        labels = labels_of(data.task, config)
        rows = []
        for example in data.examples:
            words = example.inputs[TOKENS]
            if len(words) != len(example.label):
                sentence = f"There are {len(words)} words, but {len(example.label)} labels."
                raise refused(data.table.path, sentence, example.row)
            rows.append(
                tuple(label_index(data, example, label, labels, config) for label in example.label)
            )
        return rows

    @classmethod
    def text(cls, example: Example, answer: Any, names: Sequence[str]) -> str:
        pairs = zip(example.inputs[TOKENS], answer, strict=True)
        return " ".join(f"{word}/{label_text(index, names)}" for word, index in pairs)

    @classmethod
    def cut(cls, answers: Sequence[Any]) -> CutInputs:
        lost = [sum(index < 0 for index in answer) for answer in answers]
        return CutInputs(examples=sum(map(bool, lost)), words=sum(lost))

    def pieces(self, example: Example) -> list[Piece]:
        words = list(example.inputs[TOKENS])
        encoded = self.tokenizer(words, is_split_into_words=True, **self.cut_off)
        owners = encoded.word_ids()
        firsts = [owners.index(word) if word in owners else -1 for word in range(len(words))]
        names = self.tokenizer.model_input_names
        return [Piece(inputs={name: torch.tensor(encoded[name]) for name in names}, note=firsts)]

    def run(self, batch: Batch) -> list[Any]:
        logits_NLC = self.model(**batch.inputs).logits
        index_C = torch.tensor(self.label_indices)
        best_NL = index_C[logits_NLC[:, :, self.label_indices].argmax(dim=2).cpu()]
        answers = []
        for best_L, firsts in zip(best_NL, batch.notes, strict=True):
            answers.append(tuple(int(best_L[at]) if at >= 0 else -1 for at in firsts))
        return answers

    def rows(self, batch: Batch) -> list[Tensor]:
        logits_NLC = self.model(**batch.inputs).logits
        rows = []
        for logits_LC, firsts in zip(logits_NLC, batch.notes, strict=True):
            places = [at for at in firsts if at >= 0]
            rows.append(logits_LC[places][:, self.label_indices])
        return rows

    def wanted(self, target: Any, pieces: Sequence[Piece]) -> Tensor:
        indices = self.label_indices
        firsts = pieces[0].note
        pairs = zip(target, firsts, strict=True)
        return torch.tensor([indices.index(index) for index, at in pairs if at >= 0])


_EVALUATORS: Final[tuple[type[Evaluator], ...]] = (
    ImageClassification,
    TextClassification,
    Regression,
    MultipleChoice,
    CausalLM,
    TextToText,
    TokenClassification,
    ClipZeroShot,
)

KINDS: Final[Mapping[TaskKind, type[Evaluator]]] = {
    evaluator.kind: evaluator for evaluator in _EVALUATORS
}


def evaluator_class(data: TaskData, loading: Loading) -> type[Evaluator]:
    """The class of the evaluator for a task on a model."""
    return KINDS[data.kind].for_class(class_of(loading.config))


def evaluator(data: TaskData, loading: Loading, model: Any) -> Evaluator:
    """The evaluator for a task on a model. Raises CheckpointError and TaskError."""
    return evaluator_class(data, loading)(data, loading, model)


def require_kind(loading: Loading, data: TaskData, subject: Subject) -> None:
    """Raise TaskError if a model cannot do the task by its class, or lacks a chat template."""
    name = class_of(loading.config)
    if not data.kind.does(name):
        heads = experts_with_heads(subject.path)
        if heads:
            advice = (
                f"it has heads for {listing(heads)}: name one of these as the expert of the task "
                f"{data.name}."
            )
        else:
            advice = f"say in the task {data.name} to which expert it belongs."
        raise TaskError(
            f"{subject.name} is of the class {name or 'unknown'}, which does no {data.kind.value}; "
            f"{advice}",
            path=subject.path,
        )
    if data.task.chat is Chat.ON and not has_chat_template(loading.preprocessing):
        raise TaskError(
            f"{subject.name} has no chat template; choose chat: auto in the task {data.name}, or "
            "copy chat_template.jinja into the model's folder.",
            path=subject.path,
            key="chat",
        )
