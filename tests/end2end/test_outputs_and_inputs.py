"""No command writes over its inputs, into their folders, or over what someone else made."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ace_gui.cli.commands import app
from tests.helpers.models import Family, gpt2_family
from tests.helpers.recipes import file_of


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return gpt2_family(tmp_path_factory.mktemp("gpt2"), experts=2)


@pytest.fixture
def recipe(tmp_path: Path, family: Family) -> Path:
    return file_of(tmp_path / "recipes", family, merge_method="linear")


# What stands before the output's path.
COMMANDS = {
    "inspect --json": ["inspect", "RECIPE", "--json"],
    "inspect --csv": ["inspect", "RECIPE", "--csv"],
    "report": ["report", "RECIPE", "--device", "cpu", "--out"],
    "compare": ["compare", "RECIPE", "--methods", "linear", "--device", "cpu", "--json"],
    "mergekit": ["mergekit", "RECIPE", "--out"],
    "merge": ["merge", "RECIPE", "--device", "cpu", "--out"],
    "demo": ["demo", "--headless", "--out"],
}
FILES = [name for name in COMMANDS if name not in ("merge", "demo")]


def run(command: str, recipe: Path, out: Path, *more: str) -> tuple[int, str]:
    arguments = [str(recipe) if part == "RECIPE" else part for part in COMMANDS[command]]
    result = CliRunner().invoke(app, [*arguments, str(out), *more])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stderr


def contents(family: Family, recipe: Path) -> dict[Path, bytes]:
    folders = (family.base, *family.experts.values(), recipe.parent)
    return {p: p.read_bytes() for folder in folders for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_output_is_an_input(command: str, recipe: Path, family: Family, tmp_path: Path) -> None:
    before = contents(family, recipe)
    (tmp_path / "link").symlink_to(recipe)
    (tmp_path / "hard").hardlink_to(family.experts["task0"] / "model.safetensors")
    (tmp_path / "door").symlink_to(family.base)
    os.mkfifo(tmp_path / "pipe")
    outputs = [recipe, tmp_path / "link", tmp_path / "hard", tmp_path / "pipe", Path("/dev/null")]
    if command != "demo":  # its inputs are the sample's
        outputs += [family.base / "config.json", tmp_path / "door" / "new", family.base / "new"]
        outputs += [family.experts["task1"] / ".." / "task1" / "new"]
    for output in outputs:
        for more in ([], ["--overwrite"] if command in FILES else []):
            status, said = run(command, recipe, output, *more)
            assert status == 1, (output, said)
            assert len([line for line in said.splitlines() if line.startswith("Error:")]) == 1
    assert contents(family, recipe) == before
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("command", FILES)
def test_repeated_runs_and_what_someone_else_made(
    command: str, recipe: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text(json.dumps({"notes": "kept"}))
    status, said = run(command, recipe, theirs)
    assert (status, theirs.read_text()) == (1, '{"notes": "kept"}')
    assert "--overwrite" in said
    assert run(command, recipe, theirs, "--overwrite")[0] == 0
    first = theirs.read_bytes()
    assert run(command, recipe, theirs)[0] == 0  # it is ours now
    if command in ("inspect --csv", "mergekit"):
        assert theirs.read_bytes() == first
    if command == "inspect --json":  # its checks say how much room there is at the moment
        again, before = (json.loads(content) for content in (theirs.read_bytes(), first))
        assert {**again, "checks": 0} == {**before, "checks": 0}


def test_a_staging_folder_of_someone_else_stays(recipe: Path, tmp_path: Path) -> None:
    theirs = tmp_path / ".out.partial"
    (theirs / "model").mkdir(parents=True)  # named like ours
    (theirs / "model" / "thesis.txt").write_text("kept")
    for more in ([], ["--resume"]):
        status, said = run("merge", recipe, tmp_path / "out", *more)
        assert status == 1
        assert "was not made by this program" in said
    assert (theirs / "model" / "thesis.txt").read_text() == "kept"
    assert not (tmp_path / "out").exists()
