"""The gradients of coefficients against autograd that holds all experts, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call
from transformers.pytorch_utils import Conv1D

from ace_gui.engine.merging.merged_values import MergedValues
from ace_gui.methods import METHODS, checked_parameters
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared import learning as learning_module
from ace_gui.methods.shared.experts import Experts
from ace_gui.methods.shared.learned import all_part_inputs
from ace_gui.methods.shared.learning import PartInputs

LEARNING = [method for method in METHODS.values() if method.learning is not None]
every = pytest.mark.parametrize("method", LEARNING, ids=lambda method: method.name)


class TiedModel(nn.Module):
    """Tied embeddings, a Conv1D, a buffer that counts, a norm, a convolution."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.turned = Conv1D(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Linear(width, words, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("scale", torch.rand(width))

    def forward(self, token_NL: Tensor) -> Tensor:
        hidden_NLD = torch.tanh(self.turned(self.embed(token_NL))) * self.scale
        hidden_NDL = self.norm(self.conv(hidden_NLD.mT))
        return self.out(hidden_NDL.mean(dim=2))


@dataclass
class Held:
    """A row in memory."""

    name: str
    """Of the parameter in the model."""
    base: Tensor
    """The parameter before anything is merged."""
    deltas: list[Tensor]
    """The task vectors, one an expert."""
    made: list[PartInputs]
    """What each expert's part is made of, as the method makes it."""
    weights: list[float]
    """One an expert."""
    parameter: Tensor
    """The model's, which the merge is put into."""

    @property
    def experts(self) -> list[int]:
        return list(range(len(self.deltas)))

    def part_inputs(self, t: int) -> PartInputs:
        return self.made[t]

    def put(self, change: Tensor) -> None:
        self.parameter.data.copy_(self.base + change)

    def gradient(self) -> Tensor:
        assert self.parameter.grad is not None
        return self.parameter.grad


def loss_of(model: Any, tokens: Tensor, parameters: Mapping[str, Tensor] | None = None) -> Tensor:
    logits = model(tokens) if parameters is None else functional_call(model, parameters, (tokens,))
    log_p = logits.log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1).mean()


@every
@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1),
    experts=st.integers(2, 4),
    width=st.integers(2, 6),
    variant=st.integers(0, 3),
    together=st.sampled_from([1, 1 << 22]),
)
def test_the_gradient_of_one_model_and_of_all_are_the_same(
    method: MergeMethod[Any], seed: int, experts: int, width: int, variant: int, together: int
):
    torch.manual_seed(seed)
    learning = method.learning
    assert learning is not None
    choices = [f.choices for f in _fields(method) if f.name == "variant"]
    options = {"variant": choices[0][variant % len(choices[0])]} if choices else {}
    parameters = checked_parameters(method, options)
    model = TiedModel(7, width).double().eval()
    merged = merged_values(method, model, parameters, 1 if learning.per_expert else experts, seed)
    values = merged.all()
    for value in values.values():
        value.add_(0.1 * torch.randn_like(value))
    tokens = torch.randint(7, (5, 4))

    merged.write(3)
    model.zero_grad()
    loss_of(model, tokens).backward()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning_module, "ENTRIES_AT_A_TIME", together)
        merged.set_gradients(3)
    gradients = {name: value.grad for name, value in values.items()}

    leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
    expected = torch.autograd.grad(
        reference(merged, leaves, model, tokens), list(leaves.values()), allow_unused=True
    )
    for (name, leaf), gradient in zip(leaves.items(), expected, strict=True):
        exact = torch.zeros_like(leaf) if gradient is None else gradient
        error = torch.linalg.vector_norm(gradients[name] - exact)
        assert error <= 1e-6 * max(float(torch.linalg.vector_norm(exact)), 1e-12), name


def _fields(method: MergeMethod[Any]) -> Any:
    from ace_gui.methods import parameter_fields

    return parameter_fields(method)


def merged_values(
    method: MergeMethod[Any], model: nn.Module, parameters: Any, experts: int, seed: int
) -> MergedValues:
    learning = method.learning
    rows = list[Held]()
    by_tensor = {}
    shared = {} if learning.shared is None else learning.shared(parameters, experts)
    for name, parameter in model.named_parameters():
        deltas = [0.5 * torch.randn_like(parameter) for _ in range(experts)]
        findings = {"threshold": tuple(0.2 for _ in range(experts))}
        weights = [1.0 + 0.25 * t for t in range(experts)]
        made = list(all_part_inputs(learning, Experts(deltas, weights), parameters, findings))
        rows.append(Held(name, parameter.detach().clone(), deltas, made, weights, parameter))
        values = learning.start(deltas, parameters, findings)
        by_tensor[name] = {key: value.double() for key, value in values.items()}
    shared_values = {name: value.double() for name, value in shared.items()}
    return MergedValues(learning, parameters, rows, by_tensor, shared_values, seed=seed)


def reference(
    all_values: MergedValues, leaves: dict[str, Tensor], model: Any, tokens: Tensor
) -> Tensor:
    """The loss as a function of all values, through all experts at once."""
    merged: dict[str, Tensor] = {}
    total = torch.zeros((), dtype=torch.float64)
    for row in all_values.rows:
        assert isinstance(row, Held)
        values = {name: leaves[f"/{name}"] for name in all_values.shared}
        values |= {name: leaves[f"{row.name}/{name}"] for name in all_values.own[row.name]}
        gates = all_values.gates(row, 3)(values)
        scales = gates.get("coefficient", torch.ones(len(row.weights))) * torch.tensor(row.weights)
        parts = [
            all_values.learning.part(t, row.part_inputs(t), gates) for t in range(len(row.weights))
        ]
        change = gates.get("mask", 1) * sum(map(torch.mul, scales, parts))
        merged[row.name] = row.base + change
        if all_values.learning.penalty is not None:
            total = total + all_values.learning.penalty(
                gates, all_values.parameters, len(all_values.rows)
            )
    return total + loss_of(model, tokens, merged)
