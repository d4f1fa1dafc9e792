"""Order statistics by a guess from a sample: exact whatever the sample says."""

import pytest
import torch

from ace_gui.linalg.selection import SAMPLE, smallest

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
def test_the_rank_is_exact(values: torch.Tensor, share: float) -> None:
    rank = max(1, round(share * len(values)))
    assert float(smallest(values, rank)) == float(values.sort().values[rank - 1])


def test_any_shape_is_looked_through_as_one() -> None:
    values = VALUES["spread"][: 2 * SAMPLE].reshape(2, -1)
    assert float(smallest(values, 1)) == float(values.min())
