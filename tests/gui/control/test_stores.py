import itertools
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QThreadPool

from ace_gui.gui.control.merge_stores import MergeStores, record_of
from ace_gui.output_files import MARK, MARK_TEXT, STORE_COMPLETE
from ace_gui.recipe import Recipe
from ace_gui.recipe.overrides import Override
from ace_gui.recipe.values import Task
from tests.gui.fakes import make_store, recorded

ONE = Recipe(base_model=Path("base"), models=())
OTHER = Recipe(base_model=Path("other"), models=())


def wait() -> None:
    assert QThreadPool.globalInstance().waitForDone(5000)


def filled(stores: MergeStores, recipe: Recipe = ONE, *, complete: bool = False) -> Path:
    return make_store(stores.new(recipe), complete=complete)


def aged(path: Path, days: int) -> None:
    when = time.time() - days * 24 * 3600
    os.utime(path, (when, when))


def test_what_is_discarded_goes_and_the_rest_stays(qapp, tmp_path):
    stores = MergeStores(tmp_path)
    gone = filled(stores)
    store = filled(stores, OTHER)
    stores.discard(gone)
    assert not gone.exists()  # at once, so that the same recipe can begin anew
    wait()
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [store]


def test_tasks_are_no_part_of_what_is_merged(qapp, tmp_path):
    stores = MergeStores(tmp_path)
    recipe = Recipe(base_model=Path("/base"), models=())
    filled(stores, recipe)
    assert stores.has(replace(recipe, tasks=(Task(data=Path("a.csv")),)))
    stores.close()


def test_the_next_window_finds_an_unfinished_merge(qapp, tmp_path):
    first = MergeStores(tmp_path)
    store = filled(first)
    first.close()
    second = MergeStores(tmp_path)
    second.sweep()
    wait()
    assert second.new(ONE) == store
    assert (store / "model.safetensors").exists()


def test_a_finished_merge_stays_as_long_as_it_has_a_record(qapp, tmp_path):
    stores = MergeStores(tmp_path)
    store = filled(stores, complete=True)
    tried = filled(stores, OTHER, complete=True)
    recorded(store, ONE)
    stores.close()
    wait()
    assert store.exists()
    assert not tried.exists()
    later = MergeStores(tmp_path)
    later.sweep()
    wait()
    assert later.take(store)
    assert not MergeStores(tmp_path).take(store), "it is another window's"
    later.discard(store)
    wait()
    assert not store.exists()
    assert not record_of(store).exists()


def test_a_finished_merge_is_not_merged_over(qapp, tmp_path):
    stores = MergeStores(tmp_path)
    store = filled(stores, complete=True)
    assert stores.new(ONE) != store
    assert store.exists()


def test_two_windows_never_share_a_folder(qapp, tmp_path):
    first = MergeStores(tmp_path)
    second = MergeStores(tmp_path)
    assert first.new(ONE) != second.new(ONE)


def test_a_sweep_spares_open_windows_and_what_may_be_continued(qapp, tmp_path):
    other_stores = MergeStores(tmp_path)
    theirs = filled(other_stores, complete=True)
    recent, old, finished, trash = (tmp_path / (name * 32) for name in "abcd")
    trash = trash.with_suffix(".trash")
    for store in (recent, old, finished, trash):
        make_store(store, complete=store == finished)
    aged(old, 8)
    MergeStores(tmp_path).sweep()
    wait()
    assert theirs.exists()
    assert recent.exists()
    assert not old.exists()
    assert not finished.exists()
    assert not trash.exists()


NAMES = ("photos {}", "thesis {}.final", "{:032x}", "{:032x}.trash", "{:033x}", "A{:031X}")
MARKS = ("none", "ours", "other", "empty", "folder", "link")
KINDS = ("folder", "link")
COMPLETE = (False, True)
RECORDS = ("none", "foreign", "link", "ours")
DAYS = (0, 30)


def put_mark(folder: Path, mark: str, elsewhere: Path) -> None:
    file = folder / MARK
    match mark:
        case "ours":
            file.write_bytes(MARK_TEXT)
        case "other":
            file.write_bytes(b"x" * len(MARK_TEXT))
        case "empty":
            file.touch()
        case "folder":
            file.mkdir()
        case "link":
            file.symlink_to(elsewhere / "mark")


def put_record(store: Path, record: str, elsewhere: Path) -> None:
    match record:
        case "foreign":
            record_of(store).write_text('{"figures": [1, 2]}')
        case "link":
            record_of(store).symlink_to(elsewhere / "record.json")
        case "ours":
            shutil.copy(elsewhere / "record.json", record_of(store))


def contents(folder: Path) -> dict[str, object]:
    entries: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            entries[str(path)] = path.readlink()
        else:
            entries[str(path)] = path.read_bytes() if path.is_file() else None
    return entries


