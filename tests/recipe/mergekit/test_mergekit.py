"""mergekit's files as recipes, and recipes as mergekit's files."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from ace_gui.errors import RecipeError
from ace_gui.methods import checked_parameters, get_method
from ace_gui.methods.model_stock import ModelStockParameters, model_stock
from ace_gui.recipe import ModelEntry, Override, Recipe
from ace_gui.recipe.mergekit.writing import dump_mergekit
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe
from ace_gui.recipe.values import Heads, Slice, Source, TokenSource, Vocabulary
from tests.helpers.mergekit_files import entries

TIES = {
    "density": 0.2,
    "trim": "tensor",
    "scaling": 1.0,
    "combine": "mean",
    "balanced": "positive",
}


def read(folder: Path, **document: Any) -> Recipe:
    base = folder / "base"
    base.mkdir(exist_ok=True)
    (base / "config.json").write_text(json.dumps({"num_hidden_layers": 4, "dtype": "bfloat16"}))
    path = folder / "mergekit.yaml"
    path.write_text(json.dumps({"dtype": "float32", **document}))  # which is YAML, too
    return load_recipe(path)


def give_blocks(folder: Path, **counts: int | None) -> None:
    for name, count in counts.items():
        (folder / name).mkdir(exist_ok=True)
        config = {} if count is None else {"num_hidden_layers": count}
        (folder / name / "config.json").write_text(json.dumps(config))


def models(*parameters: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"model": "abc"[k], "parameters": own} for k, own in enumerate(parameters)]


def test_ties_with_one_density(tmp_path: Path) -> None:
    recipe = read(
        tmp_path,
        merge_method="ties",
        base_model="base",
        models=[{"model": "base"}, *models({"weight": 0.5}, {"weight": 1})],
        parameters={"density": 0.3, "lambda": 0.9},
        out_dtype="bfloat16",
    )
    assert recipe.base_model == tmp_path / "base"
    assert [entry.model.name for entry in recipe.models] == ["a", "b"]
    assert recipe.weights == (0.5, 1.0)
    assert recipe.parameters == {
        "density": 0.3,
        "trim": "tensor",
        "scaling": 0.9,
        "combine": "mean",
        "balanced": "positive",
    }
    assert recipe.out_dtype == "bfloat16"
    assert recipe.notes == ()


def test_the_same_density_for_each_model_is_one(tmp_path: Path) -> None:
    own = {"weight": 1.0, "density": 0.4}
    recipe = read(tmp_path, merge_method="ties", base_model="base", models=models(own, own))
    assert recipe.parameters["density"] == 0.4


def test_each_model_may_have_a_density_of_its_own(tmp_path: Path) -> None:
    recipe = read(
        tmp_path,
        merge_method="ties",
        base_model="base",
        models=models({"weight": 1, "density": [0.2, 0.8]}, {"weight": 1, "density": 0.4}),
    )
    found = [(rule.pattern, rule.blocks, dict(rule.experts)) for rule in recipe.overrides]
    assert ("*", None, {"a": {"density": 0.2}, "b": {"density": 0.4}}) in found
    assert found[-1] == (None, "3", {"a": {"density": 0.8}})


def test_densities_of_each_model_come_back_from_mergekits_file(tmp_path: Path) -> None:
    rules = (
        Override(pattern="*", experts={"a": {"density": 0.9}, "b": {"density": 0.1}}),
        Override(pattern="*mlp*", experts={"a": {"density": 0.5}}),
    )
    recipe = ours(tmp_path, *rules, parameters=TIES)
    path = tmp_path / "out.yaml"
    path.write_text(dump_mergekit(recipe, TIES, tmp_path))
    assert load_recipe(path).overrides == rules


def test_a_gradient_becomes_overrides_by_block(tmp_path: Path) -> None:
    recipe = read(
        tmp_path,
        merge_method="task_arithmetic",
        base_model="base",
        models=models({"weight": [0.0, 0.9]}, {"weight": 0.5}),
    )
    assert recipe.weights == (0.0, 0.5)
    found = {rule.blocks: rule.weights["a"] for rule in recipe.overrides}
    assert found.keys() == {"1", "2", "3"}
    assert found["2"] == pytest.approx(0.6)


def test_of_filters_the_first_counts_and_here_the_last(tmp_path: Path) -> None:
    recipe = read(
        tmp_path,
        merge_method="task_arithmetic",
        base_model="base",
        models=models(
            {"weight": [{"filter": "q_proj", "value": 0.1}, {"filter": "attn", "value": 0.2}]}
        ),
        parameters={"weight": 0.7},
    )
    assert recipe.weights == (0.7,)
    assert [rule.pattern for rule in recipe.overrides] == ["*attn*", "*q_proj*"]


def test_averages_without_a_base_are_sums_of_changes_to_the_first(tmp_path: Path) -> None:
    recipe = read(tmp_path, merge_method="linear", models=models({"weight": 3}, {"weight": 1}))
    assert recipe.base_model == tmp_path / "a"
    assert (recipe.merge_method, recipe.weights) == ("linear", (1.0,))
    assert recipe.parameters == {"base_weight": 3.0, "normalize": True}


def test_one_slice_of_all_blocks_is_no_slice(tmp_path: Path) -> None:
    sources = [
        {"model": name, "layer_range": [0, 6], "parameters": {"weight": [0, 1]}} for name in "ab"
    ]
    give_blocks(tmp_path, a=6, b=6)
    recipe = read(
        tmp_path, merge_method="task_arithmetic", base_model="base", slices=[{"sources": sources}]
    )
    assert len(recipe.models) == 2
    assert recipe.overrides[-1].blocks == "5"


@pytest.mark.parametrize("method", ["linear", "slerp", "task_arithmetic"])
@pytest.mark.parametrize(
    ("first", "second"), [([0, 4], [0, 4]), ([0, 3], [0, 3]), ([1, 4], [0, 3])]
)
def test_a_range_that_is_not_all_blocks_makes_a_slice(
    tmp_path: Path, method: str, first: list[int], second: list[int]
) -> None:
    give_blocks(tmp_path, base=4, other=4)
    ranges = {"base": first, "other": second}
    sources = [{"model": name, "layer_range": each} for name, each in ranges.items()]
    document = {"base_model": "base"} if method != "linear" else {}
    recipe = read(tmp_path, merge_method=method, slices=[{"sources": sources}], **document)
    assert [entry.model.name for entry in recipe.models] == ["other"]
    if first == second == [0, 4]:
        assert recipe.slices == ()
        return
    (part,) = recipe.slices
    assert [(each.model.name, each.layers) for each in part.sources] == [
        ("base", tuple(first)),
        ("other", tuple(second)),
    ]


def test_settings_of_slices_count_from_near_to_far(tmp_path: Path) -> None:
    """Source before slice before file; a gradient goes through the blocks of its slice."""
    sources = [
        [
            {"model": "base", "layer_range": [0, 2]},
            {"model": "a", "layer_range": [0, 2], "parameters": {"weight": 0.3}},
        ],
        [
            {"model": "b", "layer_range": [1, 4]},
            {"model": "base", "layer_range": [1, 4]},
        ],
    ]
    slices = [{"sources": sources[0]}, {"sources": sources[1], "parameters": {"weight": [0, 1]}}]
    recipe = read(
        tmp_path,
        merge_method="task_arithmetic",
        base_model="base",
        slices=slices,
        parameters={"weight": 0.7},
    )
    first, second = recipe.slices
    assert [each.model.name for each in second.sources] == ["base", "b"]
    assert [dict(rule.weights) for rule in first.overrides] == [{"a": 0.3}]
    found = [(rule.blocks, dict(rule.weights)) for rule in second.overrides]
    assert found == [(None, {"b": 0.0}), ("3", {"b": 0.5}), ("4", {"b": 1.0})]


def test_passthrough_multiplies_by_its_scale(tmp_path: Path) -> None:
    scale = [{"filter": "o_proj", "value": 0.0}, {"value": 1.0}]
    recipe = read(
        tmp_path,
        merge_method="passthrough",
        slices=[
            {"sources": [{"model": "base", "layer_range": [0, 4]}]},
            {"sources": [{"model": "base", "layer_range": [2, 4], "parameters": {"scale": scale}}]},
        ],
    )
    assert recipe.models == ()
    assert recipe.parameters == {"base_weight": 1.0, "normalize": False}
    (rule,) = recipe.slices[1].overrides
    assert (rule.pattern, dict(rule.parameters)) == ("*o_proj*", {"base_weight": 0.0})


@pytest.mark.parametrize(
    ("reference", "model", "on", "notes"),
    [
        ("a", "a", None, 0),
        ("a+x", "x", "a", 0),
        ("base+x", "x", None, 0),
        ("a@main", "a", None, 1),
        ("a+x@v1", "x", "a", 1),
        ({"model": "a", "lora": "x"}, "x", "a", 0),
        ({"model": {"path": "a", "revision": None}}, "a", None, 0),
        ({"model": {"path": "a", "revision": "v1"}, "lora": {"path": "x"}}, "x", "a", 1),
        ({"model": "a", "override_architecture": "LlamaForCausalLM"}, "a", None, 1),
    ],
)
def test_references_to_models(
    tmp_path: Path, reference: Any, model: str, on: str | None, notes: int
) -> None:
    for name in "ax":
        (tmp_path / name).mkdir()
    recipe = read(
        tmp_path,
        merge_method="task_arithmetic",
        base_model="base",
        models=[{"model": reference, "parameters": {"weight": 1.0}}],
    )
    (entry,) = recipe.models
    assert (entry.model, entry.on) == (tmp_path / model, on and tmp_path / on)
    assert len(recipe.notes) == notes


def test_a_base_may_have_an_adapter(tmp_path: Path) -> None:
    both = [{"model": "base+x"}, {"model": "base"}, {"model": "base+y"}]
    recipe = read(tmp_path, merge_method="task_arithmetic", base_model="base+x", models=both)
    assert (recipe.base_model.name, recipe.adapter) == ("base", tmp_path / "x")
    found = [(entry.model.name, entry.on and entry.on.name) for entry in recipe.models]
    assert found == [("base", None), ("y", "base")]
    path = tmp_path / "own.yaml"
    path.write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(path) == recipe


def test_without_a_base_that_of_the_first_adapter_is_it(tmp_path: Path) -> None:
    recipe = read(tmp_path, merge_method="linear", models=entries(**{"b+x": {}, "b+y": {}}))
    assert recipe.base_model.name == "b"
    assert [entry.model.name for entry in recipe.models] == ["x", "y"]
    assert recipe.parameters["base_weight"] == 0.0


@pytest.mark.parametrize(
    ("document", "key", "words"),
    [
        ({"merge_method": "passthrough"}, "slices", "one model"),
        ({"merge_method": "ties", "models": models({"density": "x"}, {})}, "density", "not x"),
        ({"models": models({"weight": float("inf")}, {})}, "weight", "finite"),
        ({"models": models({"weight": True}, {})}, "weight", "finite"),
        ({"models": models({"weight": [0.1, "x"]}, {})}, "weight", "finite"),
        ({"models": models({"weight": []}, {})}, "weight", "empty"),
        ({"merge_method": "slerp", "parameters": {"t": 0.5}}, "models", "schema: 1"),
        ({"merge_method": "nearswap", "parameters": {"t": 0.5}}, "models", "one other model"),
        ({"merge_method": "ranked_ties"}, "merge_method", "ranked_ties"),
        ({"models": [{"model": "a+x+y"}]}, "models[0].model", "one adapter"),
        ({"out_dtype": "int8"}, "out_dtype", "int8"),
        ({"modules": {"text": {}, "vision": {}}}, "modules", "modules"),
        ({"slices": [{"sources": [{"model": "a"}]}] * 2}, "slices", "'models' and 'slices'"),
        (
            {"models": None, "slices": [{"sources": [{"model": "a"}]}] * 2},
            "base_model",
            "slice 0",
        ),
        ({"paramters": {}}, "paramters", "parameters"),
    ],
)
def test_what_cannot_be_translated_is_named(
    tmp_path: Path, document: dict[str, Any], key: str, words: str
) -> None:
    whole = {
        "merge_method": "task_arithmetic",
        "base_model": "base",
        "models": models({"weight": 1}, {"weight": 1}),
        **document,
    }
    with pytest.raises(RecipeError) as caught:
        read(tmp_path, **{name: value for name, value in whole.items() if value is not None})
    assert caught.value.key == key
    assert words in caught.value.sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("merge_method: linear\n---\nmerge_method: ties\n", ["several documents", "name"]),
        ("base_model: b\ngate_mode: hidden\nexperts: [{source_model: a}]\n", ["mixture"]),
        (
            "merge_method: ties\nbase_model: b\nmodels: [{model: a}]\n"
            "parameters: {normalize: [true, false]}\n",
            ["true and false", "normalize"],
        ),
        (
            "merge_method: ties\nbase_model: b\nmodels: [{model: a}]\ndtype: float32\nparam: 1\n",
            ["'param'", "tokenizer_source", "slices"],
        ),
        (
            "merge_method: ties\nbase_model: b\nmodels: [{model: a, wieght: 1}]\ndtype: float32\n",
            ["models[0].wieght", "layer_range"],
        ),
    ],
)
def test_errors_about_a_file_are_true_of_it(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert all(word in caught.value.sentence for word in words), caught.value.sentence
    strange = ("schema", "split_fused", "not valid YAML", "is missing", "other than the base")
    assert not any(word in caught.value.sentence for word in strange)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"tokenizer": {"tokens": {"<t>": {"source": "z"}}}}, "tokenizer_source"),
        ({"tokenizer": {"pad_to_multiple_of": 0}}, "tokenizer.pad_to_multiple_of"),
        ({"tokenizer": {}, "tokenizer_source": "base"}, "tokenizer"),
        ({"tokenizer_source": "z"}, "tokenizer_source"),
        ({"chat_template": "unknown"}, "chat_template"),
    ],
)
def test_tokenizers_that_are_not_possible_are_refused(
    tmp_path: Path, more: dict[str, Any], key: str
) -> None:
    both = models({"weight": 1.0}, {"weight": 1.0})
    with pytest.raises(RecipeError) as caught:
        read(tmp_path, merge_method="linear", base_model="base", models=both, **more)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("source", "vocabulary", "tokenizer"),
    [
        ("base", Vocabulary.BASE_TOKENS, ""),
        ("union", Vocabulary.UNION, ""),
        ("b", Vocabulary.POSITION, "b"),
        ({"model": "b"}, Vocabulary.POSITION, "b"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_the_source_of_the_tokenizer(
    tmp_path: Path, source: Any, vocabulary: Vocabulary, tokenizer: str, inside: bool
) -> None:
    more = {"tokenizer": {"source": source}} if inside else {"tokenizer_source": source}
    both = models({"weight": 1.0}, {"weight": 1.0})
    recipe = read(
        tmp_path,
        merge_method="linear",
        base_model="base",
        models=both,
        chat_template="chatml",
        **more,
    )
    assert (recipe.vocabulary, recipe.tokenizer) == (vocabulary, tokenizer)
    assert (recipe.chat_template, recipe.notes) == ("chatml", ())
    own = tmp_path / "own.yaml"
    own.write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(own) == recipe


def test_single_tokens_and_padding_are_read(tmp_path: Path) -> None:
    tokens = {
        "<t>": {"source": "a"},
        "<u>": {"source": {"kind": "model_token", "model": "base", "token": "x"}, "force": True},
        "<v>": {"source": {"kind": "model_token", "model": {"model": "b"}, "token_id": 3}},
        "<w>": {"source": {"kind": "zero"}},
        "<x>": {},
    }
    recipe = read(
        tmp_path,
        merge_method="linear",
        base_model="base",
        models=models({"weight": 1.0}, {"weight": 1.0}),
        tokenizer={"tokens": tokens, "pad_to_multiple_of": 8},
    )
    assert (recipe.vocabulary, recipe.pad_to_multiple_of) == (Vocabulary.UNION, 8)
    assert recipe.tokens == {
        "<t>": TokenSource(model="a"),
        "<u>": TokenSource(model="base", token="x", force=True),
        "<v>": TokenSource(model="b", token_id=3),
        "<w>": TokenSource(zero=True),
        "<x>": TokenSource(),
    }
    own = tmp_path / "own.yaml"
    own.write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(own) == recipe


@pytest.mark.parametrize(
    ("text", "vocabulary"),
    [("base", Vocabulary.BASE_TOKENS), ("union", Vocabulary.UNION), ("a", Vocabulary.POSITION)],
)
def test_the_tokenizer_of_an_own_recipe(tmp_path: Path, text: str, vocabulary: Vocabulary) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"base_model: base\nmodels: [{{model: a}}]\ntokenizer: {text}\n")
    assert load_recipe(path).vocabulary is vocabulary
    path.write_text(f"{path.read_text()}vocabulary: tokens\n")
    with pytest.raises(RecipeError, match="contradict"):
        load_recipe(path)


@pytest.mark.parametrize("choice", Vocabulary)
def test_a_vocabulary_is_written_as_mergekit_reads_it(tmp_path: Path, choice: Vocabulary) -> None:
    recipe = ours(tmp_path, vocabulary=choice, parameters=TIES)
    if choice in (Vocabulary.TOKENS, Vocabulary.BASE):
        with pytest.raises(RecipeError) as caught:
            dump_mergekit(recipe, TIES, tmp_path)
        assert caught.value.key == "vocabulary"
        return
    path = tmp_path / "out.yaml"
    path.write_text(dump_mergekit(recipe, TIES, tmp_path))
    assert load_recipe(path).vocabulary is choice


def test_model_stock_speaks_of_tensors_after_the_merge(tmp_path: Path) -> None:
    """Its notes are those of the tensors of which they are true."""
    both = models({}, {})
    recipe = read(tmp_path, merge_method="model_stock", base_model="base", models=both)
    assert (recipe.merge_method, recipe.notes) == ("model_stock", ())
    orthogonal = torch.eye(2)
    deltas = [orthogonal[0], -orthogonal[0], torch.zeros(2)]
    said = model_stock(deltas, [1.0] * 3, ModelStockParameters()).diagnostics
    assert said is not None
    assert "left out" in " ".join(said.notes)
    assert "stays as in the base" in " ".join(said.notes)


def test_what_is_lost_is_noted(tmp_path: Path) -> None:
    recipe = read(
        tmp_path,
        merge_method="task_arithmetic",
        base_model="base",
        models=models({"weight": 1.0, "density": 0.5}),
    )
    assert len(recipe.notes) == 1
    assert "density" in recipe.notes[0]


@pytest.mark.parametrize(
    "said", [{"tokenizer_source": "union"}, {"tokenizer": {"source": "union"}}, {"tokenizer": {}}]
)
def test_a_union_of_vocabularies_is_read_and_written(tmp_path: Path, said: dict[str, Any]) -> None:
    document = {"merge_method": "task_arithmetic", "base_model": "base"}
    both = models({"weight": 1.0}, {"weight": 1.0})
    recipe = read(tmp_path, **document, models=both, **said)
    assert recipe.vocabulary is Vocabulary.UNION
    assert recipe.notes == ()
    same = ours(tmp_path, vocabulary=recipe.vocabulary)
    written = yaml.safe_load(dump_mergekit(same, TIES, tmp_path))
    assert written["tokenizer_source"] == "union"
    assert read(tmp_path, **document, models=both).vocabulary is Vocabulary.POSITION


@pytest.mark.parametrize("method", ["ties", "breadcrumbs", "dare_linear", "della"])
@pytest.mark.parametrize("rescale", [None, True, False])
def test_rescaling_is_by_norm_or_none(tmp_path: Path, method: str, rescale: bool | None) -> None:
    parameters = {} if rescale is None else {"rescale": rescale}
    recipe = read(
        tmp_path,
        merge_method=method,
        base_model="base",
        models=models({"weight": -0.5}, {"weight": 1.0}),
        parameters=parameters,
    )
    default = method in ("dare_linear", "della")
    on = default if rescale is None else rescale
    assert recipe.parameters.get("rescale", "none") == ("by norm" if on else "none")
    if method in ("ties", "della"):
        assert recipe.parameters["combine"] == "signed mean"
    values = dict(get_parameters(recipe))
    path = tmp_path / "out.yaml"
    path.write_text(dump_mergekit(recipe, values, tmp_path))
    assert load_recipe(path).parameters.get("rescale", "none") == values["rescale"]


@pytest.mark.parametrize(
    ("document", "points", "base_weight"),
    [
        ({"merge_method": "karcher"}, "weights", 1.0),
        ({"merge_method": "karcher", "base_model": "base"}, "weights", 1.0),
        ({"merge_method": "multislerp"}, "weights", 0.5),
        ({"merge_method": "multislerp", "base_model": "base"}, None, None),
    ],
)
def test_means_on_the_sphere_need_no_base(
    tmp_path: Path, document: dict[str, Any], points: str | None, base_weight: float | None
) -> None:
    both = models({"weight": 0.5}, {"weight": 1.0})
    recipe = read(tmp_path, **document, models=both)
    assert recipe.parameters.get("points") == points
    assert recipe.parameters.get("base_weight") == base_weight


def test_our_own_recipes_are_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "schema: 1\nmerge_method: ties\nbase_model: base\n"
        "models: [{model: a, parameters: {weight: 0.5}}]\nparameters: {density: 0.5}\n"
    )
    assert load_recipe(path).parameters == {"density": 0.5}


def get_parameters(recipe: Recipe) -> dict[str, Any]:
    """Every parameter of the recipe's method."""
    given = checked_parameters(get_method(recipe.merge_method), recipe.parameters)
    return asdict(given)


