"""What becomes of each key of a mergekit file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ace_gui.engine.contract.plan import RECIPE, CheckVerdict
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.key_fates import Fate
from ace_gui.recipe.mergekit.schema import Document
from ace_gui.recipe.mixture_file import explained_file
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.command import ace_gui
from tests.helpers.mergekit_files import make_models

MODELS = [{"model": "a", "parameters": {"weight": 0.5}}, {"model": "b"}]


def fates(tmp_path: Path, **keys: object) -> dict[str, tuple[Fate, str]]:
    make_models(tmp_path)
    file = tmp_path / "theirs.yaml"
    document = {"merge_method": "ties", "base_model": "base", "models": MODELS, **keys}
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    [(name, rows)] = explained_file(file).items()
    assert not name
    return {row.key: (row.fate, row.why) for row in rows}


def test_every_key_has_a_fate(tmp_path):
    by_key = fates(
        tmp_path, parameters={"int8_mask": True, "density": [0.3, 0.6]}, dtype="bfloat16"
    )
    kept_keys = {key for key, (fate, _) in by_key.items() if fate is Fate.KEPT}
    assert kept_keys >= {"base_model", "models[].model", "models[].parameters.weight"}
    assert by_key["parameters.int8_mask"][0] is Fate.LEFT_OUT
    assert by_key["dtype"][0] is Fate.CHANGED
    assert "gradient" in by_key["parameters.density"][1]


@pytest.mark.parametrize(
    ("keys", "key", "fate"),
    [
        ({"parameters": {"t": 0.5}}, "parameters.t", Fate.LEFT_OUT),
        ({"license": "mit"}, "license", Fate.LEFT_OUT),
        ({"merge_method": "dare_ties"}, "merge_method", Fate.CHANGED),
        ({"merge_method": "linear"}, "merge_method", Fate.KEPT),
        ({"out_dtype": "float16"}, "out_dtype", Fate.CHANGED),
        ({"tokenizer_source": "union"}, "tokenizer_source", Fate.CHANGED),
        ({"chat_template": "chatml"}, "chat_template", Fate.CHANGED),
        ({"tokenizer": {"pad_to_multiple_of": 8}}, "tokenizer.pad_to_multiple_of", Fate.CHANGED),
        (
            {"parameters": {"weight": [{"filter": "mlp", "value": 1.0}, {"value": 0.5}]}},
            "parameters.weight",
            Fate.KEPT,
        ),
    ],
)
def test_fates(tmp_path, keys: dict[str, object], key: str, fate: Fate):
    by_key = fates(tmp_path, **keys)
    assert by_key[key][0] is fate
    assert fate is Fate.KEPT or by_key[key][1]


def test_slices_have_one_line_for_each_kind_of_key(tmp_path):
    file = tmp_path / "theirs.yaml"
    slices = [{"sources": [{"model": name, "layer_range": [0, 2]}]} for name in ("a", "b")]
    file.write_text(yaml.safe_dump({"merge_method": "passthrough", "slices": slices}))
    [rows] = explained_file(file).values()
    assert [row.key for row in rows] == [
        "merge_method",
        "slices[].sources[].layer_range",
        "slices[].sources[].model",
    ]
    assert set(Document.model_fields) >= {row.key.partition("[")[0] for row in rows}


def test_several_merges_are_told_apart(tmp_path):
    file = tmp_path / "theirs.yaml"
    first = {"name": "first", "merge_method": "linear", "base_model": "base", "models": MODELS}
    last = {"merge_method": "linear", "base_model": "base", "dtype": "float16"}
    last["models"] = [{"model": "first"}, {"model": "a"}]
    file.write_text(yaml.safe_dump_all([first, last], sort_keys=False))
    assert list(explained_file(file)) == ["first", ""]


def test_the_command(tmp_path):
    fates(tmp_path, dtype="float16")
    ended = ace_gui("mergekit", tmp_path / "theirs.yaml", "--explain")
    assert ended.returncode == 0, ended.stderr
    assert "models[].parameters.weight" in ended.stdout
    assert "computes in float32" in ended.stdout
    assert ace_gui("mergekit", tmp_path / "theirs.yaml").returncode == 2
    options = ("--explain", "--out", tmp_path / "x.yaml")
    assert ace_gui("mergekit", tmp_path / "theirs.yaml", *options).returncode == 2


def test_a_recipe_of_ours_is_refused(tmp_path):
    file = tmp_path / "ours.yaml"
    file.write_text(yaml.safe_dump({"schema": 1, "base_model": "base", "models": MODELS}))
    with pytest.raises(RecipeError, match=r"recipe of this application"):
        explained_file(file)


def test_the_plan_says_what_became_of_the_keys(tmp_path):
    fates(tmp_path, license="mit", out_dtype="float16")
    recipe = load_recipe(tmp_path / "theirs.yaml")
    [note] = [check for check in prepare(recipe).plan.checks if "mergekit reads" in check.sentence]
    assert (note.title, note.verdict) == (RECIPE, CheckVerdict.NOTE)
    assert note.sentence == (
        "4 keys are read as mergekit reads them; changed: `out_dtype`; left out: `license`."
    )
    assert "out_dtype: changed: the number format of the output" in note.details


def test_a_recipe_of_ours_has_no_such_note(tmp_path):
    make_models(tmp_path)
    file = tmp_path / "ours.yaml"
    file.write_text(
        yaml.safe_dump(
            {"schema": 1, "merge_method": "linear", "base_model": "base", "models": MODELS}
        )
    )
    plan = prepare(load_recipe(file)).plan
    assert not any("mergekit" in check.sentence for check in plan.checks)


def test_the_dry_run_and_its_json(tmp_path):
    fates(tmp_path, license="mit", dtype="float16", merge_method="linear")
    record = tmp_path / "plan.json"
    ended = ace_gui("merge", tmp_path / "theirs.yaml", "--dry-run", "--json", record)
    assert ended.returncode == 0, ended.stderr
    assert "Note: Recipe: 4 keys are read as mergekit reads them" in ended.stderr
    assert "license: left out: mergekit has no key" in ended.stderr
    content = json.loads(record.read_text())
    rows = {row["key"]: row for row in content["mergekit_keys"]}
    assert rows["dtype"]["fate"] == "changed"
    assert rows["models[].model"]["fate"] == "as in mergekit"
    assert any("read as mergekit reads" in check["sentence"] for check in content["checks"])


MIXTURE = {
    "base_model": "base",
    "gate_mode": "random",
    "dtype": "float32",
    "experts": [{"source_model": "a", "noise_scale": 0.0}, {"source_model": "b"}],
}


def test_a_file_of_mergekit_moe(tmp_path):
    file = tmp_path / "moe.yaml"
    file.write_text(yaml.safe_dump(MIXTURE, sort_keys=False))
    [rows] = explained_file(file).values()
    assert {row.key: row.fate for row in rows} == {
        "base_model": Fate.KEPT,
        "gate_mode": Fate.CHANGED,
        "dtype": Fate.CHANGED,
        "experts[].source_model": Fate.KEPT,
        "experts[].noise_scale": Fate.LEFT_OUT,
    }
    file.write_text(yaml.safe_dump({**MIXTURE, "merge_method": "moe"}))
    with pytest.raises(RecipeError, match=r"recipe of this application"):
        explained_file(file)
