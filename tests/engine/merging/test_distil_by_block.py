"""Merges that are aligned block by block: oracles, memory, interruptions, bad inputs."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ace_gui.architecture.blueprint import skeleton
from ace_gui.engine.adapting.block_passes import BlockModel
from ace_gui.engine.adapting.objectives import batch_indices
from ace_gui.engine.contract.events import LearningProgress, MergeFinished, PassProgress
from ace_gui.engine.contract.plan import ALIGNMENT, CheckVerdict
from ace_gui.engine.merging.alignment_inputs import ASKING, parts_of
from ace_gui.engine.merging.alignment_steps import rates
from ace_gui.engine.merging.distil_blocks import FOLDER
from ace_gui.engine.merging.passing_blocks import BlockTask
from ace_gui.engine.planning.alignment_checks import (
    block_bytes,
    chosen_way,
    way_of_alignment,
    whole_bytes,
)
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import MismatchError, RecipeError, TaskError
from ace_gui.output_files import staging_folder
from ace_gui.recipe.distillation import How, distillation_of
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.aligned_merges import INPUTS, chat_family, different, merged, recipe_with
from tests.helpers.calibrated_models import bert_family, gpt2_family, mixture_family, texts
from tests.helpers.live_memory import LiveMemory

CPU = Options(device="cpu")
BY_BLOCK = {"inputs": INPUTS, "steps": 6, "how": "blocks", "learning_rate": 0.01}
FAMILIES = {"bert": bert_family, "gpt2": gpt2_family, "chat": chat_family}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FAMILIES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_family(tmp_path_factory.mktemp("bert"))


def plain_training(folder: Path, start: Mapping[str, Tensor], steps: int) -> dict[str, Tensor]:
    """Whole models trained by the squared difference of each block's output, with plain autograd.

    In block after block, biases and norms are trained on one input a step; the merged model's
    blocks before are trained by then. Each expert's states come from its whole model.
    """
    merged_models = {}
    inputs = {}
    targets = {}
    for index, name in enumerate(("two", "three")):
        model = AutoModelForSequenceClassification.from_pretrained(folder / name).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder / name)
        distinct = list(dict.fromkeys(texts(folder, name)))
        chosen = [distinct[at] for at in parts_of(len(distinct), (0, index)).trained]
        inputs[name] = [tokenizer(text, return_tensors="pt") for text in chosen]
        with torch.no_grad():
            targets[name] = [states_of(model, input_) for input_ in inputs[name]]
        model.load_state_dict(start, strict=False)
        merged_models[name] = model
    state = dict(start)
    for block in range(2):
        names = [n for n in start if f"layer.{block}." in n and start[n].ndim == 1]
        values = {n: state[n].clone().requires_grad_() for n in names}
        adam = torch.optim.Adam(list(values.values()), lr=0.01)
        for step in range(steps):
            adam.param_groups[0]["lr"] = 0.01 * rates(steps)[step]
            adam.zero_grad()
            for index, (name, model) in enumerate(merged_models.items()):
                (at,) = batch_indices(len(inputs[name]), 1, step, (0, index, block))
                model_parameters = dict(model.named_parameters())
                parameters = {n: v for n, v in {**state, **values}.items() if n in model_parameters}
                states = torch.func.functional_call(
                    model, parameters, kwargs={**inputs[name][at], "output_hidden_states": True}
                ).hidden_states
                (states[block + 1] - targets[name][at][block + 1]).square().sum().backward()
            adam.step()
        state |= {n: value.detach() for n, value in values.items()}
    return state


def states_of(model: Any, encoded: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    states: tuple[Tensor, ...] = model(**encoded, output_hidden_states=True).hidden_states
    return states


def test_gradients_are_those_of_autograd_on_plain_models(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step takes one input of each task, so that the order of inputs is the same."""
    monkeypatch.setattr(
        "ace_gui.engine.merging.passing_blocks.groups_of",
        lambda _pieces, indices: [[index] for index in indices],
    )
    later = itertools.count()  # a later step counts as better
    monkeypatch.setattr(BlockTask, "distance", lambda _task: -float(next(later)))
    distil = {**BY_BLOCK, "steps": 3, "batch": 1, "train": "biases"}
    plain, _ = merged(bert, tmp_path / "plain")
    tensors, result = merged(bert, tmp_path / "out", distil=distil)
    assert result is not None
    assert result.blocks == 2
    assert result.best_step > 0
    expected = plain_training(bert.parent, plain, steps=3)
    # A bias of keys shifts all scores of a query alike: its gradient is 0 but for rounding.
    changed = {name for name in different(plain, tensors) if "key.bias" not in name}
    assert len(changed) == 18
    for name in changed:
        torch.testing.assert_close(tensors[name], expected[name], rtol=0, atol=1e-6)