def test_what_is_not_named_and_marked_as_ours_stays(qapp, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    merges = tmp_path / "merges"
    recorded(elsewhere / "record", ONE)
    (elsewhere / "mark").write_bytes(MARK_TEXT)
    merges.mkdir()
    ours = set()
    product = itertools.product(NAMES, MARKS, KINDS, COMPLETE, RECORDS, DAYS)
    for number, (name, mark, kind, complete, record, days) in enumerate(product):
        store = merges / name.format(number)
        folder = store if kind == "folder" else elsewhere / f"target {number}"
        folder.mkdir()
        (folder / "picture.png").write_bytes(b"x")
        if complete:
            (folder / STORE_COMPLETE).touch()
        put_mark(folder, mark, elsewhere)
        if kind == "link":
            store.symlink_to(folder)
        put_record(store, record, elsewhere)
        for path in (folder, record_of(store)):
            if path.exists():
                aged(path, days)
        named = name in ("{:032x}", "{:032x}.trash")
        has_record = record == "ours"
        if named and kind == "folder" and (mark == "ours" or (mark == "empty" and has_record)):
            ours.add(store)
        if named and has_record:
            ours.add(record_of(store))
    before = contents(tmp_path)
    stores = MergeStores(merges)
    stores.sweep(7)
    wait()
    for store in set(merges.iterdir()) - ours:
        assert not stores.take(store)
        stores.discard(store)
    stores.close()
    wait()
    foreign = {path for path in before if ours.isdisjoint({Path(path), *Path(path).parents})}
    now = contents(tmp_path)
    assert {path: now.get(path) for path in foreign} == {path: before[path] for path in foreign}
    assert len(now) < len(before), "some of ours went"


def test_links_in_a_folder_of_ours_are_not_followed(qapp, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    for name, remove in (("a", MergeStores.sweep), ("b", MergeStores.discard)):
        store = make_store(tmp_path / "merges" / (name * 32), complete=True)
        (store / "linked").symlink_to(mine)
        (store / "model").mkdir()
        (store / "model" / "linked").symlink_to(mine / "letter.txt")
        stores = MergeStores(store.parent)
        remove(stores, *([store] if remove is MergeStores.discard else []))
        wait()
        assert not store.exists()
        assert (mine / "letter.txt").read_text() == "dear"


def test_a_folder_in_the_way_of_a_merge_is_left_alone(qapp, tmp_path):
    stores = MergeStores(tmp_path)
    store = stores.new(ONE)
    stores.release(store)
    for put in (lambda: store.mkdir(), lambda: record_of(store).write_text("{}")):
        put()
        assert not stores.has(ONE)
        assert stores.new(ONE) != store
        shutil.rmtree(store, ignore_errors=True)
    stores.close()


VALUES = (0, 1, 0.3, True, "cosine")


@given(
    parameters=st.dictionaries(
        st.sampled_from("abcdef"), st.one_of(st.sampled_from(VALUES), st.floats(0, 1))
    ),
    second_parameters=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(VALUES)),
    seed=st.integers(0, 2**63 - 1),
    data=st.data(),
)
def test_recipes_share_an_unfinished_merge_if_and_only_if_they_are_equal(
    parameters, second_parameters, seed, data
):
    stores = MergeStores(Path("/nowhere"))
    order = data.draw(st.permutations(list(parameters)))
    shuffled = {name: parameters[name] for name in order}
    base_recipe = replace(ONE, parameters=parameters, seed=seed)
    rule = Override(pattern="*", parameters=parameters)
    pairs = [
        (base_recipe, replace(base_recipe, parameters=shuffled, notes=("read from elsewhere",))),
        (base_recipe, replace(base_recipe, parameters=second_parameters)),
        (base_recipe, replace(base_recipe, seed=max(0, seed - 1))),
        (
            replace(base_recipe, overrides=(rule,)),
            replace(base_recipe, overrides=(replace(rule, parameters=shuffled),)),
        ),
        (replace(base_recipe, overrides=(rule,)), base_recipe),
    ]
    for first, second in pairs:
        assert (stores._folder(first) == stores._folder(second)) == (first == second)


def test_a_finished_merge_that_is_made_again_stays_free_for_others(qapp, tmp_path):
    first = MergeStores(tmp_path)
    store = recorded(first.new(ONE), ONE)
    first.close()
    second = MergeStores(tmp_path)
    assert second.new(ONE) != store
    assert MergeStores(tmp_path).take(store)


def test_records_without_a_merge_go_after_a_while(qapp, tmp_path):
    for name, days in (("a", 8), ("b", 1)):
        store = recorded(tmp_path / (name * 32), ONE)
        shutil.rmtree(store)
        aged(record_of(store), days)
    MergeStores(tmp_path).sweep()
    wait()
    assert [path.name for path in tmp_path.iterdir()] == [f"{'b' * 32}.json"]


def test_a_sweep_of_nothing_is_quiet(qapp, tmp_path):
    MergeStores(tmp_path / "never made").sweep()
    wait()


def test_an_unusable_cache_is_no_obstacle(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    stores = MergeStores(tmp_path / "cache" / "merges")
    assert not stores.has(ONE)
    stores.sweep()
    store = stores.new(ONE)
    assert store.parent.is_dir()
    stores.close()
    shutil.rmtree(store.parent)
