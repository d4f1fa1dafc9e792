"""Commands that run within the tests leave the process as it was."""

import signal
from collections.abc import Iterator
from functools import partial

import pytest

from tests.helpers.command import Run, in_process


@pytest.fixture
def ace(capfd) -> Run:
    """``ace-gui`` in this process: a function that takes its arguments."""
    return partial(in_process, capfd)


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    """A command that is done ignores signals, which processes that are started later inherit."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
