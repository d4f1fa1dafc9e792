"""What a kind of task is, and how one model is run on its examples.

A piece is one input without the batch dimension: a text, a window of a long one, one choice of
several, a picture. Batches contain pieces of one shape, so nothing is padded and no answer depends
on its neighbours. Only prompts of generated texts are padded. L tokens, N pieces, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.architecture.transformers_library import (
    load_image_processor,
    load_tokenizer,
    longest_input,
)
from ace_gui.engine.evaluating.metrics import MetricResult, of_labels
from ace_gui.engine.evaluating.subjects import Loading
from ace_gui.engine.evaluating.task_data import (
    Example,
    Labels,
    TaskData,
    answer_labels,
    head_labels,
    label_cell,
    labels_of,
    refused,
)
from ace_gui.formatting import listing, quoted_value
from ace_gui.recipe.task_kinds import IMAGE, PAIR, TEXT, TaskKind
from ace_gui.recipe.values import Task

Inputs = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """``inputs``: of the model. ``note``: further information for its answer."""

    inputs: Inputs
    note: Any = None


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pieces of one shape: their inputs stacked, on the model's device, and their notes."""

    inputs: Inputs
    notes: Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class CutInputs:
    """Number of ``examples`` with a part cut off, and of labelled ``words`` in these parts."""

    examples: int = 0
    words: int = 0


