"""A process that answers requests within limits of time and memory, and is ended if it takes more.

What other people's files make a library do may take for ever, or all memory. It is done where both
can be limited. Each request and each answer is one JSON line. The process ends when its owner is
gone: at the end of its input, or when an answer is overdue.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import psutil

from ace_gui.errors import is_out_of_memory
from ace_gui.formatting import human_bytes
from ace_gui.paths import PACKAGE
from ace_gui.processes import is_bundled, part_command
from ace_gui.steps import Steps

CHECK_SECONDS: Final = 0.2
"""Seconds between two checks of the process."""

WAITING: Final = 4.0
"""A busy machine may need so many times the processor time."""

SPARE: Final = 2.0
"""The process ends itself after so many times its limits."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that one answer may take."""

    seconds: float
    """Processor time."""

    memory_bytes: int = 2 << 30
    """Memory over what the process held before."""


STARTING: Final = Limits(seconds=60.0)
"""For importing libraries from a slow disk."""


class BeyondLimitsError(Exception):
    """The process took too much, or has ended; the text is the end of a sentence about the work."""


class NotStartedError(Exception):
    """The process cannot be started."""

    def __init__(self, reason: str, *, imports: bool = False, memory: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        """Class and last line of the error."""
        self.imports = imports
        """Whether a library in it cannot be imported, for another reason than memory."""
        self.memory = memory
        """Whether there is not enough memory for its libraries."""


_CODE: Final = "import sys; sys.path[:] = sys.argv[1:]; from {module} import serve; serve()"


class LimitedProcess:
    """A process of its own, started when it is first needed. Close it with ``close``.

    It runs the function ``serve`` of ``module``, which is the ``part`` of a bundle.
    """

    def __init__(self, part: str, module: str) -> None:
        self._part = part
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._talk = ThreadPoolExecutor(1, thread_name_prefix="limited-process")

    @property
    def pid(self) -> int | None:
        """The id of the process; None if there is none."""
        if self._process is not None:
            return self._process.pid
        return None

    def answer(self, request: bytes, limits: Limits) -> Steps[dict[str, Any]]:
        """The answer to a request, in steps while it is awaited.

        Raises NotStartedError, and BeyondLimitsError, after which the next request starts another
        process.
        """
        if self._process is None:
            yield from self._start()
        try:
            return (yield from self._exchange(request, limits))
        except BeyondLimitsError:
            self.end()
            raise

    def close(self) -> None:
        """End the process, and the thread that talks to it."""
        self.end()
        self._talk.shutdown()

    def end(self) -> None:
        """End the process, whatever it does."""
        process = self._process
        self._process = None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what could not be written is not needed any more
                if pipe is not None:
                    pipe.close()

    def _start(self) -> Steps[None]:
        try:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},  # nothing here needs a GPU
            )
            ready = yield from self._exchange(b"", STARTING)
        except (OSError, BeyondLimitsError) as error:
            self.end()
            raise NotStartedError(str(error)) from error
        if "error" in ready:
            self.end()
            memory = bool(ready.get("memory"))
            raise NotStartedError(ready["error"], imports=not memory, memory=memory)

    def _command(self) -> list[str]:
        """The command that starts it, outside a bundle with this program's packages on the path."""
        if is_bundled():
            return part_command(self._part)
        path = [entry for entry in sys.path if entry]
        code = _CODE.format(module=self._module)
        return [sys.executable, "-P", "-c", code, *path, str(PACKAGE.parent)]

    def _exchange(self, request: bytes, limits: Limits) -> Steps[dict[str, Any]]:
        """The answer to a request. An empty request returns the process's first message."""
        process = self._process
        assert process is not None
        watch = _Watch(process.pid, limits)
        answer = self._talk.submit(_talk, process, request)
        try:
            while not wait([answer], CHECK_SECONDS).done:
                watch.check()
                yield
        except psutil.Error:
            pass  # the process has ended, and so has the exchange
        except GeneratorExit:
            self.end()
            raise
        try:
            message: dict[str, Any] = json.loads(answer.result())
        except (OSError, ValueError) as error:
            raise BeyondLimitsError("failed, because its process was ended") from error
        return message


def answer_until_end(
    prepare: Callable[[], None], answered: Callable[..., Mapping[str, Any]]
) -> None:
    """Report that the libraries are loaded ({}) or why not, then answer until the input ends.

    It is what the process runs. ``prepare`` imports; a request is [arguments of ``answered`` …,
    seconds, memory in bytes]. An error in it is answered by its class and last line.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    gc.disable()  # a model is a million objects, and none of them garbage
    try:
        prepare()
    except Exception as error:
        _say(answers, {"error": last_line(error), "memory": is_out_of_memory(error)})
        return
    gc.freeze()
    _say(answers, {})
    for line in sys.stdin.buffer:
        _say(answers, _answer(line, answered))
        del line
        gc.collect()


def _answer(line: bytes, answered: Callable[..., Mapping[str, Any]]) -> Mapping[str, Any]:
    try:
        *arguments, seconds, memory_bytes = json.loads(line)
        faulthandler.dump_traceback_later(seconds, exit=True)
        _limit_memory(memory_bytes)
        return answered(*arguments)
    except Exception as error:
        return {"error": last_line(error)}
    finally:
        faulthandler.cancel_dump_traceback_later()


def last_line(error: BaseException) -> str:
    """The class and the last line of an error of another library."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1].rstrip('.')}"


def request_of(arguments: list[Any], limits: Limits) -> bytes:
    """A request as ``answer_until_end`` reads it. Raises RecursionError for deep arguments."""
    last_limits = [SPARE * WAITING * limits.seconds, int(SPARE * limits.memory_bytes)]
    return json.dumps([*arguments, *last_limits]).encode() + b"\n"


def _limit_memory(memory_bytes: int) -> None:
    """Limit the memory where the system can, for the time between two checks."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + memory_bytes
    if soft == resource.RLIM_INFINITY or most < soft:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _say(answers: BinaryIO, message: Mapping[str, Any]) -> None:
    answers.write(json.dumps(message).encode() + b"\n")
    answers.flush()


def _talk(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(request)
    process.stdin.flush()
    return process.stdout.readline()


class _Watch:
    """Measures the time and memory of a process from now on."""

    def __init__(self, pid: int, limits: Limits) -> None:
        self._process = psutil.Process(pid)
        self._limits = limits
        self._started = time.monotonic()
        self._computed = self._seconds()
        self._held = self._process.memory_info().rss

    def check(self) -> None:
        """Raise BeyondLimitsError if it took too much, psutil.Error if it has ended."""
        limits = self._limits
        late = time.monotonic() - self._started > WAITING * limits.seconds
        if late or self._seconds() - self._computed > limits.seconds:
            raise BeyondLimitsError(f"took longer than {limits.seconds:.0f} s")
        if self._process.memory_info().rss - self._held > limits.memory_bytes:
            raise BeyondLimitsError(f"took more than {human_bytes(limits.memory_bytes)}")

    def _seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)