def ours(folder: Path, *overrides: Override, **keys: Any) -> Recipe:
    entries = tuple(
        ModelEntry(model=folder / name, weight=weight) for name, weight in (("a", 1.0), ("b", 0.5))
    )
    made = {"merge_method": "ties", "overrides": overrides, **keys}
    return Recipe(base_model=folder / "base", models=entries, **made)


def test_a_recipe_comes_back_from_mergekits_file(tmp_path: Path) -> None:
    recipe = ours(
        tmp_path,
        Override(pattern="*mlp*", parameters={"density": 0.5}),
        Override(pattern="*attn*", weights={"a": 0.0}),
        parameters=TIES,
        out_dtype="float16",
    )
    path = tmp_path / "out.yaml"
    path.write_text(dump_mergekit(recipe, TIES, tmp_path))
    back = load_recipe(path)
    assert (back.parameters, back.weights, back.models) == (TIES, recipe.weights, recipe.models)
    assert back.out_dtype == "float16"
    assert set(map(repr, back.overrides)) == set(map(repr, recipe.overrides))


def test_a_difference_that_stays_is_said_in_the_head_of_the_file(tmp_path: Path) -> None:
    text = dump_mergekit(ours(tmp_path), {**TIES, "trim": "model"}, tmp_path)
    assert text.startswith("# mergekit keeps the largest entries of each tensor")
    assert not dump_mergekit(ours(tmp_path), TIES, tmp_path).startswith("#")


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"merge_method": "ace"}, "merge_method"),
        ({"scope": "authors-gpt2"}, "scope"),
        ({"overrides": (Override(role="query", weights={"a": 0.0}),)}, "overrides[0]"),
        (
            {"overrides": (Override(pattern="*x*", merge_method="ace"),)},
            "overrides[0].merge_method",
        ),
        ({"slices": (Slice(sources=(Source(model=Path("nowhere")),)),)}, "slices"),
    ],
)
def test_what_mergekit_cannot_express_is_named(
    tmp_path: Path, keys: dict[str, Any], key: str
) -> None:
    recipe = ours(tmp_path, **keys)
    with pytest.raises(RecipeError) as caught:
        dump_mergekit(recipe, TIES, tmp_path)
    assert caught.value.key == key
    assert "Source(" not in caught.value.sentence


