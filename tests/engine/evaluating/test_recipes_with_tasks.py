"""Base, experts and merges of a recipe, each with the right head; what is known is not redone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import ace_gui
from ace_gui.engine.contract.events import Evaluated, EvaluationProgress
from ace_gui.engine.evaluating import loaded_models
from ace_gui.errors import MismatchError, TaskError
from tests.helpers.command import ace_gui as run
from tests.helpers.scored_models import save_bert, save_pictures, save_vit, sentence

SIZES = {"two": ("no", "yes"), "three": ("low", "middle", "high")}


@pytest.fixture(scope="module")
def family(tmp_path_factory) -> Path:
    """A masked language model, and classifiers of two and three labels; merged, heads kept."""
    folder = tmp_path_factory.mktemp("family")
    save_bert(folder / "base", "MaskedLM")
    for seed, (name, labels) in enumerate(SIZES.items(), 1):
        names = dict(enumerate(labels))
        save_bert(folder / name, "SequenceClassification", seed=seed, id2label=names)
        generator = np.random.default_rng(seed)
        rows = [f"{sentence(generator)},{generator.choice(labels)}" for _ in range(60)]
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    recipe = {
        "merge_method": "task_arithmetic",
        "base_model": "base",
        "models": [{"model": name} for name in SIZES],
        "tasks": [{"data": f"{name}.csv"} for name in SIZES],
        "schema": 1,
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    ace_gui.merge(folder / "recipe.yaml", folder / "merged", device="cpu")
    return folder


def share_right(model: Any, folder: Path, name: str) -> float:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / name)
    lines = (folder / f"{name}.csv").read_text().splitlines()[1:]
    right = 0
    for line in lines:
        text, label = line.split(",")
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits
        right += SIZES[name][int(logits.argmax())] == label
    return right / len(lines)


def with_head_of(folder: Path, body: str, name: str) -> Any:
    """The published way: the expert's class and config, other weights, then the expert's head."""
    kind = transformers.BertForSequenceClassification
    expert = kind.from_pretrained(folder / name)
    model = kind.from_pretrained(
        folder / body, config=expert.config, ignore_mismatched_sizes=True
    ).eval()
    mine = expert.state_dict()
    head_weights = {
        key: mine[key] for key in mine if key.startswith(("classifier.", "bert.pooler."))
    }
    model.load_state_dict(head_weights, strict=False)
    return model


def test_every_model_is_scored_with_the_head_of_the_task(family: Path):
    evaluation = ace_gui.evaluate(family / "recipe.yaml", [family / "merged"], device="cpu")
    scores = {(score.model, score.task): score for score in evaluation.scores}
    merged = str(family / "merged")
    assert set(scores) == {(m, t) for m in ("base", merged) for t in SIZES} | {
        (t, t) for t in SIZES
    }
    for name in SIZES:
        expert = transformers.BertForSequenceClassification.from_pretrained(family / name).eval()
        share = share_right(expert, family, name)
        assert scores[name, name].score == share
        assert scores[name, name].normalised == 1
        for model, body in (("base", "base"), (merged, "merged")):
            expected = share_right(with_head_of(family, body, name), family, name)
            assert scores[model, name].score == expected
            assert scores[model, name].normalised == pytest.approx(expected / share)
    base, experts, last = evaluation.means
    assert (base.model, experts.model, last.model) == ("base", "experts", merged)
    assert experts.normalised == 1
    assert "tasks" in (family / "merged" / "merge_recipe.yaml").read_text()
    of_merged = [scores[merged, name].score for name in SIZES]
    assert last.score == pytest.approx(sum(of_merged) / 2)


def test_what_is_known_is_not_computed_again(family: Path, monkeypatch):
    first = ace_gui.evaluate(family / "recipe.yaml", limit=20, device="cpu")
    loads = []
    load = loaded_models.load
    monkeypatch.setattr(
        loaded_models, "load", lambda *a: loads.append(a[0].folder.name) or load(*a)
    )
    again = ace_gui.evaluate(family / "recipe.yaml", limit=20, device="cpu")
    assert again.scores == first.scores
    assert [score.each_N.tolist() for score in again.scores] == [
        score.each_N.tolist() for score in first.scores
    ]
    assert loads == []
    data = family / "two.csv"
    before = data.read_text()
    data.write_text(before.replace("no\n", "yes\n"))
    try:
        changed = ace_gui.evaluate(family / "recipe.yaml", limit=20, device="cpu")
    finally:
        data.write_text(before)
    assert changed.scores[0].score != first.scores[0].score
    assert sorted(loads) == ["base", "two"]


def test_progress_counts_examples_and_closing_cancels(family: Path):
    events: list[Any] = []
    ace_gui.evaluate(family / "recipe.yaml", limit=30, device="cpu", progress=events.append)
    reported = [event for event in events if isinstance(event, EvaluationProgress)]
    assert [progress.done for progress in reported] == sorted(
        progress.done for progress in reported
    )
    assert {progress.total for progress in reported} == {120}
    assert reported[-1].done == 120
    assert isinstance(events[-1], Evaluated)


def test_data_are_checked_before_any_model_is_loaded(family: Path, monkeypatch):
    monkeypatch.setattr(loaded_models, "load", lambda *_: pytest.fail("a model was loaded"))
    bad = family / "bad.csv"
    bad.write_text("text,label\ncat,yes\ndog,maybe\n")
    tasks = [{"data": family / "two.csv"}, {"data": bad, "expert": "two"}]
    with pytest.raises(TaskError, match=r"bad\.csv, row 3") as caught:
        ace_gui.evaluate(family / "recipe.yaml", tasks=tasks, device="cpu")
    assert caught.value.path == bad
    assert caught.value.key == "row 3"


def test_tasks_that_belong_to_nobody(family: Path, tmp_path):
    task = {"data": family / "two.csv", "name": "other"}
    with pytest.raises(TaskError, match="to which expert it belongs"):
        ace_gui.evaluate(family / "recipe.yaml", tasks=[task], device="cpu")
    with pytest.raises(TaskError, match="experts are two, three"):
        ace_gui.evaluate(family / "recipe.yaml", tasks=[{**task, "expert": "four"}], device="cpu")
    with pytest.raises(TaskError, match="give each a name"):
        ace_gui.evaluate(family / "recipe.yaml", tasks=[task, task], device="cpu")
    with pytest.raises(TaskError, match="no tasks"):
        ace_gui.evaluate(family / "recipe.yaml", tasks=[], device="cpu")


def test_a_merge_whose_heads_have_other_names_says_which_it_has(family: Path, tmp_path):
    out = tmp_path / "out"
    ace_gui.merge(family / "recipe.yaml", out, device="cpu")
    heads = out / "heads"
    (heads / "two.safetensors").rename(heads / "second.safetensors")
    with pytest.raises(TaskError, match="heads for `second`, `three`"):
        ace_gui.evaluate(family / "recipe.yaml", [out], device="cpu")


def test_a_model_that_lacks_a_tensor_is_not_filled_with_chance(family: Path):
    from safetensors.torch import load_file, save_file

    folder = family / "lacking"
    save_bert(folder, "SequenceClassification", id2label=dict(enumerate(SIZES["two"])))
    tensors = load_file(folder / "model.safetensors")
    del tensors["classifier.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(MismatchError, match=r"classifier\.weight"):
        ace_gui.evaluate(None, [folder], [{"data": family / "two.csv"}], device="cpu")


def test_answers_among_the_labels_of_the_task(tmp_path):
    """One head for two tasks; without a task's labels, those of the other are answers too."""
    names = ("a/cat", "a/dog", "b/mat", "b/tree")
    save_vit(tmp_path / "model", names)
    save_pictures(tmp_path / "data" / "all", ("0", "1"), 20)
    task = {"data": tmp_path / "data" / "all"}
    (unrestricted,) = ace_gui.evaluate(None, [tmp_path / "model"], [task], device="cpu").scores
    task["labels"] = ["a/cat", "a/dog"]
    (restricted,) = ace_gui.evaluate(None, [tmp_path / "model"], [task], device="cpu").scores
    assert restricted.score > unrestricted.score


