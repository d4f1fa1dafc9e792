"""What each identity brings: ``python -m tests.benchmarks.ablation [--shape 768x3072] …``.

Every row is one step of ACE carried out twice on the same task vectors, as it is written and as
ours does it: seconds of both, and how far apart the results are. Both are in float64, but for the
first row's Gram matrices and what says float32. O outputs, I inputs, T experts.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ace_gui.engine.devices import use_threads
from ace_gui.linalg.blocks import add_gram_, gram, mirror_
from ace_gui.linalg.centring import centre_
from ace_gui.linalg.heterogeneity import energy
from ace_gui.linalg.polar import top_polars
from ace_gui.linalg.precision import full_float32
from ace_gui.linalg.products import add_product_
from ace_gui.linalg.solve import right_divide_
from ace_gui.methods.ace import AceParameters, closed_form
from ace_gui.methods.ace.algorithm import Rule, weighed
from ace_gui.methods.ace.closed_form import Sums, collect, preliminary, residual
from ace_gui.methods.ace.first_pass import measure
from ace_gui.methods.ace.problem import Problem, Terms
from ace_gui.methods.shared.tolerance import STRICT
from ace_gui.methods.shared.weighted_experts import WeightedExperts
from tests.benchmarks.experts import norms, task_vector

EPSILON = 1e-5
SINGLE_EPSILON = 4e-2
"""ε of the row on float32: the paper's value for GPT-2, with which float32 is enough."""

K_FRAC = 0.3
_SINGLE = AceParameters(epsilon=SINGLE_EPSILON)

Step = Callable[[], Tensor]
Solver = Callable[[Problem], Terms]

Row = tuple[str, Step, Step]
"""What is saved, the step without it and the step with it."""


def rows(deltas: list[Tensor]) -> Iterator[Row]:
    """In the order in which ACE comes to them; ``deltas`` are float32, outputs × inputs."""
    experts = WeightedExperts(deltas, [1.0] * len(deltas))
    centred = [experts.matrix(t) for t in range(len(experts))]
    for delta_OI in centred:
        centre_(delta_OI)
    (first,), _ = measure([experts], None)
    parameters = AceParameters(epsilon=EPSILON, k_frac=K_FRAC)
    problem = weighed([experts], [first], Rule.HETEROGENEOUS, parameters, [STRICT])
    sums = collect(problem)

    yield (
        "energies: norms instead of Gram matrices",
        lambda: torch.stack([(delta.T @ delta).trace() for delta in deltas]),
        lambda: torch.tensor([energy(delta) for delta in deltas]),
    )
    yield "Σ W̃ᵀW̃: upper half only", lambda: _full(centred), lambda: _halves(centred)
    yield (
        "Σ W̃W̃ᵀW̃: on the smaller side",
        lambda: _total(tilde @ (tilde.T @ tilde) for tilde in centred),
        lambda: _total(map(_smaller_side, centred)),
    )
    if sums.reference_BOI is not None:
        yield (
            "Eq. 14: the first expert taken from all",
            lambda: _quotient(centred, None),
            lambda: _quotient(centred, centred[0]),
        )
    numerator_OI = _numerator(sums, problem)
    yield (
        "Eq. 14: Cholesky, Sherman-Morrison, no inverse",
        lambda: _inverted(sums, numerator_OI, problem),
        lambda: preliminary(_copy(sums), problem)[0],
    )
    proxies = [
        share.weights[0] * centred[share.expert].T @ centred[share.expert]
        for share in problem.shares
    ]
    in_order = [share.expert for share in problem.shares]
    yield (
        "Eq. 17: one product instead of T",
        lambda: _products([deltas[t] for t in in_order], proxies, sums, problem),
        lambda: _residual(_copy(sums), problem),
    )
    fused_BOI = preliminary(_copy(sums), problem)[0] + _residual(_copy(sums), problem)
    k = math.floor(K_FRAC * min(first.shape))
    yield (
        "Eq. 18: eigenvectors of a Gram matrix, no SVD",
        lambda: _decomposed(fused_BOI[0], k),
        lambda: top_polars(fused_BOI, k, [0.0])[0].factor_OI,
    )
    yield from _whole_rows(deltas, experts, replace(problem, shares=problem.shares[:2]))


