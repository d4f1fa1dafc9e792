"""Tasks of texts for models with a head: a label, a number, or a label for each word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ace_gui.engine.evaluating.data.table import refused
from ace_gui.engine.evaluating.evaluators import (
    Batch,
    Cut,
    Labelled,
    OfHead,
    OfText,
    OfWholeText,
    Piece,
    label_index,
    label_text,
)
from ace_gui.engine.evaluating.metrics import correlation, of_words
from ace_gui.engine.evaluating.subjects import Loading
from ace_gui.engine.evaluating.task_data import (
    LABEL,
    PAIR,
    TEXT,
    TOKENS,
    Example,
    TaskData,
    labels_cell,
    labels_of,
    number_cell,
)
from ace_gui.errors import TaskError
from ace_gui.formatting import number_text
from ace_gui.recipe.values import Metric, TaskKind


class TextClassification(Labelled, OfWholeText):
    """The label of a text, or of a pair."""

    kind = TaskKind.TEXT_CLASSIFICATION
    classes = r"ForSequenceClassification$"
    roles = (TEXT, LABEL)
    optional = (PAIR,)


class Regression(OfWholeText):
    """A number for a text, or for a pair."""

    kind = TaskKind.REGRESSION
    classes = r"ForSequenceClassification$"
    metrics = (Metric.PEARSON, Metric.SPEARMAN)
    judge = staticmethod(correlation)
    roles = (TEXT, LABEL)
    optional = (PAIR,)
    label_cell = staticmethod(number_cell)
    has_entropy = False

    @classmethod
    def text(cls, example: Example, answer: Any, names: Sequence[str]) -> str:  # noqa: ARG003, D102
        return number_text(float(answer), 3)

    def run(self, batch: Batch) -> list[Any]:  # noqa: D102
        found: list[float] = self.model(**batch.inputs).logits[:, 0].double().tolist()
        return found

    def rows(self, batch: Batch) -> list[Tensor]:  # noqa: D102
        return list(self.model(**batch.inputs).logits[:, None].unbind())

    def loss(self, outputs_RC: Tensor, target: Any, pieces: Sequence[Piece]) -> Tensor:  # noqa: ARG002, D102
        return (outputs_RC[0, 0] - float(target)) ** 2


class TokenClassification(OfHead, OfText):
    """A label for each word: that of its first token; −1 for a word that is cut off."""

    kind = TaskKind.TOKEN_CLASSIFICATION
    classes = r"ForTokenClassification$"
    metrics = (Metric.ACCURACY, Metric.F1)
    judge = staticmethod(of_words)
    roles = (TOKENS, LABEL)
    label_cell = staticmethod(labels_cell)

    @classmethod
    def preprocessor(cls, data: TaskData, loading: Loading) -> Any:  # noqa: D102
        tokenizer = super().preprocessor(data, loading)
        if not tokenizer.is_fast:
            raise TaskError(f"{data.name}: labels of words need a tokenizer with tokenizer.json.")
        return tokenizer

    @classmethod
    def targets(cls, data: TaskData, config: Mapping[str, Any]) -> list[Any]:  # noqa: D102
        labels, found = labels_of(data.task, config), []
        for each in data.examples:
            words = each.given[TOKENS]
            if len(words) != len(each.label):
                sentence = f"There are {len(words)} words, but {len(each.label)} labels."
                raise refused(data.table.path, sentence, each.row)
            found.append(tuple(label_index(data, each, own, labels, config) for own in each.label))
        return found

    @classmethod
    def text(cls, example: Example, answer: Any, names: Sequence[str]) -> str:  # noqa: D102
        pairs = zip(example.given[TOKENS], answer, strict=True)
        return " ".join(f"{word}/{label_text(index, names)}" for word, index in pairs)

    @classmethod
    def cut(cls, answers: Sequence[Any]) -> Cut:  # noqa: D102
        lost = [sum(index < 0 for index in answer) for answer in answers]
        return Cut(examples=sum(map(bool, lost)), words=sum(lost))

    def pieces(self, example: Example) -> list[Piece]:  # noqa: D102
        words = list(example.given[TOKENS])
        found = self.tokenizer(words, is_split_into_words=True, **self.cut_off)
        owners = found.word_ids()
        firsts = [owners.index(word) if word in owners else -1 for word in range(len(words))]
        names = self.tokenizer.model_input_names
        return [Piece(inputs={name: torch.tensor(found[name]) for name in names}, note=firsts)]

    def run(self, batch: Batch) -> list[Any]:  # noqa: D102
        logits_NLC = self.model(**batch.inputs).logits
        own_C = torch.tensor(self.label_indices)
        best_NL = own_C[logits_NLC[:, :, self.label_indices].argmax(dim=2).cpu()]
        return [
            tuple(int(best_L[at]) if at >= 0 else -1 for at in firsts)
            for best_L, firsts in zip(best_NL, batch.notes, strict=True)
        ]

    def rows(self, batch: Batch) -> list[Tensor]:  # noqa: D102
        logits_NLC = self.model(**batch.inputs).logits
        return [
            logits_LC[[at for at in firsts if at >= 0]][:, self.label_indices]
            for logits_LC, firsts in zip(logits_NLC, batch.notes, strict=True)
        ]

    def wanted(self, target: Any, pieces: Sequence[Piece]) -> Tensor:  # noqa: D102
        own, firsts = self.label_indices, pieces[0].note
        pairs = zip(target, firsts, strict=True)
        return torch.tensor([own.index(one) for one, at in pairs if at >= 0])
