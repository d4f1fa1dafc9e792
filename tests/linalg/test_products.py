"""Products that are added to a sum, by whichever library takes them."""

import pytest
import torch

from ace_gui.linalg import products
from ace_gui.linalg.products import add_product_, wants_rows
from ace_gui.linalg.unpublished import linear


def matrix(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=[None, linear], ids=["MKL", "oneDNN"], autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both, whichever this processor prefers."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        pytest.skip("this build of torch has no oneDNN beside MKL")
    monkeypatch.setattr(products, "LINEAR", request.param)


@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float32, 2e-6), (torch.float64, 1e-14)], ids=["float32", "float64"]
)
@pytest.mark.parametrize("batch", [(), (1,), (2,)])
@pytest.mark.parametrize("laid_out", ["rows", "columns", "block"])
@pytest.mark.parametrize("alpha", [1.0, -0.5])
def test_of_matrices_however_they_lie_in_memory(
    dtype: torch.dtype, error: float, batch: tuple[int, ...], laid_out: str, alpha: float
) -> None:
    left, right = (matrix(*batch, *s, dtype=dtype, seed=1) for s in ((20, 30), (30, 50)))
    total = matrix(*batch, 20, 50, dtype=dtype, seed=2)
    if laid_out == "columns":
        left, right = left.mT.contiguous().mT, right.mT.contiguous().mT
    if laid_out == "block":
        left, right, total = (m[..., 3:17, 2:18] for m in (left, right, total))
        left = left[..., : right.shape[-2]]
    expected = total.double() + alpha * left.double() @ right.double()
    add_product_(total, left, right, alpha)
    torch.testing.assert_close(total.double(), expected, rtol=0, atol=10 * error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_nothing_is_added_of_empty_matrices(
    dtype: torch.dtype, rows: int, inner: int, columns: int
) -> None:
    total = torch.ones(rows, columns, dtype=dtype)
    add_product_(total, torch.ones(rows, inner).to(dtype), torch.ones(inner, columns).to(dtype))
    assert torch.equal(total, torch.ones(rows, columns, dtype=dtype))


def test_products_by_onednn_want_contiguous_rows() -> None:
    assert wants_rows(torch.ones(2, 2)) == (products.LINEAR is not None)
    assert not wants_rows(torch.ones(2, 2, dtype=torch.float64))
    assert not wants_rows(torch.ones(2, 2, device="meta"))
