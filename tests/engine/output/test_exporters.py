"""The forms of a merge on disk: a class for each, and models of single experts as one of them."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import ace_gui
from ace_gui.engine.contract.events import Exported
from ace_gui.engine.contract.jobs import ExportJob
from ace_gui.engine.contract.plan import OUTPUT, CheckVerdict
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.output.exporters import EXPORTERS, ThroughModel
from ace_gui.engine.output.models_of_experts import write_task_model
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import RecipeError, WorkbenchError
from ace_gui.output_files import staging_folder
from ace_gui.recipe.output_forms import Output
from tests.helpers.models import Family
from tests.helpers.recipes import recipe_of


def test_each_form_has_its_class_and_options_that_the_window_can_show():
    assert list(EXPORTERS) == list(Output)
    for form, exporter in EXPORTERS.items():
        assert exporter.output is form
        assert isinstance(exporter, ThroughModel) is form.traits.through_model
        export = form.traits.export()
        for option in form.options:
            assert option.label
            assert option.shown(export) in (*option.choices, option.default)
            assert option.edited(export, option.shown(export), export) == export


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("method", ["emr", "tsv_c", "byom"])
def test_the_models_of_all_experts_are_those_made_one_by_one(
    method: str, gpt2: Family, tmp_path: Path
):
    recipe = recipe_of(gpt2, merge_method=method)
    merged_folder = ace_gui.merge(recipe, tmp_path / "whole", device="cpu").folder
    form = recipe_of(gpt2, merge_method=method, output=Output.TASK_MODELS)
    result = ace_gui.merge(form, tmp_path / "models", device="cpu")
    for expert in gpt2.experts:
        alone = write_task_model(merged_folder, expert, tmp_path / "alone" / expert)
        assert contents(result.folder / expert) == contents(alone)
    assert {path.name for path in result.folder.iterdir()} == set(gpt2.experts)
    assert not staging_folder(result.folder).exists()


def test_the_windows_merge_becomes_models_of_its_experts(gpt2: Family, tmp_path: Path):
    store = tmp_path / "store"
    out = tmp_path / "models"
    list(merge(prepare(recipe_of(gpt2, merge_method="emr")), store, device="cpu"))
    chosen = Output.TASK_MODELS.traits.export(dtype="bfloat16")
    job = ExportJob(store=store, folder=out, output=Output.TASK_MODELS, chosen=chosen)
    *progress, end = steps_of(job, None)
    assert isinstance(end, Exported)
    assert progress
    assert all(0 < step.done <= step.total for step in progress)
    for expert in gpt2.experts:
        tensors = load_file(out / expert / "model.safetensors")
        assert {tensor.dtype for tensor in tensors.values()} <= {torch.bfloat16, torch.float32}
    assert store.exists()


def test_a_merge_without_modules_has_no_models_of_experts(gpt2: Family, tmp_path: Path):
    recipe = recipe_of(gpt2, merge_method="linear", output=Output.TASK_MODELS)
    (check,) = (check for check in ace_gui.plan(recipe).checks if check.title == OUTPUT)
    assert check.verdict is CheckVerdict.ERROR
    assert "emr, tsv_c or byom" in check.sentence
    with pytest.raises(RecipeError) as refused:
        ace_gui.merge(recipe, tmp_path / "models", device="cpu")
    assert refused.value.sentence == check.sentence
    store = tmp_path / "store"
    list(merge(prepare(recipe_of(gpt2, merge_method="linear")), store, device="cpu"))
    chosen = Output.TASK_MODELS.traits.export()
    job = ExportJob(
        store=store, folder=tmp_path / "models", output=Output.TASK_MODELS, chosen=chosen
    )
    with pytest.raises(RecipeError, match=r"no modules"):
        list(steps_of(job, None))
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("form", [form for form in Output if form is not Output.MODEL])
@pytest.mark.parametrize("option", ["evaluate", "complete_heads"])
def test_what_only_a_model_has_is_refused(form: Output, option: str, gpt2: Family, tmp_path: Path):
    recipe = recipe_of(gpt2, merge_method="emr", output=form)
    with pytest.raises(WorkbenchError, match=f"needs a whole model, not {form.traits.noun}"):
        ace_gui.merge(recipe, tmp_path / "out", **{option: True})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("broken", [True, False])
def test_a_form_that_fails_after_the_merge_leaves_a_store_to_resume(
    broken: bool, gpt2: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The disk is full once, while the models are made."""
    recipe = recipe_of(gpt2, merge_method="emr", output=Output.TASK_MODELS)
    out = tmp_path / "models"
    exporter = EXPORTERS[Output.TASK_MODELS]
    if broken:
        with monkeypatch.context() as patch:

            def full(model: Path, folder: Path, _: object) -> object:
                (folder / "half").touch()
                raise OSError(28, "No space left on device")
                yield

            patch.setattr(exporter, "after", full)
            with pytest.raises(WorkbenchError, match="disk is full"):
                ace_gui.merge(recipe, out, device="cpu")
        assert not out.exists()
    result = ace_gui.merge(recipe, out, device="cpu", resume=True)
    assert {path.name for path in result.folder.iterdir()} == set(gpt2.experts)
