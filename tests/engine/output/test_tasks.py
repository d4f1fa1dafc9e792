"""Models of single tasks, made again from what a merge left."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from ace_gui.cli.commands import app
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.modules.stored import MODULES, read_layout
from ace_gui.engine.modules.task_tensors import open_task
from ace_gui.engine.output.exporting import export, publish
from ace_gui.engine.output.models_of_experts import write_task_model
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import CheckpointError, MismatchError, OutputError
from ace_gui.recipe.output_forms import ModelExport
from ace_gui.recipe.values import NonFinite
from tests.helpers import method_oracles as oracle
from tests.helpers.merges import merged_folder
from tests.helpers.models import Family, neox_family
from tests.helpers.recipes import recipe_of

METHODS = ["emr", "tall_masks", "tsv_c"]
MATRIX = "transformer.h.0.attn.c_attn.weight"  # stored inputs × outputs
HEAD = "score.weight"


def merged(family: Family, method: str, out: Path, **options: object) -> Path:
    return merged_folder(recipe_of(family, merge_method=method, **options), out)


@pytest.fixture(scope="module", params=METHODS)
def folder(request, gpt2: Family, tmp_path_factory) -> Path:
    return merged(gpt2, request.param, tmp_path_factory.mktemp("merged") / request.param)


def deltas_of(family: Family, name: str) -> torch.Tensor:
    """T × the tensor's shape, float64."""
    base = load_file(family.base / "model.safetensors")[name].double()
    experts = [load_file(path / "model.safetensors") for path in family.experts.values()]
    return torch.stack([tensors[name].double() - base for tensors in experts])


def test_every_expert_is_there_and_the_card_says_how(folder: Path, gpt2: Family):
    assert read_layout(folder).experts_with_tensors == tuple(gpt2.experts)
    card = (folder / "README.md").read_text()
    assert f"| {MODULES} |" in card
    assert "ace-gui task MERGED_FOLDER task0 --out TASK_FOLDER" in card


