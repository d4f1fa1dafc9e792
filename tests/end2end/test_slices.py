"""Models made of blocks of others: the tensors, the config, and that transformers runs them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

import ace_gui
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import MismatchError, RecipeError
from ace_gui.recipe import Override
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.adapters import factors, save_adapter

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 96,
    "max_position_embeddings": 32,
}


def make(folder: Path, kind: str, seed: int, blocks: int = 4, **more: Any) -> Path:
    torch.manual_seed(seed)
    config = {
        "qwen3": transformers.Qwen3Config,
        "gemma3": transformers.Gemma3TextConfig,
        "llama": transformers.LlamaConfig,
    }[kind](num_hidden_layers=blocks, **SMALL, **more)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def merged(folder: Path, **document: Any) -> Path:
    path = folder / "mergekit.yaml"
    path.write_text(json.dumps({"dtype": "float32", **document}))
    out = folder / "out"
    for _ in merge_to_folder(load_recipe(path), out, Options()):
        pass
    return out


def source_of(model: str, first: int, end: int, **parameters: Any) -> dict[str, Any]:
    return {"model": model, "layer_range": [first, end], "parameters": parameters}


def tensors(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def adapter(folder: Path) -> Tensor:
    """An adapter of one matrix; returns its change."""
    module = "model.layers.1.self_attn.q_proj"
    a, b = (pair := factors(module, 32, 32)).values()
    save_adapter(folder, pair)
    return 4.0 * b @ a


def block(name: str, number: int) -> str:
    return name.replace("layers.0.", f"layers.{number}.")


def require_loads(folder: Path) -> Any:
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True
    )
    assert not loading["missing_keys"], loading
    assert not loading["unexpected_keys"], loading
    with torch.no_grad():
        answer = model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=4, do_sample=False)
    assert answer.shape[1] > 3
    return model


@pytest.mark.parametrize("kind", ["qwen3", "gemma3", "llama"])
def test_stacked_blocks_of_two_models(tmp_path: Path, kind: str) -> None:
    types = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
    more: dict[str, Any] = {} if kind == "llama" else {"layer_types": types, "sliding_window": 8}
    more |= {"use_sliding_window": True} if kind == "qwen3" else {}
    for seed, name in enumerate("ab"):
        make(tmp_path / name, kind, seed, **more)
    out = merged(
        tmp_path,
        merge_method="passthrough",
        slices=[{"sources": [source_of("a", 0, 3)]}, {"sources": [source_of("b", 1, 4)]}],
    )
    model = require_loads(out)
    a, b, output = (tensors(folder) for folder in (tmp_path / "a", tmp_path / "b", out))
    assert model.config.num_hidden_layers == 6
    if more:
        assert model.config.layer_types == [*types[:3], *types[1:]]
    name = "model.layers.0.mlp.up_proj.weight"
    for new, (source, old) in enumerate([(a, 0), (a, 1), (a, 2), (b, 1), (b, 2), (b, 3)]):
        assert torch.equal(output[block(name, new)], source[block(name, old)])
    assert torch.equal(output["model.embed_tokens.weight"], a["model.embed_tokens.weight"])
    assert torch.equal(output["model.norm.weight"], b["model.norm.weight"])
    tied = "lm_head.weight" not in a
    head = b["model.embed_tokens.weight" if tied else "lm_head.weight"]
    assert torch.equal(output["lm_head.weight"], head)
    assert model.config.tie_word_embeddings is False


def test_a_repeated_range_whose_outputs_are_scaled_to_zero_does_nothing(tmp_path: Path) -> None:
    make(tmp_path / "a", "llama", 0, tie_word_embeddings=True)
    scale = [
        {"filter": "o_proj", "value": 0.0},
        {"filter": "down_proj", "value": 0.0},
        {"value": 1.0},
    ]
    out = merged(
        tmp_path,
        merge_method="passthrough",
        slices=[
            {"sources": [source_of("a", 0, 4)]},
            {"sources": [source_of("a", 2, 4, scale=scale)]},
        ],
    )
    model = require_loads(out)
    assert model.config.num_hidden_layers == 6
    assert model.config.tie_word_embeddings is False  # the two slices have different settings
    before = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "a")
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        assert torch.allclose(model(ids).logits, before(ids).logits, atol=1e-5)
    assert not tensors(out)["model.layers.5.mlp.down_proj.weight"].any()


def test_a_rule_with_a_method_of_its_own_is_in_the_output_s_recipe(tmp_path: Path) -> None:
    """Other tensors have rules of their slices alone."""
    for seed, name in enumerate("ab"):
        make(tmp_path / name, "llama", seed)
    path = tmp_path / "mergekit.yaml"
    sources = [source_of("a", 0, 2, weight=0.5), source_of("b", 0, 2, weight=0.3)]
    slices = [{"sources": sources}, {"sources": [source_of("b", 2, 4), source_of("a", 2, 4)]}]
    path.write_text(json.dumps({"merge_method": "linear", "dtype": "float32", "slices": slices}))
    rule = Override(role="query", merge_method="task_arithmetic")
    recipe = replace(load_recipe(path), overrides=(rule,))
    for _ in merge_to_folder(recipe, tmp_path / "out", Options()):
        pass
    assert load_recipe(tmp_path / "out" / "merge_recipe.yaml").overrides == (rule,)


def test_heads_stay_tied_where_both_ends_are_one_model(tmp_path: Path) -> None:
    make(tmp_path / "a", "llama", 0, tie_word_embeddings=True)
    parts = [{"sources": [source_of("a", 0, 2)]}, {"sources": [source_of("a", 1, 4)]}]
    out = merged(tmp_path, merge_method="passthrough", slices=parts)
    assert require_loads(out).config.tie_word_embeddings is True
    assert "lm_head.weight" not in tensors(out)


def test_one_model_is_copied_bit_by_bit(tmp_path: Path) -> None:
    make(tmp_path / "a", "llama", 0)
    path = tmp_path / "file.yaml"
    path.write_text("merge_method: passthrough\nmodels: [{model: a}]\n")
    for _ in merge_to_folder(load_recipe(path), tmp_path / "out", Options()):
        pass
    a = tensors(tmp_path / "a")
    output = tensors(tmp_path / "out")
    assert a.keys() == output.keys()
    assert all(torch.equal(a[name].view(torch.int32), output[name].view(torch.int32)) for name in a)


def test_a_scale_of_everything(tmp_path: Path) -> None:
    make(tmp_path / "a", "llama", 0)
    out = merged(
        tmp_path,
        merge_method="passthrough",
        models=[{"model": "a"}],
        parameters={"scale": [0.5, 1.0]},
    )
    a = tensors(tmp_path / "a")
    output = tensors(out)
    name = "model.layers.0.self_attn.q_proj.weight"
    for number, factor in enumerate([0.5, 2 / 3, 5 / 6, 1.0]):
        expected = factor * a[block(name, number)]
        assert torch.allclose(output[block(name, number)], expected, atol=1e-7)
    assert torch.allclose(output["model.embed_tokens.weight"], 0.5 * a["model.embed_tokens.weight"])


def test_slices_are_merged_by_the_method(tmp_path: Path) -> None:
    """Other blocks of other models than those of the base, with weights of their slice."""
    for seed, name in enumerate("abc"):
        make(tmp_path / name, "llama", seed, blocks=3)
    out = merged(
        tmp_path,
        merge_method="linear",
        slices=[
            {"sources": [source_of("a", 0, 2, weight=1.0), source_of("b", 1, 3, weight=3.0)]},
            {
                "sources": [
                    source_of("b", 2, 3, weight=1.0),
                    source_of("c", 0, 1, weight=[9.0, 1.0]),
                ]
            },
        ],
    )
    require_loads(out)
    a, b, c, output = (tensors(tmp_path / name) for name in ("a", "b", "c", "out"))
    name = "model.layers.0.self_attn.q_proj.weight"
    for new, expected in enumerate(
        [
            0.25 * a[block(name, 0)] + 0.75 * b[block(name, 1)],
            0.25 * a[block(name, 1)] + 0.75 * b[block(name, 2)],
            0.5 * b[block(name, 2)] + 0.5 * c[block(name, 0)],  # one block: the last value
        ]
    ):
        assert torch.allclose(output[block(name, new)], expected, atol=1e-6)
    first = "model.embed_tokens.weight"
    assert torch.allclose(output[first], 0.25 * a[first] + 0.75 * b[first], atol=1e-6)
    last = "model.norm.weight"
    assert torch.allclose(output[last], 0.1 * b[last] + 0.9 * c[last], atol=1e-6)


def test_the_output_of_slices_is_merged_again_by_its_recipe(tmp_path: Path) -> None:
    for seed, name in enumerate("ab"):
        make(tmp_path / name, "llama", seed)
    sources = [source_of("a", 0, 3), source_of("b", 1, 4)]
    out = merged(
        tmp_path,
        merge_method="slerp",
        base_model="a",
        parameters={"t": 0.3},
        slices=[{"sources": sources}],
    )
    again = tmp_path / "again"
    for _ in merge_to_folder(load_recipe(out / "merge_recipe.yaml"), again, Options()):
        pass
    first = tensors(out)
    second = tensors(again)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert len(first) > 20


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ([source_of("a", 0, 40), source_of("b", 0, 40)], ["slice 0", "a", "4 blocks"]),
        ([source_of("a", 0, 4), source_of("b", 0, 3)], ["slice 0", "4 of a", "3 of b"]),
        ([source_of("a", 3, 3), source_of("b", 3, 3)], ["slice 0", "[3, 3]"]),
    ],
)
def test_ranges_that_do_not_fit(tmp_path: Path, sources: list[Any], words: list[str]) -> None:
    for seed, name in enumerate("ab"):
        make(tmp_path / name, "llama", seed)
    with pytest.raises(RecipeError) as caught:
        merged(tmp_path, merge_method="linear", slices=[{"sources": sources}])
    for word in words:
        assert word in caught.value.sentence.casefold()


def test_models_of_another_width_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "a", "llama", 0)
    config = transformers.LlamaConfig(num_hidden_layers=4, **{**SMALL, "intermediate_size": 64})
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "b")
    with pytest.raises(MismatchError, match="width"):
        merged(
            tmp_path,
            merge_method="passthrough",
            slices=[{"sources": [source_of("a", 0, 3)]}, {"sources": [source_of("b", 1, 4)]}],
        )


def test_a_pattern_that_can_no_longer_be_expressed(tmp_path: Path) -> None:
    make(tmp_path / "a", "llama", 0)
    file = tmp_path / "a" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "mixed_interval": 2}))
    parts = [{"sources": [source_of("a", 0, 3)]}, {"sources": [source_of("a", 2, 4)]}]
    with pytest.raises(RecipeError, match="mixed_interval"):
        merged(tmp_path, merge_method="passthrough", slices=parts)


def test_an_adapter_on_another_model_than_the_base(tmp_path: Path) -> None:
    """``a+x`` is a with the adapter on it, on any side."""
    for seed, name in enumerate(["base", "a"]):
        make(tmp_path / name, "llama", seed)
    change = adapter(tmp_path / "x")
    models = [{"model": "a+x", "parameters": {"weight": 0.5}}]
    name = "model.layers.1.self_attn.q_proj.weight"
    base = tensors(tmp_path / "base")
    a = tensors(tmp_path / "a")
    out = merged(tmp_path, merge_method="task_arithmetic", base_model="base", models=models)
    expected = base[name] + 0.5 * (a[name] + change - base[name])
    assert torch.allclose(tensors(out)[name], expected, atol=1e-6)
    (tmp_path / "second").mkdir()
    models = [{"model": str(tmp_path / "base"), "parameters": {"weight": 0.5}}]
    out = merged(
        tmp_path / "second",
        merge_method="task_arithmetic",
        base_model=f"{tmp_path / 'a'}+{tmp_path / 'x'}",
        models=models,
    )
    expected = a[name] + change + 0.5 * (base[name] - a[name] - change)
    assert torch.allclose(tensors(out)[name], expected, atol=1e-6)
    assert transformers.AutoModelForCausalLM.from_pretrained(out).config.num_hidden_layers == 4


def test_a_base_with_an_adapter_keeps_its_number_formats(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(num_hidden_layers=2, **SMALL)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    for name in ("base", "a"):
        model.save_pretrained(tmp_path / name)
        model.lm_head.weight.data += 0.5
    adapter(tmp_path / "x")
    path = tmp_path / "own.yaml"
    path.write_text("merge_method: linear\nbase_model: base\nadapter: x\nmodels: [{model: a}]\n")
    for _ in merge_to_folder(load_recipe(path), tmp_path / "out", Options()):
        pass
    output = tensors(tmp_path / "out")
    assert {tensor.dtype for tensor in output.values()} == {torch.bfloat16}
    prepared = prepare(load_recipe(path))
    assert prepared.base.checkpoint.config == json.loads(
        (tmp_path / "base" / "config.json").read_text()
    )


def test_a_slice_of_one_source_is_that_source(tmp_path: Path) -> None:
    for seed, name in enumerate(("base", "a")):
        make(tmp_path / name, "llama", seed)
    pair = [{"model": name, "layers": [0, 2]} for name in ("base", "a")]
    recipe = {
        "schema": 1,
        "merge_method": "linear",
        "base_model": "base",
        "models": [{"model": "a"}],
        "slices": [{"sources": pair[:1]}, {"sources": pair}],
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(recipe))
    ace_gui.inspect(path)
    ace_gui.merge(path, tmp_path / "out", device="cpu")
    base, a, output = (tensors(tmp_path / name) for name in ("base", "a", "out"))
    name = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(output[name], base[name])
    torch.testing.assert_close(output[block(name, 2)], a[name])


def test_a_scaled_slice_of_one_source_can_be_inspected(tmp_path: Path) -> None:
    make(tmp_path / "a", "llama", 0)
    path = tmp_path / "mergekit.yaml"
    document = {"models": [{"model": "a"}], "parameters": {"scale": 0.5}}
    path.write_text(json.dumps({"merge_method": "passthrough", "dtype": "float32", **document}))
    assert not any(layer.energies for layer in ace_gui.inspect(path).layers)
    ace_gui.report(path, tmp_path / "report.html", device="cpu")
