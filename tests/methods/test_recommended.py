"""The recommended merge is what its formula says; here it is written out in float64."""

from __future__ import annotations

import math

import pytest
import torch

from ace_gui import merge_state_dicts
from ace_gui.recipe.recommended import NAME

LAYER = "model.layers.0.mlp.up_proj.weight"
ALPHA = 0.3
DELTA = 0.12


@pytest.mark.parametrize("length", [0.02, 0.5], ids=["within the cap", "longer than the cap"])
@pytest.mark.parametrize("shape", [(24, 16), (16, 24)])
def test_the_recommended_merge_is_its_formula(shape: tuple[int, int], length: float) -> None:
    inputs = shape[1]
    draw = torch.Generator().manual_seed(7)
    base = torch.randn(shape, generator=draw)
    experts = [base + length * t * torch.randn(shape, generator=draw) for t in (1, 2, 3)]
    merged = merge_state_dicts({LAYER: base}, [{LAYER: expert} for expert in experts], method=NAME)
    base_OI = base.double()
    centred = [(expert.double() - base_OI) for expert in experts]
    centred = [delta - delta.mean(0, keepdim=True) for delta in centred]
    squares = [delta.mT @ delta for delta in centred]
    traces = [float(square.trace()) for square in squares]
    identity = torch.eye(inputs, dtype=torch.float64)
    normalised = [square / trace for square, trace in zip(squares, traces, strict=True)]
    ridged = [square + ALPHA / inputs * identity for square in normalised]
    prior = torch.ones(inputs, 1, dtype=torch.float64) @ torch.stack(normalised).sum(0).mean(
        0, keepdim=True
    )
    solved = sum(w @ s for w, s in zip(centred, ridged, strict=True))
    solved = solved @ torch.linalg.inv(sum(ridged) + prior)
    root = math.sqrt(sum(traces) / len(traces))
    longest = max(root, min(math.sqrt(len(traces)) * root, DELTA * float(base_OI.norm())))
    assert (longest < 1.3 * float(solved.norm())) == (length > 0.1)  # the cap limits, or not
    left_vectors, values, right = torch.linalg.svd(solved, full_matrices=False)
    even = left_vectors @ torch.diag(values.sqrt()) @ right
    even *= solved.norm() / even.norm()
    change = min(1.3, longest / float(solved.norm())) * even
    error = (merged[LAYER].double() - base_OI - change).norm() / change.norm()
    assert error < 3e-6
