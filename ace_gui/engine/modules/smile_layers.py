"""SMILE in a loaded model: every linear layer with its low-rank experts and its gate.

N inputs of a layer, I wide; O outputs; T experts; K the rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.engine.modules.layers import NAME, Seen, linear_layer
from ace_gui.engine.modules.task_tensors import StoredModules
from ace_gui.engine.streaming import elements_of
from ace_gui.errors import ArchitectureError, CheckpointError, RecipeError
from ace_gui.formatting import plain
from ace_gui.methods import checked_parameters, get_method


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
        for name, found in (("outs", outs), ("ins", ins), ("biases", biases)):
            stacked = torch.stack([*found]) if found else None
            self.register_buffer(name, stacked, persistent=False)
        self.register_buffer("outputs", outputs, persistent=False)
        inputs = self.ins.shape[2]
        self.gate_rank, self.top = min(gate_rank, max(1, inputs // 2)), top
        self.location, self.experts = location, tuple(experts)
        self.seen: Seen | None = None

    def forward(self, input_NI: Tensor) -> tuple[Tensor, Tensor]:
        """The addition to the outputs (N × O), and λ (N × T)."""
        weight_NT = self.weights(input_NI)
        change_NO = input_NI.new_zeros(len(input_NI), self.outs.shape[1])
        for t in range(self.ins.shape[0]):
            (chosen,) = weight_NT[:, t].nonzero(as_tuple=True)
            own_NO = (input_NI[chosen] @ self.ins[t].T) @ self.outs[t].T
            if self.biases is not None:
                own_NO = own_NO + self.biases[t]
            change_NO[chosen] += weight_NT[chosen, t, None] * own_NO
        return change_NO, weight_NT

    def weights(self, input_NI: Tensor) -> Tensor:
        """λ, N × T: the output of the gate."""
        gate_TGI = self.ins[:, : self.gate_rank]
        norms_TN = torch.linalg.vector_norm(gate_TGI @ input_NI.T, dim=1)
        share_NT = torch.softmax(norms_TN.T, dim=1)
        kept = share_NT.topk(min(self.top, share_NT.shape[1]), dim=1)
        weight_NT = torch.zeros_like(share_NT).scatter_(1, kept.indices, kept.values)
        found: Tensor = weight_NT / weight_NT.sum(dim=1, keepdim=True)
        return found


def _added(layer: Any, args: tuple[Any, ...], output: Tensor) -> Tensor:
    """The hook of a linear layer: its own output plus that of its experts."""
    given = args[0]
    input_NI, result = given.reshape(-1, given.shape[-1]), output.clone()
    flat = result.view(-1, output.shape[-1])
    for experts in layer.get_submodule(NAME).children():
        change_NO, weight_NT = experts(input_NI)
        if experts.outputs is None:
            flat += change_NO
        else:
            flat[:, experts.outputs] += change_NO
        if experts.seen is not None:
            experts.seen(weight_NT.view(*given.shape[:-1], -1))
    return result


def put_smile(model: Any, modules: StoredModules) -> dict[str, SmileExperts]:
    """Attach the experts to the linear layers of a loaded model; returns them by matrix name.

    Matrices that the model's class lacks are skipped. Raises CheckpointError for modules that do
    not fit, ArchitectureError for a layer that is not linear.
    """
    settings = _settings(modules)
    finder = DiskNames(model, dict(model.named_parameters(remove_duplicate=False)))
    found: dict[str, SmileExperts] = {}
    for row, part in modules.layout.parts.items():
        if len(part.tensor_shape) == 1:
            continue
        target = linear_layer(model, finder, part.tensor, part.tensor_shape)
        if target is not None:
            layer, transposed = target
            found[row] = _experts(modules, row, settings, transposed=transposed)
            if not hasattr(layer, NAME):
                layer.add_module(NAME, nn.Module())
                layer.register_forward_hook(_added)
            at = len(list(layer.get_submodule(NAME).children()))
            experts = found[row].to(layer.weight.device, layer.weight.dtype)
            layer.get_submodule(NAME).add_module(str(at), experts)
    if not found:
        raise ArchitectureError(f"{type(model).__name__} has none of the layers of the modules.")
    return found


def _experts(modules: StoredModules, row: str, settings: Any, *, transposed: bool) -> SmileExperts:
    part, owners = modules.layout.parts[row], modules.layout.experts[row]
    pairs = [
        [modules.read(f"{name}/{row}/{what}") for what in ("left", "right")] for name in owners
    ]
    outs, ins = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if transposed:
        outs, ins = [right.T for _, right in pairs], [left.T for left, _ in pairs]
    # The outputs of the layer that belong to the part of a matrix.
    axis, (rows, columns) = int(transposed), part.tensor_shape
    numbers = torch.arange(part.tensor_shape[axis])
    numbers = (numbers if transposed else numbers[:, None]).expand(rows, columns)
    outputs: Tensor | None = torch.unique(elements_of(numbers.reshape(-1), part))
    if outputs is not None and len(outputs) == part.tensor_shape[axis]:
        outputs = None
    name, biases = f"{part.tensor.removesuffix('.weight')}.bias", list[Tensor]()
    if name in modules.layout.parts:  # zero for experts without one
        biases = [modules.whole(owner, name) for owner in owners]
    return SmileExperts(
        outs,
        ins,
        biases if outputs is None else [whole[outputs] for whole in biases],
        gate_rank=settings.gate_rank,
        top=settings.top,
        outputs=outputs,
        location=row.removesuffix(".weight"),
        experts=owners,
    )


def _settings(modules: StoredModules) -> Any:
    """The parameters of the method, checked like those of a recipe."""
    stored = modules.manifest
    try:
        found = checked_parameters(get_method(stored.method), stored.settings)
    except RecipeError as error:
        raise CheckpointError(error.sentence, path=modules.folder) from None
    if not (hasattr(found, "gate_rank") and hasattr(found, "top")):
        sentence = f"{plain(stored.method)} has no gate, so its modules cannot be used as stored."
        raise CheckpointError(sentence, path=modules.folder)
    return found
