"""mergekit's files as recipes, and recipes as mergekit's files."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from ace_gui.errors import RecipeError
from ace_gui.methods import checked_parameters, get_method
from ace_gui.methods.model_stock import ModelStockParameters, model_stock
from ace_gui.recipe import Recipe
from ace_gui.recipe.mergekit.writing import dump_mergekit
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe
from ace_gui.recipe.values import Vocabulary

BLOCKS = 5
CASES: dict[str, dict[str, Any]] = yaml.safe_load("""
one density:
  theirs:
    merge_method: ties
    base_model: base
    models: [base, {model: a, parameters: {weight: 0.5}}, b]
    parameters: {density: 0.3, lambda: 0.9}
    out_dtype: bfloat16
  ours:
    merge_method: ties
    models: [{model: a, parameters: {weight: 0.5}}, b]
    parameters: {density: 0.3, trim: tensor, scaling: 0.9, combine: mean, balanced: positive}
    out_dtype: bfloat16
the same density for each model:
  theirs:
    merge_method: ties
    base_model: base
    models: [{model: a, parameters: {density: 0.4}}, {model: b, parameters: {density: 0.4}}]
  ours:
    merge_method: ties
    models: [a, b]
    parameters: {density: 0.4, trim: tensor, scaling: 1.0, combine: mean, balanced: positive}
a density for each model:
  theirs:
    merge_method: ties
    base_model: base
    models:
    - {model: a, parameters: {density: [0.5, 0.5, 1.0]}}
    - {model: b, parameters: {density: [{filter: mlp, value: 0.5}, {value: 0.25}]}}
  ours:
    merge_method: ties
    models: [a, b]
    parameters: {density: 0.5, trim: tensor, scaling: 1.0, combine: mean, balanced: positive}
    overrides:
    - {pattern: '*', experts: {a: {density: 0.5}, b: {density: 0.25}}}
    - {blocks: 3, experts: {a: {density: 0.75}}}
    - {blocks: 4, experts: {a: {density: 1.0}}}
    - {pattern: '*mlp*', experts: {b: {density: 0.5}}}
a gradient:
  theirs:
    merge_method: task_arithmetic
    base_model: base
    models: [{model: a, parameters: {weight: [0.0, 1.0]}}, {model: b, parameters: {weight: 0.5}}]
  ours: &gradient
    merge_method: task_arithmetic
    models: [{model: a, parameters: {weight: 0.0}}, {model: b, parameters: {weight: 0.5}}]
    parameters: {scaling: 1.0, normalize: false}
    overrides:
    - {blocks: 1, weights: {a: 0.25}}
    - {blocks: 2, weights: {a: 0.5}}
    - {blocks: 3, weights: {a: 0.75}}
    - {blocks: 4, weights: {a: 1.0}}
gradients by filters:
  theirs:
    merge_method: task_arithmetic
    base_model: base
    models: [a]
    parameters: {lambda: [{filter: mlp, value: [0.5, 0.25, 0.25]}, {value: 1.0}]}
  ours:
    merge_method: task_arithmetic
    models: [a]
    parameters: {scaling: 1.0, normalize: false}
    overrides:
    - {pattern: '*mlp*', parameters: {scaling: 0.5}}
    - {pattern: '*mlp*', blocks: 1, parameters: {scaling: 0.375}}
    - {pattern: '*mlp*', blocks: 2-4, parameters: {scaling: 0.25}}
one slice of all blocks:
  theirs:
    merge_method: task_arithmetic
    base_model: base
    slices:
    - sources:
      - {model: a, layer_range: [0, 5], parameters: {weight: [0.0, 1.0]}}
      - {model: b, layer_range: [0, 5], parameters: {weight: 0.5}}
  ours: *gradient
of filters the first counts and here the last:
  theirs:
    merge_method: task_arithmetic
    base_model: base
    models:
    - model: a
      parameters:
        weight: [{filter: q_proj, value: 0.1}, {filter: attn, value: 0.2}]
    parameters: {weight: 0.7}
  ours:
    merge_method: task_arithmetic
    models: [{model: a, parameters: {weight: 0.7}}]
    parameters: {scaling: 1.0, normalize: false}
    overrides:
    - {pattern: '*attn*', weights: {a: 0.2}}
    - {pattern: '*q_proj*', weights: {a: 0.1}}
