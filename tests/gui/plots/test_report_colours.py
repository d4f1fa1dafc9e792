"""The report's colours are the window's: an expert looks the same in both."""

import re
from importlib.resources import files

import pytest

from ace_gui.gui.theme import DARK, LIGHT

BLOCKS = re.findall(
    r":root \{(.*?)\}", (files("ace_gui.engine.report") / "report.css").read_text("utf-8"), re.S
)
SHOWN = {  # in the report → in the window
    "page": "canvas",
    "base": "card",
    "text": "text",
    "muted": "text2",
    "grid": "grid",
    "accent": "accent",
    "warning": "warn",
    "error": "bad",
    "ok": "ok",
}


@pytest.mark.parametrize(("index", "theme"), [(0, LIGHT), (1, DARK)])
def test_the_report_has_the_windows_colours(index, theme):
    colours = dict(re.findall(r"--(\w+): (#\w+);", BLOCKS[index]))
    experts = {name: value for name, value in colours.items() if re.fullmatch(r"e\d", name)}
    assert tuple(experts.values()) == theme.expert_colours
    for name, token in SHOWN.items():
        assert colours[name] == getattr(theme, token), name
