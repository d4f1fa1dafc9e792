"""Rules for some tensors: what they do to the plan, and to the merge."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import RecipeError
from ace_gui.recipe import Override, Recipe
from ace_gui.recipe.recipe_file import recipe_from
from tests.helpers import method_oracles as oracle
from tests.helpers.merges import merged_tensors
from tests.helpers.models import Family
from tests.helpers.recipes import recipe_of

QUERY = "roberta.encoder.layer.{}.attention.self.query.weight"
VALUE = "roberta.encoder.layer.{}.attention.self.value.weight"
NORM = "roberta.encoder.layer.0.output.LayerNorm.weight"


def recipe(family: Family, *overrides: Override, **keys: object) -> Recipe:
    return recipe_of(family, overrides=overrides, **keys)


def rows(family: Family, *overrides: Override, **keys: object) -> dict[str, PlanRow]:
    return {row.name: row for row in prepare(recipe(family, *overrides, **keys)).plan.rows}


def merged(folder: Path, merge_recipe: Recipe) -> dict[str, Tensor]:
    return merged_tensors(prepare(merge_recipe), folder, device="cpu", as_output=True)


def test_a_role_in_some_blocks_is_merged_by_another_method(roberta: Family):
    by_name = rows(
        roberta,
        Override(role="value", blocks="1-", merge_method="ties", parameters={"density": 0.1}),
    )
    override = by_name[VALUE.format(1)].override
    assert (override.method, override.parameters["density"]) == ("ties", 0.1)
    assert by_name[VALUE.format(1)].reason.startswith("overridden: TIES")
    assert [name for name, row in by_name.items() if row.override] == [VALUE.format(1)]


def test_a_pattern_and_a_list_of_names(roberta: Family):
    by_name = rows(
        roberta,
        Override(pattern="*.layer.?.attention.self.q*.weight", disposition="average"),
        Override(tensors=(QUERY.format(0),), disposition="base"),
    )
    assert by_name[QUERY.format(0)].disposition is Disposition.BASE
    assert by_name[QUERY.format(1)].disposition is Disposition.AVERAGED
    assert by_name[VALUE.format(1)].override is None


def test_later_rules_win_and_naming_a_method_starts_anew(roberta: Family):
    by_name = rows(
        roberta,
        Override(role="query", disposition="base"),
        Override(blocks="0", merge_method="ties", parameters={"density": 0.4}),
        Override(tensors=(QUERY.format(0),), merge_method="ace", parameters={"tau": 0.5}),
        parameters={"k_frac": 0.2},
    )
    first = by_name[QUERY.format(0)]
    second = by_name[QUERY.format(1)]
    assert first.disposition is Disposition.MERGED
    assert first.override.rules == (0, 1, 2)
    assert first.override.method == "ace"
    assert (first.override.parameters["tau"], first.override.parameters["k_frac"]) == (0.5, 0.2)
    assert second.disposition is Disposition.BASE


def test_parameters_alone_are_of_the_recipes_method(roberta: Family):
    by_name = rows(
        roberta,
        Override(role="query", merge_method="ties"),
        Override(blocks="0-1", parameters={"tau": 0.9}),
    )
    assert by_name[QUERY.format(0)].override.method == "ties"
    value = by_name[VALUE.format(0)].override
    assert (value.method, value.parameters["tau"]) == ("ace", 0.9)
    assert by_name[NORM].override is None  # averaged either way


def test_a_method_treats_each_tensor_as_it_always_does(roberta: Family):
    by_name = rows(roberta, Override(blocks="0", merge_method="task_arithmetic"))
    assert by_name[NORM].disposition is Disposition.MERGED
    by_name = rows(roberta, Override(blocks="0", merge_method="ace"), merge_method="ties")
    assert by_name[NORM].disposition is Disposition.AVERAGED
    assert by_name[QUERY.format(0)].override.method == "ace"


def test_merging_what_is_averaged_by_default_needs_two_dimensions(roberta: Family):
    table = "roberta.embeddings.word_embeddings.weight"
    by_name = rows(roberta, Override(tensors=(table, NORM), disposition="merge"))
    assert by_name[table].disposition is Disposition.MERGED
    assert by_name[NORM].disposition is Disposition.AVERAGED


def test_tied_tensors_follow_their_source(gpt2: Family, tmp_path):
    changed = Override(role="embedding", disposition="base")
    tensors = merged(tmp_path / "store", recipe(gpt2, changed))
    base = load_file(gpt2.base / "model.safetensors")
    assert torch.equal(tensors["transformer.wte.weight"], base["transformer.wte.weight"])


def test_heads_and_buffers_are_no_rules_business(roberta: Family):
    by_name = rows(roberta, Override(pattern="*", disposition="average"))
    plain = rows(roberta)
    for name, row in plain.items():
        if row.disposition in {Disposition.PER_EXPERT, Disposition.COPIED, Disposition.DROPPED}:
            assert by_name[name] == row


def test_the_merge_of_an_overridden_tensor_is_that_of_its_method(roberta: Family, tmp_path):
    rule = Override(
        role="value", merge_method="ties", parameters={"density": 0.3, "trim": "tensor"}
    )
    mixed = merged(tmp_path / "mixed", recipe(roberta, rule))
    ace = merged(tmp_path / "ace", recipe(roberta))
    ties = merged(
        tmp_path / "ties",
        recipe(roberta, merge_method="ties", parameters={"density": 0.3, "trim": "tensor"}),
    )
    for name, tensor in mixed.items():
        source = ties if name in {VALUE.format(0), VALUE.format(1)} else ace
        assert torch.equal(tensor, source[name]), name


def test_weights_of_some_tensors(roberta: Family, tmp_path):
    only_first = Override(role="query", weights={"task1": 0.0, "task2": 0.0})
    merge_recipe = recipe(roberta, only_first, merge_method="linear")
    tensors = merged(tmp_path / "store", merge_recipe)
    expert = load_file(roberta.experts["task0"] / "model.safetensors")
    assert torch.allclose(tensors[QUERY.format(0)], expert[QUERY.format(0)], atol=1e-6)
    assert not torch.allclose(tensors[VALUE.format(0)], expert[VALUE.format(0)], atol=1e-4)


def test_gamma_is_one_of_the_experts_and_not_of_the_method(roberta: Family):
    mixed = recipe(roberta, Override(role="query", merge_method="ace"), merge_method="ties")
    by_method = [
        {
            event.statistics.name: event.statistics.gamma
            for event in analyse(prepare(merge_recipe))
            if event.statistics.gamma is not None
        }
        for merge_recipe in (mixed, recipe(roberta, merge_method="ace"))
    ]
    assert {QUERY.format(0), QUERY.format(1)} <= by_method[1].keys() <= by_method[0].keys()
    assert all(by_method[0][name] == gamma for name, gamma in by_method[1].items())


@pytest.mark.parametrize(
    ("method", "rule", "key", "words"),
    [
        ("ace", {"role": "valeu", "disposition": "base"}, ".role", "'value'"),
        ("ace", {"merge_method": "tie"}, ".merge_method", "'ties'"),
        (
            "ace",
            {"merge_method": "ties", "parameters": {"tau": 1.0}},
            ".parameters.tau",
            "ties has",
        ),
        ("ace", {"parameters": {"tau": "x"}}, ".parameters.tau", "tau"),
        ("ace", {"weights": {"nobody": 1.0}}, ".weights", "task0, task1"),
        ("ties", {"experts": {"nobody": {"density": 0.1}}}, None, "no expert 'nobody'"),
        ("ties", {"experts": {"task0": {"scaling": 0.1}}}, None, "'scaling' for one expert"),
        ("ties", {"experts": {"task0": {"density": 7.0}}}, None, "at most 1"),
        ("ties", {"experts": {"task0": {"density": 0.1}}}, None, "set trim to tensor"),
    ],
)
def test_what_no_model_or_expert_can_have_is_refused(
    roberta: Family, method: str, rule: dict[str, Any], key: str | None, words: str
):
    rule = rule if "role" in rule else {"blocks": "0", **rule}
    with pytest.raises(RecipeError) as caught:
        prepare(recipe(roberta, Override(**rule), merge_method=method))
    assert key is None or caught.value.key == f"overrides[0]{key}"
    assert words in caught.value.sentence


def test_a_rule_without_effect_is_a_warning(roberta: Family):
    plan = prepare(
        recipe(
            roberta,
            Override(blocks="7", disposition="base"),
            Override(role="query", disposition="base"),
            Override(role="norm", parameters={"tau": 0.9}),
        )
    ).plan
    reported = [warning for warning in plan.warnings if "overrides[" in warning]
    assert [warning.split()[0] for warning in reported] == ["overrides[0]", "overrides[2]"]


def test_one_part_of_a_fused_matrix_can_be_overridden(gpt2: Family, tmp_path):
    rule = Override(role="query", disposition="base")
    tensors = merged(tmp_path / "store", recipe(gpt2, rule, split_fused=True))
    plain = merged(tmp_path / "plain", recipe(gpt2, split_fused=True))
    base = load_file(gpt2.base / "model.safetensors")
    name = "transformer.h.0.attn.c_attn.weight"
    third = base[name].shape[1] // 3
    assert torch.equal(tensors[name][:, :third], base[name][:, :third])
    assert torch.equal(tensors[name][:, third:], plain[name][:, third:])
    assert not torch.equal(plain[name][:, :third], base[name][:, :third])


def test_an_expert_may_have_a_density_of_its_own(roberta: Family, tmp_path):
    densities = {"task0": {"density": 0.9}, "task1": {"density": 0.1}}
    rule = Override(pattern="*", experts=densities)
    parameters = {"density": 0.5, "trim": "tensor"}
    merge_recipe = recipe(roberta, rule, merge_method="ties", parameters=parameters)
    result = merged(tmp_path / "store", merge_recipe)
    name = "roberta.encoder.layer.0.attention.self.query.weight"
    base = load_file(roberta.base / "model.safetensors")[name].double()
    experts = [load_file(path / "model.safetensors")[name] for path in roberta.experts.values()]
    trimmed = [
        oracle.largest((expert.double() - base).numpy(), density)
        for expert, density in zip(experts, (0.9, 0.1, 0.5), strict=True)
    ]
    expected = oracle.elect(np.array(trimmed))
    assert oracle.relative_error((result[name].double() - base).numpy(), expected) < 1e-5


@pytest.mark.parametrize("shared", [1.0, 0.5])
@pytest.mark.parametrize("single", [1.0, 0.2])
def test_entries_over_the_whole_model_have_one_density(
    tmp_path: Path, shared: float, single: float
) -> None:
    """Also where the recipe keeps all: an expert's own share would be of each tensor, silently."""
    for name in ("base", "a", "b"):
        save_file({"layers.0.q_proj.weight": torch.randn(4, 4)}, tmp_path / f"{name}.safetensors")
    recipe = {
        "schema": 1,
        "merge_method": "ties",
        "base_model": tmp_path / "base.safetensors",
        "models": [{"model": tmp_path / f"{name}.safetensors"} for name in "ab"],
        "parameters": {"density": shared, "trim": "model"},
        "overrides": [{"pattern": "*", "experts": {"b": {"density": single}}}],
    }
    if shared == single == 1.0:
        prepare(recipe_from(recipe))
        return
    with pytest.raises(RecipeError, match="set trim to tensor"):
        prepare(recipe_from(recipe))
    recipe["parameters"] = {"density": shared, "trim": "tensor"}
    prepare(recipe_from(recipe))
