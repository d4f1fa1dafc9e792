"""Expressions of adapter configs: as Python's ``re`` has them, in a time that cannot explode."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.checkpoints.adapters.adapter_config import AdapterSettings, matcher, matches

ATOMS = st.sampled_from(
    ["a", "b", ".", "0", "[ab]", "[^a]", "[a-b0-9]", "\\.", "\\d", "\\w", "\\D", "^", "$"]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=5,
)


@settings(max_examples=150)
@given(PATTERNS, st.text(alphabet="ab0._", max_size=12))
def test_as_peft_matches(pattern: str, module: str):
    expected = re.match(rf"(.*\.)?({pattern})$", module) is not None
    assert matcher(pattern) is not None, "usable"
    assert matches(pattern, module) == expected


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a*)*(a*)*b", "((((a?)*)*)*)*b", "(a|aa)+c", "(a{0,200}){0,200}b"]
)
def test_no_expression_takes_for_ever(pattern: str):
    started = time.monotonic()
    assert matches(pattern, "a" * 250) == (pattern == "(a+)+$")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("nested", [3, 5, 14])
def test_no_repetition_of_repetitions_takes_for_ever(nested: int):
    pattern = "b"
    for _ in range(nested):
        pattern = f"({pattern}){{200}}"
    started = time.monotonic()
    assert matcher(pattern) is None
    assert time.monotonic() - started < 5


def test_a_rank_for_each_of_many_modules_is_found_at_once():
    ranks = {f"layers.{n}.q_proj": n + 1 for n in range(600)}
    adapter_settings = AdapterSettings(rank_pattern=ranks, alpha_pattern=ranks)
    started = time.monotonic()
    assert [adapter_settings.rank_of(f"model.{name}") for name in list(ranks)[-20:]] == list(
        range(581, 601)
    )
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "pattern", [r"\bq_proj", "a{300}|q_proj", "(((((((((((((((q_proj)))))))))))))))"]
)
def test_what_peft_can_match_is_matched(pattern: str):
    assert re.match(rf"(.*\.)?({pattern})$", "layers.0.q_proj")
    assert matches(pattern, "layers.0.q_proj")


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", "(?=a)a", r"(a)\1", "(?i)a", "a" * 251, r"a\Z", "[[a]", "[a&&b]", "[a--b]"),
        *(r"\<a", r"a\b{start}", "a++", "a*+", "a{2}+", "(?>a)", "a{,3}"),
    ],
)
def test_what_the_two_read_otherwise_is_refused(pattern: str):
    assert matcher(pattern) is None
    assert not matches(pattern, "a")
