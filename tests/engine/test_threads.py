"""With how many threads a process computes."""

from collections.abc import Iterator

import pytest
import torch

from ace_gui.engine.devices import use_threads


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_no_merge_depends_on_the_threads_of_an_earlier_one() -> None:
    """Last digits depend on the number of threads."""
    use_threads(None)
    first = torch.get_num_threads()
    for earlier in (1, first + 1):
        use_threads(earlier)
        assert torch.get_num_threads() == earlier
        use_threads(None)
        assert torch.get_num_threads() == first
