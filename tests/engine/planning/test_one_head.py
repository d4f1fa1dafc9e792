"""The length of a merge by heads: experts that answer through one head do not add up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

from ace_gui.engine.contract.plan import Disposition, Plan
from ace_gui.engine.merging.store import reports
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe import Override
from ace_gui.recipe.overrides import describe_after
from ace_gui.recipe.recipe_file import dump_recipe, recipe_from
from ace_gui.recipe.recommended import with_recommended
from ace_gui.recipe.values import After, Cap
from tests.helpers.merges import merged_tensors
from tests.helpers.models import LLAMA, Family, gpt2_family, neox_family, roberta_family
from tests.helpers.recipes import recipe_of

BY_HEADS = Cap(delta=0.3, one_head=0.05)


def llama_family(folder: Path, *, tied: bool) -> Family:
    """A chat model whose head is tied to its embedding or not, and two fine-tunes."""
    config = transformers.LlamaConfig(**LLAMA, num_key_value_heads=2, tie_word_embeddings=tied)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder / "base")
    for name in ("a", "b"):
        with torch.no_grad():
            for parameter in model.model.layers.parameters():
                parameter.add_(0.01 * torch.randn_like(parameter))
        model.save_pretrained(folder / name)
    return Family(base=folder / "base", experts={name: folder / name for name in ("a", "b")})


FAMILIES = {
    "tied": (lambda folder: llama_family(folder, tied=True), True),
    "not tied": (lambda folder: llama_family(folder, tied=False), True),
    "GPT-NeoX": (neox_family, True),
    "classifiers from a language model": (gpt2_family, False),
    "classifiers from a masked language model": (roberta_family, False),
}


@pytest.fixture(scope="module", params=FAMILIES)
def models(request, tmp_path_factory) -> tuple[Family, bool]:
    """A family, and whether its experts answer through one head."""
    make, one_head = FAMILIES[request.param]
    return make(tmp_path_factory.mktemp("models")), one_head


def caps(plan: Plan) -> set[float | None]:
    rows = (row for row in plan.rows if row.disposition is Disposition.MERGED)
    return {row.after.cap for row in rows if len(row.shape) == 2}


def test_the_heads_decide_the_cap(models: tuple[Family, bool]):
    family, one_head = models
    recipe = recipe_of(family, after=After(cap=BY_HEADS))
    assert caps(prepare(recipe).plan) == {0.05 if one_head else 0.3}
    plain = replace(recipe, after=After(cap=Cap(delta=0.3)))
    assert caps(prepare(plain).plan) == {0.3}


def test_an_override_has_the_cap_of_the_heads(models: tuple[Family, bool]):
    family, one_head = models
    rule = Override(role="query", after=After(cap=Cap(delta=0.2, one_head=0.01)))
    plan = prepare(recipe_of(family, after=After(cap=BY_HEADS), overrides=(rule,))).plan
    query_caps = {row.after.cap for row in plan.rows if row.role == "query"}
    assert query_caps <= {0.01 if one_head else 0.2}


def test_the_recommended_merge_of_language_models_is_as_long_as_one_expert(tmp_path):
    """T experts of like length: the change of each matrix is at most their mean."""
    family = llama_family(tmp_path, tied=True)
    recipe = with_recommended(recipe_of(family, out_dtype="float32"))
    prepared = prepare(recipe)
    merged = merged_tensors(prepared, tmp_path / "store", device="cpu")
    base, *experts = (
        transformers.AutoModelForCausalLM.from_pretrained(folder).state_dict()
        for folder in (family.base, *family.experts.values())
    )
    capped = 0
    for row in prepared.plan.rows:
        if row.is_merged:
            changes = [expert[row.name] - base[row.name] for expert in experts]
            squares = [float((change - change.mean(dim=0)).square().sum()) for change in changes]
            limit = (sum(squares) / len(squares)) ** 0.5
            assert float((merged[row.name] - base[row.name]).norm()) <= limit * (1 + 1e-4)
            capped += (reports(tmp_path / "store")[row.name].cap_factor or 1.0) < 1
    assert capped > 0


def test_it_is_a_key_of_a_recipe(tmp_path):
    document = {"schema": 1, "base_model": "b", "models": [{"model": "m"}], "merge_method": "ties"}
    recipe = recipe_from({**document, "after": {"cap": {"one_head": 0}}})
    assert recipe.after.cap == Cap(one_head=0.0)
    assert "one_head: 0" in dump_recipe(recipe, tmp_path)
    assert "one_head" not in dump_recipe(replace(recipe, after=After(cap=Cap())), tmp_path)
    assert describe_after(recipe.after) == ["cap δ 0.12 (one head: 0)"]
