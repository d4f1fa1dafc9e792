"""A process that is brought down leaves its last words, and they are told once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ace_gui.crash_log import CrashLog, crash_file, take_crash, take_words
from ace_gui.engine.contract.engine_process import EngineProcess
from ace_gui.errors import EngineError
from ace_gui.paths import crashes_folder

ROOT = Path(__file__).parents[1]
BEGINS = """
import faulthandler, os, pathlib, resource, sys
from ace_gui.crash_log import CrashLog
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
log = CrashLog("window", pathlib.Path(sys.argv[1]))
def the_line_of_the_crash():
    faulthandler._sigsegv()
"""


def run(folder: Path, end: str) -> int:
    """A process that ends so; its number."""
    command = [sys.executable, "-c", f"{BEGINS}{end}\n", str(folder)]
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=ROOT)
    child.wait(60)
    return child.pid


def test_a_crash_is_told_once_with_where_it_was(tmp_path: Path) -> None:
    pid = run(tmp_path, "the_line_of_the_crash()")
    assert crash_file("window", pid, tmp_path).exists()
    assert "the_line_of_the_crash" in take_crash(tmp_path)
    assert take_crash(tmp_path) == ""
    assert [file.suffix for file in tmp_path.iterdir()] == [".reported"]


@pytest.mark.parametrize("end", ["log.close()", "os.kill(os.getpid(), 9)"])
def test_a_good_end_and_a_kill_leave_nothing_to_tell(tmp_path: Path, end: str) -> None:
    pid = run(tmp_path, end)
    assert crash_file("window", pid, tmp_path).exists() is ("kill" in end)
    assert take_crash(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_a_process_that_runs_stays(tmp_path: Path) -> None:
    file = crash_file("window", os.getpid(), tmp_path)
    file.touch()
    assert take_crash(tmp_path) == ""
    assert file.exists()


def test_only_a_few_told_crashes_stay(tmp_path: Path) -> None:
    for number in range(8):
        file = crash_file("window", 10**9 + number, tmp_path)
        file.write_text(f"crash {number}")
        os.utime(file, (number, number))
    assert take_crash(tmp_path) == "crash 7"
    assert min(file.read_text() for file in tmp_path.iterdir()) == "crash 3"


def test_files_of_others_stay(tmp_path: Path) -> None:
    logs = tmp_path / "crashes"
    logs.mkdir()
    (tmp_path / "elsewhere").write_text("")
    for name in ("mine.log", "window.log", "window-1.log.txt", "My-1.log", "notes.reported"):
        (logs / name).touch()
    for number in range(9):
        (logs / f"notes {number}.log.reported").touch()
    (logs / f"window-{10**9}.log").symlink_to(tmp_path / "elsewhere")
    before = sorted(logs.iterdir())
    assert take_crash(logs) == ""
    assert sorted(logs.iterdir()) == before


def test_where_nothing_can_be_written_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    CrashLog("window", tmp_path / "file" / "below").close()
    assert take_crash(tmp_path / "file" / "below") == ""
    assert take_words(tmp_path / "missing") == ""


def test_an_engine_that_crashes_says_where(
    forked_engines: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    engine = EngineProcess()
    try:
        assert engine.receive(120) is not None  # it is up
        assert engine.pid is not None
        os.kill(engine.pid, 11)
        with pytest.raises(EngineError) as reported:
            engine.receive(60)
    finally:
        engine.close()
    assert "SIGSEGV" in reported.value.sentence
    assert "service.py" in reported.value.details
    assert [file.suffix for file in crashes_folder().iterdir()] == [".reported"]
