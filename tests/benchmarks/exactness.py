"""ACE's error against its tolerance, by number formats, norms, condition numbers and regime.

``python -m tests.benchmarks.exactness``: what a layer's report estimates, what the formula in
float64 says, and what rounding alone does to the result.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from ace_gui.methods.ace import AceParameters, ace
from ace_gui.methods.shared.tolerance import tolerance_of_experts
from tests.benchmarks.experts import norms, task_vector
from tests.helpers import ace_oracle

NORM = 0.3
"""Of the largest task vector, Frobenius."""


@dataclass(frozen=True, kw_only=True)
class ExactnessCase:
    """Random task vectors of one kind."""

    dtype: torch.dtype
    """In which base and experts are stored."""
    ratio: float
    """The base's norm by that of the largest task vector."""
    condition: float
    """Of S, about."""
    heterogeneous: bool
    """Whether the experts differ in their norms, and ACE treats them so."""
    shape: tuple[int, int]
    """Outputs and inputs."""
    experts: int
    """How many."""


@dataclass(frozen=True, kw_only=True)
class ErrorShares:
    """Shares of the merged change: what may be missed, what is, and what rounding the merged
    weights to the experts' format changes. ``numbers``: the first words on them.
    """

    case: ExactnessCase
    allowed: float
    missed: float
    rounding: float
    numbers: str


def measured(case: ExactnessCase, seed: int = 0) -> ErrorShares:
    """Merge random task vectors of that kind, and compare with the formula in float64."""
    base, deltas = _rounded(case, seed)
    weights = [1.0] * case.experts
    tolerance = tolerance_of_experts([case.dtype] * case.experts, weights, float(base.norm()))
    tau = 0.0 if case.heterogeneous else 100.0
    epsilon = _ridge(deltas, case)
    parameters = AceParameters(epsilon=epsilon, tau=tau)
    merged = ace(deltas, weights, parameters, tolerance=tolerance)
    exact = torch.stack(list(deltas)).double().numpy()
    expected = torch.from_numpy(ace_oracle.ace_oracle(exact, epsilon=epsilon, tau=tau).merged)
    size = float(expected.norm())
    weight = base.double() + expected
    return ErrorShares(
        case=case,
        allowed=tolerance.relative(size),
        missed=float((merged.delta.double() - expected).norm()) / size,
        rounding=float((weight.to(case.dtype).double() - weight).norm()) / size,
        numbers=merged.diagnostics.precision.removeprefix("Computed in ").split(" as ")[0],
    )


def _rounded(case: ExactnessCase, seed: int) -> tuple[Tensor, list[Tensor]]:
    """Base and task vectors, float32, of weights that are stored in the format."""
    generator = torch.Generator().manual_seed(seed)
    sizes = norms(case.experts, NORM, 5.0 if case.heterogeneous else 1.0)
    base = torch.randn(case.shape, generator=generator)
    base = base.mul_(case.ratio * NORM / float(base.norm())).to(case.dtype).float()
    deltas = [task_vector(*case.shape, size, generator) for size in sizes]
    return base, [(base + delta).to(case.dtype).float() - base for delta in deltas]


def _ridge(deltas: Sequence[Tensor], case: ExactnessCase) -> float:
    """ε for the condition number, from the largest eigenvalue of S₀ = Σ_t w_t Σ̂_t."""
    centred = [(delta - delta.mean(dim=0)).double() for delta in deltas]
    weights = [1 / float(tilde.norm()) ** 2 if case.heterogeneous else 1.0 for tilde in centred]
    pairs = zip(weights, centred, strict=True)
    rows = torch.cat([math.sqrt(weight) * tilde for weight, tilde in pairs])
    return float(torch.linalg.matrix_norm(rows, 2)) ** 2 / (case.condition * math.fsum(weights))


def cases(shape: tuple[int, int], experts: int) -> Iterator[ExactnessCase]:
    """All of the sweep."""
    dtypes = (torch.float32, torch.float16, torch.bfloat16)
    combinations = product((False, True), dtypes, (3.0, 30.0, 300.0), (1e1, 1e3, 1e5))
    for heterogeneous, dtype, ratio, condition in combinations:
        yield ExactnessCase(
            dtype=dtype,
            ratio=ratio,
            condition=condition,
            heterogeneous=heterogeneous,
            shape=shape,
            experts=experts,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.exactness")
    parser.add_argument("--shape", default="192x256", help="outputs x inputs")
    parser.add_argument("--experts", type=int, default=4)
    options = parser.parse_args()
    outputs, inputs = map(int, options.shape.split("x"))
    print(f"{outputs}×{inputs}, T = {options.experts}; shares of the merged change")
    print(
        f"{'regime':<6} {'format':<9} {'‖W‖/‖ΔW‖':>9} {'condition':>9} {'allowed':>9} "
        f"{'missed':>9} {'rounding':>9}  numbers"
    )
    for case in cases((outputs, inputs), options.experts):
        row = measured(case)
        print(
            f"{'het.' if case.heterogeneous else 'hom.':<6} "
            f"{str(case.dtype).removeprefix('torch.'):<9} {case.ratio:>9.0f} "
            f"{case.condition:>9.0e} {row.allowed:>9.1e} {row.missed:>9.1e} "
            f"{row.rounding:>9.1e}  {row.numbers.split(',')[0].split(' which')[0][:40]}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
