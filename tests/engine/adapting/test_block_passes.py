"""Inputs that pass a model block by block end where the model ends; other models are refused.

Every class of transformers that classifies texts or pictures is tried by the long run.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from ace_gui.engine.adapting.block_passes import BlockModel
from ace_gui.engine.evaluating.evaluators import Evaluator, Piece
from ace_gui.errors import TaskError
from tests.helpers.transformers_classes import CLASSIFIERS, model_with_inputs


class Direct:
    """In the place of an evaluator: the model gets the inputs as they are."""

    def __init__(self, model: nn.Module, inputs: Mapping[str, Tensor]) -> None:
        self.model = model
        self.inputs = inputs

    def stack(self, _pieces: Sequence[Piece]) -> Mapping[str, Tensor]:
        return self.inputs

    def rows(self, _batch: Any) -> Any:
        return self.model(**self.inputs)


def after_blocks(model: Any, blocks: nn.ModuleList, inputs: Mapping[str, Tensor]) -> Tensor:
    """The hidden states after the last call of a block, in the model's own pass."""
    latest: list[Tensor] = []

    def note(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if not isinstance(output, Tensor):
            output = next(iter(output))
        latest.append(output)

    hooks = [block.register_forward_hook(note) for block in blocks]
    with torch.no_grad():
        model(**inputs)
    for hook in hooks:
        hook.remove()
    return latest[-1]


def passed_through(blocks: BlockModel, model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """The hidden states after all blocks, block by block."""
    evaluator = cast(Evaluator, Direct(model, inputs))
    piece = cast(Piece, SimpleNamespace(inputs=inputs, note=None))
    (passing,) = blocks.at_first_block(evaluator, [[piece]], [[0]], torch.device("cpu"))
    for index in range(len(blocks.blocks)):
        passing = blocks.after_block(index, passing)
    return passing.states_NLH


def require_right_or_refused(name: str) -> bool:
    """Whether inputs pass the blocks; False if the model is refused in a sentence."""
    model, inputs = model_with_inputs(name)
    try:
        blocks = BlockModel(model)
        states_NLH = passed_through(blocks, model, inputs)
    except TaskError:
        return False
    torch.testing.assert_close(states_NLH, after_blocks(model, blocks.blocks, inputs))
    return True


@pytest.mark.parametrize(
    "name",
    ["Bert", "DistilBert", "DebertaV2", "OpenAIGPT", "ModernBert", "GPT2", "Llama", "XLNet"],
)
def test_blocks_end_where_the_model_ends(name: str) -> None:
    assert require_right_or_refused(f"{name}ForSequenceClassification")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Albert", "some of its blocks more than once"),
        ("Funnel", "more than hidden states"),
        ("Reformer", "more than hidden states"),
        ("Canine", "several lists of blocks"),
    ],
)
def test_models_that_are_no_chain_of_blocks_are_refused(name: str, words: str) -> None:
    model, inputs = model_with_inputs(f"{name}ForSequenceClassification")
    with pytest.raises(TaskError, match=f"{words}.*how: whole"):
        passed_through(BlockModel(model), model, inputs)


def test_the_model_is_as_before_after_its_blocks_are_recorded() -> None:
    model, inputs = model_with_inputs("BertForSequenceClassification")
    with torch.no_grad():
        before = model(**inputs).logits
        passed_through(BlockModel(model), model, inputs)
        assert torch.equal(model(**inputs).logits, before)
    hooks = itertools.chain.from_iterable(m._forward_pre_hooks for m in model.modules())
    assert not list(hooks)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of their own code
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_of_transformers_passes_or_is_refused(name: str) -> None:
    require_right_or_refused(name)
