"""Order statistics from counts, against sorting."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.linalg.selection import (
    BINS,
    SAMPLE,
    bin_of_rank,
    float32_in_bins,
    kth_smallest,
    lower_counts,
    order_in_rows,
    upper_counts,
)

numbers = st.floats(width=32, allow_nan=False)
lists = st.lists(numbers, min_size=1, max_size=40)


def select(parts: list[torch.Tensor], rank: int) -> float:
    upper, within = bin_of_rank(sum(upper_counts(part) for part in parts), rank)
    counts = sum(lower_counts(part, upper) for part in parts)
    lower, _ = bin_of_rank(counts, within)
    return float32_in_bins(upper, lower)


@given(st.lists(lists, min_size=1, max_size=3))
@settings(deadline=None, max_examples=150, derandomize=True)
def test_every_rank_is_that_of_the_sorted_numbers(parts: list[list[float]]) -> None:
    tensors = [torch.tensor(part, dtype=torch.float32) for part in parts]
    ordered = np.sort(np.concatenate([tensor.numpy() for tensor in tensors]))
    for rank in {1, len(ordered) // 2 + 1, len(ordered)}:
        assert select(tensors, rank) == ordered[rank - 1]


def test_numbers_that_differ_in_their_last_bit_are_told_apart() -> None:
    unit = np.float32(1.0)
    values = np.array([np.nextafter(unit, 2, dtype=np.float32), unit, -unit], dtype=np.float32)
    selected = [select([torch.from_numpy(values)], rank) for rank in (1, 2, 3)]
    np.testing.assert_array_equal(selected, np.sort(values))


@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (2, 3, 2)])
def test_counts_are_of_all_entries_whatever_the_shape(shape: tuple[int, ...]) -> None:
    counts = upper_counts(torch.ones(shape))
    assert counts.shape == (BINS,)
    assert int(counts.sum()) == torch.ones(shape).numel()


def test_a_transposed_matrix_counts_as_the_matrix() -> None:
    matrix = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    assert torch.equal(upper_counts(matrix.T), upper_counts(matrix))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(5, 1), (1, 9), (40, 77), (0, 3)], ids=str)
def test_rows_are_put_in_order_and_equal_values_keep_theirs(
    shape: tuple[int, int], dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(0, 9, shape, generator=generator).to(dtype) / 8
    expected = [sorted(range(shape[1]), key=row.__getitem__) for row in values.tolist()]
    assert order_in_rows(values).tolist() == expected
    assert order_in_rows(values.T.contiguous().T).tolist() == expected


ENTRIES = 5 * SAMPLE + 7


def misleading() -> torch.Tensor:
    """Every fifth value, which is what the sample sees, is far above the others."""
    values = torch.rand(ENTRIES, generator=torch.Generator().manual_seed(1))
    values[::5] += 10
    return values


VALUES = {
    "spread": torch.randn(ENTRIES, generator=torch.Generator().manual_seed(0)).abs(),
    "mostly zero": torch.eye(300).reshape(-1)[:ENTRIES],
    "all equal": torch.full((ENTRIES,), 0.5),
    "misleading": misleading(),
    "few": torch.tensor([3.0, 1.0, 2.0]),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.8, 0.999, 1.0])
def test_a_rank_by_a_guess_from_a_sample_is_exact(values: torch.Tensor, share: float) -> None:
    rank = max(1, round(share * len(values)))
    assert float(kth_smallest(values, rank)) == float(values.sort().values[rank - 1])


def test_any_shape_is_looked_through_as_one() -> None:
    values = VALUES["spread"][: 2 * SAMPLE].reshape(2, -1)
    assert float(kth_smallest(values, 1)) == float(values.min())
