"""The report's colours are the window's: an expert looks the same in both."""

import re
from importlib.resources import files

import pytest

from ace_gui.engine.contract.role_families import ROLE_FAMILIES
from ace_gui.gui import theme

BLOCKS = re.findall(
    r":root \{(.*?)\}", (files("ace_gui.engine.report") / "report.css").read_text("utf-8"), re.S
)


@pytest.mark.parametrize(("place", "scheme"), [(0, theme.LIGHT), (1, theme.DARK)])
def test_experts_and_roles_have_the_windows_colours(place: int, scheme: theme.Theme) -> None:
    colours = dict(re.findall(r"--(\w+): (#\w+);", BLOCKS[place]))
    assert tuple(colours[f"e{index}"] for index in range(8)) == scheme.expert_colours
    roles = {family: colours[f"r{index}"] for index, family in enumerate(ROLE_FAMILIES)}
    assert roles == dict(scheme.role_colours)
    shown = ("text", "muted", "grid", "accent", "warning", "error", "base")
    assert {name: colours[name] for name in shown} == {
        name: getattr(scheme, name) for name in shown
    }
