"""Work on several matrices at a time."""

import threading

import torch

from ace_gui.linalg.side_by_side import FEW_ENTRIES, matrices_side_by_side

CPU = torch.device("cpu")


def test_results_come_in_order() -> None:
    assert matrices_side_by_side(lambda n: n * n, range(20), entries=4, device=CPU) == [
        n * n for n in range(20)
    ]


def test_large_matrices_and_those_on_a_gpu_come_one_after_another() -> None:
    for entries, device in ((FEW_ENTRIES + 1, CPU), (4, torch.device("meta"))):
        threads = matrices_side_by_side(
            lambda _: threading.current_thread(), range(4), entries=entries, device=device
        )
        assert set(threads) == {threading.current_thread()}


def test_the_callers_number_of_threads_stays_as_it_is() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        counts = matrices_side_by_side(
            lambda _: torch.get_num_threads(), range(4), entries=4, device=CPU
        )
        assert counts == [1] * 4
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
