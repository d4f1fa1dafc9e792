from pathlib import Path

from PySide6.QtCore import QThreadPool

from ace_gui.gui.stores import MergeStores


def wait() -> None:
    assert QThreadPool.globalInstance().waitForDone(5000)


def filled(stores: MergeStores) -> Path:
    store = stores.new()
    store.mkdir()
    (store / "model.safetensors").write_bytes(b"x")
    return store


def test_what_is_discarded_goes_and_the_rest_stays(qapp: object, tmp_path: Path) -> None:
    stores = MergeStores(tmp_path)
    gone, kept = filled(stores), filled(stores)
    stores.discard(gone)
    wait()
    assert not gone.exists()
    assert kept.exists()


def test_a_sweep_spares_the_stores_of_windows_that_are_open(qapp: object, tmp_path: Path) -> None:
    other = MergeStores(tmp_path)
    theirs = filled(other)
    left_behind = tmp_path / "abandoned"
    left_behind.mkdir()
    MergeStores(tmp_path).sweep()
    wait()
    assert theirs.exists()
    assert not left_behind.exists()
    other.discard_all()
    wait()
    assert not theirs.exists()


def test_a_sweep_of_nothing_is_quiet(qapp: object, tmp_path: Path) -> None:
    MergeStores(tmp_path / "never made").sweep()
    wait()