averages without a base are of changes to the first:
  theirs: {merge_method: linear, models: [{model: a, parameters: {weight: 3}}, b]}
  ours:
    merge_method: linear
    base_model: a
    models: [b]
    parameters: {base_weight: 3.0, normalize: true}
a part of the blocks:
  theirs:
    merge_method: task_arithmetic
    base_model: base
    slices:
    - sources: [{model: base, layer_range: [0, 3]}, {model: a, layer_range: [0, 3]}]
  ours:
    merge_method: task_arithmetic
    models: [a]
    parameters: {scaling: 1.0, normalize: false}
    slices: [{sources: [{model: base, layers: [0, 3]}, {model: a, layers: [0, 3]}]}]
blocks of other numbers:
  theirs:
    merge_method: slerp
    base_model: base
    slices:
    - sources: [{model: base, layer_range: [1, 4]}, {model: a, layer_range: [0, 3]}]
      parameters: {t: [{filter: mlp, value: 0.2}, {value: 0.8}]}
  ours:
    merge_method: base_slerp
    models: [a]
    parameters: {t: 0.8}
    slices:
    - sources: [{model: base, layers: [1, 4]}, {model: a, layers: [0, 3]}]
      overrides: [{pattern: '*mlp*', parameters: {t: 0.2}}]
settings of slices count from near to far:
  theirs:
    merge_method: task_arithmetic
    base_model: base
    slices:
    - sources:
      - {model: base, layer_range: [0, 2]}
      - {model: a, layer_range: [0, 2], parameters: {weight: 0.3}}
    - sources:
      - {model: b, layer_range: [1, 4]}
      - {model: base, layer_range: [1, 4]}
      - {model: a+x, layer_range: [0, 3], parameters: {weight: 1.0}}
      parameters: {weight: [0, 1], lambda: 0.5}
    parameters: {weight: 0.7}
  ours:
    merge_method: task_arithmetic
    models: [a, b, {model: x, 'on': a}]
    parameters: {scaling: 1.0, normalize: false}
    slices:
    - sources: [{model: base, layers: [0, 2]}, {model: a, layers: [0, 2]}]
      overrides: [{pattern: '*', weights: {a: 0.3}}]
    - sources:
      - {model: base, layers: [1, 4]}
      - {model: b, layers: [1, 4]}
      - {model: a, adapter: x, layers: [0, 3]}
      overrides:
      - {pattern: '*', parameters: {scaling: 0.5}}
      - {pattern: '*', weights: {b: 0.0}}
      - {blocks: 3, weights: {b: 0.5}}
      - {blocks: 4, weights: {b: 1.0}}
gradients within a slice:
  theirs:
    merge_method: task_arithmetic
    base_model: base
    slices:
    - sources:
      - {model: base, layer_range: [0, 3]}
      - {model: a, layer_range: [0, 3], parameters: {weight: 0.25}}
    - sources:
      - {model: base, layer_range: [1, 6]}
      - {model: a, layer_range: [0, 5], parameters: {weight: [0, 1, 0.5]}}
      - {model: b, layer_range: [1, 6]}
      parameters:
        lambda: [0.125, 0.875, 0.5]
        weight:
        - {filter: attn, value: [0, 0.5, 1]}
        - {filter: mlp, value: [1, 0]}
        - {value: 0.5}
densities within a slice of one block:
  theirs:
    merge_method: ties
    base_model: base
    slices:
    - sources:
      - {model: base, layer_range: [3, 4]}
      - {model: a, layer_range: [3, 4], parameters: {density: [0.9, 0.3]}}
      - {model: b, layer_range: [3, 4]}
      parameters: {density: 0.5, weight: 1}
slices without a base:
  theirs:
    merge_method: linear
    slices:
    - sources:
      - {model: a, layer_range: [0, 3], parameters: {weight: 1.0}}
      - {model: b, layer_range: [0, 3], parameters: {weight: 2.0}}
    - sources:
      - {model: b, layer_range: [0, 3], parameters: {weight: 0.25}}
      - {model: a, layer_range: [2, 5], parameters: {weight: 0.5}}
