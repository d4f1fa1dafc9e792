"""Models whose config would take for ever to build: the window goes on, the command line ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import psutil
import pytest
from pytestqt.qtbot import QtBot

from ace_gui.gui.app import Workbench
from ace_gui.gui.state.activity import ActivityState
from tests.helpers.models import Family, roberta_family
from tests.helpers.windows import PATIENCE

ENDLESS = {"model_type": "swin", "depths": [4000] * 4000}


@pytest.fixture
def forked_engines() -> None:
    """None: it is the real engine whose describing is stopped."""


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return roberta_family(tmp_path / "family", experts=1)


@pytest.fixture
def endless(family: Family, tmp_path: Path) -> Path:
    """The base under a config that takes for ever."""
    folder = tmp_path / "endless"
    shutil.copytree(family.base, folder)
    (folder / "config.json").write_text(json.dumps(ENDLESS))
    return folder


def builders(bench: Workbench) -> list[psutil.Process]:
    engine = bench.worker.engine_pid
    return [] if engine is None else psutil.Process(engine).children()


def test_opening_is_stopped_and_something_else_is_opened_at_once(
    bench: Workbench, family: Family, endless: Path, qtbot: QtBot
) -> None:
    window = bench.window
    session = bench.window.session
    window.opener.open_paths([endless])
    qtbot.waitUntil(lambda: bool(builders(bench)), timeout=PATIENCE)
    assert window.actions_.cancel.isEnabled()
    engine = bench.worker.engine_pid
    window.actions_.stop_opening.trigger()
    assert session.state is ActivityState.EMPTY
    qtbot.waitUntil(lambda: not builders(bench), timeout=2000)

    window.opener.open_paths([endless])
    qtbot.waitUntil(lambda: bool(builders(bench)), timeout=PATIENCE)
    window.opener.open_paths([family.base])
    qtbot.waitUntil(lambda: session.state is ActivityState.READY, timeout=PATIENCE)
    assert session.draft.inputs.base == family.base
    qtbot.waitUntil(lambda: not builders(bench), timeout=2000)
    assert bench.worker.engine_pid == engine, "the engine itself was not in the way"