def _whole_rows(deltas: list[Tensor], experts: WeightedExperts, two: Problem) -> Iterator[Row]:
    """What concerns more than one step; ``two`` of the experts for what is done to few."""
    outputs, inputs = deltas[0].shape
    if closed_form.few_experts((outputs, inputs), 2):
        yield (
            "all terms of two experts: products between experts",
            lambda: _fused(closed_form.solve_by_inputs, two),
            lambda: _fused(closed_form.solve_by_rows, two),
        )
    products = [gram(delta_OI.mT) for delta_OI in deltas], torch.zeros_like(deltas[0])
    yield (
        "Σ (ΔW ΔWᵀ) ΔW in float32: oneDNN, not MKL",
        lambda: _summed(Tensor.addmm_, deltas, *products),
        lambda: _summed(add_product_, deltas, *products),
    )
    yield (
        f"all of W_pre: float32 with probes (ε = {SINGLE_EPSILON:g})",
        lambda: _double(experts),
        lambda: _single(experts),
    )


def _total(terms: Iterator[Tensor]) -> Tensor:
    total = next(terms)
    for term in terms:
        total += term
    return total


def _full(centred: list[Tensor]) -> Tensor:
    return _total(tilde.T @ tilde for tilde in centred)


def _halves(centred: list[Tensor]) -> Tensor:
    inputs = centred[0].shape[1]
    total_II = centred[0].new_zeros(inputs, inputs)
    for tilde_OI in centred:
        add_gram_(total_II, tilde_OI)
    return mirror_(total_II)


def _smaller_side(tilde_OI: Tensor) -> Tensor:
    outputs, inputs = tilde_OI.shape
    if 3 * outputs < 2 * inputs:
        return gram(tilde_OI.T) @ tilde_OI
    return tilde_OI @ gram(tilde_OI)


def _quotient(centred: list[Tensor], reference_OI: Tensor | None) -> Tensor:
    """B S⁻¹, with R taken from the experts and added to the result."""
    proxies = [gram(tilde_OI) for tilde_OI in centred]
    system_II = EPSILON * len(centred) * torch.eye(len(proxies[0]), dtype=torch.float64)
    system_II = sum(proxies, start=system_II)
    value_OI = torch.zeros_like(centred[0])
    for tilde_OI, proxy_II in zip(centred, proxies, strict=True):
        proxy_II.diagonal().add_(EPSILON)
        if tilde_OI is not reference_OI:
            apart_OI = tilde_OI if reference_OI is None else tilde_OI - reference_OI
            value_OI.addmm_(apart_OI, proxy_II)
    right_divide_(system_II[None], value_OI[None])
    return value_OI if reference_OI is None else value_OI.add_(reference_OI)


def _fused(solve: Solver, problem: Problem) -> Tensor:
    found = solve(problem)
    assert found.residual_BOI is not None
    return found.preliminary_BOI.add_(found.residual_BOI)


def _summed(
    add_: Callable[..., object], deltas: list[Tensor], grams: list[Tensor], sum_OI: Tensor
) -> Tensor:
    sum_OI.zero_()
    for gram_OO, delta_OI in zip(grams, deltas, strict=True):
        add_(sum_OI, gram_OO, delta_OI)
    return sum_OI.clone()


def _numerator(sums: Sums, problem: Problem) -> Tensor:
    """B, whether or not a matrix was taken from all experts."""
    (scaled_II,), (numerator_OI,) = sums.scaled_BII, sums.numerator_BOI
    if sums.reference_BOI is None:
        return numerator_OI
    reference_OI = sums.reference_BOI[0]
    return numerator_OI + reference_OI @ scaled_II + problem.ridge_masses[0] * reference_OI


