"""The package as a library: light to import, its contract, and the examples of its page."""

import doctest
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import ace_gui
from ace_gui import library_results
from ace_gui.engine.contract.events import Exported, PlanReady, TensorFinished
from ace_gui.library import (
    catalogue,
    existing_models,
    merges,
    reporting,
    scores_and_routes,
    state_dicts,
)
from ace_gui.paths import Sample, resource_path
from ace_gui.recipe.new_recipes import recipe_keys
from tests.helpers.registry import own_registry

PAGE = resource_path("help/library.md")


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base and two experts in the working directory."""
    torch.manual_seed(0)
    shapes = {"layers.0.q_proj.weight": (6, 8), "layers.0.norm.weight": (8,)}
    for name in ("base", "expert-a", "expert-b"):
        (tmp_path / name).mkdir()
        tensors = {key: torch.randn(shape) for key, shape in shapes.items()}
        save_file(tensors, tmp_path / name / "model.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


RECIPE = {
    "merge_method": "linear",
    "base_model": "base",
    "models": [{"model": "expert-a"}, {"model": "expert-b"}],
    "schema": 1,
}


def test_the_examples_of_the_page_run(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    assert len(blocks) >= 6
    with own_registry():
        exec(compile("\n".join(blocks), str(PAGE), "exec"), {})
    printed = capsys.readouterr().out
    assert "Did you mean 'ace'?" in printed
    assert (models / "merged" / "model.safetensors").exists()
    assert (models / "by-largest-change" / "README.md").exists()
    assert (models / "by-largest-changes" / "README.md").exists()


def test_a_recipe_is_a_path_a_mapping_or_a_value(models: Path) -> None:
    file = models / "recipe.yaml"
    file.write_text(yaml.safe_dump(RECIPE))
    assert ace_gui.plan(ace_gui.Recipe(base_model=models / "base", models=())).experts == ()
    paths = {**RECIPE, "base_model": models / "base"}
    rows = [ace_gui.plan(recipe).rows for recipe in (file, str(file), RECIPE, paths)]
    assert rows[0] == rows[1] == rows[2] == rows[3]


def test_merging_says_what_it_does_and_gives_the_mean(models: Path) -> None:
    seen = []
    result = ace_gui.merge(RECIPE, models / "out", device="cpu", progress=seen.append)
    assert result.folder == models / "out"
    assert result.seconds >= 0
    assert "model.safetensors" in result.files
    assert isinstance(seen[0], PlanReady)
    assert isinstance(seen[-1], Exported)
    assert sum(isinstance(event, TensorFinished) for event in seen) == 2
    read = [load_file(models / name / "model.safetensors") for name in ("expert-a", "expert-b")]
    for name, tensor in load_file(result.folder / "model.safetensors").items():
        torch.testing.assert_close(tensor, (read[0][name] + read[1][name]) / 2)


def test_a_merge_that_is_stopped_can_be_resumed(models: Path) -> None:
    def stop(event: object) -> None:
        if isinstance(event, TensorFinished):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ace_gui.merge(RECIPE, models / "out", device="cpu", progress=stop)
    assert not (models / "out").exists()
    resumed = ace_gui.merge(RECIPE, models / "out", device="cpu", resume=True)
    fresh = ace_gui.merge(RECIPE, models / "fresh", device="cpu")
    first, second = (
        (finished.folder / "model.safetensors").read_bytes() for finished in (resumed, fresh)
    )
    assert first == second


def test_inspecting_gives_the_fields_of_the_json(models: Path) -> None:
    inspection = ace_gui.inspect({**RECIPE, "merge_method": "ace"})
    matrix, norm = sorted(inspection.layers, key=lambda layer: layer.name, reverse=True)
    assert matrix.gamma is not None
    assert matrix.regime in {"homogeneous", "heterogeneous"}
    assert set(matrix.energies) == {"expert-a", "expert-b"}
    assert norm.gamma is None
    assert norm.regime is None
    assert {check.verdict.value for check in inspection.checks} <= {
        "ok",
        "note",
        "warning",
        "error",
    }


def test_comparing_measures_each(models: Path) -> None:
    comparison = ace_gui.compare(RECIPE, methods=["linear", "task_arithmetic"])
    assert [row.variant.recipe.merge_method for row in comparison.rows] == [
        "linear",
        "task_arithmetic",
    ]
    assert all(row.mean_distance is not None for row in comparison.rows)
    values = ace_gui.compare(
        {**RECIPE, "merge_method": "task_arithmetic"}, parameter="scaling", values=[0.1, 0.2]
    )
    assert [row.parameters["scaling"] for row in values.rows] == [0.1, 0.2]
    pytest.importorskip("pandas")
    assert values.to_frame()["scaling"].tolist() == [0.1, 0.2]
    assert len(repr(values)) < 80


def test_an_error_is_one_of_the_tree(models: Path) -> None:
    with pytest.raises(ace_gui.errors.RecipeError, match="merge method"):
        ace_gui.plan({**RECIPE, "merge_method": "nothing"})
    for nothing in (None, [RECIPE], 1):
        with pytest.raises(ace_gui.errors.RecipeError, match="not a recipe"):
            ace_gui.plan(nothing)
    with pytest.raises(ace_gui.errors.RecipeError, match="unknown key"):
        ace_gui.plan({**RECIPE, "colour": "red"})
    with pytest.raises(ace_gui.errors.WorkbenchError):
        ace_gui.plan(models / "nowhere.yaml")


def test_every_name_of_the_package_is_there() -> None:
    for name in ace_gui.__all__:
        assert getattr(ace_gui, name) is not None
    assert dir(ace_gui) == sorted(ace_gui.__all__)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = ace_gui.nothing


def test_importing_it_is_light() -> None:
    """No torch, transformers, NumPy or Qt before something is used."""
    code = (
        "import ace_gui, sys; ace_gui.errors; ace_gui.Recipe; "
        "print([m for m in ('torch', 'transformers', 'PySide6', 'numpy') if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"


def test_the_reference_is_up_to_date() -> None:
    script = Path(__file__).parents[1] / "packaging" / "make_reference.py"
    assert runpy.run_path(str(script))["page"]() == resource_path("help/reference.md").read_text()


DOCUMENTED = (
    *(catalogue, existing_models, merges, reporting, scores_and_routes, state_dicts),
    *(library_results, ace_gui.Recipe),
)
"""Modules and a class whose docstrings have examples."""

EXAMPLES = {
    re.sub(r"ace_gui\.(library\.)?\w+\.", "", test.name): test.examples
    for documented in DOCUMENTED
    for test in doctest.DocTestFinder().find(documented)
    if test.examples
}


_TUNED: dict[str, Any] = {}


def tuned(*arguments: Any, **options: Any) -> Any:
    """What ``ace_gui.tune`` gives, asked once for equal arguments, as it merges and scores."""
    key = repr((arguments, options))
    if key not in _TUNED:
        _TUNED[key] = ace_gui.tune(*arguments, **options)
    return _TUNED[key]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_docstrings_run(name: str, models: Path) -> None:
    (models / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    sample = Sample.IMAGES.recipe
    public = {member: getattr(ace_gui, member) for member in ace_gui.__all__}
    asked_once = SimpleNamespace(**{**public, "tune": tuned})
    names = {"recipe": RECIPE, "sample": sample, "ace_gui": asked_once, "Recipe": ace_gui.Recipe}
    tensors = {"zeros": torch.zeros(3, 4), "ones": torch.ones(3, 4)}
    test = doctest.DocTest(EXAMPLES[name], {**names, **tensors}, name, None, 0, "")
    printed: list[str] = []
    doctest.DocTestRunner().run(test, out=printed.append)
    assert not printed, "".join(printed)


def test_every_public_function_has_an_example() -> None:
    functions = {
        name for name in ace_gui.__all__ if isinstance(getattr(ace_gui, name), FunctionType)
    }
    assert functions <= EXAMPLES.keys() | {"register_method", "parameter"}


@pytest.mark.parametrize("method", ["ace", "ace:automatic", "recommended", "ties", "linear"])
def test_merging_in_memory_is_merging_files(models: Path, method: str) -> None:
    names = ("base", "expert-a", "expert-b")
    files = [load_file(models / name / "model.safetensors") for name in names]
    before = [{key: value.clone() for key, value in state.items()} for state in files]
    merged = ace_gui.merge_state_dicts(files[0], files[1:], method=method)
    recipe = recipe_keys("base", names[1:], None if method == "recommended" else method)
    ace_gui.merge(recipe, "out")
    expected = load_file(models / "out" / "model.safetensors")
    assert list(merged) == list(files[0])
    for key, value in expected.items():
        assert torch.equal(merged[key], value), key
    for state, earlier in zip(files, before, strict=True):
        assert all(torch.equal(state[key], value) for key, value in earlier.items())


def test_tensors_in_memory_keep_their_dtype_and_ties(models: Path) -> None:
    shared = torch.randn(4, 6).bfloat16()
    base = {"embed.weight": shared, "head.weight": shared, "norm.weight": torch.ones(6)}
    experts = {
        "one": {name: value + 0.5 for name, value in base.items()},
        "two": {name: value.t().contiguous().t() - 0.5 for name, value in base.items()},
    }
    merged = ace_gui.merge_state_dicts(base, experts, method="linear", heads="merge")
    assert {name: value.dtype for name, value in merged.items()} == {
        name: value.dtype for name, value in base.items()
    }
    with pytest.raises(ace_gui.errors.RecipeError):
        ace_gui.merge_state_dicts(base, experts, method="ties", densty=0.1)
    with pytest.raises(ace_gui.errors.CheckpointError):
        ace_gui.merge_state_dicts({**base, "step": 3}, experts)


@pytest.mark.parametrize("method", ["linear", "dare_linear", "ties"])
def test_tied_tensors_in_memory_are_merged_as_one(method: str) -> None:
    table = torch.arange(48.0).reshape(8, 6)
    base = {"embed.weight": table, "head.weight": table}
    tied = [dict.fromkeys(base, table + change) for change in (1.0, torch.rand(8, 6))]
    merged = ace_gui.merge_state_dicts(base, tied, method=method)
    assert torch.equal(merged["embed.weight"], merged["head.weight"])
    assert merged["embed.weight"].data_ptr() != merged["head.weight"].data_ptr()
    own_head = {"embed.weight": table + 1, "head.weight": table + 3}
    merged = ace_gui.merge_state_dicts(base, [own_head], method="linear")
    assert torch.equal(merged["head.weight"], table + 3)
    assert torch.equal(merged["embed.weight"], table + 1)


def test_scores_and_what_was_tuned_are_tidy() -> None:
    """A row a model and task; a swept parameter is a column; a limit holds in a comparison too."""
    sample = Sample.IMAGES.recipe
    tuning = tuned(sample, {"scaling": (0.5, 1.0)}, merges=2, limit=8)
    frame = tuning.to_frame()
    assert frame["chosen"].sum() == 1
    assert frame["score"].max() == frame[frame["chosen"]]["score"].item()
    scores = tuning.evaluation.to_frame()
    assert set(scores["model"]) == {"as it was", "chosen"}
    assert len(scores.drop_duplicates(["model", "task"])) == len(scores) == 2 * 5
    assert set(scores["n"]) == {4}
    compared = ace_gui.compare(sample, methods="linear", limit=8, device="cpu", threads=1)
    frame = compared.to_frame()
    text = str(compared.to_frame.__doc__)
    assert set(frame["n"]) == {8}
    assert [name for name in frame if name not in text] == list(compared.rows[0].parameters)
