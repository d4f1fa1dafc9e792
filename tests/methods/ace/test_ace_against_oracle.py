"""ACE against the literal transcription: each equation, then the whole procedure."""

import mpmath
import numpy as np
import pytest
import torch

from ace_gui.linalg import products
from ace_gui.linalg.heterogeneity import GUARD, heterogeneity
from ace_gui.linalg.polar import top_polars
from ace_gui.methods.ace import AceParameters, ace, algorithm, closed_form
from ace_gui.methods.ace.energies import measure
from ace_gui.methods.ace.problem import Problem, Share
from ace_gui.methods.ace.reference import reference_ace
from ace_gui.methods.shared.experts import Experts
from ace_gui.methods.shared.tolerance import STRICT
from tests.helpers import ace_oracle as oracle
from tests.helpers.ace_cases import (
    AceCase,
    Array,
    ace_cases,
    low_rank_deltas,
    problem_of,
    random_deltas,
    spread,
)

CASES = ace_cases()
LARGEST_ERROR = 1e-5
TERM_ERROR = 1e-9  # of a term in float64, ill-conditioned cases included

by_regime = pytest.mark.parametrize("heterogeneous", [False, True])
by_shape = pytest.mark.parametrize(("m", "n"), [(6, 20), (12, 16), (14, 14), (20, 6), (1, 5)])


@pytest.fixture(params=["torch", "numpy"], autouse=True)
def _products_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By both libraries, whichever this processor prefers."""
    monkeypatch.setattr(products, "uses_numpy", lambda: request.param == "numpy")
    if request.param == "numpy":
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


def shares_of(deltas: Array, epsilon: float, heterogeneous: bool) -> list[Share]:
    ridges = oracle.ridges(deltas, epsilon, heterogeneous)
    return [Share(expert=t, weights=(r / epsilon,), ridges=(r,)) for t, r in enumerate(ridges)]


def prior_scale(deltas: Array, heterogeneous: bool) -> float:
    return 1 / (oracle.energies(deltas).mean() + GUARD) if heterogeneous else 1.0


def problem(
    deltas: Array, epsilon: float, heterogeneous: bool, *, with_residual: bool = True
) -> Problem:
    shares = shares_of(deltas, epsilon, heterogeneous)
    scale = prior_scale(deltas, heterogeneous)
    return problem_of(deltas, shares, scale, with_residual=with_residual)


def run(case: AceCase, *, keep_preliminary: bool = False):
    dtype = torch.float64 if case.double else torch.float32
    deltas = [torch.from_numpy(delta).to(dtype) for delta in case.deltas]
    parameters = AceParameters(epsilon=case.epsilon, tau=case.tau, k_frac=case.k_frac)
    return ace(deltas, [1.0] * len(deltas), parameters, keep_preliminary=keep_preliminary)


def of(case: AceCase) -> oracle.OracleResult:
    return oracle.ace_oracle(case.deltas, epsilon=case.epsilon, tau=case.tau, k_frac=case.k_frac)


@pytest.mark.parametrize("T", [2, 3, 20])
def test_eq_7_gamma(T: int) -> None:
    deltas = random_deltas(T, 5, 7, spread(T, 30), seed=T)
    figures = heterogeneity(list(oracle.energies(deltas)))
    assert figures.gamma == pytest.approx(oracle.gamma(deltas), rel=1e-12)


@by_regime
@by_shape
def test_eqs_5_to_10_sums(m: int, n: int, heterogeneous: bool) -> None:
    deltas = random_deltas(4, m, n, spread(4, 20), seed=1)
    system = problem(deltas, 1e-3, heterogeneous)
    sums = closed_form.collect(system)
    scaled = oracle.scaled_proxies(deltas, heterogeneous)
    ridges = oracle.ridges(deltas, 1e-3, heterogeneous)
    tilde, means = zip(*(oracle.centred(delta) for delta in deltas), strict=True)
    regularised = oracle.regularised_proxies(deltas, 1e-3, heterogeneous)
    assert sums.rest is not None
    reference = np.zeros((m, n)) if sums.reference_BOI is None else tilde[0]
    apart = [(w - reference) @ s for w, s in zip(tilde, regularised, strict=True)]
    for tensor, value in (
        (sums.scaled_BII, sum(scaled)),
        (sums.numerator_BOI, sum(apart)),
        (sums.rest.ridge_BOI, sum(r * w for r, w in zip(ridges, tilde, strict=True))),
        (sums.rest.total_BOI, sum(deltas)),
        (sums.rest.mean_B1I[:, 0], sum(s @ mean for s, mean in zip(scaled, means, strict=True))),
    ):
        np.testing.assert_allclose(tensor[0].numpy(), value, rtol=1e-9, atol=1e-12)
    assert system.ridge_masses == pytest.approx([sum(ridges)])


@by_regime
@by_shape
@pytest.mark.parametrize("epsilon", [1e-5, 4e-2, 10.0])
def test_eqs_11_to_14_preliminary(m: int, n: int, heterogeneous: bool, epsilon: float) -> None:
    deltas = random_deltas(4, m, n, spread(4, 20), seed=2)
    system = problem(deltas, epsilon, heterogeneous)
    value_BOI, cuts = closed_form.preliminary(closed_form.collect(system), system)
    expected = oracle.preliminary(deltas, epsilon, heterogeneous)
    assert cuts == [0]
    np.testing.assert_allclose(value_BOI[0].numpy(), expected, rtol=0, atol=TERM_ERROR)


@by_regime
@by_shape
def test_eqs_16_and_17_residual(m: int, n: int, heterogeneous: bool) -> None:
    deltas = random_deltas(5, m, n, spread(5, 20), seed=3)
    system = problem(deltas, 1e-3, heterogeneous)
    sums = closed_form.collect(system)
    assert sums.rest is not None
    residual = closed_form.residual(sums, sums.rest, system)[0].numpy()
    expected = oracle.residual(deltas, 1e-3, heterogeneous)
    assert oracle.relative_error(residual, expected) < 1e-12


@by_regime
@pytest.mark.parametrize(("T", "m", "n"), [(2, 6, 20), (3, 6, 40), (3, 5, 20), (2, 2, 7)])
@pytest.mark.parametrize("epsilon", [1e-5, 4e-2, 10.0])
def test_few_experts_on_many_inputs(
    T: int, m: int, n: int, heterogeneous: bool, epsilon: float
) -> None:
    """By way of the products between experts: the oracle's terms, and those of the other way."""
    assert closed_form.few_experts((m, n), T)
    deltas = random_deltas(T, m, n, spread(T, 20), seed=6)
    system = problem(deltas, epsilon, heterogeneous)
    by_rows = closed_form.solve_by_rows(system)
    by_inputs = closed_form.solve_by_inputs(system)
    assert by_rows.cuts == [0]
    for mine, theirs, expected in (
        (
            by_rows.preliminary_BOI,
            by_inputs.preliminary_BOI,
            oracle.preliminary(deltas, epsilon, heterogeneous),
        ),
        (
            by_rows.residual_BOI,
            by_inputs.residual_BOI,
            oracle.residual(deltas, epsilon, heterogeneous),
        ),
        (by_rows.total_BOI, by_inputs.total_BOI, sum(deltas)),
    ):
        assert mine is not None
        assert theirs is not None
        assert oracle.relative_error(mine[0].numpy(), expected) < TERM_ERROR
        assert oracle.relative_error(theirs[0].numpy(), expected) < TERM_ERROR


