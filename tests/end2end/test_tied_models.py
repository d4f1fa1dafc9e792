"""Tied models of every class, whichever names their files store and whatever the experts are.

Each merge is loaded by transformers and compared with task arithmetic in float64 of the inputs as
transformers and PEFT load them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.helpers.merges import merged_folder
from tests.helpers.recipes import recipe_over
from tests.helpers.tied_cells import KINDS, STORED, Cell, Family, loaded
from tests.helpers.tied_models import tied_classes, tiny

FAMILIES = (
    "LlamaForCausalLM",
    "GPT2LMHeadModel",
    "T5ForConditionalGeneration",
    "BartForConditionalGeneration",
    "BertForMaskedLM",
    "VipLlavaForConditionalGeneration",  # its files have other names than its modules
)
METHODS = ("ties", "dare_linear", "della", "breadcrumbs", "slerp", "ace")


def family(name: str, folder: Path) -> Family:
    return Family(tiny(getattr(transformers, name)), folder)


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
    found, missing = loaded(type(models.model), merged_folder(recipe, tmp_path / "out"))
    start, _ = loaded(type(models.model), models.base("equal"))
    head, table = found["lm_head.weight"], found["model.embed_tokens.weight"]
    assert missing == []
    assert torch.equal(head, table)
    assert not torch.equal(head, start["lm_head.weight"])


@pytest.mark.long
def test_every_class_that_ties_tensors(tmp_path: Path, record_property: Any):
    cells: list[Cell] = []
    refused: dict[str, str] = {}
    for model_class in tied_classes():
        try:
            model = tiny(model_class)
        except Exception as error:  # each class fails on its default config in its own way
            refused[model_class.__name__] = str(error).strip().partition("\n")[0]
            continue
        cells += Family(model, tmp_path / model_class.__name__).cells()
    made = [cell for cell in cells if not cell.skipped]
    wrong = [cell for cell in made if cell.wrong]
    record_property("cells", len(made))
    record_property("classes that cannot be built", refused)
    assert len(made) > 5000, f"{len(made)} cells; cannot be built: {refused}"
    assert wrong == [], f"{len(wrong)} of {len(made)} cells"