passthrough multiplies by its scale:
  theirs:
    merge_method: passthrough
    slices:
    - sources: [{model: base, layer_range: [0, 4]}]
    - sources: [{model: a, layer_range: [2, 4], parameters: {scale: 0.5}}]
    - sources:
      - model: base
        layer_range: [2, 4]
        parameters: {scale: [{filter: o_proj, value: 0.0}, {value: 1.0}]}
  ours:
    merge_method: linear
    models: [a]
    parameters: {base_weight: 1.0, normalize: false}
    slices:
    - {sources: [{model: base, layers: [0, 4]}]}
    - sources: [{model: a, layers: [2, 4]}]
      overrides: [{pattern: '*', parameters: {base_weight: 0.5}}]
    - sources: [{model: base, layers: [2, 4]}]
      overrides: [{pattern: '*o_proj*', parameters: {base_weight: 0.0}}]
a base with an adapter:
  theirs:
    merge_method: task_arithmetic
    base_model: base+x
    models: [base+x, base, base+y]
  ours:
    merge_method: task_arithmetic
    adapter: x
    models: [base, {model: y, 'on': base}]
    parameters: {scaling: 1.0, normalize: false}
adapters on the base are experts:
  theirs:
    merge_method: task_arithmetic
    base_model: base
    models:
    - base
    - {model: base+x, parameters: {weight: 0.5}}
    - {model: {model: base, lora: y}, parameters: {weight: 2.0}}
  ours:
    merge_method: task_arithmetic
    models: [{model: x, parameters: {weight: 0.5}}, {model: y, parameters: {weight: 2.0}}]
    parameters: {scaling: 1.0, normalize: false}
without a base that of the first adapter is it:
  back: false
  theirs: {merge_method: linear, models: [b+x, b+y]}
  ours:
    merge_method: linear
    base_model: b
    models: [x, y]
    parameters: {base_weight: 0.0, normalize: true}
a mean on the sphere of whole weights:
  theirs: {merge_method: karcher, models: [a, b]}
  ours: &karcher
    merge_method: karcher
    base_model: a
    models: [b]
    parameters: {iterations: 10, tolerance: 1.0e-5, points: weights, base_weight: 1.0}
a mean on the sphere of whole weights, the base's too:
  theirs: {merge_method: karcher, base_model: a, models: [b]}
  ours: *karcher
a weighted mean on the sphere of whole weights:
  theirs: {merge_method: multislerp, models: [{model: a, parameters: {weight: 0.5}}, b]}
  ours:
    merge_method: multislerp
    base_model: a
    models: [b]
    parameters: {normalize: true, points: weights, base_weight: 0.5}
a weighted mean on the sphere of changes:
  theirs: {merge_method: multislerp, base_model: base, models: [a, b]}
  ours: {merge_method: multislerp, models: [a, b], parameters: {normalize: true}}
vocabularies of the base:
  theirs: {merge_method: task_arithmetic, base_model: base, models: [a], tokenizer_source: base}
  ours: &tokens
    merge_method: task_arithmetic
    models: [a]
    parameters: {scaling: 1.0, normalize: false}
    vocabulary: base_tokens
vocabularies of the base, as a mapping:
  theirs: {merge_method: task_arithmetic, base_model: base, models: [a], tokenizer: {source: base}}
  ours: *tokens
a union of vocabularies:
  theirs: {merge_method: task_arithmetic, base_model: base, models: [a], tokenizer_source: union}
  ours: &union
    merge_method: task_arithmetic
    models: [a]
    parameters: {scaling: 1.0, normalize: false}
    tokenizer: union
a union of vocabularies, unsaid:
  theirs: {merge_method: task_arithmetic, base_model: base, models: [a], tokenizer: {}}
  ours: *union
the tokenizer of an expert:
  theirs: {merge_method: task_arithmetic, base_model: base, models: [a, b], tokenizer_source: b}
  ours: &expert
    merge_method: task_arithmetic
    models: [a, b]
    parameters: {scaling: 1.0, normalize: false}
    tokenizer: b
