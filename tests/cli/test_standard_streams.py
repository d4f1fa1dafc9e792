"""Standard output that is full, closed, or of another encoding; Ctrl+C at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "ace_gui"]


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of sh in which ``ace`` is the program; the status is the program's own."""
    script = f'ace() {{ "{sys.executable}" -m ace_gui "$@"; echo "status $?" >&9; }}\n{line}'
    return subprocess.run(
        ["sh", "-c", f"exec 9>&1\n{script}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("line", "status", "sentence"),
    [
        ("ace --help >/dev/full", 1, "No space left on device"),
        ("ace --version >/dev/full", 1, "No space left on device"),
        ("ace nosuch 2>/dev/full", 2, ""),
        ("ace --version >&-", 0, ""),
        ("ace nosuch 2>&-", 2, ""),
        ("ace --version <&- >&- 2>&-", 0, ""),
        ("ace --help | true", 0, ""),
        ("ace methods --all | true", 0, ""),
    ],
)
def test_streams_that_take_nothing(line: str, status: int, sentence: str):
    done = shell(line)
    assert f"status {status}" in done.stdout
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    if sentence:
        [only] = done.stderr.splitlines()
        assert only.startswith("Error: ")
        assert sentence in only
    else:
        assert not done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_every_encoding_prints_greek(encoding: str):
    code = "from ace_gui.cli.streams import *; prepare_streams(); print('γ > τ, ‖ΔW‖ 漢')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    plain = "gamma > tau, ||dW|| \\u6f22\n"
    assert done.stdout.decode(encoding) == ("γ > τ, ‖ΔW‖ 漢\n" if encoding == "utf-8" else plain)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("milliseconds", [0, 30, 80, 200, 600])
def test_a_signal_at_the_start_cancels(number: signal.Signals, milliseconds: int):
    """From the program's first line on; before it, Python itself is starting.

    A shell starts what runs in the background with SIGINT ignored, and this test may be among it.
    """
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "import ace_gui.__main__ as m; m.end_at_once(); print('!', flush=True); m.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "devices"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.read(1)
    time.sleep(milliseconds / 1000)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "Cancelled.\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_ends_by_a_signal_without_a_traceback():
    code = (
        "import multiprocessing, time\nfrom ace_gui.cli.interrupts import interruptible\n"
        "with interruptible():\n"
        "    child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
        "    child.start(); time.sleep(0.3); child.terminate(); child.join()\n"
        "print(child.exitcode)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == (str(-signal.SIGTERM), "")
