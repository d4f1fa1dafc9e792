"""Methods that learn with data of the tasks, as a person merges with them."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml
from safetensors.torch import load_file

import ace_gui
from ace_gui.engine.adapting.objectives import descended
from ace_gui.engine.adapting.training_loop import StepResults
from ace_gui.engine.contract.events import Event, LearningProgress
from ace_gui.engine.merging import learn
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import MethodError, ResourceError, TaskError, WorkbenchError
from ace_gui.methods import METHODS
from ace_gui.paths import statistics_folder
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.calibrated_models import bert_family, gpt2_family, mixture_family
from tests.helpers.damage import ANY_FILE, TENSORS

LEARNING = [
    name
    for name, method in METHODS.items()
    if method.learning is not None and not method.learning.by_block
]
"""Those that learn block after block have a test of their own (``test_prodistill``)."""

every = pytest.mark.parametrize("method", LEARNING)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def rewritten(file: Path, method: str, **parameters: Any) -> Path:
    document = yaml.safe_load(file.read_text())
    document |= {"merge_method": method, "parameters": parameters}
    for task in document["tasks"]:
        if METHODS[method].need(METHODS[method].parameters()) == "loss":
            task["calibration"] = task["data"]
    file.write_text(json.dumps(document))
    return file


def parameter_names(method: str) -> set[str]:
    return {field.name for field in fields(METHODS[method].parameters)}


def merged(file: Path, out: str) -> dict[str, torch.Tensor]:
    ace_gui.merge(file, file.parent / out, device="cpu")
    return load_file(file.parent / out / "model.safetensors")


def learning(file: Path, store: str) -> Iterator[Event]:
    events = merge(prepare(load_recipe(file)), file.parent / store, device="cpu")
    return (event for event in events if isinstance(event, LearningProgress))


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("family", [bert_family, gpt2_family])
def test_adamerging_lowers_the_entropy_on_every_layout(family: Any, tmp_path: Path) -> None:
    """Tied embeddings, Conv1D, fused projections, texts of different lengths."""
    file = rewritten(family(tmp_path), "adamerging", steps=30, batch=64, learning_rate=0.02)
    events = list(learning(file, "store"))
    losses = {task: course for event in events[-1:] for task, course in event.losses.items()}
    assert len(losses) == 2
    assert sum(course[-1] for course in losses.values()) < 0.97 * sum(
        course[0] for course in losses.values()
    )
    assert all(len(course) == 30 for course in events[-1].figures.values())


def test_what_is_learned_is_what_gradients_by_hand_give(tmp_path: Path) -> None:
    """One step of plain Adam moves every coefficient by the rate, against its gradient's sign."""
    file = rewritten(gpt2_family(tmp_path), "adamerging", steps=1, batch=64, learning_rate=0.01)
    tensors = merged(file, "merged")
    models = {m: load_file(tmp_path / m / "model.safetensors") for m in ("base", "one", "other")}
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path / "base")
    leaves: dict[str, torch.Tensor] = {}
    state = {}
    for name, base in models["base"].items():
        leaves[name] = torch.full((2,), 0.3, requires_grad=True)
        changes = [models[m][name] - base for m in ("one", "other")]
        state[name] = base + sum(v * c for v, c in zip(leaves[name], changes, strict=True))
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "base").eval()
    total = torch.zeros(())
    for name in ("one", "other"):
        texts = (tmp_path / f"{name}-inputs.csv").read_text().splitlines()[1:]
        entropies = []
        for text in texts:
            encoded = tokens(text, return_tensors="pt")
            logits = torch.func.functional_call(
                model, state, (), {**encoded, "use_cache": False}
            ).logits[0, :-1]
            log_p = logits.log_softmax(dim=1)
            entropies.append(-(log_p.exp() * log_p).sum(dim=1).mean())
        total = total + torch.stack(entropies).mean()
    total.backward()
    name = "transformer.h.1.mlp.c_fc.weight"
    moved = 0.3 - 0.01 * leaves[name].grad.sign()
    changes = [models[m][name] - models["base"][name] for m in ("one", "other")]
    expected = models["base"][name] + sum(v * c for v, c in zip(moved, changes, strict=True))
    assert torch.allclose(tensors[name], expected, atol=1e-5)