the tokenizer of an expert, as a mapping:
  theirs:
    merge_method: task_arithmetic
    base_model: base
    models: [a, b]
    tokenizer: {source: {model: b}}
  ours: *expert
a token from any model, which mergekit alone finds by itself:
  back: false
  theirs:
    {merge_method: task_arithmetic, base_model: base, models: [a], tokenizer: {tokens: {<x>: {}}}}
  ours:
    merge_method: task_arithmetic
    models: [a]
    parameters: {scaling: 1.0, normalize: false}
    tokenizer: union
    tokens: {<x>: {}}
single tokens and padding:
  theirs:
    merge_method: task_arithmetic
    base_model: base
    models: [a, b]
    tokenizer:
      source: base
      tokens:
        <t>: {source: a}
        <u>: {source: {kind: model_token, model: base, token: x}, force: true}
        <v>: {source: {kind: model_token, model: {model: b}, token_id: 0}}
        <w>: {source: {kind: zero}}
      pad_to_multiple_of: 8
  ours:
    merge_method: task_arithmetic
    models: [a, b]
    parameters: {scaling: 1.0, normalize: false}
    vocabulary: base_tokens
    tokens:
      <t>: {model: a}
      <u>: {model: base, token: x, force: true}
      <v>: {model: b, token_id: 0}
      <w>: {zero: true}
    pad_to_multiple_of: 8
""")
"""Files of mergekit, and the recipe that each of them is. A model is a name or an entry."""


def _entries(document: dict[str, Any]) -> dict[str, Any]:
    """The document with an entry for each model."""
    models = document.get("models")
    listed = [m if isinstance(m, dict) else {"model": m} for m in models or ()]
    return document if models is None else {**document, "models": listed}


def read(folder: Path, document: dict[str, Any]) -> Recipe:
    """A file of mergekit, over models of five blocks."""
    for name in ("base", "a", "b"):
        (folder / name).mkdir(exist_ok=True)
        config = {"num_hidden_layers": BLOCKS, "dtype": "bfloat16"}
        (folder / name / "config.json").write_text(json.dumps(config))
    path = folder / "mergekit.yaml"
    path.write_text(json.dumps({"dtype": "float32", **_entries(document)}))  # which is YAML, too
    return load_recipe(path)


def ours(folder: Path, **keys: Any) -> Recipe:
    """A recipe of ours for ``base``, ``a`` and ``b``, of which the last counts half."""
    half = {"model": "b", "parameters": {"weight": 0.5}}
    defaults = {"schema": 1, "out_dtype": "float32", "base_model": "base", "models": ["a", half]}
    (folder / "ours.yaml").write_text(yaml.safe_dump(_entries({**defaults, **keys})))
    return load_recipe(folder / "ours.yaml")


def get_parameters(recipe: Recipe) -> dict[str, Any]:
    """Every parameter of the recipe's method."""
    return asdict(checked_parameters(get_method(recipe.merge_method), recipe.parameters))


def written(folder: Path, recipe: Recipe) -> str:
    return dump_mergekit(recipe, get_parameters(recipe), folder, get_parameters)


def written_and_read(folder: Path, recipe: Recipe) -> Recipe:
    (folder / "out.yaml").write_text(written(folder, recipe))
    return load_recipe(folder / "out.yaml")


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_this_recipe_and_comes_back(tmp_path, name: str):
    case = CASES[name]
    recipe = read(tmp_path, case["theirs"])
    assert recipe.notes == ()
    if "ours" in case:
        assert recipe == ours(tmp_path, **case["ours"])
    (tmp_path / "saved.yaml").write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(tmp_path / "saved.yaml") == recipe
    if not case.get("back", True):
        return
    back = written_and_read(tmp_path, recipe)
    assert (back.base_model, back.models) == (recipe.base_model, recipe.models)
    assert get_parameters(back) == get_parameters(recipe)
    assert (back.overrides, back.slices) == (recipe.overrides, recipe.slices)
    assert (back.vocabulary, back.tokens, back.tokenizer) == (
        recipe.vocabulary, recipe.tokens, recipe.tokenizer,
    )  # fmt: skip
    text = yaml.safe_load((tmp_path / "out.yaml").read_text())
    assert text["merge_method"] == case["theirs"]["merge_method"]


