"""Symmetric sums by blocks, and the precision of products."""

import pytest
import torch

from ace_gui.linalg.products import NARROWEST, WIDEST, blocks, full_float32, gram, widest_block

CPU = torch.device("cpu")
sizes = pytest.mark.parametrize("size", [1, 191, 192, 193, 500, 2000, 4000])


@sizes
def test_blocks_cover_every_column_once(size: int) -> None:
    covered = [column for block in blocks(size, CPU) for column in range(block.start, block.stop)]
    assert covered == list(range(size))
    widths = [block.stop - block.start for block in blocks(size, CPU)]
    assert all(NARROWEST <= width <= WIDEST for width in widths[:-1])


@sizes
def test_a_gpu_has_fewer_and_wider_blocks(size: int) -> None:
    there = list(blocks(size, torch.device("cuda:0")))
    assert [column for block in there for column in range(block.start, block.stop)] == list(
        range(size)
    )
    assert len(there) <= len(list(blocks(size, CPU)))
    assert len(there) <= 8
    assert max(block.stop - block.start for block in there) <= widest_block(size)


def test_a_transposed_factor_gives_the_gram_matrix_of_its_rows() -> None:
    wide = torch.randn(200, 300, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(gram(wide.T), wide @ wide.T)


@pytest.mark.parametrize("size", [5, 193])
@pytest.mark.parametrize("batch", [1, 3])
def test_gram_matrices_of_a_batch_have_factors_of_their_own(size: int, batch: int) -> None:
    generator = torch.Generator().manual_seed(size)
    factor = torch.randn(batch, 40, size, dtype=torch.float64, generator=generator)
    before = factor.clone()
    for alpha in ([0.5, -2.0, 3.0][:batch], [0.5] * batch):
        expected = [a * part.T @ part for a, part in zip(alpha, factor, strict=True)]
        torch.testing.assert_close(gram(factor, alpha=alpha), torch.stack(expected))
    assert torch.equal(factor, before)


def test_products_are_exact_within_and_the_settings_are_put_back() -> None:
    settings = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    torch.set_float32_matmul_precision("medium")
    try:
        before = [setting.fp32_precision for setting in settings]
        first = full_float32()
        second = full_float32()
        with first:
            second.__enter__()  # as another thread would
        assert [setting.fp32_precision for setting in settings] == ["ieee", "ieee"]
        second.__exit__(None, None, None)
        assert [setting.fp32_precision for setting in settings] == before
        assert "ieee" not in before
    finally:
        torch.set_float32_matmul_precision("highest")