class Evaluator:
    """A kind of task; an instance runs one model on one task's examples.

    What is known of a kind without running it, such as its columns and metrics, is in its traits.
    """

    kind: ClassVar[TaskKind]

    label_cell: ClassVar[staticmethod[[Any], Any]] = staticmethod(label_cell)
    """Checks a cell of the right answers, and returns its value."""

    judge: ClassVar[
        staticmethod[[TaskData, Sequence[Any], Sequence[Any], Sequence[str]], MetricResult]
    ]
    """The score by the task's metric: of the task, answers, right answers, names of the labels."""

    has_entropy: ClassVar[bool] = True
    """Whether answers have probabilities, for methods that learn without labels."""

    learns: ClassVar[bool] = True
    """Whether there is a loss, for methods that learn with labels."""

    has_gradients: ClassVar[bool] = True
    """Whether there is ln p of an answer, for Fisher information."""

    answers_numbers: ClassVar[bool] = False
    """Whether an answer is a number with a normal error, instead of one of several choices."""

    runs_once: ClassVar[bool] = True
    """Whether an input passes the model once; a generated text does for each of its tokens."""

    pads = False
    """Whether batches may have pieces of different lengths."""

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        self.data = data
        self.loading = loading
        self.model = model
        self.chat: bool | None = None  # whether the chat template is used; None: no such model
        self.label_indices: Sequence[int] = ()  # the head's indices of labels that can be answers
        self.tokens_per_second = 0.0  # of generated text so far

    # The kind: what its data and answers mean

    @classmethod
    def suits(cls, task: Task, config: Mapping[str, Any], columns: Sequence[str]) -> bool:
        """Whether this may be the kind of a task that names none, if its model does several.

        ``config``: of the model; ``columns``: of the data.
        """
        return True

    @classmethod
    def chance(cls, data: TaskData, config: Mapping[str, Any]) -> float | None:
        """The share of right answers among answers at random; None if it is not known."""
        return None

    @classmethod
    def for_class(cls, class_name: str) -> type[Evaluator]:
        """The evaluator for models of a class; a subclass for those that are run differently."""
        return cls

    @classmethod
    def preprocessor(cls, data: TaskData, loading: Loading) -> Any:
        """The tokenizer or image processor that makes a model's inputs.

        Raises CheckpointError, and TaskError if it does not suit the task.
        """
        raise NotImplementedError

    @classmethod
    def targets(cls, data: TaskData, config: Mapping[str, Any]) -> list[Any]:
        """The right answer of each example, in the form of the model's answers.

        ``config``: of the model with its head. Raises TaskError for an unknown label.
        """
        return [example.label for example in data.examples]

    @classmethod
    def names(cls, data: TaskData, config: Mapping[str, Any]) -> Sequence[str]:
        """The names of possible answers, for ``text``; ``config``: of the model with its head."""
        return ()

    @classmethod
    def text(cls, example: Example, answer: Any, names: Sequence[str]) -> str:
        """An answer, or a right answer, for display."""
        raise NotImplementedError

    @classmethod
    def cut(cls, answers: Sequence[Any]) -> CutInputs:
        """How much was cut off, of answers or of inputs whose answers are missing."""
        return CutInputs()

    # One model

    def pieces(self, example: Example) -> list[Piece]:
        """The inputs of an example."""
        raise NotImplementedError

    def pieces_of(self, examples: Sequence[Example]) -> list[list[Piece]]:
        """The inputs of several examples."""
        return [self.pieces(example) for example in examples]

    def answered_pieces(self, examples: Sequence[Example]) -> list[list[Piece]]:
        """The inputs after which another model's ``rows`` are compared with those of this one."""
        return self.pieces_of(examples)

    def run(self, batch: Batch) -> list[Any]:
        """The model's output for each piece of a batch."""
        raise NotImplementedError

    def probe(self, batch: Batch) -> list[Any]:
        """Run the model once, to see how much memory it needs."""
        return self.run(batch)

    def stack(self, pieces: Sequence[Piece]) -> Inputs:
        """The inputs of several pieces as one."""
        first, *_ = pieces
        stacked_inputs = {}
        for name in first.inputs:
            stacked_inputs[name] = torch.stack([piece.inputs[name] for piece in pieces])
        return stacked_inputs

    def kept_bytes(self, piece: Piece) -> int:
        """Bytes that stay in memory from one forward pass to the next."""
        return 0

    def logits(self, batch: Batch) -> Tensor | None:
        """N × C, for the labels at ``label_indices``; None if answers are not labels."""
        return None

    def choices(self, inputs: Inputs) -> Tensor:
        """The logits of the possible answers, for Fisher information: N × … × C, float32."""
        logits: Tensor = self.model(**inputs).logits.float()
        if self.label_indices:
            return logits[..., list(self.label_indices)]
        return logits

    def rows(self, batch: Batch) -> list[Tensor]:
        """The logits of each piece for learning, with a graph: R × C, one answer per row."""
        logits_NC = self.logits(batch)
        assert logits_NC is not None
        return list(logits_NC[:, None].unbind())

    def joined(self, outputs: list[Tensor]) -> Tensor:
        """The ``rows`` of an example's pieces as one R × C, float32."""
        return torch.cat(outputs).float()

    def loss(self, outputs_RC: Tensor, target: Any, pieces: Sequence[Piece]) -> Tensor:
        """The error of the joined rows of an example; ``target``: its right answer."""
        wanted_R = self.wanted(target, pieces).to(outputs_RC.device)
        return functional.cross_entropy(outputs_RC, wanted_R)

    def wanted(self, target: Any, pieces: Sequence[Piece]) -> Tensor:
        """The column of the right answer in each of the joined rows (R)."""
        indices = self.label_indices
        return torch.tensor([indices.index(target) if indices else int(target)])

    def answer(self, outputs: list[Any]) -> Any:
        """The answer to an example from the outputs for its pieces."""
        return outputs[0]


class JudgedByLabels(Evaluator):
    """The answer is the index of a label."""

    judge = staticmethod(of_labels)

    @classmethod
    def text(cls, example: Example, answer: Any, names: Sequence[str]) -> str:
        return label_text(answer, names)

    def run(self, batch: Batch) -> list[Any]:
        """The label with the highest logit."""
        logits_NC = self.logits(batch)
        assert logits_NC is not None
        return [self.label_indices[index] for index in logits_NC.argmax(dim=1).tolist()]


class OfHead(Evaluator):
    """Answers are labels of the model's head."""

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        self.label_indices = list(labels_of(data.task, loading.config).allowed)

    @classmethod
    def names(cls, data: TaskData, config: Mapping[str, Any]) -> Sequence[str]:
        return answer_labels(data.task, config)