def _inverted(sums: Sums, numerator_OI: Tensor, problem: Problem) -> Tensor:
    (scaled_II,) = sums.scaled_BII
    system_II = scaled_II + problem.prior_scales[0] * scaled_II.mean(dim=0)
    system_II.diagonal().add_(problem.ridge_masses[0])
    return numerator_OI @ torch.linalg.inv(system_II)


def _products(deltas: list[Tensor], proxies: list[Tensor], sums: Sums, problem: Problem) -> Tensor:
    mean_II = sums.scaled_BII[0] / len(deltas)
    mean_II.diagonal().add_(problem.ridge_masses[0] / len(deltas))
    return _total(d.double() @ (p - mean_II) for d, p in zip(deltas, proxies, strict=True))


def _residual(sums: Sums, problem: Problem) -> Tensor:
    assert sums.rest is not None
    return residual(sums, sums.rest, problem)


def _copy(sums: Sums) -> Sums:
    """The steps use up what they are given; copying counts against ours."""
    assert sums.rest is not None
    return replace(
        sums,
        scaled_BII=sums.scaled_BII.clone(),
        numerator_BOI=sums.numerator_BOI.clone(),
        rest=replace(sums.rest, ridge_BOI=sums.rest.ridge_BOI.clone()),
    )


def _decomposed(fused_OI: Tensor, k: int) -> Tensor:
    u_OR, _, vh_RI = torch.linalg.svd(fused_OI, full_matrices=False)
    return u_OR[:, :k] @ vh_RI[:k]


def _double(experts: WeightedExperts) -> Tensor:
    measured, _ = measure([experts], None)  # without probes
    problem = weighed([experts], measured, Rule.HOMOGENEOUS, _SINGLE, [STRICT])
    return preliminary(collect(problem), problem)[0]


def _single(experts: WeightedExperts) -> Tensor:
    measured, probes = measure([experts], SINGLE_EPSILON)
    problem = weighed([experts], measured, Rule.HOMOGENEOUS, _SINGLE, [STRICT])
    if probes is not None and measured[0].single:
        terms = closed_form.solve(problem, torch.float32)
        (precision,) = probes.weighed(problem, [0]).precisions(terms, problem)
        if precision.error <= STRICT.relative(precision.size) * precision.size:
            return terms.preliminary_BOI
    raise SystemExit("The probes reject float32 on these task vectors.")


def seconds(step: Step, clock: Callable[[], float], rounds: int, patience: float) -> float:
    """The best of some runs; fewer where they last longer than ``patience`` seconds together."""
    found: list[float] = []
    while len(found) < rounds and sum(found) < patience:
        started = clock()
        step()
        found.append(clock() - started)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ablation")
    parser.add_argument("--shape", default="768x3072", help="outputs x inputs")
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--patience", type=float, default=8, help="seconds a step may take")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--processor-time", action="store_true")
    options = parser.parse_args()
    use_threads(options.threads)
    clock = time.process_time if options.processor_time else time.perf_counter
    outputs, inputs = map(int, options.shape.split("x"))
    generator = torch.Generator().manual_seed(0)
    sizes = norms(options.experts, 0.3, 1.0)
    deltas = [task_vector(outputs, inputs, size, generator) for size in sizes]
    print(f"{outputs}×{inputs}, T = {options.experts}, {torch.get_num_threads()} threads")
    print(f"{'':<50} {'as written s':>12} {'ours s':>8} {'ratio':>6} {'apart':>8}")
    with full_float32():
        for name, without, with_it in rows(deltas):
            reference, value = without().double(), with_it().double()  # warm-up
            apart = float((value - reference).norm() / reference.norm())
            off = seconds(without, clock, options.rounds, options.patience)
            on = seconds(with_it, clock, options.rounds, options.patience)
            print(f"{name:<50} {off:>12.3f} {on:>8.3f} {off / on:>6.2f} {apart:>8.0e}", flush=True)


if __name__ == "__main__":
    main()