def test_how_many_directions_are_lost_does_not_depend_on_the_way() -> None:
    deltas = low_rank_deltas(2, 6, 20, 1, 1e6, seed=7)
    system = problem(deltas, 1e-10, heterogeneous=False, with_residual=False)
    for solve in (closed_form.solve_by_rows, closed_form.solve_by_inputs):
        solution = solve(system)
        assert solution.cuts == [18]
        assert solution.residual_BOI is None
        assert solution.total_BOI is None


@by_shape
def test_eq_18_refinement(m: int, n: int) -> None:
    fused = random_deltas(1, m, n, 1.0, seed=4)[0]
    for k in range(1, min(m, n) + 1):
        (polar,) = top_polars(torch.from_numpy(fused)[None], k, [0.0])
        refinement = polar.factor_OI.numpy() * polar.mean
        np.testing.assert_allclose(refinement, oracle.refinement(fused, k), rtol=0, atol=TERM_ERROR)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_whole_procedure(case: AceCase) -> None:
    expected = of(case)
    merged = run(case, keep_preliminary=True)
    diagnostics = merged.diagnostics
    assert diagnostics.gamma == pytest.approx(expected.gamma, rel=1e-9, abs=1e-15)
    assert diagnostics.heterogeneous == expected.heterogeneous
    assert diagnostics.ridge_mass == pytest.approx(expected.ridge_mass)
    np.testing.assert_allclose(diagnostics.energies, oracle.energies(case.deltas), rtol=1e-6)
    assert merged.delta.dtype == torch.float32
    assert merged.preliminary is not None
    for tensor, reference in (
        (merged.delta, expected.merged),
        (merged.preliminary, expected.preliminary),
    ):
        error = np.linalg.norm(tensor.double().numpy() - reference)
        assert error <= LARGEST_ERROR * np.linalg.norm(reference)


