"""``merge --distil``: what it prints, its JSON, and its inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ace_gui.cli.commands import app
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.aligned_merges import INPUTS, recipe_with
from tests.helpers.calibrated_models import bert_family


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_family(tmp_path_factory.mktemp("family"))


def merged(*arguments: str) -> tuple[int, str, str]:
    """The status, and what was printed and warned of."""
    done = CliRunner().invoke(app, ["merge", *arguments], prog_name="ace-gui")
    return done.exit_code, done.stdout, done.stderr


def test_it_prints_each_task_and_its_warnings(family: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    figures = tmp_path / "figures.json"
    status, printed, warned = merged(
        str(recipe_with(family)),
        *("--distil", "--limit", str(INPUTS), "--out", str(out), "--json", str(figures)),
    )
    assert status == 0, warned
    content = json.loads(figures.read_text())
    distilled = content["distilled"]
    assert [task["task"] for task in distilled["tasks"]] == ["two", "three"]
    for task in distilled["tasks"]:
        (line,) = [line for line in printed.splitlines() if line.split()[:1] == [task["task"]]]
        assert line.split()[1:3] == [str(task["inputs"]), str(task["kept_back"])]
    said = warned.replace("\n", " ")
    for warning in content["warnings"]:
        assert said.count(warning) == 1
    written = load_recipe(out / "merge_recipe.yaml")
    assert written.distil
    assert written.distil.inputs == INPUTS


def test_without_enough_inputs_it_says_what_to_ask_for(family: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, _, warned = merged(str(recipe_with(family)), "--distil", "--out", str(out))
    assert status == 1
    assert "distil: {inputs: 20}" in warned.replace("\n", " ")
    assert not out.exists()


def test_a_limit_needs_a_use(family: Path, tmp_path: Path) -> None:
    status, _, _ = merged(str(recipe_with(family)), "--limit", "9", "--out", str(tmp_path / "o"))
    assert status == 2
    assert not (tmp_path / "o").exists()


def test_the_way_of_training_is_an_option(family: Path, tmp_path: Path) -> None:
    recipe = str(recipe_with(family))
    options = ("--distil-how", "blocks", "--out", str(tmp_path / "out"))
    status, _, warned = merged(recipe, *options)
    assert status == 2
    assert "goes with --distil" in warned
    status, printed, warned = merged(recipe, "--distil", *options, "--limit", str(INPUTS))
    assert status == 0, warned
    assert "block by block" in printed.replace("\n", " ")
    written = load_recipe(tmp_path / "out" / "merge_recipe.yaml")
    assert written.distil
    assert written.distil.how == "blocks"
