import os
import shutil
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QThreadPool

from ace_gui.engine.contract.jobs import STORE_COMPLETE
from ace_gui.gui.control.merge_stores import KEPT_SECONDS, MergeStores, record_of
from ace_gui.recipe import Recipe
from ace_gui.recipe.tasks import Task

ONE = Recipe(base_model=Path("base"), models=())
OTHER = Recipe(base_model=Path("other"), models=())


def wait() -> None:
    assert QThreadPool.globalInstance().waitForDone(5000)


def filled(stores: MergeStores, recipe: Recipe = ONE, *, complete: bool = False) -> Path:
    store = stores.new(recipe)
    store.mkdir()
    (store / "model.safetensors").write_bytes(b"x")
    if complete:
        (store / STORE_COMPLETE).touch()
    return store


def test_what_is_discarded_goes_and_the_rest_stays(qapp: object, tmp_path: Path) -> None:
    stores = MergeStores(tmp_path)
    gone, kept = filled(stores), filled(stores, OTHER)
    stores.discard(gone)
    assert not gone.exists()  # at once, so that the same recipe can begin anew
    wait()
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [kept]


def test_tasks_are_no_part_of_what_is_merged(qapp: object, tmp_path: Path) -> None:
    stores = MergeStores(tmp_path)
    recipe = Recipe(base_model=Path("/base"), models=())
    store = stores.new(recipe)
    store.mkdir()
    assert stores.has(replace(recipe, tasks=(Task(data=Path("a.csv")),)))
    stores.close()


def test_the_next_window_finds_an_unfinished_merge(qapp: object, tmp_path: Path) -> None:
    first = MergeStores(tmp_path)
    store = filled(first)
    first.close()
    second = MergeStores(tmp_path)
    second.sweep()
    wait()
    assert second.new(ONE) == store
    assert (store / "model.safetensors").exists()


def test_a_finished_merge_stays_as_long_as_it_has_a_record(qapp: object, tmp_path: Path) -> None:
    stores = MergeStores(tmp_path)
    kept, tried = filled(stores, complete=True), filled(stores, OTHER, complete=True)
    record_of(kept).touch()
    stores.close()
    wait()
    assert kept.exists()
    assert not tried.exists()
    later = MergeStores(tmp_path)
    later.sweep()
    wait()
    assert later.take(kept)
    assert not MergeStores(tmp_path).take(kept), "it is another window's"
    later.discard(kept)
    wait()
    assert not kept.exists()
    assert not record_of(kept).exists()


def test_a_finished_merge_is_not_merged_over(qapp: object, tmp_path: Path) -> None:
    stores = MergeStores(tmp_path)
    store = filled(stores, complete=True)
    assert stores.new(ONE) != store
    assert store.exists()


def test_two_windows_never_share_a_folder(qapp: object, tmp_path: Path) -> None:
    first, second = MergeStores(tmp_path), MergeStores(tmp_path)
    assert first.new(ONE) != second.new(ONE)


def test_a_sweep_spares_open_windows_and_what_may_be_continued(
    qapp: object, tmp_path: Path
) -> None:
    other = MergeStores(tmp_path)
    theirs = filled(other, complete=True)
    recent, old, finished = tmp_path / "recent", tmp_path / "old", tmp_path / "finished"
    for store in (recent, old, finished):
        store.mkdir()
    (finished / STORE_COMPLETE).touch()
    long_ago = recent.stat().st_mtime - KEPT_SECONDS - 60
    os.utime(old, (long_ago, long_ago))
    MergeStores(tmp_path).sweep()
    wait()
    assert theirs.exists()
    assert recent.exists()
    assert not old.exists()
    assert not finished.exists()


def test_a_sweep_of_nothing_is_quiet(qapp: object, tmp_path: Path) -> None:
    MergeStores(tmp_path / "never made").sweep()
    wait()


def test_an_unusable_cache_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    stores = MergeStores(tmp_path / "cache" / "merges")
    assert not stores.has(ONE)
    stores.sweep()
    store = stores.new(ONE)
    assert store.parent.is_dir()
    stores.close()
    shutil.rmtree(store.parent)