def test_an_adapter_on_the_base_is_an_expert(tmp_path: Path) -> None:
    """``base+adapter``, as text and as a mapping; the base itself is no expert."""
    file = tmp_path / "recipe.yaml"
    document = {
        "merge_method": "task_arithmetic",
        "base_model": "base",
        "models": [
            {"model": "base"},
            {"model": "base+adapter", "parameters": {"weight": 0.5}},
            {"model": {"model": "base", "lora": "other"}, "parameters": {"weight": 2.0}},
        ],
    }
    file.write_text(yaml.safe_dump(document))
    recipe = load_recipe(file)
    assert recipe.base_model == tmp_path / "base"
    assert [entry.model for entry in recipe.models] == [tmp_path / "adapter", tmp_path / "other"]
    assert recipe.weights == (0.5, 2.0)


def written_and_read(folder: Path, recipe: Recipe) -> Recipe:
    path = folder / "out.yaml"
    path.write_text(dump_mergekit(recipe, get_parameters(recipe), folder, get_parameters))
    return load_recipe(path)


def source(model: str, first: int, end: int, **parameters: Any) -> dict[str, Any]:
    return {"model": model, "layer_range": [first, end], "parameters": parameters}


SLICES: dict[str, dict[str, Any]] = {
    "weights of slices": {
        "merge_method": "task_arithmetic",
        "base_model": "base",
        "slices": [
            {"sources": [source("base", 0, 2), source("a", 0, 2, weight=0.3)]},
            {
                "sources": [source("b", 1, 4), source("base", 1, 4), source("a+x", 0, 3)],
                "parameters": {"lambda": 0.5, "weight": 0.7},
            },
        ],
    },
    "filters": {
        "merge_method": "slerp",
        "base_model": "base",
        "slices": [
            {
                "sources": [source("base", 0, 4), source("a", 2, 6)],
                "parameters": {"t": [{"filter": "mlp", "value": 0.2}, {"value": 0.8}]},
            }
        ],
    },
    "without a base": {
        "merge_method": "linear",
        "slices": [
            {"sources": [source("a", 0, 3, weight=1.0), source("b", 0, 3, weight=2.0)]},
            {"sources": [source("b", 0, 3, weight=0.25), source("a", 3, 6, weight=0.5)]},
        ],
    },
    "passthrough": {
        "merge_method": "passthrough",
        "slices": [
            {"sources": [source("base", 0, 4)]},
            {"sources": [source("a", 2, 4, scale=0.5)]},
            {
                "sources": [
                    source("base", 2, 4, scale=[{"filter": "o_proj", "value": 0.0}, {"value": 1}])
                ]
            },
        ],
    },
}


