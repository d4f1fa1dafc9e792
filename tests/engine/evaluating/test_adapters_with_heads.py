"""Classifiers that PEFT trained on a base without a head: scored as PEFT's own load scores them."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import peft
import pytest
import torch
import transformers

import ace_gui
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.engine.evaluating.adapter_heads import config_with_head
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import TaskError
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.calibrated_models import written
from tests.helpers.scored_models import SIZE, SPECIAL, WORDS, save_bert, save_tokenizer

LABELS = {"one": 2, "two": 3}
CLASSES = {
    "SEQ_CLS": transformers.AutoModelForSequenceClassification,
    "TOKEN_CLS": transformers.AutoModelForTokenClassification,
}


def save_adapter(base: Path, folder: Path, task_type: str, labels: int, *, seed: int) -> None:
    """What PEFT writes for a new head on the base: the adapter and the head, no config.json."""
    torch.manual_seed(seed)
    model = CLASSES[task_type].from_pretrained(
        base, num_labels=labels, ignore_mismatched_sizes=True
    )
    settings = peft.LoraConfig(r=2, target_modules=["query", "value"], task_type=task_type)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of peft about transformers
        adapted = peft.get_peft_model(model, settings)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name or "modules_to_save" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    adapted.save_pretrained(folder)


@pytest.fixture(params=["Model", "SequenceClassification"])
def family(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two classifiers as adapters of a base without a head, or with that of another task."""
    save_bert(tmp_path / "base", "SequenceClassification")
    if request.param == "Model":
        bare = transformers.BertModel.from_pretrained(tmp_path / "base")
        bare.save_pretrained(tmp_path / "base")
    for seed, (name, labels) in enumerate(LABELS.items()):
        save_adapter(tmp_path / "base", tmp_path / name, "SEQ_CLS", labels, seed=seed)
    file = written(tmp_path, tuple(LABELS), "text,label", lambda text: f"{text},LABEL_1")
    recipe = json.loads(file.read_text()) | {"merge_method": "linear"}
    file.write_text(json.dumps(recipe))
    return file


def test_an_expert_answers_as_in_peft(family: Path) -> None:
    evaluation = ace_gui.evaluate(family, device="cpu")
    for name, labels in LABELS.items():
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            family.parent / "base", num_labels=labels, ignore_mismatched_sizes=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            expert = peft.PeftModel.from_pretrained(model, family.parent / name).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(family.parent / "base")
        rows = (family.parent / f"{name}.csv").read_text().splitlines()[1:]
        right = 0
        for row in rows:
            encoded = tokenizer(row.partition(",")[0], return_tensors="pt")
            right += int(expert(**encoded).logits.argmax()) == 1
        (score,) = [s for s in evaluation.scores if s.model == name and s.task == name]
        assert score.score == pytest.approx(right / len(rows))


def test_a_merge_of_such_experts_is_scored_by_its_folder_alone(
    family: Path, tmp_path: Path
) -> None:
    """The head's labels follow from the adapter, although nobody names the recipe."""
    ace_gui.merge(family, tmp_path / "out", device="cpu")
    tasks = [{"data": str(family.parent / f"{name}.csv"), "expert": name} for name in LABELS]
    alone = ace_gui.evaluate(None, {"merge": tmp_path / "out"}, tasks, device="cpu")
    with_recipe = ace_gui.evaluate(family, {"merge": tmp_path / "out"}, device="cpu")
    expected = [score for score in with_recipe.scores if score.model == "merge"]
    assert list(alone.scores) == [replace(score, normalised=None) for score in expected]


def test_merges_of_such_experts_are_aligned(family: Path, tmp_path: Path) -> None:
    result = ace_gui.merge(family, tmp_path / "out", distil={"inputs": 20, "steps": 4})
    assert result.distilled is not None
    assert {task.task for task in result.distilled.tasks} == set(LABELS)
    assert result.distilled.blocks == 0  # the whole model, as the memory suffices


