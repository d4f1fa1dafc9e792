"""How each kind of model is run: examples become input pieces, and outputs become answers.

A piece is one input without the batch dimension: a text, a window of a long one, one choice of
several, a picture. Batches contain pieces of one shape, so nothing is padded and no answer depends
on its neighbours. L tokens, V vocabulary, N pieces, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.architecture.preprocessing import load_image_processor, load_tokenizer, longest_input
from ace_gui.engine.evaluating.examples import Example, TaskData
from ace_gui.engine.evaluating.kinds import CHOICES, IMAGE, PAIR, TEXT, TOKENS
from ace_gui.engine.evaluating.labels import labels_of
from ace_gui.engine.evaluating.subjects import Loading
from ace_gui.engine.evaluating.targets import zero_shot_labels
from ace_gui.errors import TaskError
from ace_gui.recipe.tasks import TaskKind

Inputs = Mapping[str, Tensor]
MORE_TOKENS: Final = 8
"""Additional tokens of a generated answer compared with the longest right answer."""


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


class Asker:
    """Runs one model on the examples of one task; each kind is a subclass."""

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        self.data, self.loading, self.model = data, loading, model

    def pieces(self, example: Example) -> list[Piece]:
        """The inputs of an example."""
        raise NotImplementedError

    def pieces_of(self, examples: Sequence[Example]) -> list[list[Piece]]:
        """The inputs of several examples."""
        return [self.pieces(example) for example in examples]

    def ask(self, batch: Batch) -> list[Any]:
        """The model's output for each piece of a batch."""
        raise NotImplementedError

    def logits(self, batch: Batch) -> Tensor | None:  # noqa: ARG002
        """N × C, for the labels at ``label_indices``; None if answers are not labels."""
        return None

    @property
    def label_indices(self) -> list[int]:
        """The head's indices of the labels that can be answers."""
        return []

    def answer(self, outputs: list[Any]) -> Any:
        """The answer to an example from the outputs for its pieces."""
        return outputs[0]


class _Labelled(Asker):
    """The answer is the label with the highest logit, among those that can be answers."""

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        self.own = torch.tensor(labels_of(data.task, loading.config).allowed, device=model.device)

    @property
    def label_indices(self) -> list[int]:
        found: list[int] = self.own.tolist()
        return found

    def logits(self, batch: Batch) -> Tensor:
        found: Tensor = self.model(**batch.inputs).logits[:, self.own]
        return found

    def ask(self, batch: Batch) -> list[Any]:
        found: list[int] = self.own[self.logits(batch).argmax(dim=1)].tolist()
        return found


class _OfText(Asker):
    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        self.tokenizer = load_tokenizer(loading.preprocessing)
        self.longest = longest_input(self.tokenizer, model.config)
        self.cut: dict[str, Any] = (
            {} if self.longest is None else {"truncation": True, "max_length": self.longest}
        )

    def most_new(self, given: int, wanted: int) -> int:
        """The most new tokens after a prompt of this length, at least one."""
        if self.longest is None or self.model.config.is_encoder_decoder:
            return wanted
        return max(1, min(wanted, self.longest - given))

    def encoded(self, *texts: str) -> dict[str, Tensor]:
        """Tokens of a text, or of a pair, truncated to the model's maximum length."""
        found = self.tokenizer(*texts, **self.cut)
        return {name: torch.tensor(found[name]) for name in self.tokenizer.model_input_names}


class _OfWholeText(_OfText):
    """One piece per example: its text, or its pair."""

    def pieces_of(self, examples: Sequence[Example]) -> list[list[Piece]]:
        """All texts together, as each call of a tokenizer has overhead."""
        roles = [role for role in (TEXT, PAIR) if role in examples[0].given]
        found = self.tokenizer(*([e.given[role] for e in examples] for role in roles), **self.cut)
        names = self.tokenizer.model_input_names
        return [
            [Piece(inputs={name: torch.tensor(found[name][n]) for name in names})]
            for n in range(len(examples))
        ]


class _TextClassifier(_Labelled, _OfWholeText):
    """The label of a text, or of a pair."""


class _Regressor(_OfWholeText):
    def ask(self, batch: Batch) -> list[Any]:
        found: list[float] = self.model(**batch.inputs).logits[:, 0].double().tolist()
        return found


