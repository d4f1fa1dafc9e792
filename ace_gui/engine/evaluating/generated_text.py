"""Generated text: prompts, answers, and how they are compared. L tokens, N prompts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.engine.evaluating.evaluators import Batch, CutInputs, Inputs, Piece
from ace_gui.engine.evaluating.language_kinds import (
    Prompted,
    choice_index,
    guessed_kind,
    letters,
    plain_piece,
)
from ace_gui.engine.evaluating.metrics import (
    MetricResult,
    is_right,
    last_number,
    overlap,
    share,
)
from ace_gui.engine.evaluating.subjects import Loading
from ace_gui.engine.evaluating.task_data import Example, TaskData, refused, text_cell
from ace_gui.formatting import quoted_value
from ace_gui.recipe.task_kinds import CHOICES, Metric, TaskKind
from ace_gui.recipe.values import Task

MORE_TOKENS: Final = 8
"""Tokens that a generated answer may have beyond the longest right answer."""

CHAT_TOKENS: Final = 256
"""Most tokens of an answer in a chat."""

COMPARED_TOKENS: Final = 32
"""Most tokens of an expert's answer with which those of a merge are compared."""

COMPARED_TOGETHER: Final = 16
"""Prompts that an expert answers together."""

COMPARED_MULTIPLE: Final = 16
"""Prompts with answers are padded to a multiple of this."""


def answer_cell(value: Any) -> str:
    """A text; a number is one as well."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text_cell(str(value) if is_number else value)


def share_of_texts(
    data: TaskData, answers: Sequence[tuple[str, bool]], targets: Sequence[str], _names: object
) -> MetricResult:
    """The score of generated texts by the task's metric."""
    if data.metric in (Metric.ROUGE_L, Metric.CHRF):
        return overlap(data.metric, [text for text, _ in answers], targets)
    if data.metric is Metric.CHOICE:
        all_letters = "".join(sorted(set(targets)))
    else:
        all_letters = ""
    pattern = data.task.pattern or ""
    right = []
    for (answer, _), target, example in zip(answers, targets, data.examples, strict=True):
        choices = letters(example.inputs.get(CHOICES, ())) or all_letters
        right.append(is_right(data.metric, answer, target, letters=choices, pattern=pattern))
    return share(right)


