"""How often linear algebra waits for a GPU, and what it uploads; the figures are those of CPUs."""

import numpy as np
import pytest
import torch

from ace_gui.errors import MethodError
from ace_gui.linalg.products import factor_per_matrix
from ace_gui.linalg.solve import right_divide_
from tests.helpers.device_stand_in import GPU, DeviceStandIn


def systems(size: int, count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, size + 3, size, generator=generator, dtype=torch.float64)
    numerators = torch.randn(count, 5, size, generator=generator, dtype=torch.float64)
    return rows.mT @ rows, numerators


@pytest.mark.parametrize(("size", "count"), [(10, 1), (700, 1), (300, 3)])
def test_a_division_waits_once_however_many_blocks_there_are(size: int, count: int) -> None:
    system, numerator = systems(size, count)
    # By NumPy: MKL's batched LU fails with several threads on some processors of AMD.
    expected = numerator @ torch.from_numpy(np.linalg.inv(system.numpy()))
    with DeviceStandIn().installed() as stand_in:
        there = system.to(GPU)
        quotient = numerator.to(GPU)
        stand_in.forget()
        cuts = right_divide_(there, quotient)
        assert sum(stand_in.waits.values()) == 1
        assert not stand_in.uploads
        result = quotient.cpu()
    assert cuts == [0] * count
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_system_that_is_not_finite_is_refused(device: str) -> None:
    system, numerator = systems(300, 1)
    system[0, 7, 250] = torch.inf
    with (
        DeviceStandIn().installed(),
        pytest.raises(MethodError, match="not finite"),
    ):
        right_divide_(system.to(device), numerator.to(device))


def test_factors_make_nothing_wait() -> None:
    like = torch.zeros(3, 2, 2, dtype=torch.float64)
    with DeviceStandIn().installed() as stand_in:
        there = like.to(GPU)
        stand_in.forget()
        alike = factor_per_matrix([0.1] * 3, there)
        factors = factor_per_matrix([1.0, 2.0, 3.0], there)
        assert not stand_in.waits
        assert len(stand_in.uploads) == 1
        assert not stand_in.unpinned
        assert alike.cpu().flatten().tolist() == [0.1] * 3
        assert factors.cpu().flatten().tolist() == [1.0, 2.0, 3.0]
    assert factor_per_matrix([1.0, 2.0, 3.0], like).shape == (3, 1, 1)
