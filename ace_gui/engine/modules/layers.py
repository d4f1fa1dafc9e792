"""Layers of loaded models with routers of MLP blocks, and corrections of heads.

WEMoE mixes the experts' MLP blocks by the shares that a router gives them. The router gets the
inputs of the block, and its shares are averaged over the tokens of an example. Representation
Surgery corrects the inputs of a head.

N examples, L tokens, I inputs, O outputs, H features; T experts; R the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final, NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.modules.stored import (
    BLOCK_ROUTER,
    MODULES,
    TRAINED,
    block_of,
)
from ace_gui.engine.modules.task_tensors import StoredModules
from ace_gui.errors import ArchitectureError
from ace_gui.formatting import plain

SUBMODULE: Final = "ace_modules"
"""Name of the submodule that is attached to a model, or to a layer of it."""

Observer = Callable[[Tensor], None]
"""Called with the shares of the experts, … × T. They belong to the model and are read-only."""


class ObservedRouter(Protocol):
    """A router in a model."""

    location: str
    """Its layer."""
    experts: tuple[str, ...]
    """Names of the experts, in the order of the shares."""
    observer: Observer | None
    """Is called with the shares; None: nobody observes them."""


def routers_of(model: Any) -> Iterator[ObservedRouter]:
    """Every router in a loaded model, in the model's order."""
    for module in model.modules():
        if hasattr(module, "observer") and hasattr(module, "location"):
            yield cast(ObservedRouter, module)


class LinearLayer(NamedTuple):
    """A linear layer of a loaded model."""

    layer: Any
    """The module."""
    transposed: bool
    """Whether it stores its matrix as inputs × outputs."""


def linear_layer(
    model: Any, finder: DiskNames, tensor: str, shape: tuple[int, ...]
) -> LinearLayer | None:
    """The layer with a matrix of this name and shape.

    None if the model's class lacks the tensor. Raises ArchitectureError for another kind of layer.
    """
    from transformers.pytorch_utils import Conv1D

    destination = finder.find(tensor)
    if destination is None:
        return None
    path, _, parameter = destination.name.rpartition(".")
    layer: Any = model.get_submodule(path)
    is_linear = isinstance(layer, nn.Linear | Conv1D) and parameter == "weight"
    # ``converted``: transformers changes the tensor while it loads it.
    is_as_stored = is_linear and not destination.converted and layer.weight.shape == shape
    if not is_as_stored:
        raise ArchitectureError(
            f"`{plain(tensor)}` is not the matrix of a linear layer in {type(model).__name__}, so "
            "experts cannot be added to it."
        )
    return LinearLayer(layer=layer, transposed=isinstance(layer, Conv1D))


def mean_over_tokens(hidden_NLH: Tensor, mask_NL: Tensor | None) -> Tensor:
    """The mean over the tokens of each example (N × H), over unmasked ones if the mask fits."""
    if mask_NL is None or mask_NL.shape != hidden_NLH.shape[:2]:
        return hidden_NLH.mean(dim=1)
    mask_NL1 = mask_NL.to(hidden_NLH.dtype)[..., None]
    mean_NH: Tensor = (hidden_NLH * mask_NL1).sum(dim=1) / mask_NL1.sum(dim=1).clamp(min=1)
    return mean_NH


