"""Checkpoints without a config: everything is in the names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.architecture.describe import describe
from ace_gui.architecture.names import canonical, match_names
from ace_gui.architecture.scopes import SCOPES, decide
from ace_gui.errors import RecipeError
from tests.architecture.catalogue import fusions, written

Rows = dict[str, tuple[tuple[int, ...], str]]
"""The shape of a tensor, and its traits as ``catalogue`` writes them."""

OPEN_CLIP_BLOCK: Rows = {
    "attn.in_proj_weight": ((96, 32), "query+key+value M"),
    "attn.in_proj_bias": ((96,), "bias -"),
    "attn.out_proj.weight": ((32, 32), "attention output M"),
    "attn.out_proj.bias": ((32,), "bias -"),
    "ln_1.weight": ((32,), "norm -"),
    "ln_1.bias": ((32,), "norm -"),
    "ln_2.weight": ((32,), "norm -"),
    "ln_2.bias": ((32,), "norm -"),
    "mlp.c_fc.weight": ((128, 32), "MLP up M"),
    "mlp.c_fc.bias": ((128,), "bias -"),
    "mlp.c_proj.weight": ((32, 128), "MLP down M"),
    "mlp.c_proj.bias": ((32,), "bias -"),
}
OPEN_CLIP: Rows = {
    "positional_embedding": ((77, 32), "position embedding -"),
    "text_projection": ((32, 32), "other MT"),
    "logit_scale": ((), "other -"),
    "visual.class_embedding": ((32,), "embedding -"),
    "visual.positional_embedding": ((50, 32), "position embedding -"),
    "visual.proj": ((32, 32), "other MT"),
    "visual.conv1.weight": ((32, 3, 32, 32), "convolution -"),
    "visual.ln_pre.weight": ((32,), "norm -"),
    "visual.ln_post.bias": ((32,), "norm -"),
    "token_embedding.weight": ((49408, 32), "embedding -"),
    "ln_final.weight": ((32,), "norm -"),
    "attn_mask": ((77, 77), "buffer -"),
    **{
        f"{tower}transformer.resblocks.{block}.{name}": row
        for tower in ("", "visual.")
        for block in (0, 11)
        for name, row in OPEN_CLIP_BLOCK.items()
    },
}

TIMM: Rows = {
    "cls_token": ((1, 1, 192), "embedding -"),
    "pos_embed": ((1, 197, 192), "position embedding -"),
    "patch_embed.proj.weight": ((192, 3, 16, 16), "convolution -"),
    "patch_embed.proj.bias": ((192,), "bias -"),
    "blocks.3.norm1.weight": ((192,), "norm -"),
    "blocks.3.attn.qkv.weight": ((576, 192), "query+key+value M"),
    "blocks.3.attn.qkv.bias": ((576,), "bias -"),
    "blocks.3.attn.proj.weight": ((192, 192), "attention output M"),
    "blocks.3.mlp.fc1.weight": ((768, 192), "MLP up M"),
    "blocks.3.mlp.fc2.weight": ((192, 768), "MLP down M"),
    "blocks.3.ls1.gamma": ((192,), "other -"),
    "norm.weight": ((192,), "norm -"),
    "fc_norm.weight": ((192,), "norm -"),
    "head.weight": ((1000, 192), "head M"),
    "head.bias": ((1000,), "head -"),
}

PLAIN: Rows = {
    "0.weight": ((16, 3, 5, 5), "convolution -"),
    "0.bias": ((16,), "bias -"),
    "1.weight": ((16,), "norm -"),
    "1.running_mean": ((16,), "buffer -"),
    "1.num_batches_tracked": ((), "buffer -"),
    "fc1.weight": ((120, 400), "other M"),
    "fc1.bias": ((120,), "bias -"),
    "features.conv.weight": ((8, 4, 3), "convolution -"),
    "rnn.weight_ih_l0": ((64, 16), "other M"),
    "rnn.weight_hh_l0_reverse": ((64, 16), "other M"),
    "rnn.bias_hh_l0": ((64,), "bias -"),
    "embedding.weight": ((100, 16), "embedding -"),
    "self_attn.in_proj_weight": ((48, 16), "query+key+value M"),
    "encoder.layers.2.linear1.weight": ((64, 16), "MLP up M"),
    "encoder.layers.2.linear2.weight": ((16, 64), "MLP down M"),
    "encoder.layers.2.self_attn.out_proj.weight": ((16, 16), "attention output M"),
    "temperature": ((2, 2), "other -"),
}

BLOCK = re.compile(r"(?:blocks|layers)\.(\d+)\.")


@pytest.mark.parametrize(
    ("rows", "fused"),
    [
        (
            OPEN_CLIP,
            {
                f"{tower}transformer.resblocks.N.attn.in_proj_weight": "query 32, key 32, value 32"
                for tower in ("", "visual.")
            },
        ),
        (TIMM, {"blocks.N.attn.qkv.weight": "query 192, key 192, value 192"}),
        (PLAIN, {"self_attn.in_proj_weight": "query 16, key 16, value 16"}),
        # Where query, key and value are in these is not for names to tell; halves are halves.
    ],
    ids=["open_clip", "timm", "plain torch"],
)
def test_every_tensor(rows: Rows, fused: dict[str, str]):
    architecture = describe(None, {name: shape for name, (shape, _) in rows.items()})
    assert {name: written(traits) for name, traits in architecture.traits.items()} == {
        name: traits for name, (_, traits) in rows.items()
    }
    for name, traits in architecture.traits.items():
        assert traits.block == (int(number[1]) if (number := BLOCK.search(name)) else None)
    assert fusions(architecture) == fused


@pytest.mark.parametrize(("up", "transposed"), [((32, 128), True), ((128, 32), False)])
def test_gpt2_names_over_either_class(up: tuple[int, int], transposed: bool):
    """The width of the MLP says whether Conv1D or Linear stored the square matrices as well."""
    shapes = {"h.0.attn.c_proj.weight": (32, 32), "h.0.mlp.c_fc.weight": up}
    traits = describe(None, shapes).traits
    assert {trait.transposed for trait in traits.values()} == {transposed}
    assert all(trait.matrix for trait in traits.values())


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("module.bert.encoder.layer.0.output.dense.weight", "encoder.layer.0.output.dense.weight"),
        ("_orig_mod.model.layers.0.mlp.up_proj.weight", "layers.0.mlp.up_proj.weight"),
        ("model._orig_mod.layers.0.norm.weight", "layers.0.norm.weight"),
        ("base_model.model.model.norm.weight", "norm.weight"),
        ("distilbert.transformer.layer.0.ffn.lin1.bias", "layer.0.ffn.lin1.bias"),
        ("bert.embeddings.LayerNorm.gamma", "embeddings.LayerNorm.weight"),
        ("blocks.0.ls1.gamma", "blocks.0.ls1.gamma"),
        ("module.3.weight", "module.3.weight"),
        ("modelling.weight", "modelling.weight"),
    ],
)
def test_canonical_names(name: str, bare: str):
    assert canonical(name) == bare


def test_prefixes_do_not_hinder_a_match():
    base = ["roberta.encoder.layer.0.output.LayerNorm.weight", "classifier.dense.weight"]
    expert = ["encoder.layer.0.output.LayerNorm.gamma", "module.classifier.dense.weight", "extra"]
    assert match_names(base, expert) == {expert[0]: base[0], expert[1]: base[1]}


def test_a_tower_with_and_without_its_prefix_match_but_two_towers_do_not():
    bare = "encoder.layers.0.mlp.fc1.weight"
    vision = "vision_model.encoder.layers.0.mlp.fc1.weight"
    text = vision.replace("vision", "text")
    assert match_names([vision], [bare]) == {bare: vision}
    assert match_names([bare], ["module." + text]) == {"module." + text: bare}
    assert match_names([vision], [text]) == {}
    assert match_names([vision, text], [bare]) == {}


def test_no_guess_between_two_candidates():
    assert match_names(["model.norm.weight", "bert.norm.weight"], ["norm.weight"]) == {}
    assert match_names(["norm.weight"], ["model.norm.weight", "bert.norm.weight"]) == {}
    assert match_names(["a.weight"], ["a.weight", "model.a.weight"]) == {"a.weight": "a.weight"}


PARTS = st.lists(
    st.sampled_from(["model", "module", "_orig_mod", "bert", "layers", "0", "norm", "a", "weight"]),
    min_size=1,
    max_size=5,
).map(".".join)


@settings(max_examples=100)
@given(st.lists(PARTS, unique=True, max_size=8), st.lists(PARTS, unique=True, max_size=8))
def test_matching_is_one_to_one_and_blind_to_order(base: list[str], expert: list[str]):
    matches = match_names(base, expert)
    assert set(matches) <= set(expert)
    assert set(matches.values()) <= set(base)
    assert len(set(matches.values())) == len(matches)
    assert all(matches[name] == name for name in set(base) & set(expert))
    assert matches == match_names(base[::-1], expert[::-1])
    assert {b: e for e, b in matches.items()} == match_names(expert, base)


@settings(max_examples=100)
@given(st.dictionaries(st.text(max_size=30), st.lists(st.integers(0, 9), max_size=5).map(tuple)))
def test_every_name_gets_traits(shapes: dict[str, tuple[int, ...]]):
    traits = describe(None, shapes).traits
    assert list(traits) == list(shapes)
    for name, trait in traits.items():
        assert not trait.matrix or len(shapes[name]) == 2
        assert trait.matrix or not trait.transposed
        assert trait.block is None or re.search(rf"\b0*{trait.block}\b", name)


ROBERTA_LAYER = "roberta.encoder.layer.0."

CASES = [
    ("authors-roberta", ROBERTA_LAYER + "attention.self.query.weight", 2, "merge"),
    ("authors-roberta", ROBERTA_LAYER + "output.dense.weight", 2, "merge"),
    ("authors-roberta", ROBERTA_LAYER + "output.dense.bias", 1, "base"),
    ("authors-roberta", ROBERTA_LAYER + "output.LayerNorm.weight", 1, "base"),
    ("authors-roberta", "roberta.embeddings.word_embeddings.weight", 2, "base"),
    ("authors-roberta", "classifier.dense.weight", 2, "base"),
    ("authors-gpt2", "transformer.wte.weight", 2, "merge"),
    ("authors-gpt2", "transformer.wpe.weight", 2, "merge"),
    ("authors-gpt2", "transformer.h.0.attn.c_attn.weight", 2, "merge"),
    ("authors-gpt2", "transformer.h.0.attn.c_attn.bias", 1, "average"),
    ("authors-gpt2", "transformer.ln_f.weight", 1, "average"),
    ("authors-gpt2", "score.weight", 2, "base"),
    ("authors-llama", "model.embed_tokens.weight", 2, "base"),
    ("authors-llama", "lm_head.weight", 2, "base"),
    ("authors-llama", "model.layers.3.mlp.up_proj.weight", 2, "merge"),
    ("authors-llama", "model.norm.weight", 1, "average"),
    ("authors-vit", "visual.proj", 2, "merge"),
    ("authors-vit", "visual.positional_embedding", 2, "merge"),
    ("authors-vit", "token_embedding.weight", 2, "merge"),
    ("authors-vit", "visual.transformer.resblocks.0.attn.in_proj_weight", 2, "merge"),
    ("authors-vit", "text_projection", 2, "average"),
    ("authors-vit", "visual.conv1.weight", 4, "average"),
    ("authors-vit", "visual.class_embedding", 1, "average"),
]


@pytest.mark.parametrize(("scope", "name", "ndim", "kind"), CASES)
def test_authors_scopes(scope: str, name: str, ndim: int, kind: str):
    decision = decide(scope, name, ndim)
    assert decision.kind == kind
    assert scope in decision.reason


def test_default_leaves_the_choice_to_the_plan():
    assert decide("default", "transformer.wte.weight", 2) is None


def test_every_scope_of_the_recipe_is_described():
    assert set(SCOPES) == {"default", *(scope for scope, *_ in CASES)}
    assert all(scope.description.endswith(".") for scope in SCOPES.values())


def test_unknown_scope_names_the_choices():
    with pytest.raises(RecipeError, match="authors-vit") as caught:
        decide("author-vit", "a", 2)
    assert caught.value.key == "scope"
