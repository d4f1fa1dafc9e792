"""Products of matrices, by whichever library takes them."""

import math
from functools import cache
from pathlib import Path

import pytest
import torch
from threadpoolctl import ThreadpoolController

from ace_gui.linalg import products
from ace_gui.linalg.products import (
    add_gram_,
    add_product_,
    gram,
    mirror_,
    product_library,
    times,
    uses_numpy,
)


def matrix(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=["torch", "numpy"], autouse=True)
def taken_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both, whichever this processor prefers."""
    name: str = request.param
    monkeypatch.setattr(products, "uses_numpy", lambda: name == "numpy")
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
    left_factor, right_factor = (
        matrix(*batch, *s, dtype=dtype, seed=1) for s in ((20, 30), (30, 50))
    )
    total = matrix(*batch, 20, 50, dtype=dtype, seed=2)
    if laid_out == "columns":
        left_factor = left_factor.mT.contiguous().mT
        right_factor = right_factor.mT.contiguous().mT
    if laid_out == "block":
        left_factor, right_factor, total = (
            m[..., 3:17, 2:18] for m in (left_factor, right_factor, total)
        )
        left_factor = left_factor[..., : right_factor.shape[-2]]
    expected = total.double() + alpha * left_factor.double() @ right_factor.double()
    add_product_(total, left_factor, right_factor, alpha)
    torch.testing.assert_close(total.double(), expected, rtol=0, atol=10 * error)
    if not batch:
        product = times(left_factor, right_factor)
        assert product.dtype == dtype
        exact = left_factor.double() @ right_factor.double()
        torch.testing.assert_close(product.double(), exact, rtol=0, atol=10 * error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_nothing_is_added_of_empty_matrices(
    dtype: torch.dtype, rows: int, inner: int, columns: int
) -> None:
    total = torch.ones(rows, columns, dtype=dtype)
    left_factor = torch.ones(rows, inner).to(dtype)
    right_factor = torch.ones(inner, columns).to(dtype)
    add_product_(total, left_factor, right_factor)
    assert torch.equal(total, torch.ones(rows, columns, dtype=dtype))
    assert torch.equal(times(left_factor, right_factor), torch.zeros(rows, columns, dtype=dtype))


@pytest.mark.parametrize("shape", [(40, 70, 90), (300, 20, 7), (7, 20, 300), (1, 500, 1)])
def test_in_parts_it_is_the_same_product(
    shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, inner, columns = shape
    monkeypatch.setattr(products, "LONGEST_PART", 32)
    left_factor = matrix(rows, inner, dtype=torch.float64, seed=1)
    right_factor = matrix(inner, columns, dtype=torch.float64, seed=2)
    total = torch.ones(rows, columns, dtype=torch.float64)
    add_product_(total, left_factor, right_factor, 2.0)
    torch.testing.assert_close(total, 1 + 2 * (left_factor @ right_factor), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize(
    ("size", "piece"),
    [
        *((size, products.LONGEST_PART) for size in (1, 5, 192, 193, 500, 1700)),
        (500, 130),
        (500, 64),
    ],
)
def test_a_sum_of_gram_matrices_by_blocks_and_in_parts_is_that_of_full_products(
    size: int, piece: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "LONGEST_PART", piece)
    first, second = (matrix(rows, size, dtype=torch.float64, seed=seed) for seed in (1, 2))
    total = torch.zeros(size, size, dtype=torch.float64)
    add_gram_(total, first)
    add_gram_(total, second, alpha=-0.25)
    torch.testing.assert_close(mirror_(total), first.T @ first - 0.25 * second.T @ second)
    torch.testing.assert_close(gram(first, alpha=3.0), 3 * first.T @ first)


def test_threads_that_share_a_matrix_are_left_to_torch(
    taken_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    multiply = products.np.matmul

    def counted(*factors: object, **options: object) -> object:
        used.append(1)
        return multiply(*factors, **options)

    monkeypatch.setattr(products.np, "matmul", counted)
    ones = torch.ones(3, 3, dtype=torch.float64)
    times(ones, ones)
    assert len(used) == (taken_by == "numpy")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    times(ones, ones)
    assert len(used) == (taken_by == "numpy")


def test_values_that_are_not_finite_are_kept_without_a_warning() -> None:
    left_factor = torch.tensor([[math.inf, 1.0], [math.nan, 1.0]], dtype=torch.float64)
    product = times(left_factor, torch.tensor([[0.0], [1.0]], dtype=torch.float64))
    assert product.isnan().all()
    assert times(torch.full((1, 1), 1e30), torch.full((1, 1), 1e30)).isinf().all()


def test_of_whole_numbers_and_on_other_devices_torch_takes_them() -> None:
    assert times(torch.ones(2, 3, dtype=torch.int64), torch.ones(3, 2, dtype=torch.int64)).sum()
    assert times(torch.ones(2, 3, device="meta"), torch.ones(3, 4, device="meta")).shape == (2, 4)


def test_half_of_a_matrix_times_its_transpose_is_computed(taken_by: str) -> None:
    """numpy notices that both factors are one matrix, also in a batch of one."""
    wide = matrix(40, 70, dtype=torch.float64, seed=1)
    for factor in (wide, wide.mT, wide[:, 3:50]):
        product = gram(factor[None], alpha=[2.0])[0]
        torch.testing.assert_close(product, 2 * factor.mT @ factor, rtol=0, atol=1e-12)
        if taken_by == "numpy":
            assert torch.equal(product, product.mT)


@pytest.mark.parametrize("vendor", ["GenuineIntel", "AuthenticAMD"])
@pytest.mark.parametrize("has_mkl", [True, False])
def test_numpy_is_chosen_where_torchs_mkl_leaves_speed_unused(
    vendor: str, has_mkl: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first product on, and with one thread; others are left alone."""
    reported: list[int] = []

    class Own:
        filepath = "site-packages/numpy.libs/libscipy_openblas64_.so"

    class Controller(ThreadpoolController):
        lib_controllers = (Own(),)

        def __init__(self) -> None:
            pass

        def select(self, **_: str) -> "Controller":
            return self

        def limit(self, *, limits: int) -> None:
            reported.append(limits)

    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n", encoding="ascii")
    monkeypatch.setattr(products, "ThreadpoolController", Controller)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: has_mkl)
    monkeypatch.delenv("PROCESSOR_IDENTIFIER", raising=False)
    monkeypatch.setattr(products, "Path", lambda _: info)  # Linux
    chosen = has_mkl and vendor != "GenuineIntel"
    monkeypatch.setattr(products, "uses_numpy", cache(uses_numpy.__wrapped__))
    assert [product_library(), product_library()] == ["numpy" if chosen else "torch"] * 2
    monkeypatch.setattr(products, "Path", lambda _: tmp_path / "none")  # Windows
    monkeypatch.setenv("PROCESSOR_IDENTIFIER", f"Family 6, {vendor}")
    assert uses_numpy.__wrapped__() == chosen
    assert reported == [1, 1] * chosen
