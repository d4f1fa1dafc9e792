"""A word in a recipe means what its key needs; files of any size and shape end soon."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ace_gui.errors import RecipeError
from ace_gui.methods.registry import checked_parameters, get_method
from ace_gui.recipe.recipe_file import load_recipe, load_tasks
from ace_gui.recipe.values import ModelEntry
from ace_gui.recipe.yaml_reader import read_documents, read_value
from tests.helpers.command import ace_gui as run
from tests.helpers.mergekit_files import make_models

WORDS = (
    *("yes", "no", "on", "off", "y", "n", "Yes", "NO", "On", "OFF"),
    *("2025-11-03", "2001-12-14t21:59:43.10-05:00", "12:30:45", "190:20:30"),
    *("123", "0123", "0x1F", "0o17", "1_000", "1.5", "1e3", "1.", ".5", "-3", "+7", "="),
)
"""Texts that YAML 1.1 reads as booleans, dates, times, numbers, or that are like them."""

SWITCHES = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


def loaded(folder: Path, text: str) -> Any:
    file = folder / "recipe.yaml"
    file.write_text("schema: 1\nmerge_method: linear\nbase_model: base\n" + text)
    return load_recipe(file)


@pytest.mark.parametrize("word", WORDS)
def test_a_text_is_what_is_written(tmp_path: Path, word: str) -> None:
    recipe = loaded(
        tmp_path,
        f"models: [{{model: {word}, name: first}}, {{model: x, name: {word}}}]\n"
        f"overrides: [{{blocks: 0, weights: {{{word}: 0.5}}}}]\n"
        f"tokenizer: {word}\n"
        f"tasks: [{{data: {word}, name: {word}, labels: [{word}, other], stop: [{word}],"
        f" columns: {{text: {word}}}, prompt: {word}}}]\n",
    )
    assert recipe.models[0].model == tmp_path / word
    assert recipe.models[1].name == word
    assert dict(recipe.overrides[0].weights) == {word: 0.5}
    assert recipe.tokenizer == word
    task = recipe.tasks[0]
    assert task.labels == (word, "other")
    assert (task.name, task.stop, task.prompt) == (word, (word,), word)
    assert dict(task.columns) == {"text": word}
    again = tmp_path / "again.yaml"
    recipe.save(again)
    assert load_recipe(again) == recipe


@pytest.mark.parametrize("word", sorted({*WORDS} - {"+7"}))  # + divides a model and its adapter
def test_a_text_of_mergekits_file_is_what_is_written(tmp_path: Path, word: str) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(f"merge_method: linear\nmodels:\n- model: {word}\n- model: {word}x\n")
    assert tmp_path / word in load_recipe(file).paths


@pytest.mark.parametrize(("word", "value"), SWITCHES.items())
@pytest.mark.parametrize("spelling", [str.lower, str.upper, str.title])
def test_a_boolean_key_takes_every_word_for_it(
    tmp_path: Path, word: str, value: bool, spelling: Any
) -> None:
    written = spelling(word)
    models = "models: [{model: a}, {model: b}]\n"
    assert loaded(tmp_path, f"{models}split_fused: {written}\n").split_fused is value
    settings = loaded(tmp_path, f"{models}parameters: {{normalize: {written}}}\n").parameters
    assert checked_parameters(get_method("linear"), settings).normalize is value
    file = tmp_path / "mergekit.yaml"
    file.write_text(
        f"merge_method: linear\nparameters: {{normalize: {written}}}\nmodels:\n- model: a\n"
        "  parameters: {weight: 1}\n- model: b\n  parameters: {weight: 3}\n"
    )
    assert (load_recipe(file).parameters.get("normalize", True)) is value


@pytest.mark.parametrize("word", ["true", "~", "[a]", "{a: b}"])
def test_a_value_of_the_wrong_kind_names_the_key(tmp_path: Path, word: str) -> None:
    with pytest.raises(RecipeError, match=r"labels\[0\]") as caught:
        loaded(tmp_path, f"models: [{{model: a}}]\ntasks: [{{data: d, labels: [{word}, b]}}]\n")
    assert "in quotes" in caught.value.sentence


def test_numbers_are_numbers_where_they_are_meant(tmp_path: Path) -> None:
    recipe = loaded(
        tmp_path,
        "models: [{model: a, parameters: {weight: 1e-2}}]\nseed: 0x1F\nout_dtype: float16\n"
        "parameters: {normalize: false}\nafter: {scale: 1, cap: .5}\n",
    )
    assert recipe.models[0].weight == 0.01
    assert type(recipe.seed) is int
    assert recipe.seed == 31
    assert recipe.after.scale == 1.0
    assert type(recipe.parameters["normalize"]) is bool
    settings = loaded(tmp_path, "models: [{model: a}]\nparameters: {a: 3, b: 3.0, c: 1e3}\n")
    kinds = {name: type(value) for name, value in settings.parameters.items()}
    assert kinds == {"a": int, "b": float, "c": float}


def test_the_help_pages_words_are_read(tmp_path: Path) -> None:
    make_models(tmp_path)
    recipe = loaded(tmp_path, "models:\n  - model: b\n    on: a\n")
    assert recipe.models[0].on == tmp_path / "a"
    (tmp_path / "t.yaml").write_text("tasks:\n  - data: d.csv\n    labels: [no, yes]\n")
    assert load_tasks(tmp_path / "t.yaml")[0].labels == ("no", "yes")


ALIASES = """
base: &common {density: 0.5, weight: 1}
one: {<<: *common, weight: 2}
list: [*common, *common]
several: {<<: [*common, {density: 1, more: x}]}
"""


def test_aliases_are_read_as_the_library_reads_them() -> None:
    (document,) = read_documents(ALIASES)
    assert document == yaml.safe_load(ALIASES)


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30)),
        "a0: &a0 {"
        + ", ".join(f"k{n}: v" for n in range(4000))
        + "}\n"
        + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 1500)),
        "a: &a [*a]",
        "a: &a {<<: *a}",
        "x: &x {y: 1, w: 2}\nz: {<<: [" + ", ".join(["*x"] * 19_000) + "]}",
        "[" * 2000,
        "- " * 2000,
        "? " * 2000,
        "a: " + "&a " * 2000,
    ],
    ids=["lists", "merges", "circle", "merged circle", "wide", "deep", "dashes", "keys", "anchors"],
)
def test_hostile_files_end_soon(text: str) -> None:
    began = time.process_time()
    with pytest.raises((yaml.YAMLError, ValueError, RecursionError)):
        read_documents(text)
    assert time.process_time() - began < 10


def test_a_key_merged_over_and_over_is_refused_or_read_once() -> None:
    """PyYAML drops what repeats since 6.0.4; before, there are 2 to the power of 39 keys."""
    merges = [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)]
    began = time.process_time()
    with suppress(yaml.YAMLError):
        (document,) = read_documents("a0: &a0 {k: v}\n" + "".join(merges))
        assert document == {f"a{n}": {"k": "v"} for n in range(40)}
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a: 1\n---\n", 1),
        ("---\na: 1\n---\n---\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("", 1),
        ("---", 1),
    ],
)
def test_empty_documents_do_not_count(text: str, count: int) -> None:
    assert len(read_documents(text)) == count


def test_a_value_of_the_command_line_is_one_of_a_file() -> None:
    assert read_value("1e-5") == 1e-5
    assert read_value("no") == "no"
    assert read_value("[1, true, a]") == [1, True, "a"]


def test_a_recipe_with_aliases_and_yes_merges(tmp_path: Path) -> None:
    make_models(tmp_path)
    (tmp_path / "r.yaml").write_text(
        "merge_method: ties\nbase_model: base\nparameters: {normalize: yes}\n"
        "x: &p {weight: 1, density: 0.5}\nmodels:\n- {model: a, parameters: *p}\n"
        "- {model: b, parameters: {<<: *p, weight: 0.5}}\n---\n"
    )
    done = run("merge", tmp_path / "r.yaml", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "no key 'x'" in done.stderr


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029", "\xa0", "\ufeff", "é", "'", '"'])
def test_names_with_any_character_are_written_and_read(tmp_path: Path, character: str) -> None:
    name = f"a{character}b"
    recipe = loaded(tmp_path, "models: [{model: x}]\n")
    named = replace(recipe, models=(ModelEntry(model=tmp_path / name),))
    named.save(tmp_path / "again.yaml")
    assert load_recipe(tmp_path / "again.yaml") == named