class Labelled(JudgedByLabels, OfHead):
    """The answer is the label with the highest logit, among those of the task."""

    @classmethod
    def chance(cls, data: TaskData, config: Mapping[str, Any]) -> float | None:
        return 1 / len(labels_of(data.task, config).allowed)

    @classmethod
    def targets(cls, data: TaskData, config: Mapping[str, Any]) -> list[Any]:
        labels = labels_of(data.task, config)
        return [
            label_index(data, example, example.label, labels, config) for example in data.examples
        ]

    def logits(self, batch: Batch) -> Tensor | None:
        logits_NC: Tensor = self.model(**batch.inputs).logits[:, self.label_indices]
        return logits_NC


class OfText(Evaluator):
    """Inputs are made by a tokenizer. ``cut_off``: its arguments that cut long texts."""

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        self.tokenizer = self.preprocessor(data, loading)
        self.longest = longest_input(self.tokenizer, model.config)
        self.cut_off: dict[str, Any] = {}
        if self.longest is not None:
            self.cut_off = {"truncation": True, "max_length": self.longest}

    @classmethod
    def preprocessor(cls, data: TaskData, loading: Loading) -> Any:
        return load_tokenizer(loading.preprocessing)


class OfWholeText(OfText):
    """One piece per example: its text, or its pair."""

    def pieces_of(self, examples: Sequence[Example]) -> list[list[Piece]]:
        """All texts together, as each call of a tokenizer has overhead."""
        roles = [role for role in (TEXT, PAIR) if role in examples[0].inputs]
        texts = ([example.inputs[role] for example in examples] for role in roles)
        encoded = self.tokenizer(*texts, **self.cut_off)
        names = self.tokenizer.model_input_names
        pieces = []
        for n in range(len(examples)):
            inputs = {name: torch.tensor(encoded[name][n]) for name in names}
            pieces.append([Piece(inputs=inputs)])
        return pieces


class OfPictures(Evaluator):
    """Inputs are made by an image processor."""

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        self.processor = self.preprocessor(data, loading)
        config = getattr(model.config, "vision_config", None) or model.config
        if getattr(config, "num_channels", 3) == 1:
            self.mode = "L"
        else:
            self.mode = "RGB"

    @classmethod
    def preprocessor(cls, data: TaskData, loading: Loading) -> Any:
        return load_image_processor(loading.preprocessing)

    def pieces_of(self, examples: Sequence[Example]) -> list[list[Piece]]:
        """All pictures together, as each call of a processor has overhead.

        If all have the right size they are not resized, as that copies each several times.
        """
        pictures = [self._picture(example) for example in examples]
        size = getattr(self.processor, "size", None)
        target = getattr(size, "width", None), getattr(size, "height", None)
        fits = all(picture.size == target for picture in pictures)
        processed = self.processor(images=pictures, **({"do_resize": False} if fits else {}))
        pieces = []
        for n in range(len(pictures)):
            inputs = {name: torch.as_tensor(values[n]) for name, values in processed.items()}
            pieces.append([Piece(inputs=inputs)])
        return pieces

    def _picture(self, example: Example) -> Any:
        picture = example.inputs[IMAGE].opened()
        if picture.mode == self.mode:
            return picture
        return picture.convert(self.mode)


def label_index(
    data: TaskData, example: Example, value: Any, labels: Labels, config: Mapping[str, Any]
) -> int:
    """The head's index of a label in the data. Raises TaskError if it has none."""
    index = labels.index_of(value, data.label_names)
    if index is None:
        label_names = listing(data.task.labels or head_labels(config))
        sentence = (
            f"The label {quoted_value(value)} is not among the head's, {label_names}; "
            "correct it, or say in the "
            "task which labels there are."
        )
        raise refused(data.table.path, sentence, example.row, setting="labels")
    return index


def label_text(index: int, names: Sequence[str]) -> str:
    """The name of a label; a dash for a truncated word, which has none."""
    if 0 <= index < len(names):
        return names[index]
    return "–"
