"""Merges that are aligned with their experts: oracles, limits, bad inputs, interruptions."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.nn import functional
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ace_gui.engine.adapting.objectives import batch_indices
from ace_gui.engine.contract.events import Exported, LearningProgress
from ace_gui.engine.contract.plan import ALIGNMENT, CheckVerdict
from ace_gui.engine.merging import distil as distilling
from ace_gui.engine.merging.alignment_inputs import parts_of
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import CheckpointError, RecipeError, ResourceError, TaskError
from ace_gui.methods.shared.draws import seed_from
from ace_gui.output_files import staging_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.aligned_merges import INPUTS, chat_family, different, merged, recipe_with
from tests.helpers.calibrated_models import (
    bert_family,
    gpt2_family,
    mixture_family,
    texts,
    written,
)
from tests.helpers.scored_models import SPECIAL, WORDS, save_tokenizer

CPU = Options(device="cpu")
FAST = {"inputs": INPUTS, "steps": 6}
FAMILIES = {"bert": bert_family, "gpt2": gpt2_family, "chat": chat_family}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FAMILIES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_family(tmp_path_factory.mktemp("bert"))


def plain_gradients(folder: Path, out: Path, seed: int) -> dict[str, torch.Tensor]:
    """Of the first step, by two plain classifiers with their own heads."""
    start = load_file(out / "model.safetensors")
    gradients: dict[str, torch.Tensor] = {}
    for index, name in enumerate(("two", "three")):
        model = AutoModelForSequenceClassification.from_pretrained(folder / name).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder / name)
        inputs = list(dict.fromkeys(texts(folder, name)))
        order = torch.tensor(parts_of(len(inputs), (seed, index)).trained)
        batch = batch_indices(len(order), 8, 0, (seed, index))
        chosen = [inputs[int(order[at])] for at in batch]
        encoded = [tokenizer(text, return_tensors="pt") for text in chosen]
        with torch.no_grad():
            expected = [model(**sample).logits.log_softmax(1) for sample in encoded]
        model.load_state_dict(start, strict=False)
        losses = []
        for sample, target in zip(encoded, expected, strict=True):
            log_probabilities = model(**sample).logits.log_softmax(1)
            losses.append(
                functional.kl_div(log_probabilities, target, log_target=True, reduction="sum")
            )
        torch.stack(losses).mean().backward()
        for key, parameter in model.named_parameters():
            if key in start and parameter.grad is not None:
                gradients[key] = gradients.get(key, 0) + parameter.grad
    return gradients


def adam_step(gradient: torch.Tensor, rate: float) -> torch.Tensor:
    """The step of Adam from 0 moments: the sign of the gradient, times the rate."""
    return rate * gradient / (gradient.abs() + 1e-8)


def test_a_step_is_that_of_autograd_on_plain_models(bert: Path, tmp_path: Path) -> None:
    rate = 0.01
    distil = {"inputs": INPUTS, "steps": 1, "learning_rate": rate, "train": "biases"}
    merged(bert, tmp_path / "plain")
    start = load_file(tmp_path / "plain" / "model.safetensors")
    expected = {}
    for name, gradient in plain_gradients(bert.parent, tmp_path / "plain", seed=0).items():
        if name.endswith("bias") or "LayerNorm" in name:
            expected[name] = start[name] - adam_step(gradient, rate)
    tensors, result = merged(bert, tmp_path / "out", distil=distil)
    assert result is not None
    assert result.best_step == 1
    assert different(start, tensors) <= expected.keys()
    count = 0
    for name, tensor in expected.items():
        moved = (tensor - start[name]).abs() > 0.9 * rate  # not where the gradient is nearly 0
        torch.testing.assert_close(tensors[name][moved], tensor[moved], rtol=0, atol=1e-5)
        count += int(moved.sum())
    assert count > 200


def test_a_step_of_rank_8_is_that_of_autograd_on_plain_models(bert: Path, tmp_path: Path) -> None:
    """U is 0 at first, so D has no gradient, and U has that of the matrix times the transpose of D.

    The change of the matrix is one of U times D: its part outside of the rows of D is 0.
    """
    rate = 0.01
    distil = {"inputs": INPUTS, "steps": 1, "learning_rate": rate, "train": "rank-8"}
    merged(bert, tmp_path / "plain")
    gradients = plain_gradients(bert.parent, tmp_path / "plain", seed=0)
    tensors, result = merged(bert, tmp_path / "out", distil=distil)
    assert result is not None
    assert result.best_step == 1
    start = load_file(tmp_path / "plain" / "model.safetensors")
    changed = different(start, tensors)
    assert len(changed) == 12
    for name in changed:
        outputs, inputs = start[name].shape
        generator = torch.Generator().manual_seed(seed_from(0, name, 0))
        down = torch.empty(8, inputs).uniform_(-(inputs**-0.5), inputs**-0.5, generator=generator)
        step = adam_step(gradients[name] @ down.T, rate)
        certain = (step.abs() > 0.9 * rate).all(dim=1)  # not where a gradient is nearly 0
        assert certain.sum() > outputs / 2
        change = tensors[name] - start[name]
        torch.testing.assert_close(
            change[certain], -(step @ down)[certain], rtol=0, atol=1e-3 * rate
        )


def test_only_biases_and_norms_change_and_the_experts_come_nearer(
    family: Path, tmp_path: Path
) -> None:
    plain, nothing = merged(family, tmp_path / "plain")
    distil = {"inputs": INPUTS, "train": "biases"}
    tensors, result = merged(family, tmp_path / "out", distil=distil)
    assert nothing is None
    assert result is not None
    assert result.best_step > 0
    changed = different(plain, tensors)
    assert changed
    assert all(name.endswith("bias") or "norm" in name.lower() or "ln_" in name for name in changed)
    before = sum(task.before for task in result.tasks)
    assert sum(task.after for task in result.tasks) < before
    assert [len(values) for values in result.curve.values()] == [2] * len(result.curve)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "## Alignment with the experts" in card


@pytest.mark.parametrize("how", ["whole", "blocks"])
@pytest.mark.parametrize("make", [bert_family, chat_family])
def test_every_model_gets_additions_of_rank_8(make: Any, how: str, tmp_path: Path) -> None:
    distil = {"inputs": INPUTS, "steps": 6, "how": how}
    _, result = merged(make(tmp_path), tmp_path / "out", distil=distil)
    assert result is not None
    assert result.what == "additions of rank 8"


@pytest.mark.parametrize("train", ["rank-8", "all"])
def test_matrices_can_be_trained_too(family: Path, tmp_path: Path, train: str) -> None:
    plain, _ = merged(family, tmp_path / "plain")
    distil = {**FAST, "train": train, "learning_rate": 0.01}
    tensors, result = merged(family, tmp_path / "out", distil=distil)
    assert result is not None
    assert result.best_step > 0
    changed = different(plain, tensors)
    assert changed
    assert all(plain[name].ndim == 2 and "embed" not in name for name in changed)
    if train == "rank-8":
        for name in changed:
            change = (tensors[name] - plain[name]).double()
            assert torch.linalg.matrix_rank(change, rtol=1e-4) <= 8


def test_zero_steps_leave_the_bytes_of_the_merge(family: Path, tmp_path: Path) -> None:
    merged(family, tmp_path / "plain")
    _, result = merged(family, tmp_path / "out", distil={"inputs": INPUTS, "steps": 0})
    assert result is not None
    assert result.best_step == 0
    weights = [(tmp_path / f / "model.safetensors").read_bytes() for f in ("plain", "out")]
    assert weights[0] == weights[1]


def test_equal_experts_stay_where_they_are(tmp_path: Path) -> None:
    file = gpt2_family(tmp_path)
    shutil.rmtree(tmp_path / "other")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    shutil.copyfile(tmp_path / "one-inputs.csv", tmp_path / "other-inputs.csv")
    plain, _ = merged(file, tmp_path / "plain", merge_method="linear")
    tensors, result = merged(file, tmp_path / "out", merge_method="linear", distil=FAST)
    assert result is not None
    assert all(task.before < 1e-6 for task in result.tasks)
    assert result.best_step == 0
    assert not different(plain, tensors)
    assert any("No training step" in warning for warning in result.warnings)


def test_the_output_keeps_its_number_format(bert: Path, tmp_path: Path) -> None:
    tensors, result = merged(bert, tmp_path / "out", distil=FAST, out_dtype="bfloat16")
    assert result is not None
    assert result.best_step > 0
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}


def test_the_same_seed_gives_the_same_bytes(bert: Path, tmp_path: Path) -> None:
    first, _ = merged(bert, tmp_path / "first", distil=FAST)
    second, _ = merged(bert, tmp_path / "second", distil=FAST)
    reseeded, _ = merged(bert, tmp_path / "other", distil=FAST, seed=5)
    assert not different(first, second)
    assert different(first, reseeded)


class KilledError(Exception):
    """Stands for a process that is killed."""


def stop_at(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Make the next merge stop at a point."""
    if where == "in the training":
        return
    calls = iter(range(100))

    def stopped(store: Any, tensor: str, values: Any) -> None:
        if where == "before the first tensor is written" or next(calls) == 2:
            raise KilledError
        replaced(store, tensor, values)

    replaced = distilling.MergeStore.replace
    monkeypatch.setattr(distilling.MergeStore, "replace", stopped)


