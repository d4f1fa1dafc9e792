"""Leading triplets and rank-revealing polar factors against full decompositions."""

import numpy as np
import pytest
import torch

from ace_gui.linalg.singular import inverse_root, leading_triplets, orthogonalised
from tests.helpers.ace_cases import decaying_deltas, low_rank_deltas, random_deltas

SHAPES = [(6, 20), (20, 6), (14, 14), (1, 5), (5, 1)]
by_shape = pytest.mark.parametrize(("m", "n"), SHAPES)


def matrices(m: int, n: int) -> list[np.ndarray]:
    return [
        random_deltas(1, m, n, 2.0, 0)[0],
        low_rank_deltas(1, m, n, 2, 3.0, 1)[0],
        decaying_deltas(1, m, n, 1e4, 1.0, 2)[0],
        decaying_deltas(1, m, n, 1e12, 1.0, 3)[0],
    ]


@by_shape
def test_triplets_are_those_of_the_decomposition(m: int, n: int) -> None:
    for matrix in matrices(m, n):
        u, s, vh = np.linalg.svd(matrix, full_matrices=False)
        for k in range(1, min(m, n) + 1):
            triplets = leading_triplets(torch.from_numpy(matrix), k)
            count = min(k, int((s > 1e-6 * s[0]).sum()))
            np.testing.assert_allclose(triplets.s_K, s[:count], rtol=1e-7)
            expected = u[:, :count] * s[:count] @ vh[:count]
            np.testing.assert_allclose(triplets.product, expected, rtol=0, atol=1e-7 * s[0])
            eye = np.eye(count)
            np.testing.assert_allclose(triplets.u_OK.T @ triplets.u_OK, eye, rtol=0, atol=1e-6)
            np.testing.assert_allclose(triplets.vh_KI @ triplets.vh_KI.T, eye, rtol=0, atol=1e-6)


def test_values_below_the_scale_are_left_out() -> None:
    matrix = torch.diag(torch.tensor([1.0, 1e-3, 1e-5], dtype=torch.float64))
    assert len(leading_triplets(matrix, 3).s_K) == 3
    assert len(leading_triplets(matrix, 3, scale=1e2).s_K) == 2
    assert len(leading_triplets(matrix, 3, scale=1e7).s_K) == 0


def test_no_triplets_of_zero_or_of_nothing() -> None:
    for matrix, k in ((torch.zeros(3, 4), 3), (torch.ones(3, 4), 0), (torch.zeros(0, 4), 0)):
        triplets = leading_triplets(matrix.double(), k)
        assert triplets.product.shape == matrix.shape
        assert not triplets.product.any()


@pytest.mark.parametrize("span", [1.0, 1e2, 1e5])
def test_independent_columns_become_the_nearest_orthonormal_ones(span: float) -> None:
    columns = decaying_deltas(1, 12, 5, span, 1.0, 4)[0]
    u, _, vh = np.linalg.svd(columns, full_matrices=False)
    orthonormal = orthogonalised(torch.from_numpy(columns))
    np.testing.assert_allclose(orthonormal, u @ vh, rtol=0, atol=1e-6)


def test_dependent_columns_stay_in_their_span() -> None:
    basis = np.linalg.qr(random_deltas(1, 12, 4, 1.0, 5)[0])[0]
    for columns in (
        np.hstack([basis, basis]),
        np.hstack([basis, basis[:, :2] @ [[1, 1], [1, -1]]]),
    ):
        orthonormal = orthogonalised(torch.from_numpy(columns)).numpy()
        np.testing.assert_allclose(basis @ (basis.T @ orthonormal), orthonormal, rtol=0, atol=1e-12)
        np.testing.assert_allclose(np.linalg.svd(orthonormal, compute_uv=False)[:4], 1, atol=1e-12)


def test_a_column_repeated_up_to_rounding_adds_no_direction() -> None:
    basis = np.linalg.qr(random_deltas(1, 12, 3, 1.0, 6)[0])[0]
    for noise in (1e-9, 1e-7):
        shifted = basis[:, :1] + noise * random_deltas(1, 12, 1, 1.0, 7)[0]
        orthonormal = orthogonalised(torch.from_numpy(np.hstack([basis, shifted]))).numpy()
        assert np.linalg.matrix_rank(orthonormal, tol=1e-3) == 3


def test_no_columns_at_all() -> None:
    assert orthogonalised(torch.zeros(4, 0, dtype=torch.float64)).shape == (4, 0)


@pytest.mark.parametrize("values", [[1, 0.5, 1e-4, 2e-5], [1, 1e-5, 0, 0], [1, 1e-2, 3e-6, 1e-9]])
@pytest.mark.parametrize(("m", "n"), [(4, 4), (9, 4)])
def test_faint_directions_of_a_gram_matrix_are_found(values: list[float], m: int, n: int) -> None:
    left_vectors = np.linalg.qr(random_deltas(1, m, n, 1.0, 15)[0])[0]
    right = np.linalg.qr(random_deltas(1, n, n, 1.0, 16)[0])[0]
    present = np.array(values) > 1e-6
    columns = torch.from_numpy(left_vectors * values @ right.T)
    expected = left_vectors[:, present] @ right[:, present].T
    np.testing.assert_allclose(orthogonalised(columns), expected, rtol=0, atol=1e-9)
    root = right[:, present] / np.array(values)[present] @ right[:, present].T
    np.testing.assert_allclose(inverse_root(columns), root, rtol=0, atol=1e-9 * root.max() * 100)
