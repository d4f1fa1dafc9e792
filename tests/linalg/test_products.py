"""Products of matrices, by whichever library takes them."""

import math
from functools import cache

import pytest
import torch
from threadpoolctl import ThreadpoolController

from ace_gui.linalg import products
from ace_gui.linalg.products import add_product_, by_numpy, library, linear, times, wants_rows

LIBRARIES = ("MKL", "oneDNN", "numpy")


def matrix(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=LIBRARIES, autouse=True)
def taken_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """All of them, whichever this processor prefers."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        pytest.skip("this build of torch has no oneDNN beside MKL")
    name: str = request.param
    monkeypatch.setattr(products, "LINEAR", linear if name == "oneDNN" else None)
    monkeypatch.setattr(products, "by_numpy", lambda: name == "numpy")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    return name


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
    if not batch:
        found = times(left, right)
        assert found.dtype == dtype
        exact = left.double() @ right.double()
        torch.testing.assert_close(found.double(), exact, rtol=0, atol=10 * error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_nothing_is_added_of_empty_matrices(
    dtype: torch.dtype, rows: int, inner: int, columns: int
) -> None:
    total = torch.ones(rows, columns, dtype=dtype)
    left, right = torch.ones(rows, inner).to(dtype), torch.ones(inner, columns).to(dtype)
    add_product_(total, left, right)
    assert torch.equal(total, torch.ones(rows, columns, dtype=dtype))
    assert torch.equal(times(left, right), torch.zeros(rows, columns, dtype=dtype))


@pytest.mark.parametrize("shape", [(40, 70, 90), (300, 20, 7), (7, 20, 300), (1, 500, 1)])
def test_in_parts_it_is_the_same_product(
    shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, inner, columns = shape
    monkeypatch.setattr(products, "PIECE", 32)
    left = matrix(rows, inner, dtype=torch.float64, seed=1)
    right = matrix(inner, columns, dtype=torch.float64, seed=2)
    total = torch.ones(rows, columns, dtype=torch.float64)
    add_product_(total, left, right, 2.0)
    torch.testing.assert_close(total, 1 + 2 * (left @ right), rtol=0, atol=1e-12)


def test_threads_that_share_a_matrix_are_left_to_torch(
    taken_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    multiply = products.np.matmul

    def counted(*factors: object, **options: object) -> object:
        used.append(1)
        return multiply(*factors, **options)

    monkeypatch.setattr(products.np, "matmul", counted)
    one = torch.ones(3, 3, dtype=torch.float64)
    times(one, one)
    assert len(used) == (taken_by == "numpy")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    times(one, one)
    assert len(used) == (taken_by == "numpy")


def test_values_that_are_not_finite_are_kept_without_a_warning() -> None:
    left = torch.tensor([[math.inf, 1.0], [math.nan, 1.0]], dtype=torch.float64)
    found = times(left, torch.tensor([[0.0], [1.0]], dtype=torch.float64))
    assert found.isnan().all()
    assert times(torch.full((1, 1), 1e30), torch.full((1, 1), 1e30)).isinf().all()


def test_of_whole_numbers_and_on_other_devices_torch_takes_them() -> None:
    assert times(torch.ones(2, 3, dtype=torch.int64), torch.ones(3, 2, dtype=torch.int64)).sum()
    assert times(torch.ones(2, 3, device="meta"), torch.ones(3, 4, device="meta")).shape == (2, 4)


def test_products_by_onednn_want_contiguous_rows(taken_by: str) -> None:
    assert wants_rows(torch.ones(2, 2)) == (taken_by == "oneDNN")
    assert not wants_rows(torch.ones(2, 2, dtype=torch.float64))
    assert not wants_rows(torch.ones(2, 2, device="meta"))


@pytest.mark.parametrize(("products_for", "chosen"), [("SkylakeX", True), ("Haswell", False)])
def test_numpy_is_chosen_where_its_openblas_has_wide_registers(
    products_for: str, chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first product on, by no one's choice, and with one thread; others are left alone."""
    reported: list[int] = []

    class Own:
        filepath = "site-packages/numpy.libs/libscipy_openblas64_.so"

        def info(self) -> dict[str, str]:
            return {"architecture": products_for}

    class Controller(ThreadpoolController):
        lib_controllers = (Own(),)

        def __init__(self) -> None:
            pass

        def select(self, **_: str) -> "Controller":
            return self

        def limit(self, *, limits: int) -> None:
            reported.append(limits)

    monkeypatch.setattr(products, "by_numpy", cache(by_numpy.__wrapped__))
    monkeypatch.setattr(products, "ThreadpoolController", Controller)
    assert [library(), library()] == ["numpy" if chosen else "torch"] * 2
    assert reported == [1] * chosen
