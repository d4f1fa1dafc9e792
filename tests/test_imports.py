"""The garbage collector rests while torch is imported, and is back afterwards."""

import gc
import sys
from collections.abc import Iterator

import pytest

from ace_gui.imports import heavy_imports


@pytest.fixture
def before_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("before_torch")
def test_what_was_imported_is_frozen() -> None:
    with heavy_imports():
        assert not gc.isenabled()
        made = [object(), []]
    assert gc.isenabled()
    assert not any(found is made for found in gc.get_objects())


@pytest.mark.usefixtures("before_torch")
def test_a_failed_import_leaves_the_collector_on() -> None:
    with pytest.raises(ImportError), heavy_imports():
        raise ImportError
    assert gc.isenabled()


def test_nothing_is_frozen_once_torch_is_there() -> None:
    import torch  # noqa: F401

    frozen = gc.get_freeze_count()
    with heavy_imports():
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen
