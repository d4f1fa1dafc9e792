"""In a bundle, the application's own executable runs the processes that a Python runs elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ace_gui import bundled
from ace_gui.architecture import sandbox
from ace_gui.bundled import is_bundled, part_asked_for, part_command

START = Path(__file__).parents[1] / "packaging" / "bundle" / "start.py"


def test_from_source_nothing_is_bundled() -> None:
    assert not is_bundled()
    assert sandbox._command()[:2] == [sys.executable, "-P"]


def test_in_a_bundle_models_are_described_by_its_executable(monkeypatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", "/somewhere/ace-gui")
    command = sandbox._command()
    assert command == ["/somewhere/ace-gui", "--run-part", "describe-models"]
    from ace_gui.architecture.builder import serve

    assert part_asked_for(command[1:]) is serve


@pytest.mark.parametrize("name", bundled._PARTS)
def test_every_part_is_there(name: str) -> None:
    assert callable(part_asked_for(part_command(name)[1:]))


@pytest.mark.parametrize(
    "arguments",
    [[], ["--version"], ["--run-part"], ["--run-part", "os:abort"], ["a", "describe-models"]],
)
def test_anything_else_is_the_command_line(arguments: list[str]) -> None:
    assert part_asked_for(arguments) is None


def test_the_executable_prints_its_version_and_describes_models() -> None:
    version = subprocess.run(
        [sys.executable, START, "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.startswith("ace-gui ")
    done = subprocess.run(
        [sys.executable, START, "--run-part", "describe-models"],
        input=json.dumps([None, [["a.weight", [2, 3]]], 60, 1 << 30]) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    ready, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert ready == {}
    assert answer["architecture"]["traits"].keys() == {"a.weight"}
