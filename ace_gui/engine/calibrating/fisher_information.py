"""The diagonal Fisher information: E_x E_{y ~ p(y|x)} (∂ ln p(y|x) / ∂θ)², elementwise.

Each example's gradient is squared separately, following the definition (M. Matena, C. Raffel,
Merging Models with Fisher-Weighted Averaging, NeurIPS 2022, arXiv:2111.09832, Eq. 3). The answers y
come from the model, so that the data need no labels. A head with few labels uses all of them,
weighted by probability; otherwise one answer is drawn with a fixed seed. A numerical answer counts
as the mean of a Gaussian.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Final

import torch
from torch import Tensor

from ace_gui.engine.calibrating.model_parameters import Pieces, pieces
from ace_gui.engine.calibrating.squared_gradients import SquaredGradients
from ace_gui.engine.evaluating.evaluators import Evaluator, Inputs
from ace_gui.engine.evaluating.kinds.every_kind import KINDS
from ace_gui.engine.evaluating.loaded_models import stacked_batches
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.errors import TaskError
from ace_gui.recipe.values import TaskKind

FEW: Final = 16
"""Largest number of labels that are all used, weighted by probability."""

_LEAST_BYTES: Final = 256_000_000
_SHARE: Final = 0.5
"""Multiple of the model's bytes that squared gradients may take at a time, if that is more."""


def fisher_groups(
    evaluator: Evaluator, expert: OpenedModel, names: Sequence[str]
) -> tuple[dict[str, str], list[FisherSums]]:
    """The stored names by the base's, which are the same, and the groups measured together."""
    found = pieces(evaluator.model, expert, names)
    budget = max(_LEAST_BYTES, int(_SHARE * sum(p.nbytes for p in evaluator.model.parameters())))
    chosen: list[list[str]] = [[]]
    held = 0
    for name in found:
        size = 8 * prod(expert.shape(name))
        if chosen[-1] and held + size > budget:
            chosen.append([])
            held = 0
        chosen[-1].append(name)
        held += size
    groups = [
        FisherSums({n: found[n] for n in own}, {n: expert.shape(n) for n in own})
        for own in chosen
        if own
    ]
    return {name: name for name in found}, groups


def require_probabilities(kind: TaskKind, name: str) -> None:
    """Raise TaskError for a kind of task whose answers have no probabilities here."""
    if not KINDS[kind].has_gradients:
        raise TaskError(
            f"The task {name} is {kind.value}, for which no gradients of ln p are taken; choose a "
            "method that wants inputs alone, such as regmean.",
            key="kind",
        )


class FisherSums:
    """The running sums of squared gradients of a group of tensors.

    ``pieces``, ``shapes``: of each, by the base's name.
    """

    def __init__(self, pieces: Mapping[str, Pieces], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.names, self._pieces, self._shapes = tuple(pieces), pieces, shapes
        self._squares: dict[str, Tensor] = {}
        self._examples = 0

    def add(self, evaluator: Evaluator) -> Iterator[int]:
        """Add the evaluator's examples; yields the number of added examples."""
        require_probabilities(evaluator.data.kind, evaluator.data.name)
        named = dict(evaluator.model.named_parameters(remove_duplicate=False))
        wanted = sorted({piece[0] for own in self._pieces.values() for piece in own})
        before = [(each, each.requires_grad) for each in evaluator.model.parameters()]
        evaluator.model.requires_grad_(False)
        for name in wanted:
            named[name].requires_grad_(True)
        gradients = SquaredGradients(partial(_answers, evaluator), {n: named[n] for n in wanted})
        try:
            for batch in stacked_batches(evaluator):
                for more in gradients.add(batch.inputs, self._examples, self._squares):
                    self._examples += more
                    yield more
        finally:
            for each, was in before:
                each.requires_grad_(was)

    def result(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """The means by the base's names, in its shapes, and the number of examples."""
        found, rows = {}, {}
        for name, own in self._pieces.items():
            rows[name] = self._examples
            cut = [
                self._squares[parameter][first:last]
                if self._squares[parameter].ndim
                else self._squares[parameter][None]
                for parameter, first, last in own
                if parameter in self._squares
            ]
            if len(cut) == len(own):
                found[name] = (torch.cat(cut) / self._examples).reshape(self._shapes[name])
            else:  # nothing of the answers depends on it
                found[name] = torch.zeros(self._shapes[name])
        self._squares = {}
        return found, rows


def _answers(evaluator: Evaluator, inputs: Inputs, first: int) -> list[Tensor]:
    """The values to differentiate (N each); their squared gradients add up to the information.

    ``first``: index of the first example, from which answers are drawn.
    """
    logits = evaluator.model(**inputs).logits.float()
    if evaluator.data.kind is TaskKind.REGRESSION:  # E (y − f)² = 1
        return [logits[:, 0]]
    if evaluator.label_indices:
        logits = logits[..., list(evaluator.label_indices)]
    if evaluator.data.kind is TaskKind.CAUSAL_LM:
        logits = logits[:, :-1]
    if logits.ndim == 2 and logits.shape[1] <= FEW:
        return _of_all_labels(logits)
    if not logits.numel():
        return []
    log_p = logits.log_softmax(dim=-1)
    drawn = torch.stack([_drawn(each, first + n) for n, each in enumerate(log_p.detach())])
    chosen = log_p.gather(-1, drawn.to(log_p.device)[..., None])
    return [chosen.flatten(1).sum(dim=1)]


def _of_all_labels(logits_NC: Tensor) -> list[Tensor]:
    """R ᵀ z of each example, with R Rᵀ = diag(p) − p pᵀ: C − 1 values, as 1 is in its kernel.

    Σ_c p_c (∂ ln p_c)² = Jᵀ (diag(p) − p pᵀ) J on the diagonal, J = ∂z / ∂θ.
    """
    p_NC = logits_NC.detach().double().softmax(dim=1)
    covariance_NCC = torch.diag_embed(p_NC) - p_NC[:, :, None] * p_NC[:, None]
    values_NC, vectors_NCC = torch.linalg.eigh(covariance_NCC)
    root_NCC = vectors_NCC * values_NC.clamp(min=0).sqrt()[:, None]
    return [
        (root_NCC[:, :, c].to(logits_NC.dtype) * logits_NC).sum(dim=1)
        for c in range(1, logits_NC.shape[1])
    ]


def _drawn(log_p: Tensor, number: int) -> Tensor:
    """Answers to one example, drawn by its index; from log_p without the last dimension."""
    generator = torch.Generator().manual_seed(number)
    chances = log_p.exp().cpu()
    found = torch.multinomial(chances.reshape(-1, chances.shape[-1]), 1, generator=generator)
    return found.reshape(chances.shape[:-1])
