"""Inputs are padded only where a model gives the same answers as to each input alone."""

from __future__ import annotations

import pytest
import torch

from ace_gui.engine.adapting.expert_answers import AlignedTask, answers_of
from ace_gui.engine.adapting.objectives import answers
from ace_gui.engine.adapting.padding import padding_of
from ace_gui.engine.calibrating.calibrate import calibration
from ace_gui.engine.evaluating.evaluators import Evaluator, Piece
from ace_gui.engine.evaluating.loaded_models import Loaded
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.aligned_merges import chat_family
from tests.helpers.calibrated_models import CPU, bert_family, gpt2_family

FAMILIES = {"bert": bert_family, "gpt2": gpt2_family, "chat": chat_family}


@pytest.fixture(scope="module", params=FAMILIES)
def expert(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Evaluator:
    file = FAMILIES[request.param](tmp_path_factory.mktemp(request.param))
    source = calibration(prepare(load_recipe(file)), 0)
    return Loaded(CPU).evaluator(*source.tasks[0])


def inputs_of(expert: Evaluator) -> list[list[Piece]]:
    return expert.answered_pieces(expert.data.examples)


def flat(inputs: list[list[Piece]]) -> list[Piece]:
    return [piece for pieces in inputs for piece in pieces]


@torch.no_grad()
def test_padded_answers_are_those_of_each_alone(expert: Evaluator) -> None:
    inputs = inputs_of(expert)
    padding = padding_of(expert, flat(inputs))
    if len({len(piece.inputs["input_ids"]) for piece in flat(inputs)}) < 2:
        assert padding is None  # it has no use
        return
    padded = answers(expert, inputs, padding)
    for pieces, together in zip(inputs, padded, strict=True):
        (alone,) = answers(expert, [pieces])
        assert together.shape == alone.shape or padding is None
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-4 * float(alone.abs().max()))


def test_a_model_that_sees_the_padding_gets_none(expert: Evaluator) -> None:
    inputs = flat(inputs_of(expert))
    rows = expert.rows

    def counting(batch):  # type: ignore[no-untyped-def]
        """As a model that mixes all of its positions."""
        width = batch.inputs["input_ids"].shape[1]
        return [logits_RC + width for logits_RC in rows(batch)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expert, "rows", counting)
        assert padding_of(expert, inputs) is None


def test_padding_is_tried_when_the_weights_are_there(expert: Evaluator) -> None:
    """A model is made before it gets the merged weights: with zeros, nothing sees the padding."""
    answered = answers_of(expert, expert.data.examples)
    task = AlignedTask(expert, answered, size=8, seed=(0,))
    rows = expert.rows

    def seeing(batch):  # type: ignore[no-untyped-def]
        return [logits_RC * batch.inputs["input_ids"].shape[1] for logits_RC in rows(batch)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expert, "rows", seeing)
        each_alone = []
        for answer in answered:
            with torch.no_grad():
                (alone_RC,) = answers(expert, [answer.pieces])
            each_alone.append(float(answer.divergence(alone_RC)))
        expected = sum(each_alone) / len(each_alone)
        assert task.divergence(answered) == pytest.approx(expected, rel=1e-5)


def test_other_inputs_are_not_padded(expert: Evaluator) -> None:
    inputs = flat(inputs_of(expert))
    more = [Piece(inputs={**piece.inputs, "bbox": torch.zeros(2, 4)}) for piece in inputs]
    assert padding_of(expert, more) is None
    assert padding_of(expert, inputs[:1]) is None
