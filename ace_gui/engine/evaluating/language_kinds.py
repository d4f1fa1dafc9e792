"""Tasks of language models: perplexity, and the choice of a continuation; prompts."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ace_gui.architecture.chat_prompts import chat_tokens
from ace_gui.engine.evaluating.evaluators import (
    Batch,
    Evaluator,
    Inputs,
    JudgedByLabels,
    OfText,
    Piece,
)
from ace_gui.engine.evaluating.metrics import (
    perplexity,
)
from ace_gui.engine.evaluating.subjects import Loading
from ace_gui.engine.evaluating.task_data import (
    Example,
    TaskData,
    refused,
    usual_column,
    whole_number,
)
from ace_gui.errors import TaskError
from ace_gui.formatting import number_text, quoted_value
from ace_gui.recipe.task_kinds import CHOICES, LABEL, TEXT, TaskKind
from ace_gui.recipe.values import Chat, Task


def _log_likelihoods(model: Any, inputs: Inputs) -> Tensor:
    """ln p of every token except the first, given those before it: N × (L − 1), float64."""
    logits_NLV = model(**inputs).logits[:, :-1].float()
    next_NL1 = inputs["input_ids"][:, 1:, None]
    chosen_NL = logits_NLV.gather(2, next_NL1).squeeze(2) - logits_NLV.logsumexp(dim=2)
    log_p_NL: Tensor = chosen_NL.double()
    return log_p_NL


class Prompter:
    """Makes tokens of a task's prompts. ``chat``: whether the chat template is used."""

    def __init__(self, task: Task, tokenizer: Any) -> None:
        self._task = task
        self._tokenizer = tokenizer
        self.chat = task.chat is not Chat.OFF and bool(getattr(tokenizer, "chat_template", None))

    def text(self, inputs: Mapping[str, Any], default: str = "{text}") -> str:
        """The task's prompt for an example. ``default``: if the task has none."""
        choices = inputs.get(CHOICES, ())
        lettered = "\n".join(map("{}. {}".format, letters(choices), choices))
        values = {"{text}": inputs[TEXT], "{choices}": lettered}
        prompt = self._task.prompt or default
        return re.sub(r"\{(text|choices)\}", lambda match: values[match[0]], prompt)

    def tokens(
        self, text: str, earlier: Sequence[tuple[str, str]] = (), **cut_off: Any
    ) -> list[int]:
        """The tokens of a prompt. ``earlier``: questions and answers of the conversation so far.

        Without a template, the system message precedes the prompt, and earlier turns are left out.
        ``cut_off``: arguments of the tokenizer that cut a plain prompt. Raises TaskError if the
        template refuses the messages.
        """
        system = self._task.system
        if not self.chat:
            if system:
                prompt = f"{system}\n\n{text}"
            else:
                prompt = text
            tokens: list[int] = self._tokenizer(prompt, **cut_off)["input_ids"]
            return tokens
        if system:
            messages = [{"role": "system", "content": system}]
        else:
            messages = []
        for question, answer in earlier:
            messages.append({"role": "user", "content": question})
            messages.append({"role": "assistant", "content": answer})
        messages.append({"role": "user", "content": text})
        try:
            return chat_tokens(self._tokenizer, messages)
        except TaskError as error:
            raise TaskError(
                f"{self._task.title}: the chat template of a model {error.sentence}; put the "
                "system message into the prompt, or choose chat: off.",
                key="chat",
                details=error.details,
            ) from error


def letters(choices: Sequence[Any]) -> str:
    """The letters of this many choices."""
    return string.ascii_uppercase[: len(choices)]


def guessed_kind(task: Task, columns: Sequence[str]) -> TaskKind:
    """The kind of a task of a language model, which does them all."""
    metrics = TaskKind.TEXT_TO_TEXT.traits.metrics
    if task.max_new_tokens or task.stop or task.metric in metrics:
        return TaskKind.TEXT_TO_TEXT
    choices = usual_column(CHOICES, columns) or task.columns.get(CHOICES)
    label = usual_column(LABEL, columns) or task.columns.get(LABEL)
    if choices and label:
        return TaskKind.MULTIPLE_CHOICE
    if LABEL in task.columns or task.prompt or task.system:
        return TaskKind.TEXT_TO_TEXT
    return TaskKind.CAUSAL_LM


class CausalLM(OfText):
    """Perplexity.

    A long text is split into windows that share one token, so that each token is predicted.
    """

    kind = TaskKind.CAUSAL_LM
    judge = staticmethod(perplexity)

    @classmethod
    def suits(cls, task: Task, config: Mapping[str, Any], columns: Sequence[str]) -> bool:
        return guessed_kind(task, columns) is cls.kind

    @classmethod
    def text(cls, example: Example, answer: Any, names: Sequence[str]) -> str:
        if answer is None:
            return ""
        loss, tokens = answer
        return f"perplexity {number_text(math.exp(min(loss / max(tokens, 1), 700)), 3)}"

    def pieces(self, example: Example) -> list[Piece]:
        token_L = torch.tensor(self.tokenizer(example.inputs[TEXT])["input_ids"], dtype=torch.long)
        longest = self.longest or len(token_L)
        starts = range(0, max(len(token_L) - 1, 1), max(longest - 1, 1))
        return [plain_piece(token_L[start : start + longest]) for start in starts]

    def run(self, batch: Batch) -> list[Any]:
        count = batch.inputs["input_ids"].shape[1] - 1
        if count < 1:  # nothing before, nothing to predict
            return [(0.0, 0)] * len(batch.notes)
        sums_N = _log_likelihoods(self.model, batch.inputs).sum(dim=1)
        return [(-float(log_likelihood), count) for log_likelihood in sums_N]

    def answer(self, outputs: list[Any]) -> Any:
        return sum(nll for nll, _ in outputs), sum(tokens for _, tokens in outputs)

    def choices(self, inputs: Inputs) -> Tensor:
        return super().choices(inputs)[:, :-1]

    def rows(self, batch: Batch) -> list[Tensor]:
        return list(self.model(**batch.inputs).logits[:, :-1].unbind())

    def wanted(self, target: Any, pieces: Sequence[Piece]) -> Tensor:
        return torch.cat([piece.inputs["input_ids"][1:] for piece in pieces])


