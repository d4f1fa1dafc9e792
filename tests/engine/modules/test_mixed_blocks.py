"""The experts' changes of a block, mixed by the weights of a router."""

import pytest
import torch
from torch import nn

from ace_gui.engine.modules.layers import BlockRouter, ExpertChanges

H = 6
OUT = 4
T = 3


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("shape", [(1, H), (1, 7, H), (5, 7, H), (5, 2, 3, H)], ids=str)
def test_examples_of_a_batch_have_the_mean_of_their_weights(shape: tuple[int, ...], biased: bool):
    torch.manual_seed(0)
    sizes = {"hidden": (H, H), "hidden_bias": (H,), "out": (T, H), "out_bias": (T,)}
    tensors = {name: torch.randn(*size).double() for name, size in sizes.items()}
    router = BlockRouter({name: tensor.requires_grad_() for name, tensor in tensors.items()})
    parts = torch.randn(T, OUT, H).double()
    biases = torch.randn(T, OUT).double()
    shared = torch.rand(T).double()
    changes = ExpertChanges(router, parts, biases if biased else None, shared)
    layer = nn.Linear(H, OUT, bias=biased, dtype=torch.float64)
    inputs = torch.randn(*shape).double().requires_grad_()
    outputs = changes.outputs(layer, layer.weight, inputs)
    share_T = torch.stack([router(example[None])[0] for example in inputs]).mean(dim=0) - shared
    expected = layer(inputs)
    for t in range(T):
        expected = expected + share_T[t] * (inputs @ parts[t].T + biased * biases[t])
    torch.testing.assert_close(outputs, expected)
    variables = (inputs, router.hidden, router.out, router.out_bias)
    ours, theirs = (
        torch.autograd.grad(value.square().sum(), variables, retain_graph=True)
        for value in (outputs, expected)
    )
    torch.testing.assert_close(ours, theirs)
