"""Methods that want data, as a person merges with them: on the image sample, and small families."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml
from safetensors.torch import load_file

import ace_gui
from tests.helpers.calibrated_models import bert_family, gpt2_family, mixture_family
from tests.helpers.command import ace_gui as run

ALL: dict[str, dict[str, Any]] = {
    "regmean": {},
    "fisher": {},
    "ubgm": {},
    "esm": {},
    "ace": {"variant": "measured"},
}


def rewritten(file: Path, method: str, **parameters: Any) -> Path:
    document = yaml.safe_load(file.read_text())
    document |= {"merge_method": method, "parameters": parameters}
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize("method", ALL)
def test_transformers_loads_the_merged_model(method: str, tmp_path: Path) -> None:
    file = rewritten(bert_family(tmp_path), method, **ALL[method])
    ace_gui.merge(file, tmp_path / "merged", device="cpu")
    _, reported = transformers.BertForMaskedLM.from_pretrained(
        tmp_path / "merged", output_loading_info=True
    )
    assert not reported["missing_keys"]
    assert not reported["mismatched_keys"]
    merged = load_file(tmp_path / "merged" / "model.safetensors")
    name = "bert.encoder.layer.0.output.dense.weight"
    models = [load_file(tmp_path / m / "model.safetensors")[name] for m in ("base", "two", "three")]
    assert not torch.allclose(merged[name], models[0])
    assert not torch.allclose(merged[name], (models[1] + models[2]) / 2, atol=1e-5)


@pytest.mark.parametrize("family", [gpt2_family, mixture_family])
def test_regmean_of_other_layouts_is_nearest_on_the_inputs(family: Any, tmp_path: Path) -> None:
    """Of all merges it has the least error of outputs, summed over experts and their inputs."""
    file = rewritten(family(tmp_path), "regmean", alpha=1.0)
    ace_gui.merge(file, tmp_path / "merged", device="cpu")
    name = {
        gpt2_family: "transformer.h.1.mlp.c_fc.weight",
        mixture_family: "model.layers.1.self_attn.o_proj.weight",
    }[family]
    models = [
        load_file(tmp_path / model / "model.safetensors")[name].double()
        for model in ("merged", "one", "other")
    ]
    if family is gpt2_family:
        models = [model.T for model in models]
    from ace_gui.methods.shared.measured import Need
    from tests.helpers.calibrated_models import measured

    _, statistics = measured(file, Need.INPUTS)
    grams = [statistic.read(str(statistic.stored(name))).double() for statistic in statistics]

    def error(weight: torch.Tensor) -> float:
        pairs = zip(models[1:], grams, strict=True)
        return sum(float(torch.trace((weight - w) @ g @ (weight - w).T)) for w, g in pairs)

    best = error(models[0])
    assert best < 0.99 * error((models[1] + models[2]) / 2)
    torch.manual_seed(0)
    for _ in range(5):
        assert error(models[0] + 0.01 * torch.randn_like(models[0])) > best


def test_a_resumed_merge_knows_other_data(tmp_path: Path) -> None:
    file = rewritten(bert_family(tmp_path), "regmean")
    first = ace_gui.merge(file, tmp_path / "first", device="cpu")
    (tmp_path / "two-inputs.csv").write_text("text\nthe cat sat on the mat\n")
    second = ace_gui.merge(file, tmp_path / "second", device="cpu")
    first_tensors, second_tensors = (
        load_file(r.folder / "model.safetensors") for r in (first, second)
    )
    assert any(not torch.equal(first_tensors[name], second_tensors[name]) for name in first_tensors)


def test_the_image_sample_by_regmean_is_better_than_its_mean(tmp_path: Path) -> None:
    from ace_gui.paths import Sample

    document = yaml.safe_load(Sample.IMAGES.recipe.read_text())
    folder = Sample.IMAGES.recipe.parent
    for key in ("parameters", "after", "poolers"):
        del document[key]
    document |= {"merge_method": "regmean", "base_model": str(folder / "base")}
    for entry in document["models"]:
        entry["model"] = str(folder / entry["model"])
    for task in document["tasks"]:
        task |= {key: str(folder / task[key]) for key in ("data", "calibration")}
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(document))
    done = run("merge", file, "--out", tmp_path / "merged")
    assert done.returncode == 0, done.stderr
    evaluation = ace_gui.evaluate(None, [tmp_path / "merged"], file, device="cpu")
    scores = {score.task: score.score for score in evaluation.scores}
    assert sum(scores.values()) / len(scores) == pytest.approx(0.782, abs=0.01)
