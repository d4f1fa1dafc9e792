"""Each row of *To add* that changes the program's sources: what is added is found where it is
promised. Rows about methods and figures have tests of their own, which add them to a registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.changes.changed_program import CHANGES, ROOT, make_copy, result_of

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_copy(tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def window(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the window of the changed program has."""
    return result_of(program, "tests.changes.in_the_window", tmp_path_factory.mktemp("window"))


@pytest.fixture(scope="module")
def engine(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the engine, library and command line of the changed program do."""
    return result_of(program, "tests.changes.in_the_engine", tmp_path_factory.mktemp("engine"))


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_touches_the_files_that_its_row_names(change: str):
    files = {insertion.file for insertion in CHANGES[change]}
    most = {"choice": 2, "kind": 2, "output": 2, "command": 2, "job": 2}.get(change, 1)
    assert len(files) <= most
    for file in files:
        assert file in CONTRIBUTING or file == "cli/listing.py"


def test_a_kind_is_guessed_scored_and_learned_from(engine: dict[str, Any]):
    kind = engine["kind"]
    assert kind["faults"] == ["", ""]
    assert kind["guessed"] == ["masked-word", "masked-word"]
    assert kind["columns"] == [{"text": ["text"], "label": ["label"]}] * 2
    assert kind["status"] == 0
    scores = {(score["model"], score["task"]): score for score in kind["scores"]}
    assert {model for model, _ in scores} == {"base", "one", "two"}
    assert all(score["metric"] == "accuracy" for score in scores.values())
    assert {score["score"] for score in scores.values()} <= {0.0, 1 / 13}  # one text, 13 answers
    assert any(score["score"] for score in scores.values())
    assert "accuracy" in kind["table"]
    assert "model.safetensors" in kind["merged"]
    assert "masked-word" in kind["unknown"]


def test_a_kind_is_in_the_forms_of_the_window(window: dict[str, Any]):
    editor = window["editor"]
    assert editor["metrics"] == ["accuracy", "contains"]
    assert {"column of text", "column of label", "system"} <= set(editor["fields"])
    assert not {"prompt", "chat", "labels"} & set(editor["fields"])
    assert editor["pictures"] is False
    assert window["torch"] is False


def test_an_output_is_in_the_command_line_and_the_recipe(engine: dict[str, Any]):
    output = engine["output"]
    assert "model|numpy|adapter" in output["help"]
    assert output["status"] == 0
    assert output["by option"] == output["by recipe"] == output["exported"] == ["weights.npz"]
    assert output["same"]
    assert output["tensors"]
    assert "output: numpy" in output["recipe"]
    assert "an archive for NumPy" in output["unknown"]
    assert "'numpy'" in output["unknown in a recipe"]


def test_an_output_checks_the_plan(engine: dict[str, Any]):
    output = engine["output"]
    assert output["fits"] == ["Output: The merge can be written as an archive for NumPy."]
    assert output["fails"] == ["Output: NumPy has no bfloat16; write float32."]
    assert "NumPy has no bfloat16; write float32." in output["refused"]
    assert "--evaluate needs a whole model, not an archive for NumPy." in output["scored"]


def test_an_output_is_in_the_dialog(window: dict[str, Any]):
    export = window["export"]
    assert export["forms"][:2] == ["the full model", "an archive (NumPy)"]
    assert export["fields"] == ["is_small"]
    assert export["contents"] == "weights.npz."
    assert export["models"] == 2


def test_a_choice_is_read_written_and_in_the_form(engine: dict[str, Any], window: dict[str, Any]):
    assert engine["choice"]["read"] is True
    assert re.search(r"^quietly: true$", engine["choice"]["written"], re.M)
    assert "did you mean 'quietly'" in engine["choice"]["mistyped"]
    assert window["option"] == {"label": "Quietly", "help": "Whether nothing is said."}
    assert window["recipe"] is True


def test_a_job_runs_in_the_callers_process_and_in_the_engines(
    engine: dict[str, Any], window: dict[str, Any]
):
    assert engine["job"] == {"of the library": "this is good", "of the engine": True}
    assert window["job"] == "this"


def test_a_tab_of_the_scores_is_there(window: dict[str, Any]):
    assert window["tabs"] == ["Tasks", "Scores", "Examples", "Words", "Tune"]


def test_an_action_is_in_its_menu_with_its_key_and_reason(window: dict[str, Any]):
    action = window["action"]
    assert (action["menu"], action["why"]) == ("Help", "")
    assert action["shortcut"].lower() == "ctrl+alt+p"
    assert window["action before"]  # without a model, it says why not


def test_a_column_is_in_the_table_and_in_csv(window: dict[str, Any]):
    assert "Letters" in window["headings"]
    headings, *lines = window["csv"]
    at = headings.index("letters")
    name = headings.index("tensor")
    assert lines
    assert all(line[at] == len(line[name]) for line in lines)


def test_a_command_is_listed_and_has_help_json_and_checks(engine: dict[str, Any]):
    command = engine["command"]
    assert "praise" in command["listed"]
    assert "How often to say it." in command["help"]
    assert "--json" in command["help"]
    assert command["said"][:2] == ["this is good.", "this is good."]
    assert command["json"]["said"] == ["this is good.", "this is good."]
    assert "--often" in command["refused"]


def test_a_help_page_is_listed_in_its_place(window: dict[str, Any]):
    assert window["pages"][0] == "Praise"
    assert len(window["pages"]) > 10
