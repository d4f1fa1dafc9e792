"""Expressions of adapter configs: as Python's ``re`` has them, in a time that cannot explode."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.checkpoints.adapters.adapter_config import UnusableError, matches

ATOMS = st.sampled_from(
    ["a", "b", ".", "0", "[ab]", "[^a]", "[a-b0-9]", "\\.", "\\d", "\\w", "\\D", "^", "$", "\\Z"]
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
    try:
        assert matches(pattern, module) == expected
    except UnusableError:
        pytest.fail(f"{pattern!r} is usable")


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a*)*(a*)*b", "((((a?)*)*)*)*b", "(a|aa)+c", "(a{0,200}){0,200}b"]
)
def test_no_expression_takes_for_ever(pattern: str):
    started = time.monotonic()
    assert matches(pattern, "a" * 250) == (pattern == "(a+)+$")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "pattern",
    ["(", "(?=a)a", r"(a)\1", "(?i)a", r"\ba", "a" * 251, "a{300}", "(" * 14 + "a" + ")" * 14],
)
def test_what_names_do_not_need_is_refused(pattern: str):
    with pytest.raises(UnusableError):
        matches(pattern, "module")
