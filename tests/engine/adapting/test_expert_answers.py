"""The divergence from an expert's answers, against torch's own and its limits."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from ace_gui.engine.adapting.expert_answers import (
    LIKELIEST,
    ExpertAnswer,
    _likeliest,
    _numbers,
)


@pytest.mark.parametrize("classes", [2, 3, LIKELIEST, LIKELIEST + 1])
def test_few_answers_are_compared_one_by_one(classes: int) -> None:
    generator = torch.Generator().manual_seed(classes)
    expert_RC, merge_RC = torch.randn(2, 5, classes, generator=generator).mul(3)
    answer = _likeliest([], expert_RC)
    expected = functional.kl_div(
        merge_RC.double().log_softmax(1),
        expert_RC.double().log_softmax(1),
        log_target=True,
        reduction="batchmean",
    )
    torch.testing.assert_close(answer.divergence(merge_RC).double(), expected)


def test_of_many_answers_the_likeliest_count_and_the_rest_as_one() -> None:
    generator = torch.Generator().manual_seed(1)
    expert_RC, merge_RC = torch.randn(2, 3, 500, generator=generator).mul(4).double()
    answer = _likeliest([], expert_RC)
    p_RC = expert_RC.softmax(1)
    q_RC = merge_RC.softmax(1)
    expected = []
    for p_C, q_C in zip(p_RC, q_RC, strict=True):
        chosen = p_C.argsort(descending=True)[:LIKELIEST]
        p = p_C[chosen]
        q = q_C[chosen]
        rest_p = 1 - p.sum()
        rest_q = 1 - q.sum()
        expected.append((p * (p / q).log()).sum() + rest_p * (rest_p / rest_q).log())
    torch.testing.assert_close(answer.divergence(merge_RC), torch.stack(expected).mean())


@pytest.mark.parametrize("classes", [3, 500])
def test_an_expert_does_not_differ_from_itself_and_others_do(classes: int) -> None:
    logits_RC = torch.randn(4, classes, generator=torch.Generator().manual_seed(2)).double()
    answer = _likeliest([], logits_RC)
    assert abs(float(answer.divergence(logits_RC + 5))) < 1e-12
    assert float(answer.divergence(logits_RC.flip(1))) > 0.01


@pytest.mark.parametrize("classes", [3, 500])
def test_the_gradient_is_that_of_the_divergence(classes: int) -> None:
    generator = torch.Generator().manual_seed(3)
    expert_RC, merge_RC = torch.randn(2, 2, classes, generator=generator).double()
    answer = _likeliest([], expert_RC)
    assert torch.autograd.gradcheck(answer.divergence, merge_RC.requires_grad_())


def test_numbers_are_means_of_normal_distributions() -> None:
    values = [torch.tensor([[1.0]]), torch.tensor([[3.0]])]
    first, second = _numbers([([], value) for value in values])
    expected = torch.distributions.kl_divergence(
        torch.distributions.Normal(1.0, 1.0), torch.distributions.Normal(1.5, 1.0)
    )
    assert float(first.divergence(torch.tensor([[1.5]]))) == pytest.approx(float(expected))
    assert float(second.divergence(torch.tensor([[3.0]]))) == 0


def test_equal_numbers_have_a_variance() -> None:
    (answer,) = _numbers([([], torch.tensor([[2.0]]))])
    assert math.isfinite(float(answer.divergence(torch.tensor([[2.1]]))))


def test_an_input_without_answers_has_no_divergence() -> None:
    answer = ExpertAnswer(pieces=[], values_RK=torch.zeros(0, 3))
    assert float(answer.divergence(torch.zeros(0, 3))) == 0
