"""Layers of loaded models with parts of the experts, routers of MLP blocks, corrections of heads.

SMILE gives every linear layer low-rank experts and a gate. WEMoE mixes the experts' MLP blocks by
the weights of a router, which gets the inputs of the block; its weights are averaged over the
tokens of an example. Representation Surgery corrects the inputs of a head.

N inputs of a layer or examples, L tokens, I inputs, O outputs, H features; T experts; K or R the
rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.contract.plan import MatrixPart
from ace_gui.engine.modules.stored import MODULES, TRAINED, block_of
from ace_gui.engine.modules.task_tensors import StoredModules
from ace_gui.engine.streaming import elements_of
from ace_gui.errors import ArchitectureError, CheckpointError, RecipeError
from ace_gui.formatting import plain
from ace_gui.methods import checked_parameters, get_method

NAME: Final = "ace_modules"
"""Attribute name of modules in the model, or in their layer."""

Seen = Callable[[Tensor], None]
"""Called with the weights of the experts, … × T. They belong to the model and are read-only."""


class ObservedRouter(Protocol):
    """A router in a model.

    ``location``: its layer; ``experts``: names of the experts, in the order of the weights.
    """

    location: str
    experts: tuple[str, ...]
    seen: Seen | None


def routers_of(model: Any) -> Iterator[ObservedRouter]:
    """Every router in a loaded model, in the model's order."""
    for module in model.modules():
        if hasattr(module, "seen") and hasattr(module, "location"):
            yield cast(ObservedRouter, module)


def linear_layer(
    model: Any, finder: DiskNames, tensor: str, shape: tuple[int, ...]
) -> tuple[Any, bool] | None:
    """The layer with a matrix of this shape, and whether it stores it as inputs × outputs.

    None if the model's class lacks the tensor. Raises ArchitectureError for another kind of layer.
    """
    from transformers.pytorch_utils import Conv1D

    destination = finder.find(tensor)
    if destination is None:
        return None
    owner, _, last = destination.name.rpartition(".")
    layer: Any = model.get_submodule(owner)
    linear = isinstance(layer, nn.Linear | Conv1D) and last == "weight"
    if destination.converted or not linear or layer.weight.shape != shape:
        raise ArchitectureError(
            f"`{plain(tensor)}` is not the matrix of a linear layer in {type(model).__name__}, so "
            "experts cannot be added to it."
        )
    return layer, isinstance(layer, Conv1D)


def mean_over_tokens(hidden_NLH: Tensor, mask_NL: Tensor | None) -> Tensor:
    """The mean over the tokens of each example (N × H), over unmasked ones if the mask fits."""
    if mask_NL is None or mask_NL.shape != hidden_NLH.shape[:2]:
        return hidden_NLH.mean(dim=1)
    share = mask_NL.to(hidden_NLH.dtype)[..., None]
    mean_NH: Tensor = (hidden_NLH * share).sum(dim=1) / share.sum(dim=1).clamp(min=1)
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
    head.add_module(NAME, correction)
    head.register_forward_pre_hook(lambda _head, args: (correction(args[0]), *args[1:]))
    return correction


ROUTER: Final = ("hidden", "hidden_bias", "out", "out_bias")
SHARED: Final = "shared"
"""Name of the trained tensor with each expert's fraction in the merged model."""