class Correction(nn.Module):
    """h − Up ReLU(Down h) for each feature vector h (Representation Surgery, Eq. 4)."""

    down: Tensor
    up: Tensor

    def __init__(self, down_RH: Tensor, up_HR: Tensor) -> None:
        super().__init__()
        self.register_buffer("down", down_RH, persistent=False)
        self.register_buffer("up", up_HR, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """The same shape, … × H."""
        return hidden - torch.relu(hidden @ self.down.T) @ self.up.T


def head_of(model: Any) -> Any:
    """The first module outside the model's body that has weights; the features are its input.

    Raises ArchitectureError if there is none.
    """
    body = model.base_model
    if body is not model:
        for child in model.children():
            if child is not body and list(child.parameters()):
                return child
    raise ArchitectureError(
        f"{type(model).__name__} has no head on a body, whose features could be corrected; choose "
        "another method."
    )


def put_correction(model: Any, modules: StoredModules, expert: str) -> Correction:
    """Attach the correction of one task to the input of the model's head.

    Raises CheckpointError if it does not fit, ArchitectureError for a model without a head.
    """
    down = modules.read(f"{TRAINED}{expert}/down")
    up = modules.read(f"{TRAINED}{expert}/up")
    width = getattr(model.config.get_text_config(), "hidden_size", None)
    if down.ndim != 2 or up.shape != down.T.shape or down.shape[1] != width:
        raise refusal(modules.folder, f"{MODULES} has a correction of another model; merge again.")
    head = head_of(model)
    first = next(model.parameters())
    correction = Correction(down, up).to(first.device, first.dtype)
    head.add_module(SUBMODULE, correction)

    def correct(_head: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        features, *further = arguments
        return correction(features), *further

    head.register_forward_pre_hook(correct)
    return correction


class BlockRouter(nn.Module):
    """Mean over the tokens of A₂ ReLU(A₁ x + b₁) + b₂: the share of each expert (N × T).

    ``hidden`` is A₁, ``hidden_bias`` b₁, ``out`` A₂, ``out_bias`` b₂. The first layer called in a
    block computes the shares; the other layers reuse them. While ``keeps_prompt``, they are
    computed only once, so that a text keeps those of its prompt.
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
        for name in BLOCK_ROUTER:
            self.register_buffer(name, tensors[name], persistent=False)
        self.location = location
        self.experts = tuple(experts)
        self.first_layer: Any = None
        """The layer that asked for ``share_NT`` first; None if there are no shares."""
        self.share_NT: Tensor | None = None
        self.keeps_prompt = False
        self.mask: Tensor | None = None
        self.observer: Observer | None = None

    def forward(self, input_NLH: Tensor) -> Tensor:
        """The shares for each example.

        Between N and H there may be several dimensions of tokens, or none (N × H).
        """
        hidden = torch.relu(input_NLH @ self.hidden.T + self.hidden_bias)
        output = hidden @ self.out.T + self.out_bias
        if output.ndim == 2:  # one vector for each example
            return output
        output_NLT = output.flatten(1, -2)
        return mean_over_tokens(output_NLT, self.mask)

    def shares_for(self, layer: Any, inputs: Tensor) -> Tensor:
        """The shares, computed when the block's first layer asks, once a call of the model."""
        # In each call of the model, the same layer asks first. If it asks again, the call is new.
        is_new_call = layer is self.first_layer and not self.keeps_prompt
        if self.share_NT is not None and not is_new_call:
            return self.share_NT
        share_NT: Tensor = self(inputs)
        self.first_layer = layer
        self.share_NT = share_NT
        if self.observer is not None:
            self.observer(share_NT)
        return share_NT

    def forget(self, *, keeps_prompt: bool) -> None:
        """Forget the shares. ``keeps_prompt``: for those that are computed next."""
        self.first_layer = None
        self.share_NT = None
        self.keeps_prompt = keeps_prompt


class ExpertChanges(nn.Module):
    """The experts' changes of a layer of an MLP block.

    Adds Σ_t (share_t − merged_share_t) D_t to the layer's W, and the same sum of d_t to its b.
    """

    changes: Tensor
    bias_changes: Tensor | None
    merged_shares: Tensor

    def __init__(
        self,
        router: BlockRouter,
        changes: Tensor,
        bias_changes: Tensor | None,
        merged_shares: Tensor,
    ) -> None:
        """Store the changes.

        ``changes``: D_t (T × O × I); ``bias_changes``: d_t (T × O); ``merged_shares``: of the
        experts in the layer's own weights (T).
        """
        super().__init__()
        self.register_buffer("changes", changes, persistent=False)
        self.register_buffer("bias_changes", bias_changes, persistent=False)
        self.register_buffer("merged_shares", merged_shares, persistent=False)
        self.router = (router,)  # in a tuple, so that it is not a submodule

    def outputs(self, layer: Any, weight_OI: Tensor, inputs: Tensor) -> Tensor:
        """The layer's outputs; ``weight_OI``: its own weight.

        A model in use gets one example at a time. In training, a batch has examples of one task,
        which all get the mean of their shares, as in the published code.
        """
        share_T = self.router[0].shares_for(layer, inputs).mean(dim=0)
        added_share_T = (share_T - self.merged_shares).to(inputs.dtype)
        bias_O = layer.bias
        if self.bias_changes is not None:
            change_O = added_share_T @ self.bias_changes
            if bias_O is None:
                bias_O = change_O
            else:
                bias_O = bias_O + change_O
        mixed_OI = weight_OI + torch.tensordot(added_share_T, self.changes, dims=1)
        return functional.linear(inputs, mixed_OI, bias_O)


def _forward_with_changes(layer: Any, transposed: bool, inputs: Tensor) -> Tensor:
    """In place of the layer's own ``forward``."""
    weight_OI = layer.weight
    if transposed:
        weight_OI = weight_OI.T
    changes = cast(ExpertChanges, layer.get_submodule(SUBMODULE))
    return changes.outputs(layer, weight_OI, inputs)


@dataclass(frozen=True, kw_only=True)
class LinearChange:
    """The experts' changes of one linear layer."""

    tensor: str
    """Name of the layer's matrix in files."""
    changes: Tensor
    """T × O × I, or T × I × O if the layer stores its matrix so."""
    bias_changes: Tensor | None
    """T × O; None if the biases do not change."""


def put_layers(
    model: Any,
    layers: Sequence[LinearChange],
    routers: Mapping[str, BlockRouter],
    merged_shares: Tensor,
) -> dict[str, BlockRouter]:
    """Attach the experts' changes to a model's layers; returns the routers by block.

    Skips layers that the model's class lacks. Raises ArchitectureError for one that is not linear.
    """
    finder = DiskNames(model, dict(model.named_parameters(remove_duplicate=False)))
    attached = {}
    for change in layers:
        block = block_of(change.tensor)
        if block is None:
            continue
        target = linear_layer(model, finder, change.tensor, change.changes.shape[1:])
        if target is None:
            continue
        layer = target.layer
        changes_TOI = change.changes
        if target.transposed:
            changes_TOI = changes_TOI.mT
        changes_TOI = changes_TOI.contiguous()
        added = ExpertChanges(routers[block], changes_TOI, change.bias_changes, merged_shares)
        layer.add_module(SUBMODULE, added.to(layer.weight.device, layer.weight.dtype))
        layer.forward = partial(_forward_with_changes, layer, target.transposed)
        attached[block] = routers[block]
    return attached


def put_blocks(model: Any, modules: StoredModules) -> dict[str, BlockRouter]:
    """Attach the experts' MLP blocks to a loaded model; returns the routers by block.

    Examples must come one at a time (``one_by_one``). Raises CheckpointError for modules that do
    not fit, and the errors of ``put_layers``.
    """
    merged_shares = modules.merged_shares()
    layers = list[LinearChange]()
    names = modules.manifest.experts
    for part in modules.layout.parts.values():
        if len(part.tensor_shape) != 2:
            continue
        tensor = part.tensor
        # A row that is a whole tensor has the tensor's name; other rows have names of their own.
        if tensor not in modules.layout.parts:
            sentence = f"{MODULES} has parts of blocks; merge again."
            raise refusal(modules.folder, sentence, tensor=tensor)
        changes = torch.stack([modules.read_whole(name, tensor) for name in names])
        bias = bias_of(tensor)
        bias_changes = None
        if bias in modules.layout.parts:
            bias_changes = torch.stack([modules.read_whole(name, bias) for name in names])
        layers.append(LinearChange(tensor=tensor, changes=changes, bias_changes=bias_changes))
    routers: dict[str, BlockRouter] = {}
    for layer in layers:
        block = block_of(layer.tensor)
        if block is not None and block not in routers:
            routers[block] = _router(modules, block, len(merged_shares))
    attached = put_layers(model, layers, routers, merged_shares)
    if not attached:
        raise ArchitectureError(f"{type(model).__name__} has none of the blocks of the modules.")
    first = next(model.parameters())
    model.add_module(SUBMODULE, nn.ModuleList(attached.values()).to(first.device, first.dtype))
    _inform_routers(model, list(attached.values()))
    return attached


def bias_of(tensor: str) -> str:
    """The name of the bias of a layer, by that of its matrix."""
    return f"{tensor.removesuffix('.weight')}.bias"


def _router(modules: StoredModules, block: str, experts: int) -> BlockRouter:
    """The router of a block for this number of experts. Raises CheckpointError."""
    tensors = {name: modules.read(f"{TRAINED}{block}/{name}") for name in BLOCK_ROUTER}
    width = len(tensors["hidden_bias"])
    shapes = [tuple(tensors[name].shape) for name in BLOCK_ROUTER]
    if shapes != [(width, width), (width,), (experts, width), (experts,)]:
        raise refusal(modules.folder, f"{MODULES} has a router of another model; merge again.")
    return BlockRouter(tensors, location=block, experts=modules.manifest.experts)


def _inform_routers(model: Any, routers: Sequence[BlockRouter]) -> None:
    """Pass the attention mask of each call to the routers, and keep the shares of a prompt."""
    forward = model.forward

    @wraps(forward)
    def forward_with_mask(*args: Any, **kwargs: Any) -> Any:
        mask = kwargs.get("attention_mask")
        if not isinstance(mask, Tensor) or mask.ndim != 2:
            mask = None
        for router in routers:
            router.mask = mask
        return forward(*args, **kwargs)

    model.forward = forward_with_mask
    if not hasattr(model, "generate"):
        return
    generate = model.generate

    @wraps(generate)
    def generate_with_prompt_shares(*args: Any, **kwargs: Any) -> Any:
        for router in routers:
            router.forget(keeps_prompt=True)
        try:
            return generate(*args, **kwargs)
        finally:
            for router in routers:
                router.forget(keeps_prompt=False)

    model.generate = generate_with_prompt_shares