@pytest.mark.parametrize("kind", SLICES)
def test_slices_come_back_from_mergekits_file(tmp_path: Path, kind: str) -> None:
    give_blocks(tmp_path, a=6, b=6)
    recipe = read(tmp_path, **SLICES[kind])
    assert recipe.slices
    assert written_and_read(tmp_path, recipe) == recipe
    text = yaml.safe_load((tmp_path / "out.yaml").read_text())
    assert text["merge_method"] == SLICES[kind]["merge_method"]


def test_an_adapter_in_a_slice_is_written_with_the_base_it_is_on(tmp_path: Path) -> None:
    give_blocks(tmp_path, base=6)
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "adapter_config.json").write_text("{}")
    part = {"sources": [{"model": name, "layers": [0, 6]} for name in ("base", "tuned")]}
    ours = {"schema": 1, "merge_method": "linear", "base_model": "base", "slices": [part]}
    path = tmp_path / "ours.yaml"
    path.write_text(yaml.safe_dump({**ours, "models": [{"model": "tuned"}]}))
    recipe = load_recipe(path)
    text = yaml.safe_load(dump_mergekit(recipe, get_parameters(recipe), tmp_path))
    written = [each["model"] for each in text["slices"][0]["sources"]]
    assert written == ["base", "base+tuned"]


