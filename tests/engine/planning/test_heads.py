"""Task heads: merged where the experts have one task, each expert's own elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui import load_model
from ace_gui.engine.contract.plan import COMBINED, Disposition, PlanRow
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.output.exporting import publish
from ace_gui.engine.output.models_of_experts import write_task_model
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import RecipeError, WorkbenchError
from ace_gui.recipe import ModelEntry, Override, Recipe
from ace_gui.recipe.values import Heads, NonFinite, Poolers
from tests.helpers.merges import merged_folder
from tests.helpers.models import load_folder
from tests.helpers.recipes import recipe_over

TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 30,
    "max_position_embeddings": 20,
}
NAMES = ("negative", "neutral", "positive")


def saved(folder: Path, kind: str, seed: int, labels: tuple[str, ...] | int = NAMES) -> Path:
    """A tiny RoBERTa of class ``kind``; ``labels``: their names, or how many without any."""
    names = labels if isinstance(labels, tuple) else [f"LABEL_{i}" for i in range(labels)]
    config = transformers.RobertaConfig(**TINY, id2label=dict(enumerate(names)))
    torch.manual_seed(seed)
    getattr(transformers, kind)(config).save_pretrained(folder)
    return folder


def soup(
    folder: Path,
    base: tuple[str, Any] = ("RobertaForMaskedLM", 2),
    labels: tuple[Any, ...] = (NAMES, NAMES, NAMES),
    kind: str = "RobertaForSequenceClassification",
    **choices: Any,
) -> Recipe:
    saved(folder / "base", base[0], 0, base[1])
    entries = []
    for index, names in enumerate(labels):
        entries.append(ModelEntry(model=saved(folder / f"e{index}", kind, index + 1, names)))
    return Recipe(
        base_model=folder / "base", models=tuple(entries), **{"merge_method": "linear", **choices}
    )


def heads_of(recipe: Recipe) -> dict[str, PlanRow]:
    return {row.name: row for row in prepare(recipe).plan.rows if row.role == "head"}


def output(recipe: Recipe, folder: Path) -> Path:
    return merged_folder(recipe, folder / "out")


def mean(recipe: Recipe, name: str) -> Tensor:
    tensors = [load_file(entry.model / "model.safetensors")[name] for entry in recipe.models]
    return torch.stack(tensors).mean(dim=0)


@pytest.mark.parametrize("method", ["linear", "ace"])
@pytest.mark.parametrize(
    "base",
    [
        ("RobertaForSequenceClassification", NAMES),
        ("RobertaForSequenceClassification", 5),
        ("RobertaForMaskedLM", 2),
        ("RobertaModel", 2),
    ],
)
def test_a_soup_of_one_task_has_the_mean_of_the_heads(base: tuple[str, Any], method: str, tmp_path):
    """Whether the base has such a head, has it in another shape, has another one, or none."""
    recipe = soup(tmp_path, base, merge_method=method)
    out = output(recipe, tmp_path)
    model, report = load_folder(out)
    assert type(model).__name__ == "RobertaForSequenceClassification"
    assert not report.missing
    assert not report.mismatched
    for name in ("classifier.dense.weight", "classifier.out_proj.weight", "classifier.dense.bias"):
        torch.testing.assert_close(model.state_dict()[name], mean(recipe, name))
    assert model.config.id2label == dict(enumerate(NAMES))
    assert not (out / "heads").exists()


@pytest.mark.parametrize(
    ("base", "labels", "merged", "why"),
    [
        (("RobertaForMaskedLM", 2), (3, 3), False, "no names"),
        (("RobertaForSequenceClassification", 3), (3, 3), False, "no names"),
        (("RobertaForSequenceClassification", NAMES), (NAMES, NAMES), True, "the same labels"),
        (("RobertaForMaskedLM", 2), (NAMES, 3), False, "no names"),
        (("RobertaForMaskedLM", 2), (3, NAMES), False, "no names"),
        (("RobertaForSequenceClassification", 1), (1, 1), True, "one output"),
        (("RobertaForMaskedLM", 2), (1, 1), True, "one output"),
        (("RobertaForMaskedLM", 2), (3,), True, "one expert"),
        (("RobertaForMaskedLM", 2), (NAMES, NAMES[::-1]), False, "different labels"),
        (("RobertaForMaskedLM", 2), (NAMES, NAMES[:2]), False, "not in all experts in that shape"),
        (("RobertaForSequenceClassification", NAMES), (NAMES, ("a", "b", "c")), False, "different"),
    ],
)
def test_when_the_experts_have_one_task(
    base: tuple[str, Any], labels: tuple[Any, ...], merged: bool, why: str, tmp_path
):
    rows = heads_of(soup(tmp_path, base, labels))
    assert rows
    for row in rows.values():
        assert (row.disposition is not Disposition.PER_EXPERT) == merged
        assert why in row.reason


@pytest.mark.parametrize("base", ["RobertaForSequenceClassification", "RobertaForMaskedLM"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_information_on_labels_is_not_the_same_labels(base: str, count: int, tmp_path):
    """No labels in the config, nor a number of them, but where there is one output."""
    recipe = soup(tmp_path, (base, count), (count, count))
    for entry in recipe.models:
        path = entry.model / "config.json"
        config = json.loads(path.read_text())
        config.pop("id2label", None)
        path.write_text(json.dumps(config | ({"num_labels": 1} if count == 1 else {})))
    merged = {row.disposition is not Disposition.PER_EXPERT for row in heads_of(recipe).values()}
    assert merged == {count == 1}


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize(
    ("labels", "merged"),
    [
        ((NAMES, NAMES), True),
        ((NAMES, NAMES[::-1]), False),
        ((NAMES, None), False),
        ((None, None), False),
    ],
)
def test_timms_label_names_are_labels(labels: tuple[Any, ...], merged: bool, inner: bool, tmp_path):
    def save(name: str, names: tuple[str, ...] | None, seed: int) -> Path:
        folder = tmp_path / name
        generator = torch.Generator().manual_seed(seed)
        folder.mkdir()
        shapes = {"blocks.0.mlp.fc1.weight": (4, 4), "head.weight": (3, 4), "head.bias": (3,)}
        tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        said = {} if names is None else {"label_names": list(names)}
        config = {"architecture": "vit_tiny_patch16_224", "num_classes": 3}
        config |= {"pretrained_cfg": said} if inner else said
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    base = save("base", None, 0)
    experts = [save(f"e{n}", names, n + 1) for n, names in enumerate(labels)]
    heads = heads_of(recipe_over(base, experts, merge_method="linear"))
    assert set(heads) == {"head.weight", "head.bias"}
    assert {row.disposition is not Disposition.PER_EXPERT for row in heads.values()} == {merged}


@pytest.mark.parametrize("labels", [(NAMES, NAMES[::-1]), (3, 3)])
@pytest.mark.parametrize("base", ["RobertaForSequenceClassification", "RobertaForMaskedLM"])
@pytest.mark.parametrize("rule", [{"disposition": "average"}, {"merge_method": "ties"}])
def test_a_rule_for_which_alone_heads_are_merged_has_an_effect(
    rule: dict[str, str], base: str, labels: tuple[Any, ...], tmp_path
):
    overrides = (Override(role="head", **rule),)
    recipe = soup(tmp_path, (base, 3), labels, overrides=overrides)
    assert not any("overrides[0]" in warning for warning in prepare(recipe).plan.warnings)
    rows = heads_of(recipe)
    without = heads_of(replace(recipe, overrides=()))
    assert {row.disposition for row in without.values()} == {Disposition.PER_EXPERT}
    assert Disposition.PER_EXPERT not in {row.disposition for row in rows.values()}
    assert all(row.reason.startswith("overridden") for row in rows.values())


def test_heads_whose_class_says_what_they_mean(tmp_path):
    recipe = soup(tmp_path, labels=(2, 2), kind="RobertaForQuestionAnswering")
    assert "all experts are RobertaForQuestionAnswering" in str(heads_of(recipe))
    model, report = load_folder(output(recipe, tmp_path))
    assert type(model).__name__ == "RobertaForQuestionAnswering"
    assert not report.missing


@pytest.mark.parametrize(
    ("choices", "becomes"),
    [
        ({"labels": (3, 3), "heads": Heads.MERGE}, Disposition.AVERAGED),
        ({"heads": Heads.KEEP}, Disposition.PER_EXPERT),
        ({"heads": Heads.MERGE, "scope": "authors-roberta"}, Disposition.AVERAGED),
        ({"scope": "authors-roberta"}, Disposition.PER_EXPERT),
        # A rule for everything leaves heads of other tasks alone.
        (
            {"labels": (3, 3), "overrides": (Override(pattern="*", disposition="average"),)},
            Disposition.PER_EXPERT,
        ),
    ],
)
def test_the_recipe_decides(choices: dict[str, Any], becomes: Disposition, tmp_path):
    heads = heads_of(soup(tmp_path, **choices))
    assert {row.disposition for row in heads.values()} == {becomes}


@pytest.mark.parametrize("labels", [(NAMES, NAMES[:2]), (NAMES, NAMES[::-1])])
def test_heads_that_cannot_be_merged_are_refused(labels: tuple[Any, ...], tmp_path):
    with pytest.raises(RecipeError, match=r"heads: keep") as caught:
        prepare(soup(tmp_path, labels=labels, heads=Heads.MERGE))
    assert caught.value.key == "heads"


def test_an_override_merges_heads_by_its_own_weights(tmp_path):
    rule = Override(role="head", disposition="average", weights={"e0": 3.0})
    recipe = soup(tmp_path, labels=(3, 3), overrides=(rule,))
    assert not prepare(recipe).plan.warnings
    name = "classifier.out_proj.weight"
    tensors = [load_file(entry.model / "model.safetensors")[name] for entry in recipe.models]
    head = load_file(output(recipe, tmp_path) / "model.safetensors")[name]
    torch.testing.assert_close(head, 0.75 * tensors[0] + 0.25 * tensors[1])


def test_elementwise_methods_treat_heads_of_the_base_as_anything_else(tmp_path):
    recipe = soup(
        tmp_path,
        ("RobertaForSequenceClassification", NAMES),
        merge_method="task_arithmetic",
        parameters={"scaling": 0.5},
    )
    name = "classifier.out_proj.weight"
    base = load_file(tmp_path / "base" / "model.safetensors")[name]
    head = load_file(output(recipe, tmp_path) / "model.safetensors")[name]
    torch.testing.assert_close(head, base + 0.5 * 3 * (mean(recipe, name) - base))


def test_heads_come_in_the_order_of_the_files(tmp_path):
    """In another order in every process, a merge would not be the same bytes, nor be resumed."""
    recipe = soup(tmp_path)
    expected = [
        name for name in load_file(recipe.models[0].model / "model.safetensors") if "cl" in name
    ]
    assert len(expected) == 4
    assert list(heads_of(recipe)) == sorted(expected)


def test_what_stands_between_body_and_head_comes_along(tmp_path):
    """BERT classifiers have a pooler, which a masked language model lacks."""
    for index, kind in enumerate(("MaskedLM", "SequenceClassification", "SequenceClassification")):
        config = transformers.BertConfig(**TINY, id2label=dict(enumerate(NAMES)))
        torch.manual_seed(index)
        model = getattr(transformers, f"BertFor{kind}")(config)
        model.save_pretrained(tmp_path / str(index))
    recipe = Recipe(
        base_model=tmp_path / "0",
        models=(ModelEntry(model=tmp_path / "1"), ModelEntry(model=tmp_path / "2")),
        merge_method="ace",
    )
    model, report = load_folder(output(recipe, tmp_path))
    assert not report.missing
    name = "bert.pooler.dense.weight"
    torch.testing.assert_close(model.state_dict()[name], mean(recipe, name))


def test_nan_in_a_head_that_only_experts_have_names_the_expert(tmp_path):
    recipe = soup(tmp_path, non_finite=NonFinite.SKIP_EXPERT)
    model = transformers.RobertaForSequenceClassification.from_pretrained(tmp_path / "e1")
    with torch.no_grad():
        model.classifier.out_proj.bias[0] = torch.nan
    model.save_pretrained(tmp_path / "e1")
    with pytest.raises(WorkbenchError, match=r"`classifier\.out_proj\.bias` of `e1` has 1 NaN"):
        output(recipe, tmp_path)


def pooled(folder: Path, kind: str, seed: int, family: str = "Bert", labels: int = 3) -> Path:
    """A tiny model of a family whose body has a pooler, saved."""
    config = getattr(transformers, f"{family}Config")(**TINY, num_labels=labels)
    torch.manual_seed(seed)
    getattr(transformers, f"{family}{kind}")(config).save_pretrained(folder)
    return folder


def own_poolers(
    folder: Path,
    base: str = "ForSequenceClassification",
    kinds: tuple[str, ...] = ("ForSequenceClassification", "ForSequenceClassification"),
    family: str = "Bert",
    **choices: Any,
) -> Recipe:
    """Experts of different tasks: the n-th has n + 3 labels."""
    pooled(folder / "base", base, 0, family)
    models = tuple(
        ModelEntry(model=pooled(folder / f"e{n}", kind, n + 1, family, labels=n + 3))
        for n, kind in enumerate(kinds)
    )
    return Recipe(
        base_model=folder / "base",
        models=models,
        **{"merge_method": "ace", "poolers": Poolers.KEEP, **choices},
    )


def pooler_rows(recipe: Recipe) -> dict[str, PlanRow]:
    return {row.name: row for row in prepare(recipe).plan.rows if "pooler" in row.name}


def poolers_in(model: Any) -> dict[str, Tensor]:
    state = model if isinstance(model, dict) else model.state_dict()
    return {n[n.index("pooler") :]: tensor for n, tensor in state.items() if "pooler" in n}


@pytest.mark.parametrize("base", ["Model", "ForPreTraining", "ForSequenceClassification"])
@pytest.mark.parametrize("family", ["Bert", "Albert", "RemBert"])
def test_a_pooler_is_kept_with_the_head_that_it_feeds(family: str, base: str, tmp_path):
    if (family, base) == ("RemBert", "ForPreTraining"):
        base = "ForMultipleChoice"
    recipe = own_poolers(tmp_path, base, family=family)
    assert pooler_rows(recipe)
    for row in pooler_rows(recipe).values():
        assert row.disposition is Disposition.PER_EXPERT
        assert "head" in row.reason
    out = output(recipe, tmp_path)
    merged = poolers_in(load_file(out / "model.safetensors"))
    torch.testing.assert_close(
        merged, poolers_in(load_file(tmp_path / "base" / "model.safetensors"))
    )
    for n in range(2):
        poolers = poolers_in(load_file(tmp_path / f"e{n}" / "model.safetensors"))
        head = load_file(out / "heads" / f"e{n}.safetensors")
        assert poolers
        torch.testing.assert_close(poolers_in(head), poolers)
        torch.testing.assert_close(poolers_in(load_model(out, task=f"e{n}")), poolers)


def test_complete_models_have_their_own_pooler(tmp_path):
    recipe = own_poolers(tmp_path, "Model")
    list(merge(prepare(recipe), tmp_path / "store", device="cpu", as_output=True))
    publish(tmp_path / "store", tmp_path / "out", complete_heads=True)
    for n in range(2):
        model, report = load_folder(tmp_path / "out" / "heads" / f"e{n}")
        assert not report.missing
        poolers = poolers_in(load_file(tmp_path / f"e{n}" / "model.safetensors"))
        torch.testing.assert_close(poolers_in(model), poolers)


@pytest.mark.parametrize("base", ["Model", "ForSequenceClassification"])
def test_a_task_made_again_has_its_own_pooler_and_each_tensor_once(base: str, tmp_path):
    out = output(own_poolers(tmp_path, base, merge_method="emr"), tmp_path)
    write_task_model(out, "e1", tmp_path / "task")
    model, report = load_folder(tmp_path / "task")
    assert not report.missing
    assert not report.unexpected
    poolers = poolers_in(load_file(tmp_path / "e1" / "model.safetensors"))
    stored = load_file(tmp_path / "task" / "model.safetensors")
    assert sum("pooler" in name for name in stored) == len(poolers)
    torch.testing.assert_close(poolers_in(stored), poolers)
    torch.testing.assert_close(poolers_in(model), poolers)


@pytest.mark.parametrize(
    ("choices", "kinds"),
    [
        ({"poolers": Poolers.MERGE}, ("ForSequenceClassification",) * 2),
        ({"scope": "authors-roberta"}, ("ForSequenceClassification",) * 2),
        ({}, ("Model", "Model")),
        ({}, ("ForSequenceClassification",)),
    ],
    ids=["not asked for", "a preset", "no heads", "merged heads"],
)
def test_a_pooler_is_merged_where_no_head_is_kept_with_it(
    choices: dict[str, Any], kinds: tuple[str, ...], tmp_path
):
    recipe = own_poolers(tmp_path, kinds=kinds, **choices)
    expected = pooler_rows(replace(recipe, poolers=Poolers.MERGE))
    assert expected
    assert pooler_rows(recipe) == expected
    assert {row.disposition for row in expected.values()} <= COMBINED | {Disposition.BASE}


def test_an_expert_without_a_head_keeps_its_pooler_too(tmp_path):
    recipe = own_poolers(tmp_path, kinds=("ForSequenceClassification", "Model"))
    assert {row.experts for row in pooler_rows(recipe).values()} == {(0, 1)}


def test_own_tensors_are_found_under_the_names_of_a_wrapped_model(tmp_path):
    """DataParallel puts ``module.`` before every name of an expert."""
    recipe = own_poolers(tmp_path, "Model")
    file = tmp_path / "e1" / "model.safetensors"
    save_file({f"module.{name}": t for name, t in load_file(file).items()}, file, {"format": "pt"})
    out = output(recipe, tmp_path)
    assert all(name.startswith("module.") for name in load_file(out / "heads" / "e1.safetensors"))
    model = load_model(out, task="e1")
    torch.testing.assert_close(poolers_in(model), poolers_in(load_file(file)))
