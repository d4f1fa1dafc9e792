"""ACE's first pass over the experts: their energies, γ, and their products with the probes.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers of one shape, T
experts, O outputs, I inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ace_gui.ace_variants import AUTOMATIC, MEASURED
from ace_gui.linalg.heterogeneity import heterogeneity
from ace_gui.methods.ace.float32_check import expected_error
from ace_gui.methods.ace.parameters import AceParameters
from ace_gui.methods.ace.probes import ProbedExpert, Probes, inner_products, new_probes, probe
from ace_gui.methods.ace.problem import LayerEnergies
from ace_gui.methods.ace.stacked_layers import stacked_read_only
from ace_gui.methods.shared.experts import Experts
from ace_gui.methods.shared.tolerance import EXACT, STRICT, Tolerance


def measure(
    layers: Sequence[Experts],
    parameters: AceParameters,
    tolerances: Sequence[Tolerance] = (),
    *,
    outputs: int | None = None,
) -> tuple[list[LayerEnergies], Probes | None]:
    """Read every expert of every layer once; raises MethodError if an energy is not finite.

    ``tolerances``: of each layer; empty for strict ones. ``outputs``: as in ``Context``. The probes
    serve the check of float32; None if float32 is not exact enough for any layer. A processor stops
    probing as soon as the traces say so.
    """
    tolerances = tolerances or [STRICT] * len(layers)
    figures: list[Tensor] = []
    probed: list[ProbedExpert] = []
    probes_PI: Tensor | None = None
    for t in range(len(layers[0])):
        delta_BOI = stacked_read_only(layers, t)
        if not t:
            shape = (delta_BOI.shape[1], delta_BOI.shape[2])
            probes_PI = None if parameters.variant == MEASURED else new_probes(delta_BOI)
        figures_B2, products = probe(delta_BOI, probes_PI)
        figures.append(figures_B2)
        if products is not None:
            probed.append(products)
            if delta_BOI.device.type == "cpu":
                traces_B = torch.stack(figures)[..., 1].sum(dim=0)
                if _hopeless(layers, traces_B, shape, parameters, tolerances):
                    probes_PI = None
        del delta_BOI
    figures_TB2, inner_BTT = _to_processor(figures, [] if probes_PI is None else probed)
    probes = None
    if probes_PI is not None:
        probes = Probes(probes_PI=probes_PI, experts=probed, inner_BTT=inner_BTT)
    return _layer_energies(figures_TB2, layers, shape, outputs), probes


def _layer_energies(
    figures_TB2: Tensor, layers: Sequence[Experts], shape: tuple[int, int], outputs: int | None
) -> list[LayerEnergies]:
    """The energies and traces of every layer."""
    rows, inputs = shape
    energies_BT, traces_BT = figures_TB2.permute(2, 1, 0).tolist()
    layer_energies = []
    for energies_T, traces_T, layer in zip(energies_BT, traces_BT, layers, strict=True):
        figures = LayerEnergies(
            energies=tuple(energies_T),
            traces=tuple(traces_T),
            shape=(outputs or rows, inputs),
            rows=rows,
            double=layer.has_read_float64,
            heterogeneity=heterogeneity(energies_T),
        )
        layer_energies.append(figures)
    return layer_energies


def _hopeless(
    layers: Sequence[Experts],
    traces_B: Tensor,
    shape: tuple[int, int],
    parameters: AceParameters,
    tolerances: Sequence[Tolerance],
) -> bool:
    """Whether float32 is surely too coarse for every layer; ``traces_B``: Σ_t Tr Σ̂_t so far.

    The expected error is the smallest if all eigenvalues of S₀ are equal. Where experts count by
    their traces, only the automatic variant is foreseen.
    """
    experts = len(layers[0])
    inputs = max(1, shape[1])
    for layer, trace, tolerance in zip(layers, traces_B.tolist(), tolerances, strict=True):
        mass = experts * parameters.epsilon
        if parameters.variant == AUTOMATIC:
            trace = float(experts)
            mass = parameters.alpha * experts / inputs
        least = expected_error(trace / math.sqrt(inputs), trace, mass, inputs)
        coarse = tolerance.rounding == 0 and least > EXACT
        if not layer.has_read_float64 and not coarse:
            return False
    return True


def _to_processor(
    figures: Sequence[Tensor], probed: Sequence[ProbedExpert]
) -> tuple[Tensor, Tensor]:
    """Figures (T × B × 2) and inner products (B × T × T), copied to the processor at once."""
    figures_TB2 = torch.stack(list(figures))
    count, layers, _ = figures_TB2.shape
    if probed:
        inner_BTT = inner_products(probed)
    else:
        inner_BTT = figures_TB2.new_zeros(layers, 0, 0)
    copied = torch.cat([figures_TB2.flatten(), inner_BTT.flatten()]).cpu()
    size = figures_TB2.numel()
    return copied[:size].view(count, layers, 2), copied[size:].view(inner_BTT.shape)
