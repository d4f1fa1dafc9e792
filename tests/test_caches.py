"""What is kept to save time: it is found, shown and removed, and nothing else is."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from ace_gui.caches import CACHES, caches_named, remove_old_stages
from ace_gui.engine.inspecting.layer_context import cache_key
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import OutputError, RecipeError
from ace_gui.output_files import MARK
from ace_gui.paths import merges_folder
from ace_gui.recipe.recipe_file import load_recipe
from tests.end2end.test_stages import FIRST, LAST, write
from tests.helpers.calibrated_models import gpt2_family
from tests.helpers.command import ace_gui as run
from tests.helpers.mergekit_files import make_models


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def stage_of(folder: Path) -> Path:
    """The result of a stage, merged by the command."""
    make_models(folder)
    file = write(folder, FIRST, LAST)
    assert run("merge", file, "--out", folder / "out").returncode == 0
    (result,) = load_recipe(file).stages
    return result


def test_all_that_is_kept_is_listed_and_emptied(tmp_path: Path) -> None:
    stage_of(tmp_path)
    run("inspect", tmp_path / "file.yaml")
    run("methods")
    root = user_cache_path("ace-workbench")
    files = {path for path in root.rglob("*") if path.is_file()}
    assert len(files) > 10
    listed = json.loads(run("cache", "--json", "-").stdout)["caches"]
    assert sum(cache["bytes"] for cache in listed) == sum(path.stat().st_size for path in files)
    assert all(cache[words] for cache in listed for words in ("key", "verified", "removed"))
    emptied = run("cache", "--empty", "all")
    assert emptied.returncode == 0
    assert not [path for path in root.rglob("*") if path.is_file()]
    assert run("merge", tmp_path / "file.yaml", "--out", tmp_path / "again").returncode == 0


@pytest.mark.parametrize("cache", CACHES, ids=lambda cache: cache.name)
def test_one_cache_is_emptied_alone(tmp_path: Path, cache: object) -> None:
    entries = {}
    for candidate in CACHES:
        name = f"stage-{'0' * 24}.json" if candidate.name == "stages" else "entry"
        candidate.folder().mkdir(parents=True, exist_ok=True)
        entries[candidate.name] = candidate.folder() / name
        entries[candidate.name].write_text("kept")
    (chosen,) = [candidate for candidate in CACHES if candidate is cache]
    assert chosen.empty() == 4
    assert [name for name, path in entries.items() if not path.exists()] == [chosen.name]


def test_nothing_of_others_is_removed_with_the_stages(tmp_path: Path) -> None:
    result = stage_of(tmp_path)
    merges = merges_folder()
    strangers = [merges / "stage-notes.txt", merges / f"stage-{'1' * 24}", merges / ("2" * 32)]
    strangers[0].write_text("mine")
    strangers[1].mkdir()  # without the mark
    strangers[2].mkdir()
    (strangers[2] / MARK).touch()
    (stages,) = caches_named("stages")
    stages.empty()
    assert not result.exists()
    assert all(path.exists() for path in strangers)


def test_a_link_in_a_caches_place_is_not_followed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").touch()
    (scores,) = caches_named("scores")
    scores.folder().parent.mkdir(parents=True)
    scores.folder().symlink_to(mine)
    with pytest.raises(OutputError):
        scores.empty()
    assert (mine / "file").exists()


def test_an_unknown_cache_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no cache 'score'"):
        caches_named("stages,score")


@pytest.mark.parametrize("days", [1, 8])
def test_a_stage_goes_when_it_was_not_used_for_a_week(tmp_path: Path, days: int) -> None:
    result = stage_of(tmp_path)
    before = time.time() - days * 24 * 3600
    for path in merges_folder().iterdir():
        os.utime(path, (before, before))
    remove_old_stages(merges_folder(), 7 * 24 * 3600)
    assert result.exists() == (days < 7)
    assert any(merges_folder().iterdir()) == (days < 7)


def test_a_stage_that_is_used_stays(tmp_path: Path) -> None:
    result = stage_of(tmp_path)
    before = time.time() - 30 * 24 * 3600
    for path in merges_folder().iterdir():
        os.utime(path, (before, before))
    assert run("merge", tmp_path / "file.yaml", "--out", tmp_path / "again").returncode == 0
    remove_old_stages(merges_folder(), 7 * 24 * 3600)
    assert result.exists()


def test_scores_of_a_model_that_changed_without_a_trace(tmp_path: Path) -> None:
    file = gpt2_family(tmp_path)
    run("evaluate", file, "--json", tmp_path / "before.json")
    before = json.loads((tmp_path / "before.json").read_text())
    weights = tmp_path / "one" / "model.safetensors"
    status = weights.stat()
    shutil.copyfile(tmp_path / "other" / "model.safetensors", weights)
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert weights.stat().st_size == status.st_size
    run("evaluate", file, "--json", tmp_path / "after.json")
    after = json.loads((tmp_path / "after.json").read_text())
    run("cache", "--empty", "scores")
    run("evaluate", file, "--json", tmp_path / "anew.json")
    assert after == json.loads((tmp_path / "anew.json").read_text())
    assert after != before


def test_figures_are_named_by_the_time_of_change(tmp_path: Path) -> None:
    prepared = prepare(load_recipe(gpt2_family(tmp_path)))
    row = prepared.plan.rows[0]
    stamps = prepared.files
    changed = replace(stamps[0], ctime_ns=stamps[0].ctime_ns + 1)
    assert cache_key("", row, stamps) != cache_key("", row, (changed, *stamps[1:]))