def test_a_matrix_is_remade_by_the_formula(folder: Path, gpt2: Family):
    base = load_file(gpt2.base / "model.safetensors")
    deltas = deltas_of(gpt2, MATRIX).numpy()
    names = {name for name in base if "score" not in name}
    for t, expert in enumerate(gpt2.experts):
        rebuilt = dict(open_task(folder, expert).tensors())
        change = (rebuilt[MATRIX].double() - base[MATRIX].double()).numpy()
        if folder.name == "tall_masks":
            expected = oracle.tall_mask(deltas, t, 0.4) * deltas.sum(axis=0)
        elif folder.name == "tsv_c":
            expected = oracle.truncate(deltas[t], 32 // 3)
        else:
            tensors = [deltas_of(gpt2, name).numpy() for name in sorted(names)]
            remade = oracle.emr_expert(tensors, t, "tensors")
            expected = remade[sorted(names).index(MATRIX)]
        assert oracle.relative_error(change, expected) < 1e-4  # of float32 weights


def test_a_task_model_is_a_folder_with_the_experts_head_and_config(
    folder: Path, gpt2: Family, tmp_path
):
    out = write_task_model(folder, "task1", tmp_path / "task")
    tensors = load_file(out / "model.safetensors")
    expert_tensors = load_file(gpt2.experts["task1"] / "model.safetensors")
    assert torch.equal(tensors[HEAD], expert_tensors[HEAD])
    remade = dict(open_task(folder, "task1").tensors())
    assert tensors.keys() == remade.keys()
    assert all(torch.equal(tensors[name], remade[name]) for name in tensors)
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(out)
    assert model.config.num_labels == 3
    assert torch.equal(model.state_dict()[MATRIX], tensors[MATRIX])
    assert {path.name for path in out.iterdir()}.isdisjoint({"merge_recipe.yaml", MODULES})


def test_an_export_in_another_dtype_has_the_modules_too(gpt2: Family, tmp_path):
    store = tmp_path / "store"
    list(merge(prepare(recipe_of(gpt2, merge_method="emr")), store, device="cpu"))
    list(export(store, tmp_path / "half", ModelExport(dtype="bfloat16")))
    list(export(store, tmp_path / "full"))
    half, full = (
        dict(open_task(tmp_path / name, "task0").tensors())[MATRIX] for name in ("half", "full")
    )
    assert half.dtype == torch.bfloat16
    # The merged weights are rounded, then the result is: two times half a unit in the last place.
    torch.testing.assert_close(
        half.float(), full, rtol=2 * 2**-8, atol=2**-8 * float(full.abs().max())
    )


def test_matrices_of_a_fused_projection_are_put_back_in_their_places(tmp_path):
    family = neox_family(tmp_path / "family")
    name = "gpt_neox.layers.0.attention.query_key_value.weight"
    out = merged(family, "tsv_c", tmp_path / "out", split_fused=True)
    deltas = deltas_of(family, name)
    base = load_file(family.base / "model.safetensors")[name].double()
    change = dict(open_task(out, "task1").tensors())[name].double() - base
    heads = deltas[1].view(4, 3, 8, 32)  # query, key, value in every head
    for which in range(3):
        exact = heads[:, which].reshape(32, 32).numpy()
        remade_part = change.view(4, 3, 8, 32)[:, which].reshape(32, 32).numpy()
        assert oracle.relative_error(remade_part, oracle.truncate(exact, 16)) < 1e-4


def test_methods_that_leave_nothing_write_nothing(gpt2: Family, tmp_path):
    out = merged(gpt2, "tsv_m", tmp_path / "plain")
    assert not (out / MODULES).exists()
    assert "ace-gui task" not in (out / "README.md").read_text()
    with pytest.raises(OutputError, match=r"There is no modules\.safetensors here"):
        next(open_task(out, "task0").tensors())


def test_an_unknown_expert_and_another_base_are_refused(folder: Path, gpt2: Family, tmp_path):
    with pytest.raises(OutputError, match=r"no expert 'cola'; there are .*task0.*task1"):
        next(open_task(folder, "cola").tensors())
    other_family = neox_family(tmp_path / "other")
    with pytest.raises(MismatchError, match="is not the base of this merge"):
        next(open_task(folder, "task0", base=other_family.base).tensors())
    with pytest.raises(CheckpointError):
        next(open_task(folder, "task0", base=tmp_path / "nowhere").tensors())


def test_a_base_of_the_same_shapes_is_told_by_its_values(folder: Path, gpt2: Family, tmp_path):
    same = shutil.copytree(gpt2.base, tmp_path / "same")
    expected = dict(open_task(folder, "task0").tensors())
    tensors = dict(open_task(folder, "task0", base=same).tensors())
    assert all(torch.equal(tensors[name], tensor) for name, tensor in expected.items())
    weights = load_file(same / "model.safetensors")
    weights[MATRIX][3, 2] += 2.0**-10
    save_file(weights, same / "model.safetensors", {"format": "pt"})
    with pytest.raises(MismatchError, match="its weights are others"):
        next(open_task(folder, "task0", base=same).tensors())
    half = {name: weight.to(torch.bfloat16) for name, weight in weights.items()}
    save_file(half, same / "model.safetensors", {"format": "pt"})
    with pytest.raises(MismatchError, match="its weights are others"):
        next(open_task(folder, "task0", base=same).tensors())


def test_the_command_line_makes_a_task_model(folder: Path, gpt2: Family, tmp_path):
    runner = CliRunner()
    out = tmp_path / "task"
    arguments = ["task", str(folder), "task0", "--out", str(out), "--base", str(gpt2.base)]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert (out / "model.safetensors").exists()
    again = runner.invoke(app, arguments)
    assert again.exit_code == 1
    assert "not empty" in again.output


def test_a_resumed_merge_has_the_same_modules(gpt2: Family, tmp_path):
    uninterrupted = merged(gpt2, "emr", tmp_path / "whole")
    store = tmp_path / "store"
    prepared = prepare(recipe_of(gpt2, merge_method="emr"))
    events = merge(prepared, store, device="cpu", as_output=True)
    for event in events:  # stop while the modules are being written
        if type(event).__name__ == "PassProgress":
            break
    events.close()
    assert (store / "model" / MODULES).exists()
    again = prepare(recipe_of(gpt2, merge_method="emr"))
    list(merge(again, store, device="cpu", resume=True, as_output=True))
    publish(store, tmp_path / "resumed")
    assert (tmp_path / "resumed" / MODULES).read_bytes() == (uninterrupted / MODULES).read_bytes()


def test_an_expert_with_nan_takes_nothing_from_that_tensor(tmp_path):
    family = neox_family(tmp_path / "family")
    name = "gpt_neox.layers.0.mlp.dense_h_to_4h.weight"
    path = family.experts["task1"] / "model.safetensors"
    tensors = load_file(path)
    tensors[name][0, 0] = torch.inf
    save_file(tensors, path, metadata={"format": "pt"})
    out = merged(family, "emr", tmp_path / "out", non_finite=NonFinite.SKIP_EXPERT)
    base = load_file(family.base / "model.safetensors")
    assert torch.equal(dict(open_task(out, "task1").tensors())[name], base[name])
    assert not torch.equal(dict(open_task(out, "task0").tensors())[name], base[name])