GRADIENTS: dict[str, Any] = {
    "a weight": ([source("base", 0, 4), source("a", 0, 4, weight=[0, 1])], {}),
    "weights of two slices' models": (
        [source("base", 1, 6), source("a", 0, 5, weight=[0, 1, 0.5]), source("b", 1, 6)],
        {"weight": [0.2, 0.7]},
    ),
    "a parameter": ([source("base", 0, 4), source("a", 0, 4)], {"lambda": [0.1, 0.9, 0.3]}),
    "filters": (
        [source("base", 0, 4), source("a", 0, 4)],
        {
            "weight": [
                {"filter": "attn", "value": [0, 0.5, 1]},
                {"filter": "mlp", "value": [1, 0]},
                {"value": 0.5},
            ]
        },
    ),
    "one block": ([source("base", 3, 4), source("a", 3, 4, weight=[0.2, 0.6])], {}),
    "its own density": (
        [source("base", 0, 3), source("a", 0, 3, density=[0.9, 0.3]), source("b", 0, 3)],
        {"density": 0.5, "weight": 1},
    ),
}


@pytest.mark.parametrize("before", [[], [source("base", 0, 3), source("a", 0, 3, weight=0.25)]])
@pytest.mark.parametrize("kind", GRADIENTS)
def test_gradients_within_a_slice_come_back(kind: str, before: list[Any], tmp_path: Path) -> None:
    sources, parameters = GRADIENTS[kind]
    method = "ties" if "density" in kind else "task_arithmetic"
    parts = [{"sources": before}] * bool(before) + [{"sources": sources, "parameters": parameters}]
    recipe = read(tmp_path, merge_method=method, base_model="base", slices=parts)
    assert any(rule.blocks for rule in recipe.slices[-1].overrides)
    assert written_and_read(tmp_path, recipe) == recipe