def test_scores_stand_in_comparison_report_and_model_card(family: Path, tmp_path):
    recipe = family / "recipe.yaml"
    (row,) = ace_gui.compare(recipe, methods=["task_arithmetic"], device="cpu").rows
    assert row.error == ""
    ace_gui.merge(recipe, tmp_path / "out", device="cpu", evaluate=True)
    evaluation = ace_gui.evaluate(recipe, [tmp_path / "out"], device="cpu")
    merged = [score for score in evaluation.scores if score.model == str(tmp_path / "out")]
    assert row.by_task == {score.task: score.score for score in merged}
    assert row.mean.normalised == evaluation.means[-1].normalised
    card = (tmp_path / "out" / "README.md").read_text()
    for score in merged:
        assert f"| {score.task} | accuracy | 60 | " in card
        assert f" | {score.score:.4g} ± {score.standard_error:.2g} |\n" in card
    html = ace_gui.report(recipe, tmp_path / "page.html", device="cpu").read_text()
    assert '<section id="scores">' in html
    assert f"{merged[0].score:.4g} ± {merged[0].standard_error:.2g}" in html


def test_a_limit_holds_wherever_scores_are_made(family: Path, tmp_path):
    recipe = family / "recipe.yaml"
    out = tmp_path / "out"
    assert run("merge", recipe, "--out", out, "--limit", "7").returncode == 2
    done = run("merge", recipe, "--out", out, "--limit", "7", "--evaluate", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "| two | accuracy | 7 |" in (out / "README.md").read_text()
    page = ace_gui.report(recipe, tmp_path / "page.html", device="cpu", limit=7)
    assert "two: accuracy, 7" in page.read_text()
    (row,) = ace_gui.compare(recipe, methods="linear", device="cpu", limit=7).rows
    assert {score.n for score in row.scores} == {7}


def test_a_comparison_with_bad_data_merges_nothing(family: Path, monkeypatch):
    from ace_gui.engine.inspecting import compare_recipes

    monkeypatch.setattr(compare_recipes, "merge", lambda *_, **__: pytest.fail("it was merged"))
    recipe = json.loads((family / "recipe.yaml").read_text())
    recipe["tasks"] = [{"data": "none.csv", "expert": "two"}]
    (family / "bad.yaml").write_text(json.dumps(recipe))
    (row,) = ace_gui.compare(family / "bad.yaml", methods=["linear"], device="cpu").rows
    assert "none.csv" in row.error


def test_an_adapter_is_scored_as_the_base_with_its_change(family: Path, tmp_path):
    from tests.helpers.adapters import factors, save_adapter

    names = dict(enumerate(SIZES["two"]))
    save_bert(tmp_path / "base", "SequenceClassification", seed=9, id2label=names)
    module = "bert.encoder.layer.1.attention.self.query"
    lora = factors(module, 16, 16, seed=1)
    save_adapter(tmp_path / "lora", lora, target_modules=["query"])
    recipe = {
        "base_model": tmp_path / "base",
        "models": [{"model": tmp_path / "lora"}],
        "tasks": [{"data": family / "two.csv", "expert": "lora"}],
        "schema": 1,
    }
    base, expert = ace_gui.evaluate(recipe, device="cpu").scores
    model = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "base").eval()
    (tmp_path / "two").mkdir()
    (tmp_path / "two.csv").write_text((family / "two.csv").read_text())
    for file in (tmp_path / "base").glob("tokenizer*"):
        (tmp_path / "two" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "two" / "config.json").write_bytes((tmp_path / "base" / "config.json").read_bytes())
    assert base.score == share_right(model, tmp_path, "two")
    down, up = (lora[f"base_model.model.{module}.lora_{half}.weight"] for half in "AB")
    with torch.no_grad():
        model.bert.encoder.layer[1].attention.self.query.weight += 8 / 2 * up @ down
    assert expert.score == share_right(model, tmp_path, "two")
    assert expert.score != base.score
    assert expert.normalised == 1


