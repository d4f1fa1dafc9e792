"""The measured Fisher information against plain backward passes, one example at a time."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml
from torch import Tensor

from ace_gui.engine.calibrating import fisher_information as fisher
from ace_gui.engine.calibrating.calibrate import measure
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import TaskError
from ace_gui.methods.shared.measured import Need
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.calibrated_models import CPU, bert_family, gpt2_family, measured, one_by_one


def fisher_recipe(file: Path, **of_the_last_task: object) -> Path:
    document = yaml.safe_load(file.read_text()) | {"merge_method": "fisher"}
    document["tasks"][-1] |= of_the_last_task
    file.write_text(json.dumps(document))
    return file


def expected_squares(model: Any, inputs: list[Any], labels: list[int]) -> dict[str, Tensor]:
    """Mean over the inputs of the squared gradient of log p, in expectation over the labels."""
    squares = {
        name: torch.zeros_like(p, dtype=torch.float64) for name, p in model.named_parameters()
    }
    for input_ in inputs:
        for label in range(len(labels)):
            model.zero_grad()
            log_p = model(**input_).logits[0, labels].log_softmax(0)[label]
            share = log_p.detach().exp()
            log_p.backward()
            for name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    squares[name] += share * parameter.grad**2 / len(inputs)
    return squares


@pytest.mark.parametrize(
    ("groups", "labels"), [("one group", ()), ("many groups", ()), ("one group", (0, 2))]
)
def test_of_a_classifier_it_is_the_expectation_over_the_labels_of_its_task(
    own_cache: Path, monkeypatch, groups: str, labels: tuple[int, ...]
):
    if groups == "many groups":
        monkeypatch.setattr(fisher, "_LEAST_BYTES", 1)
        monkeypatch.setattr(fisher, "_SHARE", 0.0)
    task = {"labels": [f"label-{label}" for label in labels]} if labels else {}
    prepared, measurements = measured(fisher_recipe(bert_family(own_cache), **task), Need.GRADIENTS)
    kind = transformers.BertForSequenceClassification
    for statistics, expert in zip(measurements, prepared.experts, strict=True):
        model, inputs = one_by_one(own_cache, expert.name, kind)
        own_labels = list(range(model.config.num_labels))
        if labels and expert.name == "three":
            own_labels = list(labels)
        coarse = expected_squares(model, inputs, own_labels)
        expected = expected_squares(model.double(), inputs, own_labels)
        assert len(statistics.manifest.tensors) > 30
        largest = max(float(torch.linalg.norm(squares)) for squares in expected.values())
        for name in statistics.manifest.tensors:
            exact = expected[expert.own_names[name]]
            error = torch.linalg.norm(statistics.read(name) - exact)
            # What float32 itself leaves depends on the processor.
            rounding = torch.linalg.norm(coarse[expert.own_names[name]] - exact)
            allowed = 1.5 * rounding + 1e-6 * torch.linalg.norm(exact)
            # Gradients of a key's bias are nothing but rounding.
            assert error <= allowed + 1e-12 * largest, name
        measured_names = {expert.own_names[name] for name in statistics.manifest.tensors}
        norm = sum(float(expected[name].square().sum()) for name in measured_names) ** 0.5
        rounding = (
            sum(float((coarse[n] - expected[n]).square().sum()) for n in measured_names) ** 0.5
        )
        assert abs(statistics.manifest.norm - norm) <= 1.5 * rounding + 1e-6 * norm


def test_of_a_language_model_it_is_that_of_drawn_words(own_cache: Path):
    """The same words are drawn here, from the same seeds."""
    _, measurements = measured(fisher_recipe(gpt2_family(own_cache)), Need.GRADIENTS)
    model, inputs = one_by_one(own_cache, "one", transformers.GPT2LMHeadModel)
    shapes = [tuple(input_["input_ids"].shape) for input_ in inputs]
    order = [n for shape in dict.fromkeys(shapes) for n, s in enumerate(shapes) if s == shape]
    expected = {n: torch.zeros_like(p).double() for n, p in model.named_parameters()}
    for seed, n in enumerate(order):
        model.zero_grad()
        log_p = model(**inputs[n]).logits[0, :-1].log_softmax(-1)
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.multinomial(log_p.detach().exp(), 1, generator=generator)
        log_p.gather(1, drawn).sum().backward()
        for name, parameter in model.named_parameters():
            expected[name] += parameter.grad.double() ** 2 / len(inputs)
    for name in measurements[0].manifest.tensors:
        error = torch.linalg.norm(measurements[0].read(name) - expected[name])
        assert error <= 1e-4 * torch.linalg.norm(expected[name]), name


def test_a_task_whose_answers_have_no_probabilities_is_refused_before_anything_runs(
    own_cache: Path,
):
    file = fisher_recipe(gpt2_family(own_cache))
    document = yaml.safe_load(file.read_text())
    for task in document["tasks"]:
        (own_cache / task["data"]).write_text("text,label\nthe cat,sat\n")
        task |= {"kind": "text-to-text"}
    file.write_text(json.dumps(document))
    with pytest.raises(TaskError, match="no gradients of ln p are taken"):
        list(measure(prepare(load_recipe(file)), Need.GRADIENTS, CPU))
