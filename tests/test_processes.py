"""How processes start: from a bundle, and with the garbage collector at rest."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ace_gui.architecture import sandbox
from ace_gui.architecture.limited_process import LimitedProcess
from ace_gui.bundle_parts import PARTS, part_asked_for
from ace_gui.processes import heavy_imports, is_bundled, part_command

START = Path(__file__).parents[1] / "packaging" / "bundle" / "start.py"


def test_from_source_nothing_is_bundled() -> None:
    assert not is_bundled()
    assert LimitedProcess("describe-models", sandbox.__name__)._command()[:2] == [
        sys.executable,
        "-P",
    ]


def test_in_a_bundle_models_are_described_by_its_executable(monkeypatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", "/somewhere/ace-gui")
    command = LimitedProcess("describe-models", sandbox.__name__)._command()
    assert command == ["/somewhere/ace-gui", "--run-part", "describe-models"]
    from ace_gui.architecture.sandbox import serve

    assert part_asked_for(command[1:]) is serve


@pytest.mark.parametrize("name", PARTS)
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


@pytest.fixture
def before_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("before_torch")
def test_what_was_imported_is_frozen() -> None:
    with heavy_imports():
        assert not gc.isenabled()
        made = [object(), []]
    assert gc.isenabled()
    assert not any(tracked is made for tracked in gc.get_objects())


@pytest.mark.usefixtures("before_torch")
def test_a_failed_import_leaves_the_collector_on() -> None:
    with pytest.raises(ImportError), heavy_imports():
        raise ImportError
    assert gc.isenabled()


def test_nothing_is_frozen_once_torch_is_there() -> None:
    import torch  # noqa: F401

    frozen = gc.get_freeze_count()
    with heavy_imports():
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen
