"""Weights with a change of low rank behave as their sum, however they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from ace_gui.engine.adapting.changed_weights import LowRankChange, WeightRows, changed_weight
from tests.helpers.transformers_classes import CLASSIFIERS, WRITERS, model_with_inputs

ROWS = (5, 3, 4)
"""Of a weight of three matrices stored as one; the second is not changed."""
COLUMNS = 6


def changes() -> tuple[Tensor, list[WeightRows]]:
    """A weight of 12 rows, and changes of rank 2 to some of them, float64."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(sum(ROWS), COLUMNS, generator=generator, dtype=torch.float64)
    rows = []
    for count in ROWS:
        up = torch.randn(count, 2, generator=generator, dtype=torch.float64).requires_grad_()
        down = torch.randn(2, COLUMNS, generator=generator, dtype=torch.float64).requires_grad_()
        change = LowRankChange(up_OK=up, down_KI=down)
        if count == ROWS[1]:
            change = None
        rows.append(WeightRows(count=count, change=change))
    return weight, rows


def factors(rows: list[WeightRows]) -> list[Tensor]:
    return [f for r in rows if r.change for f in (r.change.up_OK, r.change.down_KI)]


def whole(weight: Tensor, rows: list[WeightRows]) -> Tensor:
    """W + U D by plain autograd."""
    blocks = []
    for part, each in zip(weight.split(list(ROWS)), rows, strict=True):
        if each.change is None:
            blocks.append(part)
        else:
            blocks.append(part + each.change.up_OK @ each.change.down_KI)
    return torch.cat(blocks)


def linear(weight: Tensor) -> Tensor:
    layer = nn.Linear(COLUMNS, sum(ROWS), dtype=torch.float64)
    nn.init.constant_(layer.bias, 0.5)
    layer._parameters["weight"] = weight
    return layer(torch.linspace(-1, 1, 4 * COLUMNS, dtype=torch.float64).reshape(2, 2, COLUMNS))


def conv1d(weight: Tensor) -> Tensor:
    layer = Conv1D(COLUMNS, sum(ROWS)).double()
    layer._parameters["weight"] = weight
    return layer(torch.linspace(-1, 1, 2 * sum(ROWS), dtype=torch.float64).reshape(1, 2, -1))


def by_keywords(weight: Tensor) -> Tensor:
    return functional.linear(input=torch.ones(2, COLUMNS, dtype=torch.float64), weight=weight)


def twice(weight: Tensor) -> Tensor:
    """Also as an argument that is not the weight."""
    return functional.linear(weight, weight)


USES: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": linear,
    "Conv1D": conv1d,
    "keywords": by_keywords,
    "its own inputs": twice,
    "transposed": lambda weight: weight.mT @ torch.ones(sum(ROWS), 2, dtype=torch.float64),
    "inside a list": lambda weight: torch.cat([weight, weight]).sin(),
    "rows of a table": lambda weight: functional.embedding(torch.tensor([0, 7, 11]), weight),
    "as an operator": lambda weight: 2 * weight[2:9] - 1,
}


@pytest.mark.parametrize("use", USES)
def test_every_use_sees_the_sum(use: str) -> None:
    weight, rows = changes()
    expected = USES[use](whole(weight, rows))
    expected_gradients = torch.autograd.grad(expected.square().sum(), factors(rows))
    result = USES[use](changed_weight(weight, rows))
    gradients = torch.autograd.grad(result.square().sum(), factors(rows))
    assert type(result) is Tensor
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    for gradient, of_sum in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, of_sum, rtol=1e-10, atol=1e-10)


def test_steps_are_those_of_the_sum() -> None:
    """The factors are changed in place by each step, also those of which a weight has a part."""
    trained = {}
    for name in ("beside", "sum"):
        weight, _ = changes()
        up = torch.zeros(5, 2, dtype=torch.float64, requires_grad=True)
        down = torch.linspace(-1, 1, 2 * COLUMNS, dtype=torch.float64).reshape(2, COLUMNS)
        down = down.clone().requires_grad_()
        change = LowRankChange(up_OK=up, down_KI=down)
        rows = [
            WeightRows(count=2, change=change, first=3),
            WeightRows(count=7, change=None),
            WeightRows(count=3, change=change),
        ]
        adam = torch.optim.Adam([up, down], lr=0.1)
        changed = changed_weight(weight, rows)
        for _ in range(5):
            adam.zero_grad()
            now: Tensor = changed
            if name == "sum":
                product = up @ down
                middle = torch.zeros(7, COLUMNS, dtype=torch.float64)
                now = weight + torch.cat([product[3:], middle, product[:3]])
            linear(now).square().sum().backward()
            adam.step()
        trained[name] = up.detach().clone(), down.detach().clone()
    for beside, of_sum in zip(trained["beside"], trained["sum"], strict=True):
        torch.testing.assert_close(beside, of_sum, rtol=1e-10, atol=1e-10)


