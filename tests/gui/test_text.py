import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.formatting import duration, human_bytes, value_text
from ace_gui.gui.text import TIP_WIDTH, breakable, plain, shared_prefix, tooltip


def test_sizes_keep_two_or_three_figures():
    assert human_bytes(999) == "999 B"
    assert human_bytes(475_000_000) == "475 MB"
    assert human_bytes(1_340_000_000) == "1.3 GB"
    assert human_bytes(999_700_000) == "1.0 GB"


def test_durations_count_up_to_the_next_second():
    assert duration(40.2) == "0:41"
    assert duration(3723) == "1:02:03"
    assert duration(-5) == "0:00"


def test_direction_and_control_characters_are_left_out():
    assert plain("a\u202eb\x1b[31mc\nd") == "ab[31mc\nd"


def test_tooltips_show_markup_literally():
    assert "<img" not in tooltip("<img src=x>")
    assert "&lt;img" in tooltip("<img src=x>")


def test_tooltips_are_plain_text_in_short_lines():
    tip = tooltip("Limits how far a merge moves each matrix, " * 5 + "\n\nx < y")
    assert max(map(len, tip.split("\n"))) <= TIP_WIDTH
    assert tip.endswith("\n\nx < y")


def test_long_paths_can_wrap_and_lose_nothing():
    path = "/a/very_long/path.to/a"
    assert "\u200b" in breakable(path)
    assert plain(breakable(path)) == path


@settings(deadline=None, max_examples=200)
@given(st.floats(min_value=1e-12, max_value=1e12))
def test_a_number_reads_back_as_itself(value):
    assert abs(float(value_text(value)) - value) <= 1e-5 * value


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        (["vit.encoder.layer.0.a", "vit.encoder.layer.11.b"], "vit.encoder.layer."),
        (["h.0.a", "h.1.a"], "h."),
        (["encoder.0", "decoder.0"], ""),
        ([], ""),
    ],
)
def test_shared_prefix_ends_at_a_dot(names, prefix):
    assert shared_prefix(names) == prefix