class MultipleChoice(JudgedByLabels, OfText):
    """A choice for a text, by a model with a head that scores each choice on its own."""

    kind = TaskKind.MULTIPLE_CHOICE
    has_gradients = False

    @classmethod
    def suits(cls, task: Task, config: Mapping[str, Any], columns: Sequence[str]) -> bool:
        return guessed_kind(task, columns) is cls.kind

    @classmethod
    def for_class(cls, class_name: str) -> type[Evaluator]:
        if class_name.endswith("ForMultipleChoice"):
            return cls
        return LanguageChoice

    @classmethod
    def chance(cls, data: TaskData, config: Mapping[str, Any]) -> float | None:
        return fmean(1 / len(example.inputs[CHOICES]) for example in data.examples)

    @classmethod
    def targets(cls, data: TaskData, config: Mapping[str, Any]) -> list[Any]:
        return [choice_index(data, example) for example in data.examples]

    @classmethod
    def text(cls, example: Example, answer: Any, names: Sequence[str]) -> str:
        chosen: str = example.inputs[CHOICES][answer]
        return chosen

    def pieces(self, example: Example) -> list[Piece]:
        text = example.inputs[TEXT]
        names = self.tokenizer.model_input_names
        pieces = []
        for choice in example.inputs[CHOICES]:
            tokens = self.tokenizer(text, choice, **self.cut_off)
            inputs = {name: torch.tensor(tokens[name])[None] for name in names}
            pieces.append(Piece(inputs=inputs))
        return pieces

    def scores(self, batch: Batch) -> Tensor:
        """The score of each choice of a batch (N)."""
        score_N: Tensor = self.model(**batch.inputs).logits[:, 0]
        return score_N

    def run(self, batch: Batch) -> list[Any]:
        scores: list[float] = self.scores(batch).tolist()
        return scores

    def answer(self, outputs: list[Any]) -> Any:
        return max(range(len(outputs)), key=outputs.__getitem__)

    def rows(self, batch: Batch) -> list[Tensor]:
        """The score of each choice: a choice is a column of the one row."""
        return list(self.scores(batch).unbind())

    def joined(self, outputs: list[Tensor]) -> Tensor:
        return torch.stack(outputs)[None].float()


class Prompted(OfText):
    """Inputs are prompts."""

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        self._prompter = Prompter(data.task, self.tokenizer)
        self.chat = self._prompter.chat

    @classmethod
    def preprocessor(cls, data: TaskData, loading: Loading) -> Any:
        """The tokenizer. Raises TaskError if its chat template refuses the first prompt."""
        tokenizer = super().preprocessor(data, loading)
        prompter = Prompter(data.task, tokenizer)
        prompter.tokens(prompter.text(data.examples[0].inputs))
        return tokenizer


class LanguageChoice(Prompted, MultipleChoice):
    """The choice that a language model finds most likely to follow the text and a space.

    In a chat it is the most likely answer.
    """

    def pieces(self, example: Example) -> list[Piece]:
        text = self._prompter.text(example.inputs)
        pieces = []
        prompt = self._prompter.tokens(text)
        for choice in example.inputs[CHOICES]:
            if self.chat:
                tokens = prompt + self.tokenizer(choice, add_special_tokens=False)["input_ids"]
                start = len(prompt)
            else:
                tokens = self._prompter.tokens(f"{text} {choice}")
                start = _first_difference(prompt, tokens)
            if self.longest:
                cut = max(0, len(tokens) - self.longest)
            else:
                cut = 0
            pieces.append(plain_piece(torch.tensor(tokens[cut:]), note=max(start - cut, 1)))
        return pieces

    def scores(self, batch: Batch) -> Tensor:
        log_p_NL = _log_likelihoods(self.model, batch.inputs)
        pairs = zip(log_p_NL, batch.notes, strict=True)
        return torch.stack([row_L[start - 1 :].sum() for row_L, start in pairs])


def _first_difference(before: Sequence[int], longer: Sequence[int]) -> int:
    pairs = enumerate(zip(before, longer, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(before), len(longer) - 1))


def plain_piece(token_L: Tensor, note: Any = None) -> Piece:
    """A piece of tokens without padding."""
    inputs = {"input_ids": token_L, "attention_mask": torch.ones_like(token_L)}
    return Piece(inputs=inputs, note=note)


def choice_index(data: TaskData, example: Example) -> int:
    """The index of a choice: given as a number from 0, a letter, or the text of the choice."""
    value = example.label
    choices = example.inputs[CHOICES]
    if isinstance(value, str):
        text = value.strip()
    else:
        text = ""
    if isinstance(value, int):
        index = value
    else:
        index = -1
    if text in choices:
        index = choices.index(text)
    elif (number := whole_number(text)) is not None:
        index = number
    elif len(text) == 1 and "A" <= text.upper() <= "Z":
        index = ord(text.upper()) - ord("A")
    if not 0 <= index < len(choices):
        sentence = (
            f"The label {quoted_value(value)} is none of the {len(choices)} choices, from 0 or A."
        )
        raise refused(data.table.path, sentence, example.row)
    return index