@pytest.mark.parametrize(
    "where",
    ["in the training", "before the first tensor is written", "between two tensors"],
)
def test_an_interrupted_run_gives_the_same_bytes(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr("ace_gui.engine.adapting.training._CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("ace_gui.engine.adapting.training._REPORT_SECONDS", 0.0)
    expected, _ = merged(bert, tmp_path / "whole", distil=FAST)
    recipe = load_recipe(recipe_with(bert, distil=FAST))
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        stop_at(patch, where)
        events = merge_to_folder(recipe, out, CPU)
        try:
            for event in events:
                learns = isinstance(event, LearningProgress) and event.done == 3
                if learns and where == "in the training":
                    events.close()
                    break
        except KilledError:
            pass
    assert staging_folder(out).exists()
    assert not out.exists()
    tensors, _ = merged(bert, out, replace(CPU, resume=True), distil=FAST)
    assert not different(expected, tensors)


def test_other_inputs_do_not_resume(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert.parent, tmp_path / "family")
    recipe = load_recipe(recipe_with(folder / bert.name, distil=FAST))
    out = tmp_path / "out"
    events = merge_to_folder(recipe, out, CPU)
    for event in events:
        if isinstance(event, LearningProgress) and event.done:
            events.close()
            break
    inputs = folder / "two-inputs.csv"
    inputs.write_text(inputs.read_text() + "one more line\n")
    with pytest.raises(Exception, match="measurements"):
        list(merge_to_folder(recipe, out, replace(CPU, resume=True)))


def edited(bert: Path, tmp_path: Path, name: str, lines: list[str]) -> Path:
    """A copy of the family with another file of inputs."""
    folder = shutil.copytree(bert.parent, tmp_path / "family")
    (folder / name).write_text("\n".join(["text", *lines]) + "\n")
    return folder / bert.name


def stops_before_merging(file: Path, tmp_path: Path, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        merged(file, tmp_path / "out", distil=FAST)
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("*.safetensors.part*"))


def test_too_few_inputs_stop_it(bert: Path, tmp_path: Path) -> None:
    lines = texts(bert.parent, "two")[:7]
    file = edited(bert, tmp_path, "two-inputs.csv", lines)
    stops_before_merging(file, tmp_path, TaskError, r"two has 7 different inputs.*inputs: 7")


def test_repeated_inputs_count_once(bert: Path, tmp_path: Path) -> None:
    lines = [texts(bert.parent, "two")[0]] * INPUTS
    file = edited(bert, tmp_path, "two-inputs.csv", lines)
    stops_before_merging(file, tmp_path, TaskError, "1 different input, but 20")


def test_the_default_wants_64_inputs(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="64 are wanted"):
        merged(bert, tmp_path / "out", distil=True)


def test_scoring_data_are_refused(bert: Path, tmp_path: Path) -> None:
    scored = (bert.parent / "two.csv").read_text().splitlines()[1:]
    lines = [*texts(bert.parent, "two")[1:], scored[0].rpartition(",")[0]]
    file = edited(bert, tmp_path, "two-inputs.csv", lines)
    stops_before_merging(file, tmp_path, TaskError, "1 input of the task two are also|scoring data")


def test_a_missing_expert_is_named(bert: Path, tmp_path: Path) -> None:
    tasks = json.loads(bert.read_text())["tasks"][:1]
    with pytest.raises(ResourceError, match="three"):
        merged(bert, tmp_path / "out", distil=FAST, tasks=tasks)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"merge_method": "emr"}, "modules"),
        ({"scope": "default", "merge_method": "surgery"}, "modules"),
    ],
)
def test_methods_with_modules_are_refused(
    bert: Path, tmp_path: Path, keys: dict[str, str], words: str
) -> None:
    with pytest.raises(ResourceError, match=words):
        merged(bert, tmp_path / "out", distil=FAST, **keys)


