"""The checks as the command line tells them, on models that do not quite fit each other."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result
from typer.testing import CliRunner

from ace_gui.cli.commands import app
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.command import ace_gui
from tests.helpers.models import gpt2_family
from tests.helpers.recipes import file_of, file_over


def test_inspect_warns_of_what_does_not_fit(tmp_path: Path) -> None:
    family = gpt2_family(tmp_path / "models", experts=2)
    odd = family.experts["task0"]
    twin = tmp_path / "twin"
    config = json.loads((odd / "config.json").read_text())
    (odd / "config.json").write_text(json.dumps({**config, "layer_norm_epsilon": 0.5}))
    shutil.copytree(family.experts["task1"], twin)
    recipe = file_over(tmp_path, family.base, (odd, family.experts["task1"], twin))
    done = ace_gui("inspect", recipe, "--json", tmp_path / "i.json")
    assert done.returncode == 0, done.stderr
    assert "Warning: Configuration, task0: Its norm epsilon differs" in done.stdout
    assert "Warning: Duplicates, twin: Probably the same weights as task1" in done.stdout
    content = json.loads((tmp_path / "i.json").read_text())
    assert content["layers"]
    checks = {(check["title"], check["subject"]): check for check in content["checks"]}
    assert checks["Configuration", "task0"]["verdict"] == "warning"
    assert "layer_norm_epsilon" in checks["Configuration", "task0"]["details"]
    assert {check["verdict"] for check in content["checks"]} >= {"warning", "note", "ok"}
    assert any(title == "Distance from the base" for title, _ in checks)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Two experts, one of them with another norm epsilon."""
    family = gpt2_family(tmp_path / "models", experts=2)
    odd = family.experts["task0"]
    config = json.loads((odd / "config.json").read_text())
    (odd / "config.json").write_text(json.dumps({**config, "layer_norm_epsilon": 0.5}))
    return file_of(tmp_path, family)


def merge(recipe: Path, *options: str) -> Result:
    out = str(recipe.with_name("out"))
    return CliRunner().invoke(app, ["merge", str(recipe), "--out", out, *options])


def shrink_disk(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    usage = SimpleNamespace(total=10**12, used=0, free=free)
    monkeypatch.setattr("ace_gui.engine.planning.requirements.shutil.disk_usage", lambda _: usage)


def test_merge_tells_warnings_first_and_goes_on(recipe: Path) -> None:
    done = merge(recipe)
    assert done.exit_code == 0, done.stderr
    assert "Warning: Configuration, task0: Its norm epsilon differs" in done.stderr
    assert "Error" not in done.stderr


def test_merge_is_refused_before_it_starts_where_memory_will_not_do(recipe: Path) -> None:
    done = merge(recipe, "--memory", "0.001")
    assert done.exit_code == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith("Error: Memory: About ")
    assert error.endswith("Allow more, or keep that tensor from the base. Nothing was written.")
    assert done.stderr.count("Memory: ") == 1
    assert {path.name for path in recipe.parent.iterdir()} == {"models", "recipe.yaml"}


def test_merge_is_refused_before_it_starts_where_the_disk_of_its_output_is_full(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_disk(monkeypatch, 100_000)
    done = merge(recipe)
    assert done.exit_code == 1
    assert " for the merged model; 100 kB free." in done.stderr
    assert "choose an output folder on another disk" in done.stderr
    assert done.stderr.count("Disk: ") == 1
    printed = merge(recipe, "--memory", "0.001").stderr
    assert [printed.count(word) for word in ("Disk: ", "Memory: ", "Error: ")] == [1, 1, 1]
    assert {path.name for path in recipe.parent.iterdir()} == {"models", "recipe.yaml"}


def test_whole_models_for_the_heads_need_room_as_well(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = prepare(load_recipe(recipe)).plan.bytes_to_write
    shrink_disk(monkeypatch, 2 * size)
    refused = merge(recipe, "--complete-heads")
    assert refused.exit_code == 1
    assert "Disk" in refused.stderr
    assert merge(recipe).exit_code == 0