def test_tensors_of_blocks_change_and_the_experts_come_nearer(family: Path, tmp_path: Path) -> None:
    plain, _ = merged(family, tmp_path / "plain")
    tensors, result = merged(family, tmp_path / "out", distil={**BY_BLOCK, "steps": 20})
    assert result is not None
    assert result.best_step > 0
    changed = different(plain, tensors)
    assert changed
    assert all(".0." in name or ".1." in name for name in changed)
    before = sum(task.before for task in result.tasks)
    assert sum(task.after for task in result.tasks) < before
    assert list(result.curve) == [1, 2]
    assert "block by block" in result.sentence
    card = (tmp_path / "out" / "README.md").read_text()
    assert "Squared difference from the expert's last hidden states" in card
    assert "nats" not in card


@pytest.mark.parametrize("train", ["biases", "rank-8", "all"])
def test_zero_steps_leave_the_bytes_of_the_merge(bert: Path, tmp_path: Path, train: str) -> None:
    merged(bert, tmp_path / "plain")
    _, result = merged(bert, tmp_path / "out", distil={**BY_BLOCK, "steps": 0, "train": train})
    assert result is not None
    assert result.best_step == 0
    weights = [(tmp_path / f / "model.safetensors").read_bytes() for f in ("plain", "out")]
    assert weights[0] == weights[1]


def test_equal_experts_stay_where_they_are(tmp_path: Path) -> None:
    file = gpt2_family(tmp_path)
    shutil.rmtree(tmp_path / "other")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    plain, _ = merged(file, tmp_path / "plain", merge_method="linear")
    tensors, result = merged(file, tmp_path / "out", merge_method="linear", distil=BY_BLOCK)
    assert result is not None
    assert all(task.before < 1e-9 for task in result.tasks)
    assert all(task.after <= task.before for task in result.tasks)
    for name, tensor in plain.items():
        torch.testing.assert_close(tensors[name], tensor, rtol=0, atol=1e-5)


def test_the_same_seed_gives_the_same_bytes(bert: Path, tmp_path: Path) -> None:
    first, _ = merged(bert, tmp_path / "first", distil=BY_BLOCK)
    second, _ = merged(bert, tmp_path / "second", distil=BY_BLOCK)
    assert not different(first, second)