def test_attention_that_reads_its_weights_itself() -> None:
    """torch's attention never calls its output layer, only reads the layer's weight."""
    attention: Any = nn.MultiheadAttention(8, 2, dtype=torch.float64).eval()
    up = torch.full((8, 1), 0.3, dtype=torch.float64).requires_grad_()
    down = torch.linspace(-1, 1, 8, dtype=torch.float64)[None].requires_grad_()
    weight = attention.out_proj.weight.detach().clone()
    x = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(3, 1, 8)
    row = WeightRows(count=8, change=LowRankChange(up_OK=up, down_KI=down))
    attention.out_proj._parameters["weight"] = changed_weight(weight, [row])
    result, _ = attention(x, x, x)
    attention.out_proj._parameters["weight"] = weight + up @ down
    expected, _ = attention(x, x, x)
    torch.testing.assert_close(result, expected)
    (gradient,) = torch.autograd.grad(result.sum(), up)
    assert gradient.abs().max() > 0


def test_it_has_the_memory_of_the_weight() -> None:
    weight, rows = changes()
    changed = changed_weight(weight, rows)
    weight.zero_()
    only_change = changed @ torch.eye(COLUMNS, dtype=torch.float64)
    torch.testing.assert_close(only_change, whole(torch.zeros_like(weight), rows))


def test_no_weight_is_made_for_a_linear_layer() -> None:
    """What autograd keeps is as small as the inputs: the gradient of W + U D is never needed."""
    size = 512
    up = torch.zeros(size, 1, requires_grad=True)
    down = torch.ones(1, size, requires_grad=True)
    row = WeightRows(count=size, change=LowRankChange(up_OK=up, down_KI=down))
    weight = changed_weight(torch.ones(size, size), [row])
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        functional.linear(torch.ones(2, size), weight).sum().backward()
    assert kept
    assert max(kept) <= 2 * size


LEAST_ANSWER = 1e-30
"""Of a tiny model whose answer is more than rounding."""


def matrices_of(model: nn.Module) -> list[tuple[nn.Module, str, Tensor]]:
    """Every matrix of a model: its module, its name there, and itself."""
    found = []
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.ndim == 2:
                found.append((module, name, parameter.detach()))
    return found


def require_equal_to_the_sum(name: str) -> None:
    """All matrices of a model get a change: its answers are those of a model with the sums."""
    torch.manual_seed(0)
    model, inputs = model_with_inputs(name)
    matrices = matrices_of(model)
    sums = {}
    for module, weight_name, weight in matrices:
        count, columns = weight.shape
        up = 0.1 * torch.randn(count, 2)
        change = LowRankChange(up_OK=up, down_KI=torch.randn(2, columns).div_(columns**0.5))
        sums[module, weight_name] = weight + change.product()
        row = WeightRows(count=count, change=change)
        module._parameters[weight_name] = changed_weight(weight, [row])  # type: ignore[assignment]
    with torch.no_grad():
        changed = model(**inputs)[0]
    for (module, weight_name), weight in sums.items():
        module._parameters[weight_name] = nn.Parameter(weight)
    with torch.no_grad():
        expected = model(**inputs)[0]
    for module, weight_name, weight in matrices:
        module._parameters[weight_name] = nn.Parameter(weight)
    with torch.no_grad():
        before = model(**inputs)[0]
    scale = float(expected.abs().max())
    if scale < LEAST_ANSWER:
        pytest.skip(f"{name} answers nothing with random weights")
    torch.testing.assert_close(changed, expected, rtol=0, atol=1e-4 * scale)
    assert (expected - before).abs().max() > 1e-3 * scale


@pytest.mark.parametrize("name", ["Bert", "GPT2", "Llama", "XLNet", "ModernBert"])
def test_whole_models_answer_as_with_the_sums(name: str) -> None:
    require_equal_to_the_sum(f"{name}ForSequenceClassification")


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({*CLASSIFIERS, *WRITERS}))
def test_every_model_answers_as_with_the_sums(name: str) -> None:
    require_equal_to_the_sum(name)