@pytest.mark.parametrize("method", ["ties", "task_arithmetic"])
def test_gradients_of_whole_models_come_back(method: str, tmp_path: Path) -> None:
    give_blocks(tmp_path, base=5, a=5, b=5)
    recipe = read(
        tmp_path,
        merge_method=method,
        base_model="base",
        models=models({"weight": [0, 1]}, {"weight": 0.5}),
        parameters={"lambda": [{"filter": "mlp", "value": [0.5, 0.25]}, {"value": 1.0}]},
    )
    assert any(rule.blocks for rule in recipe.overrides)
    assert written_and_read(tmp_path, recipe) == recipe
    written = yaml.safe_load((tmp_path / "out.yaml").read_text())
    assert written["models"][0]["parameters"]["weight"] == [0, 1]


def test_blocks_that_no_gradient_can_say_are_refused_by_name(tmp_path: Path) -> None:
    give_blocks(tmp_path, base=5)
    for rule, words in (
        (Override(blocks="0", weights={"a": 0.5}), "first block"),
        (Override(blocks="1", role="query", weights={"a": 0.5}), "overrides"),
    ):
        recipe = ours(tmp_path, rule, parameters=TIES)
        with pytest.raises(RecipeError, match=words) as caught:
            dump_mergekit(recipe, get_parameters(recipe), tmp_path)
        assert (caught.value.key or "").startswith("overrides[0]")