@pytest.mark.parametrize("block", [1, 2])
def test_an_interrupted_run_gives_the_same_bytes(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("ace_gui.engine.adapting.training._CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("ace_gui.engine.adapting.training._REPORT_SECONDS", 0.0)
    expected, _ = merged(bert, tmp_path / "whole", distil=BY_BLOCK)
    recipe = load_recipe(recipe_with(bert, distil=BY_BLOCK))
    out = tmp_path / "out"
    events = merge_to_folder(recipe, out, CPU)
    for event in events:
        if not isinstance(event, LearningProgress) or event.done != 3:
            continue
        if f"block {block} of 2" in event.title:
            events.close()
            break
    assert (staging_folder(out) / FOLDER).exists()
    tensors, _ = merged(bert, out, replace(CPU, resume=True), distil=BY_BLOCK)
    assert not different(expected, tensors)


def test_a_resumed_run_goes_on_as_it_began(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By block, although the whole model would fit by now."""
    keys = {"distil": {**BY_BLOCK, "how": "auto"}}
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("ace_gui.engine.planning.alignment_checks.free_memory", lambda: 1)
        events = merge_to_folder(load_recipe(recipe_with(bert, **keys)), out, CPU)
        for event in events:
            if isinstance(event, LearningProgress) and "block 2 of 2" in event.title:
                events.close()
                break
    tensors, result = merged(bert, out, replace(CPU, resume=True), **keys)
    assert result is not None
    assert result.blocks == 2
    expected, _ = merged(bert, tmp_path / "whole", distil=BY_BLOCK)
    assert not different(expected, tensors)


def deep_bert(folder: Path, layers: int) -> Path:
    """A family of two deep encoders, whose blocks are nearly all of them."""
    file = bert_family(folder)
    for seed, name in enumerate(("base", "two", "three")):
        torch.manual_seed(seed)
        config = transformers.BertConfig.from_pretrained(folder / name)
        config.update({"num_hidden_layers": layers, "hidden_size": 64, "intermediate_size": 256})
        kind = transformers.BertModel if name == "base" else None
        model = (kind or transformers.BertForSequenceClassification)(config)
        model.save_pretrained(folder / name)
    return file


def test_memory_is_that_of_one_block(tmp_path: Path) -> None:
    """Counted are the tensors that are alive during the alignment; states of inputs come on top."""
    peaks = {}
    for layers in (2, 8):
        folder = tmp_path / str(layers)
        folder.mkdir()
        file = deep_bert(folder, layers)
        distil = {**BY_BLOCK, "inputs": 4, "steps": 1, "train": "all"}
        recipe = load_recipe(recipe_with(file, distil=distil))
        memory = LiveMemory()
        events = merge_to_folder(recipe, folder / "out", CPU)
        for event in events:
            if isinstance(event, LearningProgress):
                break
        with memory:
            for event in events:
                if isinstance(event, MergeFinished):
                    break
        events.close()
        peaks[layers] = memory.peak
    assert peaks[8] < 1.2 * peaks[2]
    prepared = prepare(recipe)
    assert block_bytes(prepared) < whole_bytes(prepared) / 4


@pytest.mark.parametrize("train", ["biases", "rank-8"])
def test_the_whole_model_takes_what_the_plan_says(train: str, tmp_path: Path) -> None:
    """Counted once an expert was asked: the merged models are loaded and trained after that."""
    file = deep_bert(tmp_path, layers=8)
    distil = {"inputs": 4, "steps": 2, "batch": 1, "how": "whole", "train": train}
    recipe = load_recipe(recipe_with(file, distil=distil))
    memory = LiveMemory()
    events = merge_to_folder(recipe, tmp_path / "out", CPU)
    for event in events:
        if isinstance(event, PassProgress) and event.title == ASKING:
            break
    with memory:
        for event in events:
            if isinstance(event, LearningProgress) and event.done == event.total:
                break
    events.close()
    declared = whole_bytes(prepare(recipe))
    assert memory.peak <= declared


@pytest.mark.parametrize(
    ("how", "fits", "way"),
    [
        (How.AUTO, True, How.WHOLE),
        (How.AUTO, False, How.BLOCKS),
        (How.WHOLE, False, How.WHOLE),
        (How.BLOCKS, True, How.BLOCKS),
    ],
)
def test_memory_decides(how: How, fits: bool, way: How) -> None:
    assert chosen_way(how, fits=fits) is way


@pytest.mark.parametrize(("how", "words"), [("whole", "at once"), ("blocks", "One block after")])
def test_the_plan_says_the_way_and_its_cost(bert: Path, how: str, words: str) -> None:
    prepared = prepare(load_recipe(recipe_with(bert, distil={**BY_BLOCK, "how": how})))
    (check,) = [c for c in prepared.plan.checks if c.title == ALIGNMENT]
    assert words in check.sentence
    assert "of memory" in check.sentence


@pytest.mark.parametrize(
    ("family", "how", "verdict"),
    [
        ("bert", "blocks", CheckVerdict.WARNING),
        ("bert", "whole", CheckVerdict.OK),
        ("chat", "blocks", CheckVerdict.WARNING),
        ("chat", "whole", CheckVerdict.OK),
    ],
)
def test_the_plan_warns_of_training_by_block(
    tmp_path: Path, family: str, how: str, verdict: CheckVerdict
) -> None:
    file = FAMILIES[family](tmp_path)
    prepared = prepare(load_recipe(recipe_with(file, distil={**BY_BLOCK, "how": how})))
    (check,) = [c for c in prepared.plan.checks if c.title == ALIGNMENT]
    assert check.verdict is verdict
    assert ("full fine-tunes gained nothing" in check.sentence) is (verdict is CheckVerdict.WARNING)


def test_a_limit_of_memory_chooses_blocks(bert: Path) -> None:
    file = recipe_with(bert, distil={**BY_BLOCK, "how": "auto"})
    prepared = prepare(load_recipe(file))
    assert way_of_alignment(prepared, whole_bytes(prepared)).how is How.WHOLE
    assert way_of_alignment(prepared, whole_bytes(prepared) - 1).how is How.BLOCKS


def test_what_cannot_be_aligned_by_block_stops_before_the_merge(tmp_path: Path) -> None:
    file = mixture_family(tmp_path)
    with pytest.raises(MismatchError, match="block cannot be trained alone"):
        merged(file, tmp_path / "out", distil=BY_BLOCK)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "t5", "num_layers": 2, "d_model": 16}, "several lists of blocks"),
        ({"model_type": "bart", "d_model": 16, "encoder_layers": 1}, "several lists of blocks"),
    ],
)
def test_models_that_are_no_sequence_of_blocks_are_refused(
    config: dict[str, Any], words: str
) -> None:
    with pytest.raises(TaskError, match=f"{words}.*how: whole"):
        BlockModel(skeleton(config))


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"distil\.how is 'layers'"):
        distillation_of({"how": "layers"})
    assert distillation_of({"how": "blocks"}).how is How.BLOCKS  # type: ignore[union-attr]
