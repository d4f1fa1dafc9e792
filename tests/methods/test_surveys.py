"""Statistics of the whole model: in parts, in any order, against the concatenated vectors."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.methods import METHODS, checked_parameters
from ace_gui.methods.shared.survey import (
    Findings,
    RankSurvey,
    Stage,
    findings_of_tensors,
    magnitudes,
)
from tests.helpers import method_oracles as oracle
from tests.helpers.ace_cases import random_deltas
from tests.helpers.method_cases import Array, surveyed_model

SHAPES = ((12, 30), (30, 12), (24, 24), (7, 5))
NORMS = (0.3, 3.0, 0.01, 1.0)


def model(T: int = 4) -> list[Array]:
    """T × ... for each tensor; tensors differ in size by two orders of magnitude."""
    tensors = [
        random_deltas(T, *shape, norm, seed)
        for seed, (shape, norm) in enumerate(zip(SHAPES, NORMS, strict=True))
    ]
    return [tensor.astype(np.float32).astype(np.float64) for tensor in tensors]


def as_float32(tensors: list[Array]) -> list[list[torch.Tensor]]:
    return [[torch.tensor(delta).float() for delta in deltas] for deltas in tensors]


def merged(name: str, tensors: list[Array], **parameters: Any) -> Array:
    """A method on every tensor of a model after its survey, flat, one after the other."""
    method = METHODS[name]
    given_ = as_float32(tensors)
    checked = checked_parameters(method, parameters)
    findings = surveyed_model(method, checked, given_)
    assert findings is not None
    weights = [1.0] * len(tensors[0])
    results = [method.merge(deltas, weights, checked, findings=findings) for deltas in given_]
    return np.concatenate([result.delta.double().numpy().ravel() for result in results])


def concatenated(tensors: list[Array]) -> Array:
    return np.concatenate([deltas.reshape(len(deltas), -1) for deltas in tensors], axis=1)


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("ties", {}, lambda d: oracle.ties(d, 0.2)),
        ("ties", {"density": 0.7, "combine": "sum"}, lambda d: oracle.ties(d, 0.7, "sum")),
        ("localize_stitch", {}, lambda d: oracle.localize_stitch(d, 0.05)),
        ("localize_stitch", {"density": 0.01}, lambda d: oracle.localize_stitch(d, 0.01)),
        ("localize_stitch", {"density": 1.0}, lambda d: d.mean(axis=0)),
        ("pcb", {}, lambda d: 1.2 * oracle.pcb(d, 0.05)),
        ("nan", {"norms": "model"}, oracle.nan),
    ],
)
def test_the_whole_model_is_merged_as_one_vector(
    name: str, parameters: dict[str, Any], expected: Any
) -> None:
    tensors = model()
    reference = expected(concatenated(tensors))
    assert oracle.relative_error(merged(name, tensors, **parameters), reference) < 1e-6


@pytest.mark.parametrize("name", ["ties", "localize_stitch", "pcb"])
def test_an_expert_without_any_change_does_no_harm(name: str) -> None:
    tensors = [np.concatenate([deltas, np.zeros_like(deltas[:1])]) for deltas in model(2)]
    task_vector = merged(name, tensors)
    alone = concatenated(model(2))
    assert 0 < np.linalg.norm(task_vector) <= 1.2 * np.abs(alone).sum(axis=0).max() * alone.shape[1]
    if name != "pcb":  # whose scores count how many experts there are
        assert oracle.relative_error(task_vector, merged(name, model(2))) < 1e-6


def test_choosing_over_the_model_keeps_more_of_what_changed_most() -> None:
    tensors = model()
    task_vector = merged("ties", tensors)
    ends = np.cumsum([deltas[0].size for deltas in tensors])
    shares = [np.count_nonzero(part) / part.size for part in np.split(task_vector, ends[:-1])]
    assert shares[1] > 0.5
    assert shares[2] < 0.01


def test_knots_chooses_coordinates_over_all_layers() -> None:
    tensors = model(3)[:2]
    parts = [oracle.knots(deltas) for deltas in tensors]
    flat = [blocks.reshape(len(blocks), -1) for _, blocks in parts]
    ends = np.cumsum([matrix.shape[1] for matrix in flat])
    elected = np.split(oracle.ties(np.concatenate(flat, axis=1), 0.2), ends[:-1])
    expected = [
        (u @ coordinates.reshape(blocks.shape[1:])).ravel()
        for (u, blocks), coordinates in zip(parts, elected, strict=True)
    ]
    task_vector = merged("knots_ties", tensors, scaling=1.0)
    assert oracle.relative_error(task_vector, np.concatenate(expected)) < 1e-6


def ranks(n: int) -> tuple[int, ...]:
    return (1, (n + 1) // 2, n)


@given(st.integers(1, 5), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=20, derandomize=True)
def test_neither_parts_nor_their_order_matter(count: int, random: Any) -> None:
    values = torch.randn(3, 60, generator=torch.Generator().manual_seed(count))
    parts = [list(part) for part in values.split(-(-60 // count), dim=1)]
    random.shuffle(parts)
    stage = Stage(names=("least", "middle", "most"), values=magnitudes, ranks=ranks)
    findings = findings_of_tensors(RankSurvey(3, stage), parts)
    ordered = values.abs().sort(dim=1).values
    assert findings == {
        name: tuple(ordered[:, rank - 1].tolist())
        for name, rank in zip(stage.names, ranks(60), strict=True)
    }


def test_experts_that_lack_a_tensor_are_not_counted_in_it() -> None:
    stage = Stage(names=("most",), values=magnitudes, ranks=lambda n: (n,))
    survey = RankSurvey(3, stage)
    unfinished = True
    while unfinished:
        survey.add(survey.measure((0, 2), [torch.tensor([1.0, -5.0]), torch.tensor([2.0])]))
        survey.add(survey.measure((2,), [torch.tensor([[-7.0]])]))
        unfinished = survey.finish_pass()
    assert survey.findings == {"most": (5.0, 0.0, 7.0)}


def test_a_later_stage_sees_what_an_earlier_one_found() -> None:
    def scaled(deltas: Any, findings: Findings, _start: int) -> Any:
        return (delta / most for delta, most in zip(deltas, findings["most"], strict=True))

    first = Stage(names=("most",), values=magnitudes, ranks=lambda n: (n,))
    second = Stage(names=("least",), values=scaled, ranks=lambda _: (1,))
    deltas = [torch.tensor([4.0, -2.0]), torch.tensor([-8.0, 1.0])]
    findings = findings_of_tensors(RankSurvey(2, first, second), [deltas])
    assert findings == {"most": (4.0, 8.0), "least": (-0.5, -1.0)}


def test_values_that_all_experts_share_are_counted_once() -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(3, 20, generator=generator) for _ in range(2)]
    findings = {}
    for common in (True, False):
        taken = []

        def spread(deltas: Any, _findings: Findings, _start: int, taken: Any = taken) -> Any:
            for _ in deltas:
                taken.append(1)
                yield torch.stack(list(deltas)).var(dim=0)

        stage = Stage(names=("spread",), values=spread, ranks=lambda n: (n // 2,), common=common)
        findings[common] = findings_of_tensors(RankSurvey(3, stage), parts)
        assert len(taken) == (4 if common else 12)
    assert findings[True] == findings[False]
