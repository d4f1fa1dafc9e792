"""Choices without names: their counts, and when a preference is shown."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from ace_gui.gui.state.blind_choices import BlindChoices, sign_test


@pytest.mark.parametrize("first", range(12))
@pytest.mark.parametrize("second", [0, 1, 3, 9])
def test_the_sign_test_is_that_of_scipy(first: int, second: int) -> None:
    expected = 1.0 if first + second == 0 else binomtest(first, first + second).pvalue
    assert sign_test(first, second) == pytest.approx(expected)


def test_a_preference_needs_choices() -> None:
    choices = BlindChoices()
    assert choices.sentence == ""
    choices.add("merge", ["base"])
    assert choices.sentence == (
        "merge 1 · base 0 of 1 choice; no preference is shown yet (sign test, p = 1)."
    )
    for _ in range(5):
        choices.add("merge", ["base"])
    assert "merge is preferred to base (sign test, p = 0.031)" in choices.sentence
    choices.clear()
    assert choices.sentence == ""