@pytest.mark.parametrize("vocabulary", [Vocabulary.UNION, Vocabulary.BASE_TOKENS, "b"])
def test_single_tokens_and_padding_come_back(vocabulary: Any, tmp_path: Path) -> None:
    tokens = {
        "<t>": TokenSource(model="a"),
        "<u>": TokenSource(model="base", token="x", force=True),
        "<v>": TokenSource(model="b", token_id=0),
        "<w>": TokenSource(zero=True),
    }
    choice = {"tokenizer": "b"} if vocabulary == "b" else {"vocabulary": vocabulary}
    recipe = ours(tmp_path, tokens=tokens, pad_to_multiple_of=8, parameters=TIES, **choice)
    back = written_and_read(tmp_path, recipe)
    assert (back.tokens, back.pad_to_multiple_of) == (tokens, 8)
    assert (back.tokenizer, back.vocabulary) == (recipe.tokenizer, recipe.vocabulary)
    head = (tmp_path / "out.yaml").read_text().partition("merge_method")[0]
    assert ("lacks" in head) is (vocabulary is Vocabulary.BASE_TOKENS)
    without = replace(recipe, tokens={"<t>": TokenSource()})
    with pytest.raises(RecipeError) as caught:
        dump_mergekit(without, TIES, tmp_path)
    assert caught.value.key == "tokens.<t>"