def test_a_gradient_is_written_as_short_as_it_was(tmp_path):
    recipe = read(tmp_path, CASES["a gradient"]["theirs"])
    text = yaml.safe_load(written(tmp_path, recipe))
    assert text["models"][0]["parameters"]["weight"] == [0, 1]


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
def test_references_to_models(tmp_path, reference: Any, model: str, on: str | None, notes: int):
    (tmp_path / "x").mkdir()
    models = [{"model": reference}]
    recipe = read(
        tmp_path, {"merge_method": "task_arithmetic", "base_model": "base", "models": models}
    )
    (entry,) = recipe.models
    assert (entry.model, entry.on) == (tmp_path / model, on and tmp_path / on)
    assert len(recipe.notes) == notes


def weighted(first: object, second: object = 1) -> dict[str, Any]:
    values = {"a": first, "b": second}
    return {"models": [{"model": n, "parameters": {"weight": w}} for n, w in values.items()]}


SLICE = {"sources": [{"model": "a"}]}


@pytest.mark.parametrize(
    ("document", "key", "words"),
    [
        ({"merge_method": "passthrough"}, "slices", "one model"),
        ({"merge_method": "ties", "parameters": {"density": "x"}}, "density", "not x"),
        (weighted(float("inf")), "weight", "finite"),
        (weighted(True), "weight", "finite"),
        (weighted([0.1, "x"]), "weight", "finite"),
        (weighted([]), "weight", "empty"),
        ({"merge_method": "slerp", "parameters": {"t": 0.5}}, "models", "schema: 1"),
        ({"merge_method": "nearswap", "parameters": {"t": 0.5}}, "models", "one other model"),
        ({"merge_method": "ranked_ties"}, "merge_method", "ranked_ties"),
        ({"models": ["a+x+y"]}, "models[0].model", "one adapter"),
        ({"out_dtype": "int8"}, "out_dtype", "int8"),
        ({"modules": {"text": {}, "vision": {}}}, "modules", "modules"),
        ({"slices": [SLICE, SLICE]}, "slices", "'models' and 'slices'"),
        ({"models": None, "slices": [SLICE, SLICE]}, "base_model", "slice 0"),
        ({"paramters": {}}, "paramters", "parameters"),
        ({"tokenizer": {"tokens": {"<t>": {"source": "z"}}}}, "tokenizer_source", "z"),
        ({"tokenizer": {"pad_to_multiple_of": 0}}, "tokenizer.pad_to_multiple_of", "0"),
        ({"tokenizer": {}, "tokenizer_source": "base"}, "tokenizer", "'tokenizer_source'"),
        ({"tokenizer_source": "z"}, "tokenizer_source", "z"),
        ({"chat_template": "unknown"}, "chat_template", "unknown"),
    ],
)
def test_what_cannot_be_translated_is_named(
    tmp_path, document: dict[str, Any], key: str, words: str
):
    defaults = {"merge_method": "task_arithmetic", "base_model": "base", "models": ["a", "b"]}
    with pytest.raises(RecipeError) as caught:
        read(
            tmp_path, {n: value for n, value in (defaults | document).items() if value is not None}
        )
    assert caught.value.key == key
    assert words in caught.value.sentence
    assert caught.value.path == tmp_path / "mergekit.yaml"


@pytest.mark.parametrize("where", ["source", "slice", "file"])
@pytest.mark.parametrize(
    ("name", "first", "refused"),
    [("density", 1, True), ("weight", 1, True), ("density", 0, False), ("lambda", 1, False)],
)
def test_filters_with_numbers_are_refused_where_a_model_has_others(
    tmp_path, where: str, name: str, first: int, refused: bool
):
    """mergekit looks up a model's settings by its own tensors' names, others by the output's."""
    settings = {name: [{"filter": "layers.1.", "value": 0.5}, {"value": 1.0}]}
    model: dict[str, Any] = {"model": "a", "layer_range": [first, first + 2]}
    part: dict[str, Any] = {"sources": [{"model": "base", "layer_range": [0, 2]}, model]}
    document = {"merge_method": "dare_linear", "base_model": "base", "slices": [part]}
    {"source": model, "slice": part, "file": document}[where]["parameters"] = settings
    if refused or (where, first) == ("source", 1):
        with pytest.raises(RecipeError, match="gradient instead") as caught:
            read(tmp_path, document)
        assert caught.value.key == name
    else:
        assert read(tmp_path, document).models


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
def test_errors_about_a_file_are_true_of_it(tmp_path, text: str, words: list[str]):
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert all(word in caught.value.sentence for word in words), caught.value.sentence
    strange = ("schema", "split_fused", "not valid YAML", "is missing", "other than the base")
    assert not any(word in caught.value.sentence for word in strange)


