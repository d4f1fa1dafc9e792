"""The experts' changes of a block, mixed for each example of a batch."""

import pytest
import torch
from torch import nn

from ace_gui.engine.modules import mlp_blocks
from ace_gui.engine.modules.mlp_blocks import BlockRouter, ExpertChanges

H, OUT, T = 6, 4, 3


def block(*, biased: bool) -> tuple[BlockRouter, ExpertChanges]:
    torch.manual_seed(0)
    shapes = {"hidden": (H, H), "hidden_bias": (H,), "out": (T, H), "out_bias": (T,)}
    tensors = {name: torch.randn(*shape).double() for name, shape in shapes.items()}
    router = BlockRouter({name: each.requires_grad_() for name, each in tensors.items()})
    biases = torch.randn(T, OUT).double() if biased else None
    return router, ExpertChanges(
        router, torch.randn(T, OUT, H).double(), biases, torch.rand(T).double()
    )


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("shape", [(5, H), (5, 7, H), (5, 2, 3, H)], ids=str)
def test_each_example_has_its_own_mixture_and_gradients(
    shape: tuple[int, ...], biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlp_blocks, "MIXED", 3 * H * OUT)  # three examples at a time, then two
    router, changes = block(biased=biased)
    given = torch.randn(*shape).double().requires_grad_()
    layer = nn.Linear(H, OUT, bias=biased, dtype=torch.float64)
    found = changes.outputs(layer, layer.weight, given)
    share_NT = router(given) - changes.shared
    each = torch.einsum("...i,toi->t...o", given, changes.changes)
    if changes.biases is not None:
        each = each + changes.biases.view(T, *[1] * (len(shape) - 1), OUT)
    spread = share_NT.T.reshape(T, len(given), *[1] * (len(shape) - 1))
    expected = layer(given) + (spread * each).sum(dim=0)
    torch.testing.assert_close(found, expected)
    wanted = (given, router.hidden, router.out, router.out_bias, *layer.parameters())
    ours, theirs = (
        torch.autograd.grad(value.square().sum(), wanted, retain_graph=True)
        for value in (found, expected)
    )
    torch.testing.assert_close(ours, theirs)
