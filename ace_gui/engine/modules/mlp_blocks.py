"""WEMoE in a loaded model: MLP blocks that mix the experts by the weights of a router.

Each block's router gets the inputs of the block; its weights are averaged over the tokens of an
example. N examples, L tokens, H features, T experts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.modules.layers import NAME, Seen, linear_layer, mean_over_tokens
from ace_gui.engine.modules.stored import MODULES, TRAINED, block_of
from ace_gui.engine.modules.task_tensors import StoredModules
from ace_gui.errors import ArchitectureError

ROUTER: Final = ("hidden", "hidden_bias", "out", "out_bias")
SHARED: Final = "shared"
"""Name of the trained tensor with the fraction of every expert that is in the merged model."""


class BlockRouter(nn.Module):
    """Mean over the tokens of A₂ ReLU(A₁ x + b₁) + b₂: the weight of each expert (N × T).

    The first layer called in a block computes the weights; the other layers reuse them.
    """

    hidden: Tensor
    hidden_bias: Tensor
    out: Tensor
    out_bias: Tensor

    def __init__(
        self, tensors: Mapping[str, Tensor], *, location: str = "", experts: Sequence[str] = ()
    ) -> None:
        """``tensors``: hidden (H × H), hidden_bias (H), out (T × H), out_bias (T)."""
        super().__init__()
        for name in ROUTER:
            self.register_buffer(name, tensors[name], persistent=False)
        self.location, self.experts = location, tuple(experts)
        self.first: Any = None
        self.share_NT: Tensor | None = None
        self.held = False
        self.mask: Tensor | None = None
        self.seen: Seen | None = None

    def forward(self, input_NLH: Tensor) -> Tensor:
        """The weights for each example."""
        hidden = torch.relu(input_NLH @ self.hidden.T + self.hidden_bias)
        each = hidden @ self.out.T + self.out_bias
        return each if each.ndim == 2 else mean_over_tokens(each.flatten(1, -2), self.mask)

    def asked(self, layer: Any, given: Tensor) -> Tensor:
        """The weights, which the first layer of the block has computed."""
        fresh = self.first is None or (layer is self.first and not self.held)
        if fresh or self.share_NT is None:
            self.first, self.share_NT = layer, self(given)
            if self.seen is not None:
                self.seen(self.share_NT)
        return self.share_NT


class ExpertChanges(nn.Module):
    """A layer of an MLP block with Σ_t (share_t − shared_t) (D_t, d_t) added to its W and b."""

    changes: Tensor
    biases: Tensor | None
    shared: Tensor

    def __init__(
        self, router: BlockRouter, changes: Tensor, biases: Tensor | None, shared: Tensor
    ) -> None:
        """Store the changes.

        ``changes``: T × O × I; ``biases``: T × O; ``shared``: T, the fractions in the layer's own
        weights.
        """
        super().__init__()
        self.register_buffer("changes", changes, persistent=False)
        self.register_buffer("biases", biases, persistent=False)
        self.register_buffer("shared", shared, persistent=False)
        self.router = (router,)  # in a tuple, so that it is not a submodule

    def outputs(self, layer: Any, weight_OI: Tensor, given: Tensor) -> Tensor:
        """The layer's outputs; ``weight_OI``: its own weight.

        A model in use gets one example at a time. In training, a batch has the examples of one
        task, and the mean of their weights, as in the published code.
        """
        share_T = self.router[0].asked(layer, given).mean(dim=0) - self.shared
        share_T = share_T.to(given.dtype)
        bias_O = layer.bias
        if self.biases is not None:
            own_O = share_T @ self.biases
            bias_O = own_O if bias_O is None else bias_O + own_O
        mixed_OI = weight_OI + torch.tensordot(share_T, self.changes, dims=1)
        return functional.linear(given, mixed_OI, bias_O)


def _forward(layer: Any, transposed: bool, given: Tensor) -> Tensor:
    weight_OI = layer.weight.T if transposed else layer.weight
    found: Tensor = layer.get_submodule(NAME).outputs(layer, weight_OI, given)
    return found


@dataclass(frozen=True, kw_only=True)
class LinearChange:
    """The experts' changes of one linear layer: T × O × I in the layer's orientation, and T × O."""

    tensor: str
    changes: Tensor
    biases: Tensor | None


def put_layers(
    model: Any, layers: Sequence[LinearChange], routers: Mapping[str, BlockRouter], shared: Tensor
) -> dict[str, BlockRouter]:
    """Attach the experts' changes to a model's layers; returns the routers by block.

    Layers that the model's class lacks are skipped. Raises ArchitectureError for a layer that is
    not linear.
    """
    finder = DiskNames(model, dict(model.named_parameters(remove_duplicate=False)))
    found = {}
    for each in layers:
        block = block_of(each.tensor)
        shape = each.changes.shape[1:]
        target = None if block is None else linear_layer(model, finder, each.tensor, shape)
        if target is None or block is None:
            continue
        layer, transposed = target
        changes = (each.changes.mT if transposed else each.changes).contiguous()
        changed = ExpertChanges(routers[block], changes, each.biases, shared)
        layer.add_module(NAME, changed.to(layer.weight.device, layer.weight.dtype))
        layer.forward = partial(_forward, layer, transposed)
        found[block] = routers[block]
    return found


def put_blocks(model: Any, modules: StoredModules) -> dict[str, BlockRouter]:
    """Attach the experts' MLP blocks to a loaded model; returns the routers by block.

    Examples must come one at a time (``one_by_one``). Raises CheckpointError for modules that do
    not fit, and the errors of ``put_layers``.
    """
    shared = modules.read(TRAINED + SHARED)
    layers, names = list[LinearChange](), modules.manifest.experts
    for tensor in (p.tensor for p in modules.layout.parts.values() if len(p.tensor_shape) == 2):
        if tensor not in modules.layout.parts:
            sentence = f"{MODULES} has parts of blocks; merge again."
            raise refusal(modules.folder, sentence, tensor=tensor)
        changes = torch.stack([modules.whole(name, tensor) for name in names])
        bias, biases = f"{tensor.removesuffix('.weight')}.bias", None
        if bias in modules.layout.parts:
            biases = torch.stack([modules.whole(name, bias) for name in names])
        layers.append(LinearChange(tensor=tensor, changes=changes, biases=biases))
    blocks = dict.fromkeys(block_of(layer.tensor) or "" for layer in layers)
    routers = {block: _router(modules, block, len(shared)) for block in blocks}
    found = put_layers(model, layers, routers, shared)
    if not found or len(shared) != len(modules.manifest.experts):
        raise ArchitectureError(f"{type(model).__name__} has none of the blocks of the modules.")
    first = next(model.parameters())
    model.add_module(NAME, nn.ModuleList(found.values()).to(first.device, first.dtype))
    _inform_routers(model, list(found.values()))
    return found


def _router(modules: StoredModules, block: str, experts: int) -> BlockRouter:
    found = {name: modules.read(f"{TRAINED}{block}/{name}") for name in ROUTER}
    wide = len(found["hidden_bias"])
    shapes = [tuple(found[name].shape) for name in ROUTER]
    if shapes != [(wide, wide), (wide,), (experts, wide), (experts,)]:
        raise refusal(modules.folder, f"{MODULES} has a router of another model; merge again.")
    return BlockRouter(found, location=block, experts=modules.manifest.experts)


def _inform_routers(model: Any, routers: Sequence[BlockRouter]) -> None:
    """Pass the attention mask of each call to the routers, and keep the weights of a prompt."""
    forward = model.forward

    @wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        mask = kwargs.get("attention_mask")
        for router in routers:
            router.mask = mask if isinstance(mask, Tensor) and mask.ndim == 2 else None
        return forward(*args, **kwargs)

    model.forward = wrapped
    if not hasattr(model, "generate"):
        return
    generate = model.generate

    @wraps(generate)
    def held(*args: Any, **kwargs: Any) -> Any:
        for router in routers:
            router.first, router.share_NT, router.held = None, None, True
        try:
            return generate(*args, **kwargs)
        finally:
            for router in routers:
                router.first, router.share_NT, router.held = None, None, False

    model.generate = held
