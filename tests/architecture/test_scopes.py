"""What the authors' scripts did to tensors of each family, name by name."""

from __future__ import annotations

import pytest

from ace_gui.architecture.scopes import SCOPES, decide
from ace_gui.errors import RecipeError

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
def test_authors_scopes(scope: str, name: str, ndim: int, kind: str) -> None:
    decision = decide(scope, name, ndim)
    assert decision is not None
    assert decision.kind == kind
    assert decision.as_stored
    assert scope in decision.reason


def test_default_leaves_the_choice_to_the_plan() -> None:
    assert decide("default", "transformer.wte.weight", 2) is None


def test_every_scope_of_the_recipe_is_described() -> None:
    assert set(SCOPES) == {"default", *(scope for scope, *_ in CASES)}
    assert all(scope.description.endswith(".") for scope in SCOPES.values())


def test_unknown_scope_names_the_choices() -> None:
    with pytest.raises(RecipeError, match="authors-vit") as caught:
        decide("author-vit", "a", 2)
    assert caught.value.key == "scope"
