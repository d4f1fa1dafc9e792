"""Ticks: round values with one at both ends of an axis."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace_gui.figures.charts import Axis
from ace_gui.figures.ticks import labels_of, ticks_of

MOST = 14
NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)
POSITIVE = st.floats(1e-12, 1e12)


@given(st.lists(NUMBERS, max_size=20))
def test_a_linear_axis_encloses_its_values(values: list[float]) -> None:
    ticks = ticks_of(Axis(title=""), values)
    assert ticks == sorted(set(ticks))
    assert 2 <= len(ticks) <= MOST
    room = 1e-6 * max(map(abs, ticks))
    assert all(ticks[0] - room <= value <= ticks[-1] + room for value in values)


@given(st.lists(POSITIVE, max_size=20))
def test_a_logarithmic_axis_encloses_its_values(values: list[float]) -> None:
    ticks = ticks_of(Axis(title="", log=True), values)
    assert ticks == sorted(set(ticks))
    assert 2 <= len(ticks) <= MOST
    assert all(ticks[0] <= value * 1.001 and value <= ticks[-1] * 1.001 for value in values)


@given(st.integers(1, 5000))
def test_an_axis_with_ends_begins_and_ends_there(last: int) -> None:
    ticks = ticks_of(Axis(title="", low=1.0, high=float(last)), [])
    assert ticks[0] == 1
    assert last == 1 or ticks[-1] == last
    steps = [after - before for before, after in pairwise(ticks)]
    assert min(steps) > 0.2 * max(steps)


@given(st.integers(1, 5000))
def test_an_axis_that_counts_has_whole_numbers_only(last: int) -> None:
    ticks = ticks_of(Axis(title="", counts=True, low=1.0, high=float(last)), [])
    assert all(tick == round(tick) for tick in ticks)


@pytest.mark.parametrize("log", [False, True])
def test_values_that_cannot_be_shown_are_left_out(log: bool) -> None:
    values = [math.nan, math.inf, -math.inf, 2.0, 3.0]
    assert ticks_of(Axis(title="", log=log), values) == ticks_of(
        Axis(title="", log=log), [2.0, 3.0]
    )


def test_labels_are_as_one_writes_them() -> None:
    assert labels_of(Axis(title="", log=True), [0.05, 0.1, 0.2]) == ["0.05", "0.1", "0.2"]
    assert labels_of(Axis(title="", log=True), [1e-5, 2e-4, 1.0]) == ["10⁻⁵", "2×10⁻⁴", "10⁰"]
    assert labels_of(Axis(title=""), [0.0, 0.5]) == ["0", "0.5"]