@pytest.mark.parametrize("kind", ["pandas", "datasets"])
def test_models_and_tables_in_memory_score_as_those_on_disk(family: Path, kind: str):
    import datasets
    import pandas as pd

    frame = pd.read_csv(family / "two.csv")
    table = frame if kind == "pandas" else datasets.Dataset.from_pandas(frame)
    model = transformers.BertForSequenceClassification.from_pretrained(family / "two")
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    padding = model.config.pad_token_id
    (on_disk,) = ace_gui.evaluate(None, [family / "two"], [{"data": family / "two.csv"}]).scores
    task = {"data": table, "name": "mine"}
    for models, name in (
        (model, "BertForSequenceClassification"),
        ([model], "BertForSequenceClassification"),
        ({"tuned": model}, "tuned"),
    ):
        (score,) = ace_gui.evaluate(None, models, [task], device="cpu").scores
        assert (score.model, score.task) == (name, "mine")
        assert score.score == on_disk.score
        assert score.each_N.tolist() == on_disk.each_N.tolist()
    assert model.training
    assert model.config.pad_token_id == padding
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    with torch.no_grad():
        model.classifier.bias += torch.tensor([100.0, 0.0])
    (changed,) = ace_gui.evaluate(None, model, [task], device="cpu").scores
    assert changed.score == (frame["label"] == "no").mean()


def test_several_models_in_memory_have_names_of_their_own(family: Path):
    kind = transformers.BertForSequenceClassification
    models = [kind.from_pretrained(family / "two") for _ in range(2)]
    with torch.no_grad():
        for index, model in enumerate(models):
            model.classifier.bias[index] += 100
    task = {"data": family / "two.csv", "expert": "two"}
    evaluation = ace_gui.evaluate(family / "recipe.yaml", [*models, family / "merged"], [task])
    names = [score.model for score in evaluation.scores]
    first = "BertForSequenceClassification"
    second = "BertForSequenceClassification 2"
    assert names == ["base", "two", first, second, str(family / "merged")]
    scores = {score.model: score.score for score in evaluation.scores}
    assert scores[first] + scores[second] == pytest.approx(1)


def test_a_model_in_memory_needs_a_tokenizer(family: Path):
    model = transformers.BertForSequenceClassification.from_pretrained(family / "two")
    model.name_or_path = ""
    task = {"data": family / "two.csv", "expert": "two"}
    with pytest.raises(TaskError, match="from_pretrained"):
        ace_gui.evaluate(None, model, [task])
    evaluation = ace_gui.evaluate(family / "recipe.yaml", model, [task])
    assert evaluation.scores[-1].score == evaluation.scores[1].score
