"""Linear layers of loaded models with low-rank experts and a gate (SMILE).

N input vectors of a layer; its matrix has I inputs and O outputs; T experts; K the rank, of which
the gate uses the first G.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.engine.contract.plan import MatrixPart
from ace_gui.engine.modules.layers import SUBMODULE, Observer, bias_of, linear_layer
from ace_gui.engine.modules.task_tensors import StoredModules
from ace_gui.engine.streaming import elements_of
from ace_gui.errors import ArchitectureError, CheckpointError, RecipeError
from ace_gui.formatting import plain
from ace_gui.methods import checked_parameters, get_method


class SmileExperts(nn.Module):
    """Σ_t λ_t(x) (U_t S_t V_tᵀ x + b_t) of one matrix, for each input vector x.

    λ: softmax over t of ‖V_t[:, :G]ᵀ x‖, of which the ``top`` largest stay and are normalised to 1,
    with G = ``gate_rank`` (SMILE, Eqs. 6 to 8). ``left_TOK`` has the U_t S_t and ``right_TKI`` the
    V_tᵀ. The tensors move with the model to its device, but are not saved with it.
    """

    left_TOK: Tensor
    right_TKI: Tensor
    biases: Tensor | None
    output_indices: Tensor | None

    def __init__(
        self,
        left: Sequence[Tensor],
        right: Sequence[Tensor],
        biases: Sequence[Tensor],
        *,
        gate_rank: int,
        top: int,
        output_indices: Tensor | None,
        location: str = "",
        experts: Sequence[str] = (),
    ) -> None:
        """``left``: U_t S_t (O × K); ``right``: V_tᵀ (K × I); ``biases``: O, or an empty list.

        ``gate_rank``: at most half of the inputs, as with all of them every input has the same norm
        for all experts. ``output_indices``: of the layer's outputs that belong to the matrix; None:
        all. ``location``, ``experts``: names for observers.
        """
        super().__init__()
        stacked_biases = None
        if biases:
            stacked_biases = torch.stack([*biases])
        self.register_buffer("left_TOK", torch.stack([*left]), persistent=False)
        self.register_buffer("right_TKI", torch.stack([*right]), persistent=False)
        self.register_buffer("biases", stacked_biases, persistent=False)
        self.register_buffer("output_indices", output_indices, persistent=False)
        inputs = self.right_TKI.shape[2]
        self.gate_rank = min(gate_rank, max(1, inputs // 2))
        self.top = top
        self.location = location
        self.experts = tuple(experts)
        self.observer: Observer | None = None

    def forward(self, input_NI: Tensor) -> tuple[Tensor, Tensor]:
        """The addition to the outputs (N × O), and λ (N × T)."""
        weight_NT = self.weights(input_NI)
        change_NO = input_NI.new_zeros(len(input_NI), self.left_TOK.shape[1])
        for t in range(len(self.left_TOK)):
            rows = weight_NT[:, t].nonzero()[:, 0]  # the input vectors that this expert gets
            expert_output = (input_NI[rows] @ self.right_TKI[t].T) @ self.left_TOK[t].T
            if self.biases is not None:
                expert_output = expert_output + self.biases[t]
            change_NO[rows] += weight_NT[rows, t, None] * expert_output
        return change_NO, weight_NT

    def weights(self, input_NI: Tensor) -> Tensor:
        """λ, N × T: the output of the gate."""
        gate_TGI = self.right_TKI[:, : self.gate_rank]
        norms_TN = torch.linalg.vector_norm(gate_TGI @ input_NI.T, dim=1)
        share_NT = torch.softmax(norms_TN.T, dim=1)
        largest = share_NT.topk(min(self.top, share_NT.shape[1]), dim=1)
        weight_NT = torch.zeros_like(share_NT).scatter_(1, largest.indices, largest.values)
        normalised_NT: Tensor = weight_NT / weight_NT.sum(dim=1, keepdim=True)
        return normalised_NT


def _output_with_experts(layer: Any, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
    """The hook of a linear layer: its own output plus that of its experts."""
    inputs = arguments[0]
    input_NI = inputs.reshape(-1, inputs.shape[-1])
    result = output.clone()
    flat = result.view(-1, output.shape[-1])  # the same memory, one output vector per row
    for experts_of_matrix in layer.get_submodule(SUBMODULE).children():
        change_NO, weight_NT = experts_of_matrix(input_NI)
        if experts_of_matrix.output_indices is None:
            flat += change_NO
        else:
            flat[:, experts_of_matrix.output_indices] += change_NO
        if experts_of_matrix.observer is not None:
            experts_of_matrix.observer(weight_NT.view(*inputs.shape[:-1], -1))
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
        if len(part.tensor_shape) == 1:  # a bias is read with its matrix
            continue
        target = linear_layer(model, finder, part.tensor, part.tensor_shape)
        if target is not None:
            layer = target.layer
            attached[row] = _experts(modules, row, settings, transposed=target.transposed)
            if not hasattr(layer, SUBMODULE):
                layer.add_module(SUBMODULE, nn.Module())
                layer.register_forward_hook(_output_with_experts)
            container = layer.get_submodule(SUBMODULE)
            number = len(list(container.children()))  # a layer may have several matrices
            experts = attached[row].to(layer.weight.device, layer.weight.dtype)
            container.add_module(str(number), experts)
    if not attached:
        raise ArchitectureError(f"{type(model).__name__} has none of the layers of the modules.")
    return attached


def _experts(modules: StoredModules, row: str, settings: Any, *, transposed: bool) -> SmileExperts:
    """The experts of one matrix. ``transposed``: whether the layer stores inputs × outputs."""
    part = modules.layout.parts[row]
    owners = modules.layout.experts[row]
    lefts = [modules.read(f"{owner}/{row}/left") for owner in owners]
    rights = [modules.read(f"{owner}/{row}/right") for owner in owners]
    if transposed:  # (left · right)ᵀ is rightᵀ · leftᵀ
        output_factors = [right.T for right in rights]
        input_factors = [left.T for left in lefts]
    else:
        output_factors = lefts
        input_factors = rights
    output_indices = _output_indices_of(part, transposed=transposed)
    bias = bias_of(part.tensor)
    biases = list[Tensor]()
    if bias in modules.layout.parts:  # zero for experts without one
        biases = [modules.read_whole(owner, bias) for owner in owners]
    if output_indices is not None:
        biases = [values_O[output_indices] for values_O in biases]
    return SmileExperts(
        output_factors,
        input_factors,
        biases,
        gate_rank=settings.gate_rank,
        top=settings.top,
        output_indices=output_indices,
        location=row.removesuffix(".weight"),
        experts=owners,
    )


def _output_indices_of(part: MatrixPart, *, transposed: bool) -> Tensor | None:
    """Indices of the outputs that have elements in a part of a layer's matrix; None: all."""
    rows, columns = part.tensor_shape
    # A matrix of the same shape, in which each element has the number of its output.
    if transposed:
        outputs = torch.arange(columns)
        output_of_element = outputs.expand(rows, columns)
    else:
        outputs = torch.arange(rows)
        output_of_element = outputs[:, None].expand(rows, columns)
    outputs_of_part: Tensor = torch.unique(elements_of(output_of_element.reshape(-1), part))
    if len(outputs_of_part) == len(outputs):
        return None
    return outputs_of_part


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