def test_answers_that_the_experts_do_not_give_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The distance of the first step, against transformers and the merged weights."""
    seen = []

    def spied(*arguments: Any) -> StepResults:
        seen.append(descended(*arguments))
        return seen[-1]

    monkeypatch.setattr(learn, "descended", spied)
    file = rewritten(gpt2_family(tmp_path), "adamerging", steps=1, batch=64, learning_rate=1e-9)
    merged(file, "merged")
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path / "base")
    shares = []
    for name in ("one", "other"):
        texts = (tmp_path / f"{name}-inputs.csv").read_text().splitlines()[1:]
        answers = [
            [model(**tokens(text, return_tensors="pt")).logits[0, :-1].argmax(1) for text in texts]
            for model in (
                transformers.GPT2LMHeadModel.from_pretrained(tmp_path / folder).eval()
                for folder in ("merged", name)
            )
        ]
        differences = [(a != b).double().mean() for a, b in zip(*answers, strict=True) if len(a)]
        shares.append(torch.stack(differences).mean())
    assert seen[0].distance == pytest.approx(float(torch.stack(shares).mean()), abs=1e-12)
    assert 0 < seen[0].distance < 1


@every
def test_without_steps_nothing_is_learned_and_the_seed_decides(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_steps = {"patience": 0} if "patience" in parameter_names(method) else {}
    file = rewritten(bert_family(tmp_path), method, steps=2, batch=3, **all_steps)
    first = merged(file, "first")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other-cache"))
    assert same(first, merged(file, "second"))
    begun = merged(rewritten(file, method, steps=0), "begun")
    assert not same(begun, first)


@every
def test_what_was_stopped_goes_on_to_the_same_bits(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ace_gui.engine.adapting.training._CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("ace_gui.engine.adapting.training._REPORT_SECONDS", 0.0)
    file = rewritten(bert_family(tmp_path), method, steps=6, batch=3)
    uninterrupted = merged(file, "whole")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other-cache"))
    for event in learning(file, "stopped"):
        if event.done == 4:
            break
    assert list(statistics_folder().glob("*/checkpoint.safetensors"))
    assert next(learning(file, "resumed")).done == 4
    assert same(uninterrupted, merged(file, "again"))


@pytest.mark.parametrize("method", ["adamerging", "adarank"])
def test_damage_to_what_was_learned_changes_no_weight(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A checkpoint, the factors of experts, and then what was learned in the end."""
    monkeypatch.setattr("ace_gui.engine.adapting.training._CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("ace_gui.engine.adapting.training._REPORT_SECONDS", 0.0)
    file = rewritten(bert_family(tmp_path), method, steps=4, batch=3)
    uninterrupted = merged(file, "whole")
    for number, kind in enumerate(["bit in the middle", "other values"]):
        for part in statistics_folder().glob("*/part-*"):
            (ANY_FILE | TENSORS)[kind](part)
        caplog.clear()
        assert same(uninterrupted, merged(file, f"again-{number}"))
        assert "computed again" in caplog.text
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache-{number}"))
        for event in learning(file, f"stopped-{number}"):
            if event.done == 2:
                break
        for cached in statistics_folder().glob("*/checkpoint.safetensors"):
            (ANY_FILE | TENSORS)[kind](cached)
        for cached in statistics_folder().glob("*/factors/*.safetensors"):
            (ANY_FILE | TENSORS)[kind](cached)
        assert same(uninterrupted, merged(file, f"resumed-{number}"))


def test_a_few_labels_are_asked_for_where_they_are_missing(tmp_path: Path) -> None:
    file = rewritten(bert_family(tmp_path), "localize_stitch_few_shot", steps=1)
    document = yaml.safe_load(file.read_text())
    document["tasks"][0]["calibration"] = "two-inputs.csv"
    file.write_text(json.dumps(document))
    with pytest.raises(TaskError, match="label"):
        ace_gui.merge(file, tmp_path / "merged", device="cpu")


def test_patience_ends_what_does_not_get_better(tmp_path: Path) -> None:
    file = rewritten(
        bert_family(tmp_path), "adamerging", steps=500, patience=5, learning_rate=1e-7, batch=3
    )
    last = list(learning(file, "store"))[-1]
    assert 0 < last.done <= 40


@pytest.mark.parametrize("method", [*LEARNING, "fisher"])
def test_without_data_nothing_is_merged(method: str, tmp_path: Path) -> None:
    file = rewritten(bert_family(tmp_path), method)
    document = yaml.safe_load(file.read_text())
    del document["tasks"]
    file.write_text(json.dumps(document))
    needed = f"{METHODS[method].title} needs inputs of each expert's task"
    with pytest.raises(ResourceError, match=re.escape(needed)):
        ace_gui.merge(file, tmp_path / "merged", device="cpu")
    assert not (tmp_path / "merged").exists()


def test_one_expert_and_experts_without_heads_are_refused(tmp_path: Path) -> None:
    file = rewritten(bert_family(tmp_path), "adamerging", steps=1)
    document = yaml.safe_load(file.read_text())
    alone = {**document, "models": document["models"][:1], "tasks": document["tasks"][:1]}
    file.write_text(json.dumps(alone))
    with pytest.raises(WorkbenchError, match="merges at least 2 experts"):
        ace_gui.merge(file, tmp_path / "merged", device="cpu")
    config = json.loads((tmp_path / "two" / "config.json").read_text())
    config["architectures"] = ["BertModel"]
    (tmp_path / "two" / "config.json").write_text(json.dumps(config))
    document["tasks"][0]["kind"] = "text-classification"
    file.write_text(json.dumps(document))
    with pytest.raises(TaskError, match="class BertModel does no"):
        ace_gui.merge(file, tmp_path / "merged", device="cpu")


def test_numbers_that_answer_have_no_entropy_and_are_left_out(tmp_path: Path) -> None:
    file = rewritten(bert_family(tmp_path), "adamerging", steps=2, batch=3)
    document = yaml.safe_load(file.read_text())
    document["tasks"][0]["kind"] = "regression"
    file.write_text(json.dumps(document))
    lines = (tmp_path / "two.csv").read_text().replace("label-0", "1.5")
    (tmp_path / "two.csv").write_text(lines)
    last = list(learning(file, "store"))[-1]
    assert list(last.losses) == ["three"]
    assert any("two have no probabilities" in reported for reported in last.warnings)


def test_stacks_of_experts_are_refused_in_a_sentence(tmp_path: Path) -> None:
    file = rewritten(mixture_family(tmp_path), "adamerging", steps=1)
    with pytest.raises(WorkbenchError, match="another layout in the loaded model"):
        ace_gui.merge(file, tmp_path / "merged", device="cpu")


def test_a_layer_is_looked_at_only_once_something_is_learned(tmp_path: Path) -> None:
    from ace_gui.engine.inspecting.layer_context import InspectionCache, InspectionContext

    file = rewritten(bert_family(tmp_path), "adamerging", steps=1, batch=3)
    prepared = prepare(load_recipe(file))
    row = next(row for row in prepared.plan.rows if row.disposition == "merged")
    cache = InspectionCache(tmp_path / "looks")
    context = InspectionContext(prepared, row, torch.device("cpu"), cache)
    with pytest.raises(MethodError, match="learns from data first; merge, then inspect again"):
        list(context.surveyed())
    ace_gui.merge(file, tmp_path / "merged", device="cpu")
    list(context.surveyed())
    assert context.merged().delta.isfinite().all()
