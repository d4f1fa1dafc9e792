"""The result of a stage is used again only while everything that it depends on is the same."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from ace_gui import versions
from ace_gui.engine import workflow
from ace_gui.engine.planning import stages
from ace_gui.engine.planning.dispositions import LeftOut
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.paths import merges_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from tests.end2end.test_stages import FIRST, LAST, write
from tests.helpers.calibrated_models import gpt2_family
from tests.helpers.command import ace_gui as run
from tests.helpers.damage import flip
from tests.helpers.mergekit_files import make_models


def merged(file: Path, out: Path, **options: bool) -> dict[str, torch.Tensor]:
    for _ in merge_to_folder(load_recipe(file), out, Options(**options)):
        pass
    return load_file(out / "model.safetensors")


def result_of(file: Path) -> Path:
    (folder,) = load_recipe(file).stages
    return folder


def quietly(change: Callable[[Path], object], path: Path) -> None:
    """Change a file, and keep its size and its time of modification."""
    status = path.stat()
    change(path)
    assert path.stat().st_size == status.st_size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def other_value(weights: Path) -> None:
    """Another value of one weight, far from the rounding of float32."""
    tensors = load_file(weights)
    tensors["model.norm.weight"][0] += 1
    save_file(tensors, weights, {"format": "pt"})


def other_digit(text: Path) -> None:
    content = text.read_text()
    position = next(i for i, character in enumerate(content) if character.isdigit())
    digit = "1" if content[position] != "1" else "2"
    text.write_text(content[:position] + digit + content[position + 1 :])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a/model.safetensors", other_value),
        ("b/model.safetensors", other_value),
        ("a/config.json", other_digit),
        ("a/generation_config.json", other_digit),
    ],
)
def test_an_input_that_changed_without_a_trace(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    change: Callable[[Path], object],
) -> None:
    make_models(tmp_path)
    file = write(tmp_path, FIRST, LAST)
    before = merged(file, tmp_path / "out")
    quietly(change, tmp_path / name)
    again = merged(file, tmp_path / "again")
    assert f"{name} has changed" in caplog.text
    shutil.rmtree(merges_folder())
    anew = merged(file, tmp_path / "anew")
    assert all(torch.equal(again[key], anew[key]) for key in anew)
    if change is other_value:
        assert not torch.equal(again["model.norm.weight"], before["model.norm.weight"])


def foreign(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    zeros = {key: torch.zeros_like(value) for key, value in tensors.items()}
    save_file(zeros, folder / "model.safetensors", {"format": "pt"})


def linked_folder(folder: Path) -> None:
    moved = folder.with_name("elsewhere")
    folder.rename(moved)
    folder.symlink_to(moved)


def linked_file(folder: Path) -> None:
    weights = folder / "model.safetensors"
    moved = folder.with_name("weights.safetensors")
    weights.rename(moved)
    weights.symlink_to(moved)


def without_record(folder: Path) -> None:
    stages.record_beside(folder).unlink()


def with_another_record(folder: Path) -> None:
    other_digit(stages.record_beside(folder))


def with_one_more_file(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder / "model-00001-of-00002.safetensors")


def with_one_file_less(folder: Path) -> None:
    (folder / "config.json").unlink()


def with_one_flipped_bit(folder: Path) -> None:
    quietly(lambda path: flip(path, -1), folder / "model.safetensors")


@pytest.mark.parametrize(
    "damage",
    [
        foreign,
        linked_folder,
        linked_file,
        without_record,
        with_another_record,
        with_one_more_file,
        with_one_file_less,
        with_one_flipped_bit,
    ],
)
def test_a_result_that_is_not_what_was_merged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    make_models(tmp_path)
    file = write(tmp_path, FIRST, LAST)
    before = merged(file, tmp_path / "out")
    damage(result_of(file))
    inspected = run("inspect", file)
    assert inspected.returncode == 1
    assert "has to be merged again" in inspected.stderr
    again = merged(file, tmp_path / "again")
    assert "The stage 'first' is merged again" in caplog.text
    assert all(torch.equal(again[key], before[key]) for key in before)
    assert not result_of(file).is_symlink()
    assert run("inspect", file).returncode == 0


@pytest.mark.parametrize("what", ["code_digest", "library_versions", "added_sources"])
def test_other_code(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    make_models(tmp_path)
    file = write(tmp_path, FIRST, LAST)
    merged(file, tmp_path / "out")
    replaced: dict[str, Callable[..., object]] = {
        "code_digest": lambda *_: "another",
        "library_versions": lambda: {**versions.library_versions(), "numpy": "0"},
        "added_sources": lambda *_: {"linear": "another"},
    }
    monkeypatch.setattr(stages, what, replaced[what])
    merged(file, tmp_path / "again")
    assert "The stage 'first' is merged again" in caplog.text


def test_edited_calibration_data(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recipe = yaml.safe_load(gpt2_family(tmp_path).read_text())
    first = {**recipe, "merge_method": "regmean", "name": "first"}
    last = {
        "schema": 1,
        "merge_method": "linear",
        "base_model": "base",
        "models": [{"model": "first"}, {"model": "one"}],
    }
    file = write(tmp_path, first, last)
    before = merged(file, tmp_path / "out")
    inputs = tmp_path / "one-inputs.csv"
    lines = inputs.read_text().splitlines()
    lines[1:] = [lines[1]] * (len(lines) - 1)
    status = inputs.stat()
    text = "\n".join(lines) + "\n"
    inputs.write_text(text.ljust(status.st_size, "\n")[: status.st_size])
    os.utime(inputs, ns=(status.st_atime_ns, status.st_mtime_ns))
    again = merged(file, tmp_path / "again")
    assert "one-inputs.csv has changed" in caplog.text
    assert any(not torch.equal(again[key], before[key]) for key in before)


SECOND = {
    "name": "second",
    "merge_method": "linear",
    "models": [{"model": name, "parameters": {"weight": 1.0}} for name in ("first", "b")],
    "dtype": "float32",
}
LAST_OF_TWO = {
    **LAST,
    "models": [{"model": name, "parameters": {"weight": 0.5}} for name in ("second", "c")],
}


@pytest.mark.parametrize("documents", [[FIRST, LAST], [FIRST, SECOND, LAST_OF_TWO]])
def test_each_recipe_of_a_file_is_planned_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, documents: list[object]
) -> None:
    make_models(tmp_path)
    file = write(tmp_path, *documents)
    recipe = load_recipe(file)
    planned: list[str] = []

    def noted(part: Recipe, left_out: LeftOut | None = None) -> Prepared:
        planned.append(part.stage_name)
        return prepare(part, left_out)

    monkeypatch.setattr(workflow, "prepare", noted)
    merged(file, tmp_path / "out")
    assert planned == [stage.stage_name for stage in (*recipe.stages.values(), recipe)]
    planned.clear()
    merged(file, tmp_path / "again")
    assert planned == [recipe.stage_name], "the results are used again"


def begun(file: Path, out: Path, events: int = 8) -> None:
    """Begin a merge, and stop in its first stage."""
    running = merge_to_folder(load_recipe(file), out, Options())
    for _ in range(events):
        next(running)
    running.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("resume", [False, True])
def test_a_stopped_stage_is_continued_only_on_request(tmp_path: Path, resume: bool) -> None:
    make_models(tmp_path)
    file = write(tmp_path, FIRST, LAST)
    begun(file, tmp_path / "out")
    unfinished = result_of(file).with_name(f".{result_of(file).name}.partial")
    assert unfinished.exists()
    (unfinished / "manifest.json").write_text("{}")  # cannot be continued any more
    if resume:
        done = run("merge", file, "--resume", "--out", tmp_path / "out")
        assert done.returncode == 1
        assert "again without resuming" in done.stderr
    done = run("merge", file, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert not unfinished.exists()
