"""Squares of many examples' gradients in one pass, against a backward pass for each, in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers.pytorch_utils import Conv1D

from ace_gui.engine.calibrating import fisher_information
from ace_gui.engine.calibrating.fisher_information import SquaredGradients

SIZE = 6
WORDS = 9
LENGTH = 4
COUNT = 7


class Reader(nn.Module):
    """Words and places, a norm, linear layers of both kinds, a scale, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, SIZE, padding_idx=3)
        self.places = nn.Embedding(LENGTH, SIZE)
        self.first = nn.Parameter(torch.randn(1, 1, SIZE))
        self.norm = nn.LayerNorm(SIZE)
        self.up = nn.Linear(SIZE, 2 * SIZE)
        self.down = Conv1D(SIZE, 2 * SIZE)
        self.scale = nn.Parameter(torch.randn(SIZE))
        self.head = nn.Linear(SIZE, 3)

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.words(words) + self.places(torch.arange(LENGTH)[None])
        hidden = torch.cat([self.first.expand(len(hidden), -1, -1), hidden], dim=1)
        hidden = hidden + self.down(functional.gelu(self.up(self.norm(hidden))))
        return self.head(self.scale * hidden.tanh())[:, 0]


class Looker(nn.Module):
    """Patches, with a bias, and a place for each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(2, SIZE, 3, stride=2, padding=1)
        self.places = nn.Parameter(torch.randn(1, 4, SIZE))
        self.head = nn.Linear(SIZE, 3, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        picture = torch.sin(words[:, :2, None, None] + torch.arange(16).reshape(4, 4))
        hidden = self.patches(picture.double()).flatten(2).mT + self.places
        return self.head(hidden.tanh().square().mean(dim=1))


class Twice(Reader):
    """A matrix that is used two times."""

    def forward(self, words: Tensor) -> Tensor:
        return super().forward(words) @ self.head.weight[:, :3]


class Backwards(Reader):
    """Words before examples, as some models have them."""

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.up(self.words(words).transpose(0, 1)).transpose(0, 1)
        return hidden[..., :3].sin().prod(dim=1)


def made(kind: Callable[[], nn.Module]) -> tuple[Any, Tensor]:
    torch.manual_seed(0)
    return kind().double(), torch.randint(0, WORDS, (COUNT, LENGTH))


def squares_of(model: Any, words: Tensor) -> dict[str, Tensor]:
    def values(inputs: Any, _first: int) -> list[Tensor]:
        return list(model(inputs["words"]).unbind(dim=1))

    squares: dict[str, Tensor] = {}
    gradients = SquaredGradients(values, dict(model.named_parameters()))
    assert sum(gradients.add({"words": words}, 0, squares)) == COUNT
    return squares


def expected(model: Any, words: Tensor) -> dict[str, Tensor]:
    squares: dict[str, Tensor] = {}
    for n in range(len(words)):
        for value in range(3):
            model.zero_grad()
            model(words[n : n + 1])[0, value].backward()
            for name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    total = squares.setdefault(name, torch.zeros_like(parameter.data))
                    total += parameter.grad**2
    return squares


@pytest.fixture
def passes(monkeypatch) -> list[int]:
    """How many examples were in each pass that took more than one."""
    seen: list[int] = []
    original = SquaredGradients._at_once

    def at_once(self: Any, inputs: Any, first: int, sums: Any) -> bool:
        seen.append(len(inputs["words"]))
        return original(self, inputs, first, sums)

    monkeypatch.setattr(SquaredGradients, "_at_once", at_once)
    return seen


@pytest.mark.parametrize(
    ("kind", "counts"), [(Reader, [2, 2, 5]), (Looker, [2, 2, 5]), (Twice, [2]), (Backwards, [2])]
)
def test_the_squares_are_those_of_each_example(
    kind: Callable[[], nn.Module], counts: list[int], passes: list[int]
):
    """Models whose examples cannot be told apart go one by one after the first two."""
    model, words = made(kind)
    squares = squares_of(model, words)
    reference = expected(model, words)
    assert squares.keys() == reference.keys()
    for name, exact in reference.items():
        assert torch.linalg.vector_norm(squares[name] - exact) <= 1e-6 * torch.linalg.norm(exact), (
            name
        )
    assert passes == counts


def test_little_memory_means_one_by_one(monkeypatch, passes: list[int]):
    monkeypatch.setattr(fisher_information, "free_memory", lambda: 0)
    model, words = made(Reader)
    squares = squares_of(model, words)
    reference = expected(model, words)
    assert all(
        torch.allclose(squares[name].double(), exact, rtol=1e-5)
        for name, exact in reference.items()
    )
    assert passes == [2]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("rows", [(), (2,), (0, 3)])
def test_rows_without_gradient_cost_nothing(rows: tuple[int, ...], swapped: bool):
    """As in the last layer of a classifier that reads one token; examples may differ in the row."""
    torch.manual_seed(0)
    x = torch.randn(COUNT, LENGTH, SIZE)
    gradient = torch.zeros(COUNT, LENGTH, SIZE)
    for n in range(COUNT if rows else 0):
        gradient[n, rows[n % len(rows)], 1:] = torch.randn(SIZE - 1)
    pair = (x, gradient) if swapped else (gradient, x)
    with FlopCounterMode(display=False) as counter:
        squares = fisher_information._of_products(*pair)
    expected = torch.einsum("nmo,nmi->noi", *pair).square().sum(dim=0)
    torch.testing.assert_close(squares, expected)
    assert counter.get_total_flops() == 2 * COUNT * len(rows) * SIZE**2