class TextToText(Prompted):
    """A generated text. An answer is the text, and whether it was cut."""

    kind = TaskKind.TEXT_TO_TEXT
    judge = staticmethod(share_of_texts)
    label_cell = staticmethod(answer_cell)
    has_entropy = learns = has_gradients = runs_once = False

    @classmethod
    def suits(cls, task: Task, config: Mapping[str, Any], columns: Sequence[str]) -> bool:
        return guessed_kind(task, columns) is cls.kind

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        most = data.task.max_new_tokens
        if most is None:
            if self.chat:
                most = CHAT_TOKENS
            else:
                most = self._longest_label() + MORE_TOKENS
        # Routers and recurrent models would see the padding.
        self.pads = loading.modules is None and self._heads is not None
        self._decodes = not model.config.is_encoder_decoder
        if self._decodes and self.longest is not None:
            most = min(most, max(self.longest // 2, 1))
        self.most = most
        self.tokens = 0
        self.seconds = 0.0

    def _longest_label(self) -> int:
        """The number of tokens of the longest right answer; ``COMPARED_TOKENS`` without any."""
        labels = [example.label for example in self.data.examples if example.label is not None]
        if not labels:
            return COMPARED_TOKENS
        return max(len(self.tokenizer(label)["input_ids"]) for label in labels)

    @classmethod
    def targets(cls, data: TaskData, config: Mapping[str, Any]) -> list[Any]:
        return [wanted_text(data, example) for example in data.examples]

    @classmethod
    def text(cls, example: Example, answer: Any, names: Sequence[str]) -> str:
        if isinstance(answer, str):
            return answer
        text, was_cut = answer
        return f"{text} … (cut)" if was_cut else text

    @classmethod
    def cut(cls, answers: Sequence[Any]) -> CutInputs:
        return CutInputs(examples=sum(was_cut for _, was_cut in answers))

    def pieces(self, example: Example) -> list[Piece]:
        """The prompt. If it is too long, its beginning is cut, or its end for an encoder."""
        if CHOICES in example.inputs:
            default = "{text}\n{choices}"
        else:
            default = "{text}"
        text = self._prompter.text(example.inputs, default)
        tokens = self._prompter.tokens(text)
        if self._decodes and self.longest is not None:
            last_tokens = tokens[-(self.longest - self.most) :]
        else:
            last_tokens = self._prompter.tokens(text, **self.cut_off)
        return [plain_piece(torch.tensor(last_tokens), note=len(last_tokens) < len(tokens))]

    def answered_pieces(self, examples: Sequence[Example]) -> list[list[Piece]]:
        """Each prompt with this model's own answer behind it, up to ``COMPARED_TOKENS`` of it."""
        prompts = list(chain.from_iterable(map(self.pieces, examples)))
        order = sorted(range(len(prompts)), key=lambda n: len(prompts[n].inputs["input_ids"]))
        if self.pads:
            together = COMPARED_TOGETHER
        else:
            together = 1
        pieces: dict[int, Piece] = {}
        for first in range(0, len(order), together):
            chosen = order[first : first + together]
            stacked = self.stack([prompts[n] for n in chosen])
            inputs = {name: tensor.to(self.model.device) for name, tensor in stacked.items()}
            batch = Batch(inputs=inputs, notes=[prompts[n].note for n in chosen])
            written = self._generated(batch, min(self.most, COMPARED_TOKENS))
            for n, tokens in zip(chosen, written, strict=True):
                pieces[n] = self._answered(prompts[n], tokens)
        return [[pieces[n]] for n in range(len(prompts))]

    def _answered(self, prompt: Piece, written: Sequence[int]) -> Piece:
        """A prompt and the tokens written after it. ``note``: the columns of their ``rows``.

        A decoder's is padded on the right, where no earlier token sees it, so that few lengths
        occur.
        """
        ends = [n for n, token in enumerate(written) if n and token in self._ends]
        answer = torch.tensor(written[: ends[0] + 1] if ends else written)
        if not self._decodes:
            inputs = {**prompt.inputs, "decoder_input_ids": answer[:-1]}
            return Piece(inputs=inputs, note=slice(0, len(answer) - 1))
        begin = len(prompt.inputs["input_ids"])
        sequence = torch.cat((prompt.inputs["input_ids"], answer))
        padding = -len(sequence) % COMPARED_MULTIPLE
        inputs = {
            "input_ids": functional.pad(sequence, (0, padding), value=self._padding),
            "attention_mask": functional.pad(torch.ones_like(sequence), (0, padding)),
        }
        return Piece(inputs=inputs, note=slice(begin - 1, len(sequence) - 1))

    def rows(self, batch: Batch) -> list[Tensor]:
        """The logits of each token of an answer (see ``answered_pieces``)."""
        logits_NLC = self.model(**batch.inputs).logits
        return [logits_LC[at] for logits_LC, at in zip(logits_NLC, batch.notes, strict=True)]

    def stack(self, pieces: Sequence[Piece]) -> Inputs:
        """Pad prompts of a decoder on the left, and those of an encoder on the right."""
        longest = max(len(piece.inputs["input_ids"]) for piece in pieces)
        fill = {"input_ids": self._padding, "attention_mask": 0}
        inputs = {}
        for name, value in fill.items():
            rows = []
            for answered_piece in pieces:
                token_L = answered_piece.inputs[name]
                padding = token_L.new_full((longest - len(token_L),), value)
                rows.append(torch.cat((padding, token_L) if self._decodes else (token_L, padding)))
            inputs[name] = torch.stack(rows)
        for name in pieces[0].inputs.keys() - fill.keys():
            inputs[name] = torch.stack([piece.inputs[name] for piece in pieces])
        return inputs

    @property
    def _heads(self) -> int | None:
        config = self.model.config.get_text_config(decoder=True)
        heads: int | None = getattr(config, "num_attention_heads", None)
        return heads

    @property
    def _padding(self) -> int:
        fill = self.tokenizer.pad_token_id
        if fill is None:
            fill = self.tokenizer.eos_token_id
        return 0 if fill is None else int(fill)

    @property
    def _ends(self) -> frozenset[int]:
        """The tokens that end an answer, by the model's generation_config.json."""
        ends = self.model.generation_config.eos_token_id
        return frozenset([ends] if isinstance(ends, int) else ends or ())

    def kept_bytes(self, piece: Piece) -> int:
        """Keys and values of every token."""
        config = self.model.config.get_text_config(decoder=True)
        heads = self._heads
        if heads is None:
            return 0
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        key_heads = getattr(config, "num_key_value_heads", None) or heads
        length = len(piece.inputs["input_ids"]) + self.most
        size = self.model.dtype.itemsize
        return int(2 * config.num_hidden_layers * key_heads * width * length * size)

    def probe(self, batch: Batch) -> list[Any]:
        return self._generated(batch, 1)

    def run(self, batch: Batch) -> list[Any]:
        started = time.perf_counter()
        answers = []
        for written, prompt_cut in zip(self._generated(batch, self.most), batch.notes, strict=True):
            end = next((n for n, token in enumerate(written) if token in self._ends), None)
            self.tokens += len(written) if end is None else end + 1
            text = self.tokenizer.decode(written[:end], skip_special_tokens=True)
            stops = [at for stop in self.data.task.stop if (at := text.find(stop)) >= 0]
            if stops:
                text = text[: min(stops)]
            answers.append((text, prompt_cut or (end is None and not stops)))
        self.seconds += time.perf_counter() - started
        self.tokens_per_second = self.tokens / self.seconds
        return answers

    def _generated(self, batch: Batch, most: int) -> list[list[int]]:
        if self._decodes:
            begin = batch.inputs["input_ids"].shape[1]
        else:
            begin = 0
        written = self.model.generate(
            **batch.inputs,
            **GREEDY,
            max_new_tokens=most,
            pad_token_id=self._padding,
            stopping_criteria=[partial(self._stopped, begin)] if self.data.task.stop else None,
        )
        tokens: list[list[int]] = written[:, begin:].tolist()
        return tokens

    def _stopped(self, begin: int, ids_NL: Tensor, _scores: Any, **_more: Any) -> Tensor:
        """Whether the end of each row has a stop text. Each token is at least one byte of it."""
        stops = self.data.task.stop
        begin = max(begin, ids_NL.shape[1] - max(len(stop.encode()) for stop in stops) - 1)
        texts = self.tokenizer.batch_decode(ids_NL[:, begin:], skip_special_tokens=True)
        stopped = []
        for text in texts:
            stopped.append(any(stop in text for stop in stops))
        return torch.tensor(stopped, device=ids_NL.device)


GREEDY: Final[Mapping[str, Any]] = {
    **{"do_sample": False, "num_beams": 1},
    **{"temperature": None, "top_k": None, "top_p": None},
}
"""Arguments of ``generate``: the most likely token, whatever the model's configuration says."""


def wanted_text(data: TaskData, example: Example) -> str:
    """The right answer; a letter for the metric choice. Raises TaskError if it does not fit."""
    label: str = example.label
    if data.metric is Metric.CHOICE:
        choices = example.inputs.get(CHOICES)
        if choices is not None:
            return letters(choices)[choice_index(data, example)]
        letter = label.strip().upper()
        if len(letter) != 1 or not "A" <= letter <= "Z":
            sentence = (
                f"The label {quoted_value(label)} is not a letter; name a column of choices too."
            )
            raise refused(data.table.path, sentence, example.row)
        return letter
    if data.metric is Metric.LAST_NUMBER and last_number(label) is None:
        raise refused(
            data.table.path, f"The label {quoted_value(label)} has no number.", example.row
        )
    return label
