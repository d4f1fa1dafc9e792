"""Hidden states of the middle block: which block it is, and what belongs to which input."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import nn

from ace_gui.engine.adapting.hidden_states import HiddenStates, middle_block
from ace_gui.engine.evaluating.evaluators import Piece
from ace_gui.errors import TaskError

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 30,
}
MODELS: dict[str, tuple[type[Any], Any]] = {
    "model.layers.2": (
        transformers.MixtralForCausalLM,
        transformers.MixtralConfig(**SIZES, num_hidden_layers=5, num_local_experts=9),
    ),
    "bert.encoder.layer.1": (
        transformers.BertForSequenceClassification,
        transformers.BertConfig(
            hidden_size=16,
            intermediate_size=16,
            num_attention_heads=2,
            num_hidden_layers=4,
            vocab_size=30,
        ),
    ),
    "encoder.block.1": (
        transformers.T5ForConditionalGeneration,
        transformers.T5Config(
            d_model=16, d_ff=16, num_heads=2, d_kv=8, num_layers=3, vocab_size=30
        ),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_middle_one_of_the_outermost_blocks_is_compared(name: str) -> None:
    model_class, config = MODELS[name]
    with torch.device("meta"):
        model = model_class(config)
    assert middle_block(model) is model.get_submodule(name)


def test_a_model_without_blocks_is_refused() -> None:
    with pytest.raises(TaskError, match="set `hidden` to 0"):
        middle_block(nn.Sequential(nn.Linear(2, 2)))


class TwoBlocks(nn.Module):
    """Two blocks; ``mixes_inputs``: they flatten all inputs of a batch to one."""

    def __init__(self, *, mixes_inputs: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Identity(), nn.Identity()])
        self._mixes_inputs = mixes_inputs

    def forward(self, tokens_NLH: torch.Tensor) -> torch.Tensor:
        states = tokens_NLH.flatten(0, 1)[None] if self._mixes_inputs else tokens_NLH
        for block in self.blocks:
            states = block(states)
        return states


def piece(length: int) -> Piece:
    return Piece(inputs={"input_ids": torch.zeros(length)})


def test_each_input_has_its_own_states_without_padding() -> None:
    model = TwoBlocks(mixes_inputs=False)
    states = HiddenStates(model)
    tokens_NLH = torch.randn(2, 5, 3)
    with states.recorded():
        model(tokens_NLH)
        states.assign([(1, 0), (0, 0)], [piece(4), piece(5)])
    assert torch.equal(states.of(0)[0], tokens_NLH[1])
    assert torch.equal(states.of(1)[0], tokens_NLH[0, :4])
    with states.recorded():
        assert states.of(0) == []
    model(tokens_NLH)  # records nothing any more
    assert states.of(0) == []


def test_blocks_that_mix_inputs_are_refused() -> None:
    model = TwoBlocks(mixes_inputs=True)
    states = HiddenStates(model)
    with states.recorded():
        model(torch.randn(2, 5, 3))
        with pytest.raises(TaskError, match="set `hidden` to 0"):
            states.assign([(0, 0), (1, 0)], [piece(5), piece(5)])
