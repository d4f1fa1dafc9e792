"""Products in split float32, held to those in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.linalg import split
from ace_gui.linalg.blocks import gram
from ace_gui.linalg.precision import full_float32
from ace_gui.linalg.products import add_product_
from ace_gui.linalg.split import split_products
from tests.helpers.device_stand_in import GPU

ERROR = 5e-9
"""Of the norms of row and column, entry by entry, at worst."""

DTYPES = [torch.float64, torch.float32, torch.bfloat16]


def factors(
    n: int, k: int, m: int, dtype: torch.dtype, norm: float, decay: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Entries of a row and of a column spread over ``decay``, of about that norm."""
    generator = torch.Generator().manual_seed(seed)
    spread = torch.logspace(0, decay, k, dtype=torch.float64)[
        torch.randperm(k, generator=generator)
    ]
    left = torch.randn(n, k, generator=generator, dtype=torch.float64) * spread * norm
    right = torch.randn(k, m, generator=generator, dtype=torch.float64) * spread[:, None] / norm
    return left.to(dtype).double(), right.to(dtype).double()


@given(
    st.integers(1, 40),
    st.sampled_from([1, 3, 511, 512, 513, 1500]),
    st.integers(1, 40),
    st.sampled_from(DTYPES),
    st.sampled_from([1e-30, 1e-6, 1.0, 1e30]),
    st.sampled_from([0.0, -3.0, -12.0]),
)
@settings(deadline=None, max_examples=60, derandomize=True)
def test_a_split_product_is_nearly_that_in_float64(
    n: int, k: int, m: int, dtype: torch.dtype, norm: float, decay: float
) -> None:
    left, right = factors(n, k, m, dtype, norm, decay, k)
    total = torch.ones(n, m, dtype=torch.float64)
    with full_float32(), split_products(True):
        add_product_(total, left, right, -2.0)
    scale = left.norm(dim=1)[:, None] * right.norm(dim=0)[None]
    missed = (total - 1 + 2 * (left @ right)).abs()
    assert bool((missed <= 2 * ERROR * scale + 1e-15).all())


@pytest.mark.parametrize("decay", [0.0, -3.0, -12.0])
@pytest.mark.parametrize("k", [1, 40, 1500])
def test_float32_alone_leaves_forty_times_as_much(k: int, decay: float) -> None:
    left, right = factors(40, k, 40, torch.float64, 1.0, decay, 0)
    total = torch.zeros(40, 40, dtype=torch.float64)
    with full_float32(), split_products(True):
        add_product_(total, left, right)
        single = (left.float() @ right.float()).double()
    exact = left @ right
    assert float((total - exact).norm()) < float((single - exact).norm()) / 40


def test_zero_rows_and_batches_with_factors_of_their_own() -> None:
    generator = torch.Generator().manual_seed(1)
    left = torch.randn(2, 5, 7, generator=generator, dtype=torch.float64)
    left[1, 2] = 0
    right = torch.randn(2, 7, 3, generator=generator, dtype=torch.float64)
    total = torch.zeros(2, 5, 3, dtype=torch.float64)
    with split_products(True):
        add_product_(total, left, right, [2.0, -1.0])
    expected = left @ right * torch.tensor([2.0, -1.0])[:, None, None]
    torch.testing.assert_close(total, expected, rtol=1e-7, atol=1e-8)
    assert not total[1, 2].any()


def test_a_gram_matrix_in_blocks_is_split_too() -> None:
    factor = torch.randn(300, 450, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    with split_products(True):
        found = gram(factor)
    missed = (found - factor.T @ factor).abs()
    assert 0 < float(missed.max()) < 300 * ERROR


def test_only_within_and_only_float64_is_split() -> None:
    """Which is seen by what each leaves: as little as float64, and as much as float32."""
    left, right = (each.float().double() for each in factors(3, 800, 4, torch.float64, 1, 0, 3))
    exact, single = torch.zeros(3, 4, dtype=torch.float64), torch.zeros(3, 4)
    add_product_(exact, left, right)
    torch.testing.assert_close(exact, left @ right, rtol=0, atol=1e-12)
    with split_products(True):
        add_product_(single, left.float(), right.float())
    missed = float((single - exact).abs().max())
    assert 1e-6 < missed < 1e-3


@pytest.mark.parametrize(("ratio", "expected"), [(2.0, False), (32.0, True)])
def test_it_pays_where_float64_is_slow(
    ratio: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    took = {torch.float32: 1.0, torch.float64: ratio}
    monkeypatch.setattr(split, "_seconds", lambda dtype, _device: took[dtype])
    assert split.pays(GPU) == expected
    assert not split.pays(torch.device("cpu")), "a processor is not even measured"