class BlockRouter(nn.Module):
    """Mean over the tokens of A₂ ReLU(A₁ x + b₁) + b₂: the weight of each expert (N × T).

    The first layer called in a block computes the weights; the other layers reuse them. While
    ``held``, it computes them only once, so that a text keeps those of its prompt.
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
        self.location = location
        self.experts = tuple(experts)
        self.first: Any = None
        self.share_NT: Tensor | None = None
        self.held = False
        self.mask: Tensor | None = None
        self.seen: Seen | None = None

    def forward(self, input_NLH: Tensor) -> Tensor:
        """The weights for each example."""
        hidden = torch.relu(input_NLH @ self.hidden.T + self.hidden_bias)
        output = hidden @ self.out.T + self.out_bias
        if output.ndim == 2:
            return output
        return mean_over_tokens(output.flatten(1, -2), self.mask)

    def shared_weights(self, layer: Any, inputs: Tensor) -> Tensor:
        """The weights, computed when the block's first layer asks, once a call of the model."""
        is_new_call = layer is self.first and not self.held
        if self.share_NT is not None and not is_new_call:
            return self.share_NT
        share_NT: Tensor = self(inputs)
        self.first = layer
        self.share_NT = share_NT
        if self.seen is not None:
            self.seen(share_NT)
        return share_NT

    def forget(self, *, held: bool) -> None:
        """Forget the weights; those that are computed next are ``held``, or not."""
        self.first = None
        self.share_NT = None
        self.held = held


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

    def outputs(self, layer: Any, weight_OI: Tensor, inputs: Tensor) -> Tensor:
        """The layer's outputs; ``weight_OI``: its own weight.

        A model in use gets one example at a time. In training, a batch has examples of one task,
        which share the mean of their weights, as in the published code.
        """
        share_T = self.router[0].shared_weights(layer, inputs).mean(dim=0) - self.shared
        share_T = share_T.to(inputs.dtype)
        bias_O = layer.bias
        if self.biases is not None:
            change_O = share_T @ self.biases
            if bias_O is None:
                bias_O = change_O
            else:
                bias_O = bias_O + change_O
        mixed_OI = weight_OI + torch.tensordot(share_T, self.changes, dims=1)
        return functional.linear(inputs, mixed_OI, bias_O)


def _forward(layer: Any, transposed: bool, inputs: Tensor) -> Tensor:
    weight_OI = layer.weight
    if transposed:
        weight_OI = weight_OI.T
    outputs: Tensor = layer.get_submodule(NAME).outputs(layer, weight_OI, inputs)
    return outputs


@dataclass(frozen=True, kw_only=True)
class LinearChange:
    """The experts' changes of one linear layer."""

    tensor: str
    changes: Tensor
    """T × O × I, or T × I × O if the layer stores its matrix so."""
    biases: Tensor | None
    """T × O; None if the biases do not change."""