class _WordClassifier(_OfText):
    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        if not self.tokenizer.is_fast:
            raise TaskError(f"{data.name}: labels of words need a tokenizer with tokenizer.json.")
        self.own = torch.tensor(labels_of(data.task, loading.config).allowed, device=model.device)

    @property
    def label_indices(self) -> list[int]:
        found: list[int] = self.own.tolist()
        return found

    def pieces(self, example: Example) -> list[Piece]:
        """A word gets the answer of its first token; a truncated word has none."""
        words = list(example.given[TOKENS])
        found = self.tokenizer(words, is_split_into_words=True, **self.cut)
        owners = found.word_ids()
        firsts = [owners.index(word) if word in owners else -1 for word in range(len(words))]
        names = self.tokenizer.model_input_names
        return [Piece(inputs={name: torch.tensor(found[name]) for name in names}, note=firsts)]

    def ask(self, batch: Batch) -> list[Any]:
        logits_NLC = self.model(**batch.inputs).logits
        best_NL = self.own[logits_NLC[:, :, self.own].argmax(dim=2)].cpu()
        return [
            tuple(int(best_L[at]) if at >= 0 else -1 for at in firsts)
            for best_L, firsts in zip(best_NL, batch.notes, strict=True)
        ]


def _log_likelihoods(model: Any, inputs: Inputs) -> Tensor:
    """ln p of every token except the first, given those before it: N × (L − 1), float64."""
    logits_NLV = model(**inputs).logits[:, :-1].float()
    next_NL1 = inputs["input_ids"][:, 1:, None]
    chosen_NL = logits_NLV.gather(2, next_NL1).squeeze(2) - logits_NLV.logsumexp(dim=2)
    found: Tensor = chosen_NL.double()
    return found


class _Predictor(_OfText):
    """Perplexity.

    A long text is split into windows that share one token, so that each token is predicted.
    """

    def pieces(self, example: Example) -> list[Piece]:
        token_L = torch.tensor(self.tokenizer(example.given[TEXT])["input_ids"], dtype=torch.long)
        longest = self.longest or len(token_L)
        starts = range(0, max(len(token_L) - 1, 1), max(longest - 1, 1))
        windows = [token_L[start : start + longest] for start in starts]
        return [
            Piece(inputs={"input_ids": window, "attention_mask": torch.ones_like(window)})
            for window in windows
        ]

    def ask(self, batch: Batch) -> list[Any]:
        count = batch.inputs["input_ids"].shape[1] - 1
        if count < 1:  # nothing before, nothing to predict
            return [(0.0, 0)] * len(batch.notes)
        return [
            (-float(one), count) for one in _log_likelihoods(self.model, batch.inputs).sum(dim=1)
        ]

    def answer(self, outputs: list[Any]) -> Any:
        return sum(nll for nll, _ in outputs), sum(tokens for _, tokens in outputs)


class Chooser(_OfText):
    """A model with a head for choices: each choice is scored on its own."""

    def pieces(self, example: Example) -> list[Piece]:  # noqa: D102
        text = example.given[TEXT]
        encoded = [self.encoded(text, choice) for choice in example.given[CHOICES]]
        return [Piece(inputs={n: t[None] for n, t in each.items()}) for each in encoded]

    def scores(self, batch: Batch) -> Tensor:
        """The score of each choice of a batch (N)."""
        found: Tensor = self.model(**batch.inputs).logits[:, 0]
        return found

    def ask(self, batch: Batch) -> list[Any]:  # noqa: D102
        found: list[float] = self.scores(batch).tolist()
        return found

    def answer(self, outputs: list[Any]) -> Any:  # noqa: D102
        return max(range(len(outputs)), key=outputs.__getitem__)


class _LanguageChooser(Chooser):
    """A language model: the choice most likely to follow the text and a space."""

    def pieces(self, example: Example) -> list[Piece]:
        text, found = example.given[TEXT], []
        before = self.tokenizer(text)["input_ids"]
        for choice in example.given[CHOICES]:
            whole = self.tokenizer(f"{text} {choice}")["input_ids"]
            pairs = enumerate(zip(before, whole, strict=False))
            start = next((at for at, (a, b) in pairs if a != b), min(len(before), len(whole) - 1))
            cut = max(0, len(whole) - self.longest) if self.longest else 0
            token_L = torch.tensor(whole[cut:])
            inputs = {"input_ids": token_L, "attention_mask": torch.ones_like(token_L)}
            found.append(Piece(inputs=inputs, note=max(start - cut, 1)))
        return found

    def scores(self, batch: Batch) -> Tensor:
        found_NL = _log_likelihoods(self.model, batch.inputs)
        pairs = zip(found_NL, batch.notes, strict=True)
        return torch.stack([row_L[start - 1 :].sum() for row_L, start in pairs])


