"""What each method says it needs of memory is what it takes, counted tensor by tensor."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from ace_gui.methods import METHODS, MergeMethod, checked_parameters
from ace_gui.methods.method import MethodInput
from tests.helpers.live_memory import LiveMemory
from tests.helpers.method_cases import context

SHAPES = [(128, 512), (256, 256), (512, 128)]


class FreshDeltas(Sequence[torch.Tensor]):
    """Task vectors that are new tensors each time, as if read from a file."""

    def __init__(self, deltas: list[torch.Tensor]) -> None:
        self._deltas = deltas

    def __len__(self) -> int:
        return len(self._deltas)

    def __getitem__(self, t):
        return self._deltas[t].clone()


def peak(method: MergeMethod[Any], shape: tuple[int, int], experts: int, **options: object) -> int:
    torch.manual_seed(0)
    deltas = [torch.randn(shape) * (1 + 2 * t) for t in range(experts)]
    few = {"steps": 3} if "steps" in method.parameters.__dataclass_fields__ else {}
    parameters = checked_parameters(method, few | options)
    reported = context(method, deltas, parameters)
    if "measured" in reported:
        reported["measured"] = replace(
            reported["measured"], by_expert=FreshDeltas(reported["measured"].by_expert)
        )
    with LiveMemory() as memory:
        method.merge(FreshDeltas(deltas), [1.0] * experts, parameters, **reported)
    return memory.peak


@pytest.mark.parametrize("experts", [2, 5])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_the_declared_memory_is_what_is_taken(
    method: MergeMethod[Any], shape: tuple[int, int], experts: int
) -> None:
    if method.most is not None:
        experts = min(experts, method.most)
    assert method.working_memory is not None, "declare it, so that a merge can be planned"
    declared = 8 * method.working_memory(shape, experts) + 4 * shape[0] * shape[1]
    measured = peak(method, shape, experts)
    assert measured <= declared
    assert declared <= 4 * measured  # an estimate far too large would refuse what could be merged


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("tau", [0.0, 100.0])
@pytest.mark.parametrize("epsilon", [1e-5, 1.0])
@pytest.mark.parametrize("variant", ["published", "automatic"])
def test_ace_in_every_regime(
    shape: tuple[int, int], tau: float, epsilon: float, variant: str
) -> None:
    method = METHODS["ace"]
    assert method.working_memory is not None
    for experts in (2, 3, 8):
        declared = 8 * method.working_memory(shape, experts) + 4 * shape[0] * shape[1]
        options = {"tau": tau, "epsilon": epsilon, "variant": variant}
        assert peak(method, shape, experts, **options) <= declared


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("tau", [0.0, 100.0])
@pytest.mark.parametrize("epsilon", [1e-5, 1.0])
@pytest.mark.parametrize("variant", ["published", "automatic"])
def test_a_batch_takes_no_more_than_its_matrices_together(
    shape: tuple[int, int], tau: float, epsilon: float, variant: str
) -> None:
    method = METHODS["ace"]
    assert method.working_memory is not None
    assert method.merge_batch is not None
    parameters = checked_parameters(method, {"tau": tau, "epsilon": epsilon, "variant": variant})
    for experts in (2, 4):
        torch.manual_seed(0)
        deltas = [torch.randn(shape) * (1 + 2 * t) for t in range(experts)]
        declared = 8 * method.working_memory(shape, experts) + 4 * shape[0] * shape[1]
        with LiveMemory() as memory:
            layers = [
                MethodInput(FreshDeltas(deltas), [1.0] * experts, deltas[0]) for _ in range(3)
            ]
            method.merge_batch(layers, parameters)
        assert memory.peak <= 3 * declared
