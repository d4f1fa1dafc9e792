"""Every command on the pages can be typed: its name, and the options, exist as written."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from ace_gui.cli.commands import app
from ace_gui.paths import resource_path

README = Path(__file__).parents[2] / "README.md"
PAGES = [*sorted(resource_path("help").glob("*.md")), README]
COMMAND = re.compile(r"ace-gui ([a-z][a-z-]*)([^`\n>]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def known_options(command: str) -> set[str]:
    found = get_command(app).commands[command]  # type: ignore[attr-defined]
    return {name for option in found.params for name in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_and_options_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for name, rest in COMMAND.findall(text):
        unknown = set(OPTION.findall(rest)) - known_options(name)
        assert not unknown, f"ace-gui {name}{rest}"
