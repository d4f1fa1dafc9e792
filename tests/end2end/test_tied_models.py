"""Tied models of every class, whichever names their files store and whatever the experts are.

Each merge is loaded by transformers and compared with task arithmetic in float64 of the inputs as
transformers and PEFT load them.
"""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
import torch
import transformers

from tests.architecture.model_classes import families
from tests.helpers.merges import merged_folder
from tests.helpers.recipes import recipe_over
from tests.helpers.tied_cells import KINDS, STORED, TiedInputs, loaded
from tests.helpers.tied_models import tied_classes, tiny
from tests.helpers.time_limits import OutOfTime, time_limit

FAMILIES = (
    "LlamaForCausalLM",
    "GPT2LMHeadModel",
    "T5ForConditionalGeneration",
    "BartForConditionalGeneration",
    "BertForMaskedLM",
    "VipLlavaForConditionalGeneration",  # its files have other names than its modules
)
SECONDS = 900
"""For a class; most take less than 30."""

METHODS = ("ties", "dare_linear", "della", "breadcrumbs", "slerp", "ace")


def family(name: str, folder: Path) -> TiedInputs:
    return TiedInputs(tiny(getattr(transformers, name)), folder)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_tied_is_merged_as_one(name: str, stored: str, tmp_path: Path):
    kinds = [KINDS[0], *KINDS[1 + STORED.index(stored) :: 4]]
    wrong = [cell for cell in family(name, tmp_path).cells([stored], kinds) if cell.wrong]
    assert wrong == []


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_both_names_equal(method: str, tmp_path: Path):
    models = family("LlamaForCausalLM", tmp_path)
    experts = [models.tied_expert("source"), models.tied_expert("other", 4)]
    recipe = recipe_over(models.base("equal"), experts, merge_method=method)
    tensors, missing = loaded(type(models.model), merged_folder(recipe, tmp_path / "out"))
    start, _ = loaded(type(models.model), models.base("equal"))
    head = tensors["lm_head.weight"]
    table = tensors["model.embed_tokens.weight"]
    assert missing == []
    assert torch.equal(head, table)
    assert not torch.equal(head, start["lm_head.weight"])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family_name", families())
def test_every_class_that_ties_tensors(family_name: str, tmp_path: Path):
    wrong: dict[str, list[str]] = {}
    for model_class in tied_classes(family_name):
        name = model_class.__name__
        try:
            with time_limit(SECONDS):
                problems = problems_of(model_class, tmp_path / name)
        except (Exception, OutOfTime) as error:  # the other classes are still checked
            problems = [f"{type(error).__name__}: {error}"]
        if problems:
            wrong[name] = problems
        rmtree(tmp_path / name, ignore_errors=True)
    assert wrong == {}


def problems_of(model_class: type[Any], folder: Path) -> list[str]:
    """What is wrong in the cells of one class; nothing if it cannot be built."""
    try:
        model = tiny(model_class)
    except Exception:  # each class fails on its default config in its own way
        return []
    cells = list(TiedInputs(model, folder).cells())
    made = [cell for cell in cells if not cell.skipped]
    if not made:
        return ["no cell can be made"]
    return [str(cell) for cell in made if cell.wrong]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_most_classes_that_tie_tensors_are_built():
    classes = [model_class for name in families() for model_class in tied_classes(name)]
    refused = [model_class.__name__ for model_class in classes if not is_built(model_class)]
    assert len(classes) - len(refused) > 320, refused


def is_built(model_class: type[Any]) -> bool:
    try:
        tiny(model_class)
    except Exception:  # of any type
        return False
    return True
