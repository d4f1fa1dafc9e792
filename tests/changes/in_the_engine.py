"""``python -m tests.changes.in_the_engine FOLDER`` prints as JSON what runs with the changes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from safetensors.torch import load_file

import ace_gui
from ace_gui.engine.contract import jobs
from ace_gui.engine.contract.events import JobDone, JobProgress
from ace_gui.engine.runner import Runner
from ace_gui.engine.service import run, safe_steps
from ace_gui.errors import WorkbenchError
from ace_gui.recipe import Recipe
from ace_gui.recipe.output_forms import Output
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe, recipe_from
from tests.helpers.command import ace_gui as command
from tests.helpers.engines import describe_here
from tests.helpers.scored_models import save_bert

WORDS = ("the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "good", "bad", "of")


def family(folder: Path) -> Path:
    """Masked language models with a task of the new kind. Returns their recipe."""
    for seed, name in enumerate(("base", "one", "two")):
        save_bert(folder / name, "MaskedLM", seed=seed)
    for name in ("one", "two"):
        rows = [f"the hidden sat on the mat,{word}" for word in WORDS]
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
        (folder / f"{name}-inputs.csv").write_text("\n".join(["text", *rows]).replace(",", " "))
    recipe = {
        "merge_method": "fisher",
        "base_model": "base",
        "models": [{"model": "one"}, {"model": "two"}],
        "quietly": True,
        "tasks": [
            {"data": "one.csv", "calibration": "one-inputs.csv"},
            {"data": "two.csv", "kind": "masked-word", "calibration": "two-inputs.csv"},
        ],
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    return folder / "recipe.yaml"


def sentence(content: dict[str, Any]) -> str:
    """The error of a recipe."""
    try:
        recipe_from(content)
    except WorkbenchError as error:
        return error.sentence
    return ""


def of_the_kind(file: Path) -> dict[str, Any]:
    recipe = load_recipe(file)
    job = jobs.DescribeTasksJob(recipe=recipe, tasks=recipe.tasks)
    described = list(run(job))
    json_file = file.parent / "scores.json"
    ended = command("evaluate", file, "--json", json_file, "--device", "cpu", "--quiet")
    merged = ace_gui.merge(file, file.parent / "merged", device="cpu")
    wrong = {"base_model": "b", "models": [], "tasks": [{"data": "d.csv", "kind": "nothing"}]}
    return {
        "guessed": [task.kind for task in described],
        "faults": [task.fault for task in described],
        "columns": [dict(task.columns) for task in described],
        "status": ended.returncode,
        "table": ended.stdout,
        "scores": json.loads(json_file.read_text())["scores"],
        "merged": list(merged.files),
        "unknown": sentence(wrong),
    }


def of_the_output(file: Path) -> dict[str, Any]:
    folder = file.parent
    recipe = load_recipe(file)
    written = replace(recipe, output=Output("numpy"), tasks=(), merge_method="linear")
    (folder / "numpy.yaml").write_text(dump_recipe(written, folder))
    by_option = command("merge", file, "--as", "numpy", "--out", folder / "by-option", "--quiet")
    by_recipe = ace_gui.merge(folder / "numpy.yaml", folder / "by-recipe", device="cpu")
    model_recipe = replace(written, output=Output.MODEL)
    ace_gui.merge(model_recipe, folder / "whole", device="cpu")
    expected = load_file(folder / "whole" / "model.safetensors")
    archive = numpy.load(folder / "by-recipe" / "weights.npz")
    for _ in run(jobs.MergeJob(recipe=model_recipe, store=folder / "store", device="cpu")):
        pass
    chosen = written.output.traits.export(is_small=True)
    job = jobs.ExportJob(
        store=folder / "store", folder=folder / "exported", output=written.output, chosen=chosen
    )
    exported = list(run(job))[-1]
    halved = replace(written, out_dtype="bfloat16")
    return {
        "help": command("merge", "--help", COLUMNS="120").stdout,
        "status": by_option.returncode,
        "by option": sorted(path.name for path in (folder / "by-option").iterdir()),
        "by recipe": list(by_recipe.files),
        "exported": list(exported.files),
        "same": all((archive[name] == expected[name].numpy()).all() for name in expected),
        "tensors": len(archive.files) == len(expected),
        "recipe": (folder / "numpy.yaml").read_text(),
        "unknown": command("merge", file, "--as", "cake", "--out", folder / "none").stderr,
        "unknown in a recipe": sentence({"base_model": "b", "models": [], "output": "cake"}),
        "scored": command(
            "merge", file, "--as", "numpy", "--evaluate", "--out", folder / "none"
        ).stderr,
        "fits": [check.line for check in ace_gui.plan(written).checks if check.title == "Output"],
        "fails": [check.line for check in ace_gui.plan(halved).checks if check.is_worry],
        "refused": command(
            "merge", _written(halved, folder / "halved.yaml"), "--out", folder / "none"
        ).stderr,
    }


def _written(recipe: Recipe, file: Path) -> Path:
    file.write_text(dump_recipe(recipe, file.parent))
    return file


def of_the_choice(file: Path) -> dict[str, Any]:
    recipe = load_recipe(file)
    mistyped = {"base_model": "b", "models": [], "quitely": True}
    return {
        "read": recipe.quietly,
        "written": dump_recipe(recipe, file.parent),
        "mistyped": sentence(mistyped),
    }


def of_the_command(folder: Path) -> dict[str, Any]:
    json_file = folder / "said.json"
    ended = command("praise", "this", "--often", "2", "--json", json_file)
    refused = command("praise", "this", "--often", "0")
    return {
        "listed": command("--help", COLUMNS="120").stdout,
        "help": command("praise", "--help", COLUMNS="120").stdout,
        "said": ended.stdout.split("\n"),
        "json": json.loads(json_file.read_text()),
        "refused": refused.stderr,
    }


def of_the_job() -> dict[str, Any]:
    job = jobs.PraiseJob(name="this")
    (progress,) = run(job)
    assert isinstance(progress, JobProgress)
    return {
        "of the library": progress.title,
        "of the engine": isinstance(list(safe_steps(job, Runner()))[-1], JobDone),
    }


def main(folder: Path) -> dict[str, Any]:
    file = family(folder)
    return {
        "kind": of_the_kind(file),
        "output": of_the_output(file),
        "choice": of_the_choice(file),
        "command": of_the_command(folder),
        "job": of_the_job(),
    }


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        describe_here(patch)
        results = main(Path(sys.argv[1]))
    sys.stdout.write(json.dumps(results, default=str))