@pytest.mark.parametrize("m", [50, 100])
def test_more_inputs_than_a_part_of_a_product(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "LONGEST_PART", 128)
    deltas = random_deltas(4, m, products.LONGEST_PART + 25, spread(4, 5), 3)
    expected = oracle.ace_oracle(deltas, epsilon=1e-3, tau=100.0, k_frac=0.0).merged
    parameters = AceParameters(epsilon=1e-3, tau=100.0, k_frac=0.0)
    delta = ace([torch.from_numpy(delta).float() for delta in deltas], [1.0] * 4, parameters).delta
    assert oracle.relative_error(delta.double().numpy(), expected) < LARGEST_ERROR


def test_the_cases_cover_what_they_should() -> None:
    regimes = {
        (case.deltas.shape[1] < case.deltas.shape[2], of(case).heterogeneous) for case in CASES
    }
    assert len(regimes) == 4
    assert {len(case.deltas) for case in CASES} >= {2, 5, 20}
    assert {case.epsilon for case in CASES} >= {1e-5, 4e-2}
    heterogeneous = [case for case in CASES if case.name.startswith("heterogeneous")]
    assert all(of(case).heterogeneous for case in heterogeneous)


@by_regime
def test_the_oracle_itself_agrees_with_forty_digits(heterogeneous: bool) -> None:
    """An ill-conditioned W_pre (condition about 1e7) by Eq. 14 in multiple precision."""
    norms = spread(3, 10, 3.0)
    deltas = random_deltas(3, 4, 12, norms, seed=5)
    with mpmath.workdps(40):
        expected = np.array(_precise_preliminary(deltas, 1e-5, heterogeneous).tolist(), float)
    preliminary = oracle.preliminary(deltas, 1e-5, heterogeneous)
    assert oracle.relative_error(preliminary, expected) < 1e-8


@pytest.mark.parametrize(("T", "m", "n"), [(3, 8, 8), (5, 6, 4), (5, 4, 8), (2, 3, 10)])
@pytest.mark.parametrize("smallest_first", [True, False])
def test_experts_of_very_different_size_cost_no_digits(
    T: int, m: int, n: int, smallest_first: bool
) -> None:
    """Whichever comes first: what is taken from all experts must not drown what is left."""
    norms = np.sort(spread(T, 1e5, 3.0))
    deltas = random_deltas(T, m, n, norms if smallest_first else norms[::-1], seed=5)
    with mpmath.workdps(60):
        expected = np.array(_precise_preliminary(deltas, 1e-5, True).tolist(), float)
    experts = [Experts([torch.from_numpy(delta) for delta in deltas], [1.0] * T)]
    measured, _ = measure(experts, AceParameters(k_frac=0.0))
    rule = algorithm.Rule.HETEROGENEOUS
    system = algorithm.weighed(
        experts, measured, rule, AceParameters(k_frac=0.0), [STRICT] * len(experts)
    )
    assert [share.expert for share in system.shares] == list(range(T))[
        :: 1 if smallest_first else -1
    ]
    preliminary = closed_form.solve(system).preliminary_BOI[0]
    assert oracle.relative_error(preliminary.numpy(), expected) < 1e-14


def _precise_preliminary(deltas: Array, epsilon: float, heterogeneous: bool):
    T, m, n = deltas.shape
    guard = mpmath.mpf(oracle.GUARD)
    experts = [mpmath.matrix(delta.tolist()) for delta in deltas]
    tilde = [d - mpmath.ones(m, m) * d / m for d in experts]
    proxies = [w.T * w for w in tilde]
    traces = [sum(p[i, i] for i in range(n)) + guard for p in proxies]
    weights = [1 / trace if heterogeneous else mpmath.mpf(1) for trace in traces]
    zero = mpmath.zeros(n, n)
    scaled = sum((w * p for w, p in zip(weights, proxies, strict=True)), zero)
    energy = sum(x * x for d in experts for x in d) / T + guard
    prior = mpmath.ones(n, n) * scaled / n / (energy if heterogeneous else 1)
    regularised = [w * (p + epsilon * mpmath.eye(n)) for w, p in zip(weights, proxies, strict=True)]
    numerator = sum((w * r for w, r in zip(tilde, regularised, strict=True)), mpmath.zeros(m, n))
    return numerator * mpmath.inverse(sum(regularised, zero) + prior)


@pytest.mark.parametrize("tau", [0.0, 100.0])
@pytest.mark.parametrize("k_frac", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", [(12, 9), (9, 12)])
def test_the_reference_is_the_equations(shape: tuple[int, int], k_frac: float, tau: float) -> None:
    deltas = random_deltas(4, *shape, spread(4, 20), 3)
    expected = oracle.ace_oracle(deltas, epsilon=1e-3, tau=tau, k_frac=k_frac).merged
    task_vector = reference_ace(
        list(map(torch.from_numpy, deltas)), epsilon=1e-3, tau=tau, k_frac=k_frac
    )
    assert oracle.relative_error(task_vector.numpy(), expected) < 1e-12
