"""Names out of files are shown by the commands; a terminal has nothing to act upon."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from ace_gui.cli.commands import app
from tests.helpers.checkpoints import save_model
from tests.helpers.recipes import file_over

# Colours, the title of the window, the clipboard, a C1 control, a bell, a line's start, direction.
EVIL = "\x1b[31m\x1b]0;title\x07\x1b]52;c;aGk=\x1b\\\x9b2J\b\r\u202e\u2066\x7f[red]"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    generator = torch.Generator().manual_seed(0)
    names = (f"layer.0.{EVIL}.weight", f"{EVIL}.bias", "plain.weight")
    base = {name: torch.randn(6, 6, generator=generator) for name in names}
    config = {"model_type": EVIL, "architectures": [EVIL], "auto_map": {EVIL: EVIL}}
    folder = save_model(tmp_path / f"base{EVIL.replace('/', '')}", base, config=config)
    (folder / f"vocab{EVIL}.py").write_text("")
    (folder / "vocab.json").write_text(json.dumps({EVIL: 0, "b": 1}))
    experts = []
    for number in range(2):
        moved = {name: tensor + 0.01 * (number + 1) for name, tensor in base.items()}
        moved[f"{EVIL}.extra"] = torch.ones(2)
        experts.append(save_model(tmp_path / f"expert{number}", moved, config=config))
        (experts[-1] / "vocab.json").write_text(json.dumps({EVIL + "x": 0, "b": 1}))
    rule = {"tensors": [names[0]], "disposition": "average"}
    return file_over(
        tmp_path / "recipe", folder, experts, merge_method="emr", overrides=[rule], schema=1
    )


def said(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    text = result.stdout + result.stderr
    assert [letter for letter in text if not letter.isprintable() and letter != "\n"] == []
    return text


def test_every_command_that_prints_names(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    task = tmp_path / "task"
    assert "\\x1b[31m" in said("inspect", recipe, "--json", tmp_path / "f.json")
    assert "Merged 2 experts" in said("merge", recipe, "--device", "cpu", "--out", out)
    said("compare", recipe, "--methods", "linear,emr", "--device", "cpu")
    said("report", recipe, "--device", "cpu", "--out", tmp_path / f"{EVIL.replace('/', '')}.html")
    said("mergekit", recipe, "--out", tmp_path / "m.yaml")
    said("methods", EVIL)
    assert "Written" in said("task", out, "expert0", "--out", task)
    assert "Written" in said("task", out, "expert0", "--out", tmp_path / EVIL.replace("/", ""))
    assert "There is no expert" in said("task", out, EVIL, "--out", tmp_path / "none")


def test_errors_that_name_tensors_and_files(recipe: Path, tmp_path: Path) -> None:
    broken = tmp_path / "expert1"
    file = broken / "model.safetensors"
    tensors = load_file(file)
    name = f"layer.0.{EVIL}.weight"
    for bad in (torch.full((6, 6), torch.nan), torch.ones(6, 7), torch.ones(6, 6).to(torch.int64)):
        save_file({**tensors, name: bad}, file)
        for command in ("inspect", "merge", "compare", "report"):
            more = ["--methods", "linear"] if command == "compare" else []
            more += ["--out", str(tmp_path / "out")] if command in ("merge", "report") else []
            said(command, recipe, *more)
    file.write_bytes(b"broken")
    assert "Error: " in said("inspect", recipe)
    (broken / "config.json").write_text(json.dumps({EVIL: 1})[:-1])
    said("inspect", recipe, "--verbose")
    recipe.write_text(json.dumps({EVIL: EVIL}))
    said("inspect", recipe)
    said("inspect", recipe.parent / EVIL.replace("/", ""))