@pytest.mark.parametrize("allowed", [None, 1])
def test_a_model_that_is_no_chain_of_blocks_is_aligned_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int | None
) -> None:
    """ALBERT runs one block several times. Without the memory for the whole, it is refused."""
    file = albert_family(tmp_path)
    if allowed is not None:
        checks = "ace_gui.engine.planning.alignment_checks"
        monkeypatch.setattr(f"{checks}.free_memory", lambda: allowed)
        with pytest.raises(TaskError, match="more than once"):
            ace_gui.merge(file, tmp_path / "out", distil={"inputs": 20, "steps": 4})
        return
    result = ace_gui.merge(file, tmp_path / "out", distil={"inputs": 20, "steps": 4})
    assert result.distilled is not None
    assert result.distilled.blocks == 0
    assert {task.task for task in result.distilled.tasks} == set(LABELS)


def albert_family(folder: Path) -> Path:
    """Two classifiers as adapters of an ALBERT without a head."""
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        embedding_size=8,
        intermediate_size=32,
        max_position_embeddings=24,
        initializer_range=0.6,
        **SIZE,
    )
    transformers.AlbertModel(config).save_pretrained(folder / "base")
    save_tokenizer(folder / "base")
    for seed, (name, labels) in enumerate(LABELS.items()):
        save_adapter(folder / "base", folder / name, "SEQ_CLS", labels, seed=seed)
    file = written(folder, tuple(LABELS), "text,label", lambda text: f"{text},LABEL_1")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"merge_method": "linear"}))
    return file


def test_inputs_are_compared_whole_or_by_block(family: Path, tmp_path: Path) -> None:
    """The experts are random, so their inputs look alike to them."""
    doubts = []
    for how in ("whole", "blocks"):
        distil = {"inputs": 20, "steps": 1, "how": how}
        result = ace_gui.merge(family, tmp_path / how, distil=distil)
        assert result.distilled is not None
        doubts.append(result.distilled.doubts)
    assert doubts[0]
    assert doubts[0] == doubts[1]


def test_the_config_beside_an_adapter_names_its_labels(family: Path) -> None:
    prepared = prepare(load_recipe(family))
    models = Models(prepared.models)
    (task, _) = prepared.recipe.tasks
    assert models.reference(task)["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}
    base = json.loads((family.parent / "base" / "config.json").read_text())
    named = {"0": "no", "1": "yes"}
    beside = base | {"id2label": named, "label2id": {"no": 0, "yes": 1}}
    (family.parent / "one" / "config.json").write_text(json.dumps(beside))
    config = models.reference(task)
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == named


def test_labels_of_words_have_their_class(tmp_path: Path) -> None:
    save_bert(tmp_path / "base", "MaskedLM")
    for seed, name in enumerate(LABELS):
        save_adapter(tmp_path / "base", tmp_path / name, "TOKEN_CLS", 3, seed=seed)
    recipe = {
        "schema": 1,
        "base_model": str(tmp_path / "base"),
        "models": [{"model": str(tmp_path / name)} for name in LABELS],
    }
    file = tmp_path / "recipe.yaml"
    file.write_text(json.dumps(recipe))
    prepared = prepare(load_recipe(file))
    base = json.loads((tmp_path / "base" / "config.json").read_text())
    config = config_with_head(base, tmp_path / "one", prepared.experts[0].checkpoint)
    assert config is not None
    assert config["architectures"] == ["BertForTokenClassification"]
    assert len(config["id2label"]) == 3


def test_an_adapter_that_is_no_folder_has_the_config_of_its_base(tmp_path: Path) -> None:
    save_bert(tmp_path / "base", "SequenceClassification")
    base = json.loads((tmp_path / "base" / "config.json").read_text())
    checkpoint = open_checkpoint(tmp_path / "base")
    assert config_with_head(base, tmp_path / "adapter.safetensors", checkpoint) is None
