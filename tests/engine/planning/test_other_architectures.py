"""An expert of another architecture is refused by its name first; the tensors are details."""

from __future__ import annotations

import pytest
import transformers

from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import MismatchError
from ace_gui.recipe import ModelEntry, Recipe

SIZES = {"vocab_size": 30, "max_position_embeddings": 16}
BERT = transformers.BertConfig(
    hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, **SIZES
)
DISTILBERT = transformers.DistilBertConfig(dim=8, n_layers=1, n_heads=2, hidden_dim=16, **SIZES)


def test_another_architecture_is_named_before_its_tensors(tmp_path):
    transformers.BertForMaskedLM(BERT).save_pretrained(tmp_path / "base")
    transformers.DistilBertForMaskedLM(DISTILBERT).save_pretrained(tmp_path / "distil")
    recipe = Recipe(
        base_model=tmp_path / "base",
        models=(ModelEntry(model=tmp_path / "distil"),),
        merge_method="linear",
    )
    with pytest.raises(MismatchError) as refusal:
        prepare(recipe)
    error = refusal.value
    assert error.sentence == (
        "distil is of the architecture distilbert, the base of bert; choose experts fine-tuned "
        "from this base."
    )
    assert error.tensor is not None
    assert error.tensor in error.details
