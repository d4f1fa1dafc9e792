"""The automatic variant of ACE: its oracle, its equivariances, its cap, its degenerate layers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.errors import MethodError
from ace_gui.methods.ace import AceParameters, ace, ace_batch
from ace_gui.methods.method import MethodInput
from tests.helpers import ace_oracle as oracle
from tests.helpers.ace_cases import Array, decaying_deltas, low_rank_deltas, random_deltas, spread

LARGEST_ERROR = 1e-5

SHAPES = {"wide": (16, 48), "broad": (24, 36), "square": (32, 32), "tall": (48, 16), "few": (4, 40)}
MAKERS = {
    "flat": random_deltas,
    "thin": lambda T, m, n, norms, seed: low_rank_deltas(T, m, n, 2, norms, seed),
    "decaying": lambda T, m, n, norms, seed: decaying_deltas(T, m, n, 1e6, norms, seed),
}


def merged(
    deltas: Array, base: Array, weights: list[float] | None = None, **options: float
) -> tuple[Array, float | None]:
    outcome = ace(
        [torch.from_numpy(delta) for delta in deltas],
        weights or [1.0] * len(deltas),
        AceParameters(variant="automatic", **options),
        base=torch.from_numpy(base),
    )
    return outcome.delta.double().numpy(), outcome.diagnostics.cap_factor


def base_of(deltas: Array, share: float = 20.0) -> Array:
    """A base so many times as large as the experts' mean norm."""
    rng = np.random.default_rng(9)
    base = rng.standard_normal(deltas.shape[1:])
    norm = np.linalg.norm(deltas, axis=(1, 2)).mean()
    return base * (share * norm / np.linalg.norm(base))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("T", [2, 5, 20])
@pytest.mark.parametrize("alpha", [1e-3, 0.3, 1.0])
def test_the_oracle(shape: str, make: str, T: int, alpha: float) -> None:
    m, n = SHAPES[shape]
    deltas = MAKERS[make](T, m, n, spread(T, 30), T)
    for share in (2.0, 20.0, 500.0):
        base = base_of(deltas, share)
        task_vector, factor = merged(deltas, base, alpha=alpha)
        expected = oracle.automatic(deltas, base, alpha=alpha)
        assert oracle.relative_error(task_vector, expected) <= LARGEST_ERROR
        assert factor is not None
        assert 0 < factor <= 1


def test_the_cap_has_its_three_cases() -> None:
    """One expert's norm, a share of the base, and √T experts: each decides once."""
    deltas = random_deltas(6, 20, 30, 0.5, 1)
    centred = [oracle.centred(delta)[0] for delta in deltas]
    rms = float(np.sqrt(np.mean([np.sum(w * w) for w in centred])))
    for share, expected in ((0.5, rms), (15.0, None), (1e4, np.sqrt(6) * rms)):
        base = base_of(deltas, share)
        task_vector, factor = merged(deltas, base, alpha=1e-4)
        expected_norm = 0.12 * np.linalg.norm(base) if expected is None else expected
        if factor is not None and factor < 1:
            assert np.linalg.norm(task_vector) == pytest.approx(expected_norm, rel=1e-6)
        assert np.linalg.norm(task_vector) <= expected_norm * (1 + 1e-6)
    assert merged(deltas, base_of(deltas, 0.5), alpha=1e-4)[1] < 1


@settings(max_examples=30, deadline=None)
@given(
    scale=st.floats(1e-4, 1e4),
    seed=st.integers(0, 50),
    shape=st.sampled_from(sorted(SHAPES)),
    T=st.integers(2, 6),
)
def test_scaling_base_and_experts_together_scales_the_result(
    scale: float, seed: int, shape: str, T: int
) -> None:
    m, n = SHAPES[shape]
    deltas = random_deltas(T, m, n, spread(T, 10), seed)
    base = base_of(deltas)
    task_vector, factor = merged(scale * deltas, scale * base)
    expected, same = merged(deltas, base)
    assert oracle.relative_error(task_vector, scale * expected) < 1e-6
    assert factor == pytest.approx(same, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 50))
def test_without_the_cap_it_is_equivariant_to_the_scale_of_the_experts(
    scale: float, seed: int
) -> None:
    deltas = random_deltas(4, 16, 24, spread(4, 10), seed)
    base = base_of(deltas, 1e9)
    task_vector, factor = merged(scale * deltas, base, alpha=1.0, delta=10.0)
    expected, same = merged(deltas, base, alpha=1.0, delta=10.0)
    if factor == same == 1:
        assert oracle.relative_error(task_vector, scale * expected) < 1e-6