def test_stages_come_back_from_mergekits_file(tmp_path: Path) -> None:
    stage = {"merge_method": "linear", "models": models({"weight": 1}, {"weight": 2})}
    last = {"merge_method": "ties", "base_model": "base", "models": [{"model": "first"}]}
    path = tmp_path / "stages.yaml"
    path.write_text(yaml.safe_dump_all([{"name": "first", **stage}, last]))
    recipe = load_recipe(path)
    back = written_and_read(tmp_path, recipe)
    assert [each.models for each in back.stages.values()] == [
        each.models for each in recipe.stages.values()
    ]
    names = [each.get("name") for each in yaml.safe_load_all((tmp_path / "out.yaml").read_text())]
    assert names == ["first", None]
    with pytest.raises(RecipeError, match="ace-gui mergekit"):
        dump_mergekit(recipe, get_parameters(recipe), tmp_path)


def test_the_base_s_own_weight_in_a_rule_comes_back(tmp_path: Path) -> None:
    rule = Override(pattern="*mlp*", parameters={"base_weight": 0.5})
    recipe = ours(tmp_path, rule, merge_method="linear")
    assert written_and_read(tmp_path, recipe).overrides == (rule,)
    assert "tokenizer" not in (tmp_path / "out.yaml").read_text()


def test_the_tokenizer_of_an_expert_is_written(tmp_path: Path) -> None:
    recipe = ours(tmp_path, tokenizer="b", parameters=TIES)
    assert written_and_read(tmp_path, recipe).tokenizer == "b"


TASKS: dict[str, dict[str, Any]] = {
    "language": {"architectures": ["LlamaForCausalLM"]},
    "named": {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "no"}},
    "other": {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "cat"}},
    "unnamed": {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}},
}


@pytest.mark.parametrize(
    ("tasks", "heads", "noted"),
    [
        (("named", "other"), Heads.AUTO, True),
        (("unnamed", "unnamed"), Heads.AUTO, True),
        (("named", "language"), Heads.AUTO, True),
        (("named", "named"), Heads.AUTO, False),
        (("language", "language"), Heads.AUTO, False),
        (("named", "other"), Heads.MERGE, False),
    ],
)
def test_heads_that_mergekit_would_merge_are_noted(
    tmp_path: Path, tasks: tuple[str, str], heads: Heads, noted: bool
) -> None:
    for name, task in zip("ab", tasks, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(TASKS[task]))
    text = dump_mergekit(ours(tmp_path, heads=heads), TIES, tmp_path)
    assert ("heads" in text.partition("merge_method")[0]) is noted
