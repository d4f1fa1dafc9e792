"""Eigenvectors by either library: the same decomposition, the same errors."""

import numpy as np
import pytest
import torch

from ace_gui.linalg import products
from ace_gui.linalg.eigenvectors import eigenvectors


def choose_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one library compute; numpy does so only for a single thread."""
    monkeypatch.setattr(products, "uses_numpy", lambda: name == "numpy")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


@pytest.fixture(params=["numpy", "torch"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose_library(request.param, monkeypatch)
    return str(request.param)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(7, 7), (1, 1), (0, 0), (3, 5, 5), (1, 4, 4)], ids=str)
def test_the_decomposition_is_that_of_the_matrix(
    shape: tuple[int, ...], dtype: torch.dtype, library: str
) -> None:
    square = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=dtype)
    matrix = square + square.mT
    before = matrix.clone()
    values, vectors = eigenvectors(matrix)
    assert values.shape == shape[:-1]
    assert values.dtype == vectors.dtype == dtype
    assert torch.equal(values, values.sort(dim=-1).values)
    torch.testing.assert_close((vectors * values[..., None, :]) @ vectors.mT, matrix)
    assert torch.equal(matrix, before)


def test_only_the_lower_triangle_is_read(library: str) -> None:
    square = torch.randn(5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values = eigenvectors(square.tril()).values
    torch.testing.assert_close(values, eigenvectors(square.tril() + square.tril(-1).T).values)


def test_numpy_raises_the_error_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(matrix: object) -> None:
        raise np.linalg.LinAlgError("did not converge")

    choose_library("numpy", monkeypatch)
    monkeypatch.setattr(np.linalg, "eigh", failing)
    with pytest.raises(torch.linalg.LinAlgError, match="did not converge"):  # type: ignore[attr-defined]
        eigenvectors(torch.eye(4, dtype=torch.float64))
