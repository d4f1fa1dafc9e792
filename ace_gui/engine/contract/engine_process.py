"""The engine in its own process, and the handle with which its owner controls it.

Over a pipe the owner sends ``(job number, job)``, ``(job number, None)`` to cancel that job, or
None to end the process; the engine sends ``(job number, event)`` back.
One long job, such as a merge, and any number of quick ones (plan, spectrum) share the process. Jobs
are generators, and the newest quick one comes first at every step.

The window's process imports this module, so nothing heavy is imported at its top.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Final

from ace_gui.crash_log import CrashLog, crash_file, take_words
from ace_gui.errors import EngineError
from ace_gui.processes import go_offline, heavy_imports

if TYPE_CHECKING:  # the engine is started before the window has imported them
    from ace_gui.engine.contract.events import Event, Job

COOPERATIVE_SECONDS: Final = 5.0
"""Time for a cancelled job to reach its next step. After it the process is killed."""

_CALLED: Final = "engine"  # name in the folder of crash logs

NICENESS: Final = 5
"""Unix nice increment of the engine, so that the window stays responsive."""


class EngineProcess:
    """A handle on one engine process. One thread may send while another receives.

    ``receive`` blocks; everything else returns at once.
    """

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # It belongs to the owner, so that nothing remains if the engine is killed while working.
        self._scratch = tempfile.TemporaryDirectory(
            prefix="ace-engine-", ignore_cleanup_errors=True
        )
        self._process = context.Process(
            target=_serve, args=(theirs, self._scratch.name), name="ace-engine", daemon=True
        )
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int | None:
        """Process id, for memory figures and for tests that kill it."""
        return self._process.pid

    @property
    def pipe(self) -> Connection:
        """The owner's end, for ``multiprocessing.connection.wait``; read it with ``receive``."""
        return self._pipe

    def submit(self, number: int, job: Job) -> None:
        """Queue a job; its events carry its number. Raises EngineError if the process is gone.

        The owner chooses increasing numbers: the newest job comes first.
        """
        self._send((number, job))

    def cancel(self, number: int) -> None:
        """Ask a job to stop at its next step."""
        self._send((number, None))

    def receive(self, timeout: float | None = None) -> tuple[int, Event] | None:
        """The next event with its job's number (0: the engine itself); None after a timeout.

        Raises EngineError, with the reason, when the process has ended.
        """
        try:
            if not self._pipe.poll(timeout):
                return None
            received: tuple[int, Event] = self._pipe.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        return received

    def close(self, timeout: float = COOPERATIVE_SECONDS) -> None:
        """End the process: ask, then terminate, then kill."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        for end in (None, self._process.terminate, self._process.kill):
            if end is not None:
                end()
            self._process.join(timeout)
            if self._process.exitcode is not None:
                break
        self._pipe.close()
        self._scratch.cleanup()

    def terminate(self) -> None:
        """End the process now."""
        self._process.terminate()

    def kill(self) -> None:
        """End the process without asking."""
        self._process.kill()

    def _send(self, message: tuple[int, Job | None]) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            raise self._ended() from None

    def _ended(self) -> EngineError:
        self._process.join(2.0)
        code = self._process.exitcode
        if self._process.pid:
            words = take_words(crash_file(_CALLED, self._process.pid))
        else:
            words = ""
        details = f"exit code {code}\n\n{words}".strip()
        sentence = "The engine process ended unexpectedly."
        if code is not None and code < 0:
            killed = -code == getattr(signal, "SIGKILL", 9)
            if killed:
                likely = ", probably for lack of memory"
            else:
                likely = ""
            name = signal.Signals(-code).name
            sentence = f"The engine was stopped by the system{likely} ({name})."
        return EngineError(sentence, details=details)


def _serve(pipe: Connection, scratch: str) -> None:
    """The engine process's main function. ``scratch``: the folder for its temporary files."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner decides when to stop
    tempfile.tempdir = scratch
    go_offline()
    crash_log = CrashLog(_CALLED)
    with heavy_imports():
        from ace_gui.engine import service

    if hasattr(os, "nice"):  # not before: the window waits for these imports
        os.nice(NICENESS)
    service.serve(pipe)
    crash_log.close()
    shutil.rmtree(scratch, ignore_errors=True)  # the owner may be gone