def test_an_adapter_is_refused(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="distil needs a whole model"):
        merged(bert, tmp_path / "out", distil=FAST, output="adapter")


def test_exported_events_end_the_run(bert: Path, tmp_path: Path) -> None:
    recipe = load_recipe(recipe_with(bert, distil=FAST))
    events = list(merge_to_folder(recipe, tmp_path / "out", CPU))
    assert isinstance(events[-1], Exported)
    learning = [event for event in events if isinstance(event, LearningProgress)]
    assert learning[0].done == 0
    assert learning[-1].done == FAST["steps"]


def test_an_expert_without_a_tokenizer_stops_it_before_the_merge(
    bert: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(bert.parent, tmp_path / "family")
    for expert in ("two", "base"):
        for file in folder.joinpath(expert).glob("tokenizer*"):
            file.unlink()
    stops_before_merging(folder / bert.name, tmp_path, CheckpointError, "tokenizer")


def test_other_rows_of_a_vocabulary_are_said_in_the_plan(tmp_path: Path) -> None:
    file = gpt2_family(tmp_path)
    recipe = load_recipe(recipe_with(file, distil=FAST, vocabulary="tokens"))
    assert not alignment_errors(recipe)  # all have the same tokens
    tokenizer = tmp_path / "one" / "tokenizer.json"
    content = json.loads(tokenizer.read_text())
    words = content["model"]["vocab"]
    last = sorted(words, key=words.__getitem__)[-2:]
    words[last[0]], words[last[1]] = words[last[1]], words[last[0]]
    tokenizer.write_text(json.dumps(content))
    (sentence,) = alignment_errors(recipe)
    assert "other rows" in sentence
    assert "of one" in sentence


def alignment_errors(recipe: Recipe) -> list[str]:
    """The sentences of the check of the alignment."""
    checks = prepare(recipe).plan.checks
    return [c.sentence for c in checks if c.title == ALIGNMENT and c.verdict is CheckVerdict.ERROR]


def encoder_family(folder: Path) -> Path:
    """Two T5 models whose answers are generated."""
    for seed, name in enumerate(("base", "one", "other")):
        torch.manual_seed(seed)
        config = transformers.T5Config(
            vocab_size=len(SPECIAL) + len(WORDS),
            d_model=16,
            d_kv=8,
            d_ff=32,
            num_layers=2,
            num_heads=2,
            decoder_start_token_id=0,
            initializer_factor=0.5,
        )
        transformers.T5ForConditionalGeneration(config).save_pretrained(folder / name)
        save_tokenizer(folder / name, pairs=False)
    file = written(folder, ("one", "other"), "text,label", lambda text: f"{text},{text[:4]}")
    recipe = json.loads(file.read_text())
    for task in recipe["tasks"]:
        task |= {"kind": "text-to-text", "max_new_tokens": 5}
    file.write_text(json.dumps(recipe))
    return file


@pytest.mark.parametrize("make", [encoder_family, mixture_family])
def test_matrices_of_other_families_are_trained(make: Any, tmp_path: Path) -> None:
    """In a mixture of experts not those of the experts, which the loaded model has as stacks."""
    file = make(tmp_path)
    plain, _ = merged(file, tmp_path / "plain")
    tensors, result = merged(file, tmp_path / "out", distil={**FAST, "learning_rate": 0.01})
    assert result is not None
    assert result.learning_rate == 0.01
    assert result.best_step > 0
    changed = different(plain, tensors)
    assert changed
    assert all(plain[name].ndim == 2 and ".experts." not in name for name in changed)


def test_adapters_as_experts_are_loaded_with_their_base(tmp_path: Path) -> None:
    file = chat_family(tmp_path)
    for seed, name in enumerate(("one", "other")):
        shutil.rmtree(tmp_path / name)
        save_adapter(tmp_path / "base", tmp_path / name, seed=seed)
    plain, _ = merged(file, tmp_path / "plain", merge_method="linear")
    tensors, result = merged(file, tmp_path / "out", merge_method="linear", distil=FAST)
    assert result is not None
    assert result.best_step > 0
    assert different(plain, tensors)


def save_adapter(base: Path, folder: Path, *, seed: int) -> None:
    """A LoRA adapter of PEFT on the linear layers, with changes that are not zero."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_pretrained(base)
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj", "down_proj"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of peft about transformers
        adapted = peft.get_peft_model(model, config)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    adapted.save_pretrained(folder)


def test_a_merge_that_cannot_be_aligned_stops_also_without_the_checks(
    bert: Path, tmp_path: Path
) -> None:
    """The window lets a person merge in spite of a check."""
    prepared = prepare(load_recipe(recipe_with(bert, distil=FAST, merge_method="emr")))
    with pytest.raises(RecipeError, match="modules"):
        list(merge(prepared, tmp_path / "store", device="cpu"))
    assert not (tmp_path / "store").exists()
