"""The table of lm-eval beside ours; a stand-in for that library, which is not installed here."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from ace_gui.cli.commands import app
from tests.helpers.scored_models import save_chat_model, save_gpt2

RESULTS = {
    "results": {
        "toy": {
            "alias": "toy",
            "sample_len": 30,
            "acc,none": 0.25,
            "acc_stderr,none": 0.125,
            "exact_match,strict-match": 1.0,
            "exact_match_stderr,strict-match": "N/A",
        }
    },
    "n-samples": {"toy": {"original": 30, "effective": 12}},
}


class Library(ModuleType):
    """As much of lm-eval as is called, with what it was called with."""

    def __init__(self) -> None:
        super().__init__("lm_eval")
        self.settings: dict[str, Any] = {}
        self.error: Exception | None = None
        self.tasks = ModuleType("lm_eval.tasks")
        self.tasks.TaskManager = self.manager

    def manager(self, **settings: Any) -> Any:
        self.settings |= settings
        task_manager = ModuleType("manager")
        task_manager.all_tasks = ["toy", "hellaswag"]
        return task_manager

    def simple_evaluate(self, **settings: Any) -> Any:
        self.settings |= settings
        sys.stdout.write("bootstrapping\n")
        sys.stderr.write("a bar\n")
        if self.error is not None:
            raise self.error
        return RESULTS


@pytest.fixture
def library(monkeypatch) -> Library:
    stand_in = Library()
    monkeypatch.setitem(sys.modules, "lm_eval", stand_in)
    monkeypatch.setitem(sys.modules, "lm_eval.tasks", stand_in.tasks)
    return stand_in


def run_evaluate(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_its_table_and_its_figures(library: Library, tmp_path):
    save_gpt2(tmp_path / "model")
    (tmp_path / "lines.txt").write_text("the cat sat\n" * 3)
    (tmp_path / "tasks.yaml").write_text("- data: lines.txt\n")
    model = tmp_path / "model"
    out = tmp_path / "scores.json"
    done = run_evaluate(
        model, "--tasks", tmp_path / "tasks.yaml", "--harness", "toy", "--harness-tasks", tmp_path,
        "--limit", "12", "--device", "cpu", "--json", out,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert [line.split()[1:] for line in done.stdout.splitlines()[-3:-1]] == [
        ["toy", "acc", "12", "0.250", "±", "0.125"],
        ["toy", "exact_match,", "strict-match", "12", "1.000"],
    ]
    document = json.loads(out.read_text())
    assert [score["task"] for score in document["scores"]] == ["lines"]
    assert document["harness"][0] == {
        "model": str(model), "task": "toy", "metric": "acc", "score": 0.25, "n": 12,
        "standard_error": 0.125, "normalised": None, "chat": False,
    }  # fmt: skip
    assert document["harness"][1]["standard_error"] is None
    assert library.settings["model_args"] == {"pretrained": str(model), "dtype": "float32"}
    assert library.settings["include_path"] == str(tmp_path)
    assert (library.settings["limit"], library.settings["device"]) == (12, "cpu")


@pytest.mark.parametrize("template", [None, "{{ messages }}"])
def test_a_chat_model_is_asked_in_its_template(library: Library, tmp_path, template: str | None):
    save_chat_model(tmp_path / "model", template=template)
    out = tmp_path / "scores.json"
    done = run_evaluate(tmp_path / "model", "--harness", "toy", "--json", out)
    assert done.exit_code == 0, done.output
    assert library.settings["apply_chat_template"] is bool(template)
    assert {score["chat"] for score in json.loads(out.read_text())["harness"]} == {bool(template)}
    assert ("its chat template" if template else "plain prompts") in done.stdout


def test_what_it_prints_is_no_figure_and_a_model_is_named_once(library: Library, tmp_path):
    save_chat_model(tmp_path / "a")
    save_chat_model(tmp_path / "b", template=None)
    done = run_evaluate(tmp_path / "a", tmp_path / "b", "--harness", "toy", "--json", "-")
    assert len(json.loads(done.stdout)["harness"]) == 4
    assert "bootstrapping" in done.stderr
    note = next(line for line in done.stderr.splitlines() if line.startswith("On toy"))
    assert (note.count(f"{tmp_path}/a"), note.count(f"{tmp_path}/b")) == (1, 1)
    quiet = run_evaluate(tmp_path / "a", "--harness", "toy", "--json", "-", "--quiet")
    assert quiet.stderr == ""


def test_the_harness_alone_needs_no_tasks_of_ours(library: Library, tmp_path):
    save_gpt2(tmp_path)
    done = run_evaluate(tmp_path, "--harness", "toy,hellaswag")
    assert done.exit_code == 0, done.output
    assert library.settings["tasks"] == ["toy", "hellaswag"]
    assert "include_path" not in library.settings


def test_what_cannot_be_done_is_said_in_one_sentence(library: Library, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("base_model: base\nmodels: [{model: a}]\nschema: 1\n")
    assert "--harness runs on folders" in run_evaluate(recipe, "--harness", "toy").stderr
    assert "no task `none`" in run_evaluate(tmp_path, "--harness", "toy,none").stderr
    save_gpt2(tmp_path / "model")
    library.error = ConnectionError("Couldn't reach\n'Rowan/hellaswag' on the Hub")
    done = run_evaluate(tmp_path / "model", "--harness", "hellaswag")
    assert done.exit_code == 1
    *_, line = done.stderr.splitlines()
    assert "Couldn't reach 'Rowan/hellaswag'" in line
    assert "must be on this machine" in line


def test_without_the_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    done = run_evaluate(tmp_path, "--harness", "toy")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert 'pip install ".[lm-eval]"' in line
