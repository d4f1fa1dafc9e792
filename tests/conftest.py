"""What every test has: no screen, folders of its own, descriptions made in this process."""

import os

os.environ["QT_QPA_PLATFORM"] = "offscreen"  # before Qt is imported
# Before torch is imported, for processes that tests start, too: threads that wait for their next
# product sleep. Where several test processes share the processors, spinning takes the time of the
# others: three times as long on two processors.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import sys
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import HealthCheck, settings

# The same cases each time, however busy the machine is.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that no test process waits for another in the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/walk/", "tests/end2end/")))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


class _DescribesHere:
    """Describes checkpoints in this process, which has transformers already.

    The real one starts a process for each opening, whose imports take seconds; it has tests of its
    own, and the command line and the engine process use it in theirs.
    """

    def __enter__(self) -> "_DescribesHere":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def describe(self, config: Mapping[str, object] | None, shapes: Mapping[str, tuple[int, ...]]):
        from ace_gui.architecture.describe import describe

        yield
        return describe(config, shapes)


@pytest.fixture(scope="session", autouse=True)
def _described_here() -> Iterator[None]:
    """Only where a test opens models: to import the engine for this alone would cost as much."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("ace_gui.engine.") and hasattr(module, "Describer"):
                patch.setattr(module, "Describer", _DescribesHere)
        yield