def test_the_order_of_experts_inputs_and_outputs_does_not_matter() -> None:
    deltas = random_deltas(5, 12, 18, spread(5, 20), 3)
    base = base_of(deltas)
    expected, _ = merged(deltas, base)
    rng = np.random.default_rng(1)
    order = rng.permutation(5)
    rows = rng.permutation(12)
    columns = rng.permutation(18)
    task_vector, _ = merged(deltas[order], base)
    assert oracle.relative_error(task_vector, expected) < 1e-6
    task_vector, _ = merged(deltas[:, rows][:, :, columns], base)
    assert oracle.relative_error(task_vector, expected[rows][:, columns]) < 1e-6


def test_weights_are_factors_on_the_task_vectors() -> None:
    deltas = random_deltas(3, 8, 10, 0.2, 3)
    base = base_of(deltas)
    weights = [0.5, 2.0, -1.0]
    task_vector, _ = merged(deltas, base, weights)
    expected, _ = merged(deltas * np.array(weights)[:, None, None], base)
    assert oracle.relative_error(task_vector, expected) < 1e-6


def test_one_expert_left_is_taken_as_it_is_and_none_leaves_the_base() -> None:
    deltas = random_deltas(3, 8, 10, 0.2, 3)
    base = base_of(deltas, 0.1)
    alone = deltas * np.array([1.0, 0.0, 0.0])[:, None, None]
    task_vector, factor = merged(alone, base)
    assert oracle.relative_error(task_vector, deltas[0]) < 1e-6
    assert factor is None
    assert not merged(0 * deltas, base)[0].any()


def test_an_expert_that_moves_all_outputs_alike_does_not_blow_up() -> None:
    """Its centred change is zero, so that it has no trace to be divided by."""
    deltas = random_deltas(3, 8, 10, 0.2, 3)
    deltas[1] = np.outer(np.ones(8), np.random.default_rng(0).standard_normal(10)) * 0.01
    task_vector, _ = merged(deltas, base_of(deltas))
    assert np.isfinite(task_vector).all()
    assert np.linalg.norm(task_vector) < 1


def test_a_batch_is_each_layer_alone() -> None:
    layers = []
    for seed in range(3):
        deltas = random_deltas(4, 12, 20, spread(4, 10), seed)
        tensors = [torch.from_numpy(delta).float() for delta in deltas]
        base = torch.from_numpy(base_of(deltas)).float()
        layers.append(MethodInput(tensors, [1.0] * 4, base))
    parameters = AceParameters(variant="automatic")
    for outcome, (tensors, weights, base, *_) in zip(
        ace_batch(layers, parameters), layers, strict=True
    ):
        alone = ace(tensors, weights, parameters, base=base)
        assert float((outcome.delta - alone.delta).norm() / alone.delta.norm()) < 1e-6
        assert outcome.diagnostics.heterogeneous is None


def test_without_the_norm_of_the_base_there_is_no_cap() -> None:
    deltas = [torch.from_numpy(delta) for delta in random_deltas(3, 8, 10, 0.2, 3)]
    with pytest.raises(MethodError, match="norm of the base"):
        ace(deltas, [1.0] * 3, AceParameters(variant="automatic"))


def test_a_refinement_against_the_experts_is_left_out_on_request() -> None:
    """At a ridge mass near one the published refinement turns on the experts."""
    deltas = [
        torch.from_numpy(delta).float() for delta in random_deltas(8, 32, 32, spread(8, 30, 0.1), 2)
    ]
    always = ace(deltas, [1.0] * 8, AceParameters(epsilon=1e-2, tau=0.0), keep_preliminary=True)
    cosine = always.diagnostics.refinement_cosine
    assert cosine is not None
    assert cosine < 0
    agreeing = ace(deltas, [1.0] * 8, AceParameters(epsilon=1e-2, tau=0.0, refine="agreeing"))
    assert torch.equal(agreeing.delta, always.preliminary)
    assert any("points against" in note for note in agreeing.diagnostics.notes)
    mild = AceParameters(epsilon=1e-6, tau=0.0)
    cautious = AceParameters(epsilon=1e-6, tau=0.0, refine="agreeing")
    assert ace(deltas, [1.0] * 8, mild).diagnostics.refinement_cosine > 0
    assert torch.equal(ace(deltas, [1.0] * 8, mild).delta, ace(deltas, [1.0] * 8, cautious).delta)
