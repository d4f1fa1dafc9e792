"""Cosines of task vectors: over a layer, and over a model from its layers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.engine.contract.figures.expert_similarity import cosines_of, model_cosines
from ace_gui.engine.contract.figures.findings import LayerStatistics


def layer(name: str, vectors: dict[str, np.ndarray], weight: float = 1.0) -> LayerStatistics:
    stacked = np.stack(list(vectors.values()))
    squares = weight**2 * (stacked**2).sum(axis=1)
    return LayerStatistics(
        name=name,
        energies=dict(zip(vectors, squares.tolist(), strict=True)),
        cosines=cosines_of(stacked @ stacked.T),
    )


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


@given(st.integers(2, 5), st.integers(0, 1000), st.floats(0.1, 3))
@settings(deadline=None, max_examples=30, derandomize=True)
def test_over_the_model_they_are_those_of_the_whole_task_vectors(
    experts: int, seed: int, weight: float
) -> None:
    rng = np.random.default_rng(seed)
    sizes = (5, 1, 40)
    names = [f"e{t}" for t in range(experts)]
    parts = {name: [rng.standard_normal(size) * size for size in sizes] for name in names}
    layers = [
        layer(f"layer.{index}", {name: parts[name][index] for name in names}, weight)
        for index in range(len(sizes))
    ]
    found = model_cosines(layers, names)
    for a, first in enumerate(names):
        for b, second in enumerate(names):
            whole = cosine(np.concatenate(parts[first]), np.concatenate(parts[second]))
            assert found[a, b] == pytest.approx(whole)


def test_two_experts_are_compared_where_both_are() -> None:
    here, there = np.array([1.0, 2.0]), np.array([3.0, 1.0])
    layers = [
        layer("both", {"a": here, "b": there}),
        layer("only a", {"a": np.array([50.0])}),
        layer("only c", {"c": np.array([1.0])}),
        LayerStatistics(name="unknown", energies={"a": 1.0}),
    ]
    found = model_cosines(layers, ["a", "b", "c"])
    assert found[0, 1] == pytest.approx(cosine(here, there))
    assert found[2, 2] == 1
    assert math.isnan(found[0, 2])


def test_no_change_has_no_cosine() -> None:
    still = layer("x", {"a": np.zeros(3), "b": np.ones(3)})
    assert still.cosines is not None
    assert np.isnan(still.cosines[0]).all()
    found = model_cosines([still, layer("y", {"a": np.ones(2), "b": np.ones(2)})], ["a", "b"])
    assert found[0, 1] == pytest.approx(math.sqrt(2 / 5))
