"""Task vectors of low rank in a common basis of outputs: the same merge as of whole ones."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from ace_gui.methods.ace import AceParameters, ace
from ace_gui.methods.shared.after import changed_after
from ace_gui.methods.shared.experts import Merged
from ace_gui.methods.shared.low_rank import (
    ThinFactors,
    coordinate_count,
    coordinates,
    expanded,
    output_basis,
)
from ace_gui.methods.tsv_m import TsvMParameters, tsv_m

PARAMETERS = AceParameters(variant="automatic")


def random_factors(
    outputs: int, inputs: int, ranks: Sequence[int], seed: int = 0, mean: float = 0.0
) -> list[ThinFactors]:
    """Factors of experts of growing size; ``mean``: of the entries of L."""
    generator = torch.Generator().manual_seed(seed)
    factors = []
    for t, rank in enumerate(ranks):
        left_OR = torch.randn(outputs, rank, generator=generator) + mean
        right_RI = torch.randn(rank, inputs, generator=generator)
        factors.append(ThinFactors(left_OR * 1.7**t / outputs, right_RI))
    return factors


def basis_of(factors: Sequence[ThinFactors]) -> Tensor:
    return output_basis([factor.left_OR for factor in factors])


def full_deltas(factors: Sequence[ThinFactors]) -> list[Tensor]:
    return [factor.left_OR.double() @ factor.right_RI.double() for factor in factors]


def recommended(
    deltas: list[Tensor], weights: list[float], base_OI: Tensor, outputs: int | None
) -> Merged:
    merged = ace(deltas, weights, PARAMETERS, base=base_OI, outputs=outputs)
    return changed_after(
        merged, deltas, weights, base_OI, spectrum=0.5, scale=1.3, cap=0.12, subtracted=False
    )


@pytest.mark.parametrize("mean", [0.0, 2.0])
def test_basis_is_orthonormal_and_sees_all_outputs_alike(mean: float) -> None:
    factors = random_factors(60, 9, (3, 5, 1), mean=mean)
    basis_OK = basis_of(factors)
    eye_KK = torch.eye(10, dtype=torch.float64)
    assert torch.allclose(basis_OK.mT @ basis_OK, eye_KK, atol=1e-13)
    of_ones_K = basis_OK.sum(dim=0)
    assert torch.allclose(of_ones_K, of_ones_K[0].expand(10), atol=1e-12)
    for factor, delta_OI in zip(factors, full_deltas(factors), strict=True):
        assert torch.allclose(basis_OK @ coordinates(basis_OK, factor), delta_OI, atol=1e-13)


def test_coordinates_are_counted_only_where_they_save_work() -> None:
    assert coordinate_count(35, (3, 5)) is None
    assert coordinate_count(36, (3, 5)) == 9


def dependent(factors: list[ThinFactors]) -> list[ThinFactors]:
    """The second expert's L is a part of the first's; the third changes nothing."""
    first, second, _ = factors
    inputs = first.right_RI.shape[1]
    nothing = ThinFactors(torch.zeros(len(first.left_OR), 0), torch.zeros(0, inputs))
    part_OR = 0.4 * first.left_OR[:, : second.left_OR.shape[1]]
    return [first, ThinFactors(part_OR, second.right_RI), nothing]


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [0.5, 2.0, 0.0]])
@pytest.mark.parametrize("mean", [0.0, 2.0])
@pytest.mark.parametrize("shape", [(64, 20), (64, 90), (200, 400)])
@pytest.mark.parametrize("are_dependent", [False, True])
def test_recommended_merge_is_that_of_whole_task_vectors(
    shape: tuple[int, int], mean: float, weights: list[float], are_dependent: bool
) -> None:
    factors = random_factors(*shape, (4, 3, 2), mean=mean)
    if are_dependent:
        factors = dependent(factors)
    base_OI = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 0.3
    basis_OK = basis_of(factors)
    deltas_KI = [coordinates(basis_OK, factor) for factor in factors]
    merged = expanded(recommended(deltas_KI, weights, base_OI, shape[0]), basis_OK)
    expected = recommended(full_deltas(factors), weights, base_OI, None)
    error = (merged.delta - expected.delta).double().norm() / expected.delta.double().norm()
    assert error < 1e-5  # of results that are rounded to float32
    figures = merged.diagnostics
    expected_figures = expected.diagnostics
    for name in ("energies", "traces", "gamma", "cap_factor", "ridge_mass"):
        expected_value = getattr(expected_figures, name)
        assert getattr(figures, name) == pytest.approx(expected_value, rel=1e-6), name
    assert figures.left_out == expected_figures.left_out
    assert figures.reshaped is not None
    assert expected_figures.reshaped is not None
    for values, expected_values in zip(figures.reshaped, expected_figures.reshaped, strict=True):
        limit = 1e-5 * expected_values[0]
        assert values == pytest.approx(expected_values, rel=1e-5, abs=limit)


PUBLISHED = {
    "homogeneous": AceParameters(tau=1e3),
    "all directions refined": AceParameters(tau=0, k_frac=0.3),
    "few directions refined": AceParameters(tau=0, k_frac=0.1),
    "no direction refined": AceParameters(tau=0, k_frac=0.0),
}


def assert_same(merged: Merged, expected: Merged) -> None:
    error = (merged.delta - expected.delta).double().norm() / expected.delta.double().norm()
    assert error < 1e-5
    figures = vars(merged.diagnostics)
    expected_figures = vars(expected.diagnostics)
    assert figures["notes"] == expected_figures["notes"]
    for name in ("energies", "traces", "gamma", "refinement_cosine", "refinement_ratio"):
        if expected_figures[name] is None:
            assert figures[name] is None, name
        else:
            assert figures[name] == pytest.approx(expected_figures[name], rel=1e-5), name


@pytest.mark.parametrize("mean", [0.0, 2.0])
@pytest.mark.parametrize("shape", [(64, 90), (200, 60)])
@pytest.mark.parametrize("case", PUBLISHED)
def test_published_merge_is_that_of_whole_task_vectors(
    case: str, shape: tuple[int, int], mean: float
) -> None:
    """``k_frac`` is a share of all outputs or inputs, however few coordinates there are."""
    factors = random_factors(*shape, (4, 3, 2), mean=mean)
    basis_OK = basis_of(factors)
    deltas_KI = [coordinates(basis_OK, factor) for factor in factors]
    weights = [1.0] * len(factors)
    merged = ace(deltas_KI, weights, PUBLISHED[case], outputs=shape[0])
    assert_same(expanded(merged, basis_OK), ace(full_deltas(factors), weights, PUBLISHED[case]))


@pytest.mark.parametrize("ranks", [(4, 3, 2), (1, 12, 1)])
@pytest.mark.parametrize("shape", [(64, 90), (200, 60)])
def test_tsv_merge_is_that_of_whole_task_vectors(
    shape: tuple[int, int], ranks: tuple[int, ...]
) -> None:
    factors = random_factors(*shape, ranks)
    basis_OK = basis_of(factors)
    deltas_KI = [coordinates(basis_OK, factor) for factor in factors]
    weights = [1.0] * len(factors)
    merged = tsv_m(deltas_KI, weights, TsvMParameters(), outputs=shape[0])
    assert_same(expanded(merged, basis_OK), tsv_m(full_deltas(factors), weights, TsvMParameters()))
