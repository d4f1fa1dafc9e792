"""``ace-gui evaluate`` as a person runs it."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.command import ace_gui
from tests.helpers.scored_models import save_bert, sentence


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    names = {0: "bad", 1: "good"}
    for seed, name in enumerate(("base", "mood")):
        save_bert(folder / name, "SequenceClassification", seed=seed, id2label=names)
    generator = np.random.default_rng(0)
    rows = [f"{sentence(generator)},{n % 2}" for n in range(30)]
    (folder / "mood.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    recipe = {"base_model": "base", "models": [{"model": "mood"}], "tasks": [{"data": "mood.csv"}]}
    (folder / "recipe.yaml").write_text(json.dumps({**recipe, "schema": 1}))
    (folder / "tasks.yaml").write_text("tasks:\n- {data: mood.csv, name: moods, metric: f1}\n")
    (folder / "list.yaml").write_text("- {data: mood.csv, name: moods, metric: f1}\n")
    (folder / "text.yaml").write_text("mood.csv\n")
    return folder


def test_a_recipe_and_a_folder(project: Path):
    folder = str(project / "mood")
    out = project / "scores.json"
    done = ace_gui("evaluate", project / "recipe.yaml", folder, "--limit", "20", "--json", out)
    assert done.returncode == 0, done.stderr
    scores = json.loads(out.read_text())["scores"]
    assert [score["model"] for score in scores] == ["base", "mood", folder]
    keys = ("model", "task", "metric", "score", "n", "standard_error", "normalised", "chance")
    assert {frozenset(score) for score in scores} == {frozenset(keys)}
    assert {score["chance"] for score in scores} == {0.5}
    assert "chance 0.500" in done.stdout
    assert {(score["task"], score["metric"], score["n"]) for score in scores} == {
        ("mood", "accuracy", 20)
    }
    assert scores[1]["score"] == scores[2]["score"]
    assert scores[1]["normalised"] == 1
    assert "experts" in done.stdout


@pytest.mark.parametrize("tasks", ["tasks.yaml", "list.yaml"])
def test_folders_with_a_file_of_tasks(project: Path, tmp_path, tasks: str):
    out = tmp_path / "alone.json"
    done = ace_gui(
        "evaluate", project / "base", project / "mood", "--tasks", project / tasks,
        "--json", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    scores = json.loads(out.read_text())["scores"]
    assert [(score["task"], score["metric"], score["normalised"]) for score in scores] == [
        ("moods", "f1", None)
    ] * 2


def test_what_cannot_be_done_is_said_in_one_line(project: Path):
    done = ace_gui("evaluate", project / "base")
    assert done.returncode == 1
    assert "--tasks" in done.stderr
    (project / "bad.yaml").write_text("tasks:\n- {data: none.csv}\n")
    done = ace_gui("evaluate", project / "base", "--tasks", project / "bad.yaml")
    assert done.returncode == 1
    assert "none.csv" in done.stderr
    assert "Traceback" not in done.stderr
    done = ace_gui("evaluate", project / "base", "--tasks", project / "text.yaml")
    assert done.returncode == 1
    assert "is not a recipe" in done.stderr
    assert ace_gui("evaluate", project / "base", "--limit", "0").returncode == 2