@pytest.mark.parametrize(
    ("text", "vocabulary"),
    [("base", Vocabulary.BASE_TOKENS), ("union", Vocabulary.UNION), ("a", Vocabulary.POSITION)],
)
def test_the_tokenizer_of_an_own_recipe(tmp_path, text: str, vocabulary: Vocabulary):
    assert ours(tmp_path, tokenizer=text).vocabulary is vocabulary
    with pytest.raises(RecipeError, match="contradict"):
        ours(tmp_path, tokenizer=text, vocabulary="tokens")


def test_model_stock_speaks_of_tensors_after_the_merge(tmp_path):
    """Its notes are those of the tensors of which they are true."""
    document = {"merge_method": "model_stock", "base_model": "base", "models": ["a", "b"]}
    recipe = read(tmp_path, document)
    assert (recipe.merge_method, recipe.notes) == ("model_stock", ())
    change = torch.eye(2)[0]
    deltas = [change, -change, torch.zeros(2)]
    said = model_stock(deltas, [1.0] * 3, ModelStockParameters()).diagnostics
    assert "left out" in " ".join(said.notes)
    assert "stays as in the base" in " ".join(said.notes)


def test_what_is_lost_is_noted(tmp_path):
    models = [{"model": "a", "parameters": {"density": 0.5}}]
    recipe = read(
        tmp_path, {"merge_method": "task_arithmetic", "base_model": "base", "models": models}
    )
    assert len(recipe.notes) == 1
    assert "density" in recipe.notes[0]


@pytest.mark.parametrize("method", ["ties", "breadcrumbs", "dare_linear", "della"])
@pytest.mark.parametrize("rescale", [None, True, False])
def test_rescaling_is_by_norm_or_none(tmp_path, method: str, rescale: bool | None):
    document = {"merge_method": method, "base_model": "base", **weighted(-0.5)}
    document["parameters"] = {} if rescale is None else {"rescale": rescale}
    recipe = read(tmp_path, document)
    on = method in ("dare_linear", "della") if rescale is None else rescale
    assert recipe.parameters.get("rescale", "none") == ("by norm" if on else "none")
    if method in ("ties", "della"):
        assert recipe.parameters["combine"] == "signed mean"
    back = written_and_read(tmp_path, recipe)
    assert back.parameters.get("rescale", "none") == get_parameters(recipe)["rescale"]


TIES = {"density": 0.2, "trim": "tensor", "combine": "mean", "balanced": "positive"}