class _Writer(_OfWholeText):
    """Greedy generation."""

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        known = [each.label for each in data.examples if each.label is not None]
        lengths = (len(self.tokenizer(label)["input_ids"]) for label in known)
        self.most = max(lengths, default=0) + MORE_TOKENS

    def ask(self, batch: Batch) -> list[Any]:
        fill = self.tokenizer.pad_token_id
        written = self.model.generate(
            **batch.inputs,
            max_new_tokens=self.most,
            do_sample=False,
            num_beams=1,
            pad_token_id=self.tokenizer.eos_token_id if fill is None else fill,
        )
        if not self.model.config.is_encoder_decoder:
            written = written[:, batch.inputs["input_ids"].shape[1] :]
        found: list[str] = self.tokenizer.batch_decode(written, skip_special_tokens=True)
        return found


class _OfPictures(Asker):
    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        self.processor = load_image_processor(loading.preprocessing)
        config = getattr(model.config, "vision_config", None) or model.config
        self.mode = "L" if getattr(config, "num_channels", 3) == 1 else "RGB"

    def pieces_of(self, examples: Sequence[Example]) -> list[list[Piece]]:
        """All pictures together, as each call of a processor has overhead."""
        found = self.processor(images=[self._picture(example) for example in examples])
        rows = zip(*found.values(), strict=True)
        return [
            [Piece(inputs={n: torch.as_tensor(v) for n, v in zip(found, row, strict=True)})]
            for row in rows
        ]

    def _picture(self, example: Example) -> Any:
        picture = example.given[IMAGE].opened()
        return picture if picture.mode == self.mode else picture.convert(self.mode)


class _PictureClassifier(_Labelled, _OfPictures):
    """The label of a picture."""


class _ZeroShot(_OfPictures):
    """The label whose prompt is most similar to the picture."""

    def __init__(self, data: TaskData, loading: Loading, model: Any) -> None:
        super().__init__(data, loading, model)
        tokenizer = load_tokenizer(loading.preprocessing)
        prompts = [data.task.prompt.replace("{}", label) for label in zero_shot_labels(data)]
        full = {"padding": "max_length"} if "siglip" in str(model.config.model_type) else {}
        asked = (tokenizer(p, truncation=True, return_tensors="pt", **full) for p in prompts)
        with torch.no_grad():  # unlike inference mode, this allows gradients later
            rows = [_pooled(model.get_text_features(**each.to(model.device))) for each in asked]
        self.text_CD = functional.normalize(torch.cat(rows), dim=1)

    @property
    def label_indices(self) -> list[int]:
        return list(range(len(self.text_CD)))

    def logits(self, batch: Batch) -> Tensor:
        """Cosines multiplied by the model's own temperature."""
        seen_ND = functional.normalize(
            _pooled(self.model.get_image_features(**batch.inputs)), dim=1
        )
        found: Tensor = self.model.logit_scale.exp() * (seen_ND @ self.text_CD.T)
        return found

    def ask(self, batch: Batch) -> list[Any]:
        found: list[int] = self.logits(batch).argmax(dim=1).tolist()
        return found


def _pooled(found: Any) -> Tensor:
    features: Tensor = found if isinstance(found, Tensor) else found.pooler_output
    return features


_ASKERS: Final[Mapping[TaskKind, type[Asker]]] = {
    TaskKind.IMAGE_CLASSIFICATION: _PictureClassifier,
    TaskKind.TEXT_CLASSIFICATION: _TextClassifier,
    TaskKind.REGRESSION: _Regressor,
    TaskKind.CAUSAL_LM: _Predictor,
    TaskKind.MULTIPLE_CHOICE: Chooser,
    TaskKind.TEXT_TO_TEXT: _Writer,
    TaskKind.TOKEN_CLASSIFICATION: _WordClassifier,
    TaskKind.CLIP_ZERO_SHOT: _ZeroShot,
}


def asker(data: TaskData, loading: Loading, model: Any) -> Asker:
    """The asker for a task on a model. Raises CheckpointError and TaskError."""
    chosen = _ASKERS[data.kind]
    if chosen is Chooser and not type(model).__name__.endswith("ForMultipleChoice"):
        chosen = _LanguageChooser
    return chosen(data, loading, model)