def put_layers(
    model: Any, layers: Sequence[LinearChange], routers: Mapping[str, BlockRouter], shared: Tensor
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
        layer, transposed = target
        changes_TOI = change.changes
        if transposed:
            changes_TOI = changes_TOI.mT
        added = ExpertChanges(routers[block], changes_TOI.contiguous(), change.biases, shared)
        layer.add_module(NAME, added.to(layer.weight.device, layer.weight.dtype))
        layer.forward = partial(_forward, layer, transposed)
        attached[block] = routers[block]
    return attached


def put_blocks(model: Any, modules: StoredModules) -> dict[str, BlockRouter]:
    """Attach the experts' MLP blocks to a loaded model; returns the routers by block.

    Examples must come one at a time (``one_by_one``). Raises CheckpointError for modules that do
    not fit, and the errors of ``put_layers``.
    """
    shared = modules.read(TRAINED + SHARED)
    layers = list[LinearChange]()
    names = modules.manifest.experts
    for part in modules.layout.parts.values():
        if len(part.tensor_shape) != 2:
            continue
        tensor = part.tensor
        if tensor not in modules.layout.parts:
            sentence = f"{MODULES} has parts of blocks; merge again."
            raise refusal(modules.folder, sentence, tensor=tensor)
        changes = torch.stack([modules.read_whole(name, tensor) for name in names])
        bias = f"{tensor.removesuffix('.weight')}.bias"
        biases = None
        if bias in modules.layout.parts:
            biases = torch.stack([modules.read_whole(name, bias) for name in names])
        layers.append(LinearChange(tensor=tensor, changes=changes, biases=biases))
    blocks = dict.fromkeys(block_of(layer.tensor) or "" for layer in layers)
    routers = {block: _router(modules, block, len(shared)) for block in blocks}
    attached = put_layers(model, layers, routers, shared)
    if not attached or len(shared) != len(modules.manifest.experts):
        raise ArchitectureError(f"{type(model).__name__} has none of the blocks of the modules.")
    first = next(model.parameters())
    model.add_module(NAME, nn.ModuleList(attached.values()).to(first.device, first.dtype))
    _inform_routers(model, list(attached.values()))
    return attached


def _router(modules: StoredModules, block: str, experts: int) -> BlockRouter:
    tensors = {name: modules.read(f"{TRAINED}{block}/{name}") for name in ROUTER}
    wide = len(tensors["hidden_bias"])
    shapes = [tuple(tensors[name].shape) for name in ROUTER]
    if shapes != [(wide, wide), (wide,), (experts, wide), (experts,)]:
        raise refusal(modules.folder, f"{MODULES} has a router of another model; merge again.")
    return BlockRouter(tensors, location=block, experts=modules.manifest.experts)


def _inform_routers(model: Any, routers: Sequence[BlockRouter]) -> None:
    """Pass the attention mask of each call to the routers, and keep the weights of a prompt."""
    forward = model.forward

    @wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        mask = kwargs.get("attention_mask")
        if not isinstance(mask, Tensor) or mask.ndim != 2:
            mask = None
        for router in routers:
            router.mask = mask
        return forward(*args, **kwargs)

    model.forward = wrapped
    if not hasattr(model, "generate"):
        return
    generate = model.generate

    @wraps(generate)
    def held(*args: Any, **kwargs: Any) -> Any:
        for router in routers:
            router.forget(held=True)
        try:
            return generate(*args, **kwargs)
        finally:
            for router in routers:
                router.forget(held=False)

    model.generate = held


class SmileExperts(nn.Module):
    """Σ_t λ_t(x) (U_t S_t V_tᵀ x + b_t) of one matrix, for each input x.

    λ: softmax over t of ‖V_t[:, :k_g]ᵀ x‖, of which the ``top`` largest stay and are normalised to
    1 (SMILE, Eqs. 6 to 8). The tensors move with the model to its device, but are not saved with
    it.
    """

    outs: Tensor
    ins: Tensor
    biases: Tensor | None
    outputs: Tensor | None

    def __init__(
        self,
        outs: Sequence[Tensor],
        ins: Sequence[Tensor],
        biases: Sequence[Tensor],
        *,
        gate_rank: int,
        top: int,
        outputs: Tensor | None,
        location: str = "",
        experts: Sequence[str] = (),
    ) -> None:
        """``outs``: U_t S_t (O × K); ``ins``: V_tᵀ (K × I); ``biases``: O, or an empty list.

        ``gate_rank``: at most half of the inputs, as with all of them every input has the same norm
        for all experts. ``outputs``: the layer's outputs that belong to the matrix; None: all.
        ``location``, ``experts``: names for observers.
        """
        super().__init__()
        for name, parts in (("outs", outs), ("ins", ins), ("biases", biases)):
            stacked = torch.stack([*parts]) if parts else None
            self.register_buffer(name, stacked, persistent=False)
        self.register_buffer("outputs", outputs, persistent=False)
        inputs = self.ins.shape[2]
        self.gate_rank = min(gate_rank, max(1, inputs // 2))
        self.top = top
        self.location = location
        self.experts = tuple(experts)
        self.seen: Seen | None = None

    def forward(self, input_NI: Tensor) -> tuple[Tensor, Tensor]:
        """The addition to the outputs (N × O), and λ (N × T)."""
        weight_NT = self.weights(input_NI)
        change_NO = input_NI.new_zeros(len(input_NI), self.outs.shape[1])
        for t in range(self.ins.shape[0]):
            (chosen,) = weight_NT[:, t].nonzero(as_tuple=True)
            output_NO = (input_NI[chosen] @ self.ins[t].T) @ self.outs[t].T
            if self.biases is not None:
                output_NO = output_NO + self.biases[t]
            change_NO[chosen] += weight_NT[chosen, t, None] * output_NO
        return change_NO, weight_NT

    def weights(self, input_NI: Tensor) -> Tensor:
        """λ, N × T: the output of the gate."""
        gate_TGI = self.ins[:, : self.gate_rank]
        norms_TN = torch.linalg.vector_norm(gate_TGI @ input_NI.T, dim=1)
        share_NT = torch.softmax(norms_TN.T, dim=1)
        largest = share_NT.topk(min(self.top, share_NT.shape[1]), dim=1)
        weight_NT = torch.zeros_like(share_NT).scatter_(1, largest.indices, largest.values)
        normalised_NT: Tensor = weight_NT / weight_NT.sum(dim=1, keepdim=True)
        return normalised_NT


def _added(layer: Any, args: tuple[Any, ...], output: Tensor) -> Tensor:
    """The hook of a linear layer: its own output plus that of its experts."""
    inputs = args[0]
    input_NI = inputs.reshape(-1, inputs.shape[-1])
    result = output.clone()
    flat = result.view(-1, output.shape[-1])
    for experts in layer.get_submodule(NAME).children():
        change_NO, weight_NT = experts(input_NI)
        if experts.outputs is None:
            flat += change_NO
        else:
            flat[:, experts.outputs] += change_NO
        if experts.seen is not None:
            experts.seen(weight_NT.view(*inputs.shape[:-1], -1))
    return result


def put_smile(model: Any, modules: StoredModules) -> dict[str, SmileExperts]:
    """Attach the experts to the linear layers of a loaded model; returns them by matrix name.

    Matrices that the model's class lacks are skipped. Raises CheckpointError for modules that do
    not fit, ArchitectureError for a layer that is not linear.
    """
    settings = _settings(modules)
    finder = DiskNames(model, dict(model.named_parameters(remove_duplicate=False)))
    attached: dict[str, SmileExperts] = {}
    for row, part in modules.layout.parts.items():
        if len(part.tensor_shape) == 1:
            continue
        target = linear_layer(model, finder, part.tensor, part.tensor_shape)
        if target is not None:
            layer, transposed = target
            attached[row] = _experts(modules, row, settings, transposed=transposed)
            if not hasattr(layer, NAME):
                layer.add_module(NAME, nn.Module())
                layer.register_forward_hook(_added)
            count = len(list(layer.get_submodule(NAME).children()))
            experts = attached[row].to(layer.weight.device, layer.weight.dtype)
            layer.get_submodule(NAME).add_module(str(count), experts)
    if not attached:
        raise ArchitectureError(f"{type(model).__name__} has none of the layers of the modules.")
    return attached


def _experts(modules: StoredModules, row: str, settings: Any, *, transposed: bool) -> SmileExperts:
    part = modules.layout.parts[row]
    owners = modules.layout.experts[row]
    outs = []
    ins = []
    for owner in owners:
        left = modules.read(f"{owner}/{row}/left")
        right = modules.read(f"{owner}/{row}/right")
        outs.append(right.T if transposed else left)
        ins.append(left.T if transposed else right)
    outputs = _outputs_of(part, transposed=transposed)
    name = f"{part.tensor.removesuffix('.weight')}.bias"
    biases = list[Tensor]()
    if name in modules.layout.parts:  # zero for experts without one
        biases = [modules.read_whole(owner, name) for owner in owners]
    if outputs is not None:
        biases = [bias[outputs] for bias in biases]
    return SmileExperts(
        outs,
        ins,
        biases,
        gate_rank=settings.gate_rank,
        top=settings.top,
        outputs=outputs,
        location=row.removesuffix(".weight"),
        experts=owners,
    )


def _outputs_of(part: MatrixPart, *, transposed: bool) -> Tensor | None:
    """Indices of the outputs that have elements in a part of a layer's matrix; None: all."""
    rows, columns = part.tensor_shape
    if transposed:
        outputs = torch.arange(columns)
        by_element = outputs.expand(rows, columns)
    else:
        outputs = torch.arange(rows)
        by_element = outputs[:, None].expand(rows, columns)
    present: Tensor = torch.unique(elements_of(by_element.reshape(-1), part))
    return None if len(present) == len(outputs) else present


def _settings(modules: StoredModules) -> Any:
    """The parameters of the method, checked like those of a recipe."""
    stored = modules.manifest
    try:
        parameters = checked_parameters(get_method(stored.method), stored.settings)
    except RecipeError as error:
        raise CheckpointError(error.sentence, path=modules.folder) from None
    if not (hasattr(parameters, "gate_rank") and hasattr(parameters, "top")):
        sentence = f"{plain(stored.method)} has no gate, so its modules cannot be used as stored."
        raise CheckpointError(sentence, path=modules.folder)
    return parameters
