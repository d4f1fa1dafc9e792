"""Named sets of task vectors that cover ACE's regimes, shapes and conditioning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from ace_gui.methods.ace.problem import Problem, Rule, Share
from ace_gui.methods.shared.experts import Experts
from ace_gui.methods.shared.tolerance import STRICT

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AceCase:
    """Task vectors of one tensor, and the parameters with which ACE merges them."""

    name: str
    """Also of the test that merges it."""
    deltas: Array = field(repr=False)
    """(T, m, n): experts, outputs, inputs."""
    epsilon: float = 1e-5
    """ε, the ridge."""
    tau: float = 0.3
    """τ, above which γ is heterogeneous."""
    k_frac: float = 0.3
    """The share of directions that are refined."""
    double: bool = False
    """Whether the values are of float64; else float32 holds them exactly."""

    def __str__(self) -> str:
        return self.name


def random_deltas(T: int, m: int, n: int, norms: float | Array, seed: int) -> Array:
    """Full-rank Gaussian task vectors of given Frobenius norms, with a common output shift."""
    rng = np.random.default_rng(seed)
    deltas = rng.standard_normal((T, m, n)) + 0.3 * rng.standard_normal((T, 1, n))
    return _with_norms(deltas, norms)


def low_rank_deltas(T: int, m: int, n: int, rank: int, norms: float | Array, seed: int) -> Array:
    """Products of thin Gaussian factors, as a LoRA leaves them."""
    rng = np.random.default_rng(seed)
    deltas = rng.standard_normal((T, m, rank)) @ rng.standard_normal((T, rank, n))
    return _with_norms(deltas, norms)


def decaying_deltas(T: int, m: int, n: int, span: float, norms: float | Array, seed: int) -> Array:
    """Singular values falling geometrically from 1 to 1/span, in bases of each expert's own."""
    rng = np.random.default_rng(seed)
    r = min(m, n)
    spectrum = np.geomspace(1, 1 / span, r)
    deltas = [
        np.linalg.qr(rng.standard_normal((m, r)))[0]
        * spectrum
        @ np.linalg.qr(rng.standard_normal((n, r)))[0].T
        for _ in range(T)
    ]
    return _with_norms(np.array(deltas), norms)


def spread(T: int, ratio: float, largest: float = 0.5) -> Array:
    """T norms from ``largest`` down to ``largest``/``ratio``."""
    return np.geomspace(largest, largest / ratio, T)


def _with_norms(deltas: Array, norms: float | Array) -> Array:
    lengths = np.linalg.norm(deltas, axis=(1, 2))
    return deltas * (np.broadcast_to(norms, lengths.shape) / lengths)[:, None, None]


def ace_cases() -> list[AceCase]:
    """Both regimes; m < n/2, m < n, m = n, m > n; well and ill conditioned; T from 2 to 20."""
    shapes = {"wide": (16, 48), "broad": (24, 36), "square": (32, 32), "tall": (48, 16)}
    cases = []
    for seed, (shape, (m, n)) in enumerate(shapes.items()):
        for T in (2, 5, 20):
            same = random_deltas(T, m, n, 0.05, seed)
            cases.append(AceCase(f"homogeneous-{shape}-T{T}", same, epsilon=2e-4))
            apart = random_deltas(T, m, n, spread(T, 1000), seed)
            cases.append(AceCase(f"heterogeneous-{shape}-T{T}", apart, tau=0.1))
        cases += _ill_conditioned(shape, m, n, seed)
    return [case if case.double else _rounded(case) for case in cases + _degenerate()]


def _ill_conditioned(shape: str, m: int, n: int, seed: int) -> list[AceCase]:
    def case_pair(
        name: str, make: Callable[[float | Array], Array], **options: float
    ) -> list[AceCase]:
        return [
            AceCase(f"{name}-homogeneous-{shape}", make(4.0), double=True, tau=100.0, **options),
            AceCase(
                f"{name}-heterogeneous-{shape}",
                make(spread(6, 20, 3.0)),
                double=True,
                tau=0.0,
                **options,
            ),
        ]

    cases = []
    for epsilon in (1e-5, 2e-4, 4e-2):
        cases += case_pair(
            f"low-rank-e{epsilon:g}",
            lambda norms: low_rank_deltas(6, m, n, 2, norms, seed),
            epsilon=epsilon,
            k_frac=0.4,
        )
        cases += case_pair(
            f"span-1e8-e{epsilon:g}",
            lambda norms: decaying_deltas(6, m, n, 1e8, norms, seed),
            epsilon=epsilon,
        )
    cases += case_pair(
        "rank-one", lambda norms: low_rank_deltas(6, m, n, 1, norms, seed), k_frac=1.0
    )
    return cases


def _degenerate() -> list[AceCase]:
    one_input = random_deltas(4, 12, 1, spread(4, 30), 5)
    one_output = random_deltas(4, 1, 12, 0.05, 6)
    return [
        AceCase("one-input", one_input, k_frac=1.0, double=True),
        AceCase("two-outputs", random_deltas(4, 2, 12, spread(4, 30), 7), k_frac=1.0, double=True),
        AceCase("full-refinement", random_deltas(3, 20, 30, spread(3, 40), 8), k_frac=1.0),
        AceCase("large-norms", random_deltas(8, 24, 40, spread(8, 50, 300.0), 9), tau=0.1),
        AceCase("small-norms", random_deltas(8, 40, 24, spread(8, 50, 3e-3), 10), tau=0.01),
        AceCase("one-output", one_output, double=True),
    ]


def _rounded(case: AceCase) -> AceCase:
    deltas = case.deltas.astype(np.float32).astype(np.float64)
    return AceCase(case.name, deltas, case.epsilon, case.tau, case.k_frac)


class CountedDeltas(Sequence[torch.Tensor]):
    """Task vectors that count how often they are read."""

    def __init__(self, deltas: Sequence[torch.Tensor]) -> None:
        self.deltas = deltas
        self.reads = Counter[int]()

    def __len__(self) -> int:
        return len(self.deltas)

    def __getitem__(self, t):
        self.reads[t] += 1
        return self.deltas[t]


def problem_of(
    deltas: Array | Sequence[torch.Tensor],
    shares: Sequence[Share],
    prior_scale: float,
    *,
    with_residual: bool,
) -> Problem:
    """What a solver is given of one layer."""
    experts = [torch.as_tensor(delta) for delta in deltas]
    outputs, inputs = experts[0].shape
    return Problem(
        layers=[Experts(experts, [1.0] * len(experts))],
        shape=(outputs, inputs),
        shares=shares,
        prior_scales=[prior_scale],
        with_residual=with_residual,
        rule=Rule.HETEROGENEOUS if with_residual else Rule.HOMOGENEOUS,
        tolerances=[STRICT],
        sizes=[1.0],
    )
