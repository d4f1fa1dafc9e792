"""What every test has: no screen, folders of its own, descriptions made in this process."""

import os

os.environ["QT_QPA_PLATFORM"] = "offscreen"  # before Qt is imported
# Before torch is imported, for processes that tests start, too: threads that wait for their next
# product sleep. Where several test processes share the processors, spinning takes the time of the
# others: three times as long on two processors.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import gc
import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.engines import describe_here, run_in

# The same cases each time, however busy the machine is.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that no test process waits for another in the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/walk/", "tests/end2end/")))


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector would walk it again and again."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _described_here() -> Iterator[None]:
    """Only where a test opens models: to import the engine for this alone would cost as much."""
    with pytest.MonkeyPatch.context() as patch:
        describe_here(patch)
        yield


@pytest.fixture(scope="session")
def context() -> Iterator[ForkServerContext]:
    """Processes that begin with everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.helpers.imported"])
    yield context
    from multiprocessing.forkserver import _forkserver  # type: ignore[attr-defined]

    _forkserver._stop()


@pytest.fixture
def forked_engines(context: ForkServerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such are the engine's processes, too, which are spawned elsewhere."""

    def process(target: Callable[..., None], args: tuple, **options: object) -> ForkServerProcess:
        forked = (dict(os.environ), target, *args)
        return context.Process(target=run_in, args=forked, **options)

    forking = SimpleNamespace(Pipe=context.Pipe, Process=process)
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: forking)