def test_a_difference_that_stays_is_said_in_the_head_of_the_file(tmp_path):
    text = written(
        tmp_path, ours(tmp_path, merge_method="ties", parameters={**TIES, "trim": "model"})
    )
    assert text.startswith("# mergekit keeps the largest entries of each tensor")
    ties = ours(tmp_path, merge_method="ties", parameters=TIES)
    assert not written(tmp_path, ties).startswith("#")


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"merge_method": "ace"}, "merge_method"),
        ({"scope": "authors-gpt2"}, "scope"),
        ({"split_fused": True}, "split_fused"),
        ({"after": {"scale": 2}}, "after"),
        ({"rank": 2}, "output"),
        ({"heads": "keep"}, "heads"),
        ({"poolers": "keep"}, "poolers"),
        ({"vocabulary": "tokens"}, "vocabulary"),
        ({"vocabulary": "base"}, "vocabulary"),
        ({"tokens": {"<t>": {"token": "x"}}}, "tokens.<t>"),
        ({"overrides": [{"role": "query", "weights": {"a": 0.0}}]}, "overrides[0]"),
        ({"overrides": [{"pattern": "*x*", "merge_method": "ace"}]}, "overrides[0].merge_method"),
        ({"overrides": [{"pattern": "*x*", "after": {"scale": 2}}]}, "overrides[0].after"),
        ({"overrides": [{"blocks": "0", "weights": {"a": 0.5}}]}, "overrides[0]"),
        ({"overrides": [{"blocks": "1", "role": "query", "weights": {"a": 1}}]}, "overrides[0]"),
        ({"slices": [{"sources": [{"model": "nowhere"}]}]}, "slices"),
    ],
)
def test_what_mergekit_cannot_express_is_named(tmp_path, keys: dict[str, Any], key: str):
    read(tmp_path, CASES["a gradient"]["theirs"])
    recipe = ours(tmp_path, **{"merge_method": "ties", **keys})
    with pytest.raises(RecipeError) as caught:
        written(tmp_path, recipe)
    assert caught.value.key == key
    assert "Source(" not in caught.value.sentence


def test_an_adapter_in_a_slice_is_written_with_the_base_it_is_on(tmp_path):
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "adapter_config.json").write_text("{}")
    part = {"sources": [{"model": name, "layers": [0, 6]} for name in ("base", "tuned")]}
    recipe = ours(tmp_path, merge_method="linear", models=["tuned"], slices=[part])
    text = yaml.safe_load(written(tmp_path, recipe))
    assert [source["model"] for source in text["slices"][0]["sources"]] == ["base", "base+tuned"]


def test_tokens_that_the_base_lacks_are_noted(tmp_path):
    keys = {"merge_method": "linear", "tokens": {"<t>": {"model": "a"}}}
    assert "lacks" in written(tmp_path, ours(tmp_path, **keys, tokenizer="base"))
    assert "lacks" not in written(tmp_path, ours(tmp_path, **keys, tokenizer="union"))


def test_stages_come_back_from_mergekits_file(tmp_path):
    stage = {"merge_method": "linear", **weighted(1, 2)}
    last = {"merge_method": "ties", "base_model": "base", "models": [{"model": "first"}]}
    path = tmp_path / "stages.yaml"
    path.write_text(yaml.safe_dump_all([{"name": "first", **stage}, last]))
    recipe = load_recipe(path)
    back = written_and_read(tmp_path, recipe)
    assert [stage.models for stage in back.stages.values()] == [
        stage.models for stage in recipe.stages.values()
    ]
    names = [stage.get("name") for stage in yaml.safe_load_all((tmp_path / "out.yaml").read_text())]
    assert names == ["first", None]
    with pytest.raises(RecipeError, match="ace-gui mergekit"):
        dump_mergekit(recipe, get_parameters(recipe), tmp_path)


def test_the_base_s_own_weight_in_a_rule_comes_back(tmp_path):
    rule = {"pattern": "*mlp*", "parameters": {"base_weight": 0.5}}
    recipe = ours(tmp_path, merge_method="linear", overrides=[rule])
    assert written_and_read(tmp_path, recipe).overrides == recipe.overrides
    assert "tokenizer" not in (tmp_path / "out.yaml").read_text()


def head(labels: str | None) -> dict[str, Any]:
    if labels is None:
        return {"architectures": ["LlamaForCausalLM"]}
    return {"architectures": ["BertForSequenceClassification"], "id2label": {"0": labels}}


@pytest.mark.parametrize(
    ("labels", "heads", "noted"),
    [
        (("no", "cat"), "auto", True),
        (("LABEL_0", "LABEL_0"), "auto", True),
        (("no", None), "auto", True),
        (("no", "no"), "auto", False),
        ((None, None), "auto", False),
        (("no", "cat"), "merge", False),
    ],
)
def test_heads_that_mergekit_would_merge_are_noted(
    tmp_path, labels: tuple[str | None, str | None], heads: str, noted: bool
):
    for name, label in zip("ab", labels, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(head(label)))
    text = written(tmp_path, ours(tmp_path, merge_method="ties", parameters=TIES, heads=heads))
    assert ("heads" in text.partition("merge_method")[0]) is noted
