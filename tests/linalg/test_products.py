"""Products that are added to a sum, by whichever library takes them."""

import pytest
import torch

from ace_gui.linalg import products
from ace_gui.linalg.products import add_product_, wants_rows


def matrix(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


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


def test_products_in_float32_on_the_processor_want_contiguous_rows() -> None:
    assert wants_rows(torch.ones(2, 2))
    assert not wants_rows(torch.ones(2, 2, dtype=torch.float64))
    assert not wants_rows(torch.ones(2, 2, device="meta"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_onednn_the_sum_is_the_same(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = (matrix(*s, dtype=dtype, seed=3) for s in ((40, 60), (60, 20)))
    found, other = (torch.zeros(40, 20, dtype=dtype) for _ in "ab")
    add_product_(found, left, right)
    monkeypatch.setattr(products, "LINEAR", None)
    add_product_(other, left, right)
    torch.testing.assert_close(found, other)
