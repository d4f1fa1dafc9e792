"""What the plan decides, and why, on tiny models of real architectures."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.inspecting.statistics import layers_of
from ace_gui.engine.planning.overridden_rows import spelled_out
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import MismatchError, RecipeError
from ace_gui.recipe import ModelEntry, Override, Recipe
from tests.helpers.models import Family
from tests.helpers.recipes import recipe_of


def rows(family: Family, **keys: object) -> dict[str, PlanRow]:
    return {row.name: row for row in prepare(recipe_of(family, **keys)).plan.rows}


def bare(folder: Path, **tensors: torch.Tensor) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.safetensors"
    save_file(tensors, path)
    return path


def test_every_tensor_has_a_reason(gpt2: Family, roberta: Family):
    for family in (gpt2, roberta):
        plan = prepare(recipe_of(family)).plan
        assert all(row.reason for row in plan.rows)
        in_base = {row.name for row in plan.rows if row.in_base}
        assert in_base == load_file(family.base / "model.safetensors").keys()


def test_gpt2_is_turned_by_class_and_its_embeddings_are_averaged(gpt2: Family):
    by_name = rows(gpt2)
    for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
        row = by_name[f"transformer.h.0.{part}.weight"]
        assert (row.disposition, row.transposed) == (Disposition.MERGED, True)
    for name in ("transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f.weight"):
        assert by_name[name].disposition == Disposition.AVERAGED
    head = by_name["score.weight"]
    assert (head.disposition, head.in_base) == (Disposition.PER_EXPERT, False)


def test_the_base_keeps_what_no_expert_has(roberta: Family):
    by_name = rows(roberta)
    assert by_name["lm_head.dense.weight"].disposition == Disposition.BASE
    assert by_name["classifier.dense.weight"].disposition == Disposition.PER_EXPERT
    assert by_name["classifier.out_proj.weight"].experts == (0, 1, 2)


@pytest.mark.parametrize(
    ("family", "scope", "dispositions"),
    [
        (
            "gpt2",
            "authors-gpt2",
            {
                "transformer.wte.weight": Disposition.MERGED,
                "transformer.h.1.mlp.c_fc.weight": Disposition.MERGED,
                "transformer.ln_f.bias": Disposition.AVERAGED,
            },
        ),
        (
            "roberta",
            "authors-roberta",
            {
                "roberta.encoder.layer.0.attention.self.query.weight": Disposition.MERGED,
                "roberta.encoder.layer.0.attention.self.query.bias": Disposition.BASE,
                "roberta.encoder.layer.0.output.LayerNorm.weight": Disposition.BASE,
                "roberta.embeddings.word_embeddings.weight": Disposition.BASE,
            },
        ),
    ],
)
def test_authors_scopes(family: str, scope: str, dispositions: dict[str, Disposition], request):
    by_name = rows(request.getfixturevalue(family), scope=scope)
    assert {name: by_name[name].disposition for name in dispositions} == dispositions
    assert not any(by_name[name].transposed for name in dispositions)


def test_epsilon_by_family_unless_the_recipe_says_otherwise(gpt2: Family, roberta: Family):
    plan = prepare(recipe_of(gpt2)).plan
    assert plan.parameters["epsilon"] == 4e-2
    assert plan.parameter_notes["epsilon"]
    assert (
        prepare(recipe_of(roberta)).plan.parameters["epsilon"] == 1e-5
    )  # small, so not base-sized
    chosen = prepare(recipe_of(gpt2, parameters={"epsilon": 1e-3})).plan
    assert (chosen.parameters["epsilon"], chosen.parameter_notes) == (1e-3, {})


def test_a_recipe_is_spelled_out_where_it_leaves_something_to_the_base(gpt2: Family):
    choices = {"tensors": ("transformer.h.0.mlp.c_fc.weight",), "merge_method": "ace"}
    for changes, rule, expected in (
        ({}, None, {"epsilon": 4e-2}),
        ({"parameters": {"epsilon": 1e-3}}, None, {"epsilon": 1e-3}),
        ({"parameters": {"variant": "automatic"}}, None, {"variant": "automatic"}),
        ({"merge_method": "ties"}, {}, {"epsilon": 4e-2}),
        ({"merge_method": "ties"}, {"epsilon": 1e-3}, {"epsilon": 1e-3}),
    ):
        rules = () if rule is None else (Override(**choices, parameters=rule),)
        plan = prepare(recipe_of(gpt2, **changes, overrides=rules)).plan
        full_recipe = spelled_out(plan.recipe, plan.parameters, plan.rows)
        said = full_recipe.parameters if rule is None else full_recipe.overrides[0].parameters
        assert said == expected
        again = prepare(full_recipe).plan
        assert (again.parameters, again.rows) == (plan.parameters, plan.rows) or rule == {}


def test_other_shapes_are_refused_with_both(tmp_path):
    base = bare(tmp_path, **{"layers.0.fc.weight": torch.ones(4, 6)})
    expert = bare(tmp_path, **{"layers.0.fc.weight": torch.ones(4, 8)})
    entry = ModelEntry(model=expert, name="wide")
    with pytest.raises(MismatchError) as caught:
        prepare(Recipe(base_model=base, models=(entry,)))
    assert "4×8" in caught.value.sentence
    assert "4×6" in caught.value.sentence
    assert caught.value.shapes == {"base": (4, 6), "wide": (4, 8)}


def test_missing_blocks_name_the_first_eight(tmp_path):
    names = [f"layers.{index}.fc.weight" for index in range(12)]
    base = bare(tmp_path, **{name: torch.ones(2, 2) for name in names})
    expert = bare(tmp_path, **{name: torch.ones(2, 2) for name in names[:2]})
    with pytest.raises(MismatchError, match="lacks 10 tensors") as caught:
        prepare(Recipe(base_model=base, models=(ModelEntry(model=expert),)))
    assert caught.value.sentence.count("`layers.") == 8
    assert caught.value.details.count("layers.") == 10
    with pytest.raises(MismatchError, match="has 10 tensors that the base lacks"):
        prepare(Recipe(base_model=expert, models=(ModelEntry(model=base),)))


def test_a_part_that_only_an_expert_has_is_saved_with_it(tmp_path):
    body = {f"encoder.layers.{index}.fc.weight": torch.ones(2, 2) for index in range(2)}
    decoder = {"decoder.layers.0.fc.weight": torch.ones(2, 2)}
    base = bare(tmp_path, **body)
    expert = bare(tmp_path, **{f"model.{name}": tensor for name, tensor in body.items()}, **decoder)
    plan = prepare(Recipe(base_model=base, models=(ModelEntry(model=expert),))).plan
    row = next(row for row in plan.rows if row.name == "decoder.layers.0.fc.weight")
    assert (row.disposition, row.in_base) == (Disposition.PER_EXPERT, False)


def test_nothing_in_common(tmp_path):
    base = bare(tmp_path, **{"layers.0.fc.weight": torch.ones(2, 2)})
    expert = bare(tmp_path, **{"something": torch.ones(2, 2)})
    with pytest.raises(MismatchError, match="no tensor in common"):
        prepare(Recipe(base_model=base, models=(ModelEntry(model=expert),)))


@pytest.mark.parametrize("name", ["../up", "a/b", "", " ", "a\nb", "x" * 200, "c:d"])
def test_names_that_are_no_file_names_are_refused(roberta: Family, name: str):
    first = next(iter(roberta.experts.values()))
    entries = (ModelEntry(model=first, name=name or "."),)
    with pytest.raises(RecipeError, match="cannot name a file"):
        prepare(Recipe(base_model=roberta.base, models=entries))


def test_a_plan_without_experts_keeps_everything(roberta: Family):
    plan = prepare(Recipe(base_model=roberta.base, models=())).plan
    assert {row.disposition for row in plan.rows} <= {Disposition.BASE, Disposition.COPIED}


def test_the_automatic_variant_has_no_threshold(roberta: Family):
    """Nor has a layer whose override says so; the statistics keep γ."""
    automatic = {"variant": "automatic"}
    plan = prepare(recipe_of(roberta, parameters=automatic)).plan
    assert all(plan.tau_of(row) is None for row in plan.rows)
    rule = Override(role="query", parameters=automatic)
    plan = prepare(recipe_of(roberta, overrides=(rule,))).plan
    thresholds = {row.role: plan.tau_of(row) for row in plan.rows}
    assert thresholds["query"] is None
    assert thresholds["key"] == 0.3
    layers = layers_of(
        plan,
        {row.name: LayerStatistics(name=row.name, energies={}, gamma=1.0) for row in plan.rows},
    )
    regimes = {layer.role: (layer.gamma, layer.regime) for layer in layers}
    assert regimes["query"] == (1.0, None)
    assert regimes["key"] == (1.0, "heterogeneous")


def test_no_output_may_lie_in_the_folder_of_a_model_that_was_named_by_its_file(
    roberta: Family, tmp_path
):
    alone = tmp_path / "alone.safetensors"
    shutil.copy(roberta.base / "model.safetensors", alone)
    recipe = recipe_of(roberta)
    named = replace(recipe.models[0], model=recipe.models[0].model / "model.safetensors")
    plan = prepare(replace(recipe, base_model=alone, models=(named, *recipe.models[1:]))).plan
    assert plan.input_folders == tuple(entry.model for entry in recipe.models)
