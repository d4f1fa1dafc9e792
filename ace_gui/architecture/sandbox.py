"""Describes checkpoints in a separate process, which is ended if it takes too much.

A few wrong numbers in a config can make building its model take hours or all memory: a count of
layers, a product of counts, a list of lists. No check of single numbers finds them all, so the
model is built where time and memory can be limited. The process that merges is spared the import
of transformers as well.

Descriptions are cached on disk. A description depends only on the config, the tensors' shapes,
transformers and this package, so its file is named by a digest of these. A file that cannot be
read, does not match its checksum, or does not fit, is made again.

Each request and each answer is one JSON line. The process ends when its owner is gone: at the end
of its input, or when an answer is overdue.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import hashlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, Final

import psutil
from pydantic import TypeAdapter

import ace_gui
from ace_gui.architecture import transformers_library
from ace_gui.architecture.describe import Shape, by_names, describe, names_model
from ace_gui.architecture.traits import Architecture
from ace_gui.errors import ArchitectureError
from ace_gui.formatting import human_bytes, plain
from ace_gui.output_files import replacing
from ace_gui.processes import is_bundled, part_command
from ace_gui.steps import Steps
from ace_gui.versions import code_digest

_ARCHITECTURE: Final = TypeAdapter(Architecture)


def serve() -> None:
    """Report that the libraries are loaded, then answer until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    gc.disable()  # a model is a million objects, and none of them garbage
    try:
        _import_libraries()
    except Exception as error:
        _say(answers, {"error": transformers_library.last_line(error)})
        return
    gc.freeze()
    _say(answers, {})
    for line in sys.stdin.buffer:
        _say(answers, _answer(line))
        del line
        gc.collect()


def _import_libraries() -> None:
    """Import what every description needs, so that its time is only that of the model."""
    transformers_library.transformers()
    import transformers.conversion_mapping
    import transformers.core_model_loading
    import transformers.modeling_utils  # noqa: F401


def _answer(line: bytes) -> dict[str, Any]:
    try:
        config, shapes, seconds, memory_bytes = json.loads(line)
        faulthandler.dump_traceback_later(seconds, exit=True)
        _limit_memory(memory_bytes)
        architecture = describe(config, {name: tuple(shape) for name, shape in shapes})
        return {"architecture": _ARCHITECTURE.dump_python(architecture, mode="json")}
    except Exception as error:
        return {"error": transformers_library.last_line(error)}
    finally:
        faulthandler.cancel_dump_traceback_later()


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


def _say(answers: BinaryIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message).encode() + b"\n")
    answers.flush()


_CHECK_SECONDS: Final = 0.2  # seconds between two checks of the process
_WAITING: Final = 4.0  # a busy machine may need so many times the processor time
_SPARE: Final = 2.0  # seconds for the process to end by itself
_CODE: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from ace_gui.architecture.sandbox import serve; serve()"
)
_BUILDING: Final = "Building the model of config.json"
_CHECK: Final = "check the numbers in it."


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one description: processor time, which grows with the number of tensors, and
    memory.

    The largest published model with a module for every expert, 123 000 tensors, takes 27 s and 0.8
    GB. All others take less than a second.
    """

    seconds: float = 8.0
    seconds_a_tensor: float = 1e-3
    memory_bytes: int = 2 << 30


_START: Final = Limits(seconds=60.0)
"""For importing torch and transformers from a slow disk."""


class _BeyondLimitsError(Exception):
    """The process took too much, or has ended. The text is a sentence."""


class Describer:
    """Describes one checkpoint after the other. Its process is started when it is first needed.

    It is a context manager; work in progress is stopped at the end of the block.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._process: subprocess.Popen[bytes] | None = None
        self._talk = ThreadPoolExecutor(1, thread_name_prefix="describer")

    def __enter__(self) -> Describer:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._talk.shutdown()

    @property
    def pid(self) -> int | None:
        """The id of the process; None if there is none."""
        return self._process.pid if self._process is not None else None

    def describe(
        self, config: Mapping[str, object] | None, shapes: Mapping[str, Shape]
    ) -> Steps[Architecture]:
        """As ``describe.describe``, but by names if the model cannot be built within limits.

        Raises ArchitectureError if the process cannot be started.
        """
        if not names_model(config):
            return describe(config, shapes)
        extra = self._limits.seconds_a_tensor * len(shapes)
        limits = replace(self._limits, seconds=self._limits.seconds + extra)
        last_limits = [_SPARE * _WAITING * limits.seconds, int(_SPARE * limits.memory_bytes)]
        content = [config, list(shapes.items()), *last_limits]
        try:
            request = json.dumps(content).encode() + b"\n"
        except RecursionError:
            return by_names(config, shapes, transformers_library.TOO_DEEP)
        if self._process is None:
            yield from self._start()
        try:
            answer = yield from self._exchange(request, limits)
        except _BeyondLimitsError as error:
            self._end()
            return by_names(config, shapes, str(error))
        if "error" in answer:
            reason = plain(answer["error"])
            return by_names(config, shapes, f"{_BUILDING} failed ({reason}); check config.json.")
        try:
            return _ARCHITECTURE.validate_python(answer.get("architecture"))
        except ValueError:
            return by_names(config, shapes, f"{_BUILDING} failed; check config.json.")

    def _start(self) -> Steps[None]:
        try:
            self._process = subprocess.Popen(
                _command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},  # a description needs no GPU
            )
            ready = yield from self._exchange(b"", _START)
        except (OSError, _BeyondLimitsError) as error:
            self._end()
            raise _no_process(str(error)) from error
        if "error" in ready:
            self._end()
            raise _not_importable(ready["error"])

    def _exchange(self, request: bytes, limits: Limits) -> Steps[dict[str, Any]]:
        """The answer to a request. An empty request returns the process's first message."""
        process = self._process
        assert process is not None
        watch = _Watch(process.pid, limits)
        answer = self._talk.submit(_talk, process, request)
        try:
            while not wait([answer], _CHECK_SECONDS).done:
                watch.check()
                yield
        except psutil.Error:
            pass  # the process has ended, and so has the exchange
        except GeneratorExit:
            self._end()
            raise
        try:
            message: dict[str, Any] = json.loads(answer.result())
        except (OSError, ValueError) as error:
            sentence = f"{_BUILDING} failed, because its process was ended; {_CHECK}"
            raise _BeyondLimitsError(sentence) from error
        return message

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what could not be written is not needed any more
                if pipe is not None:
                    pipe.close()


def _command() -> list[str]:
    if is_bundled():
        return part_command("describe-models")
    root = str(Path(ace_gui.__file__).parent.parent)
    path = [entry for entry in sys.path if entry]
    return [sys.executable, "-P", "-c", _CODE, *path, root]


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
        self._started, self._computed = time.monotonic(), self._seconds()
        self._held = self._process.memory_info().rss

    def check(self) -> None:
        """Raise _BeyondLimitsError if it took too much, psutil.Error if it has ended."""
        limits = self._limits
        late = time.monotonic() - self._started > _WAITING * limits.seconds
        if late or self._seconds() - self._computed > limits.seconds:
            took = f"took longer than {limits.seconds:.0f} s"
        elif self._process.memory_info().rss - self._held > limits.memory_bytes:
            took = f"took more than {human_bytes(limits.memory_bytes)}"
        else:
            return
        raise _BeyondLimitsError(f"{_BUILDING} {took}; {_CHECK}")

    def _seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


def _no_process(reason: str) -> ArchitectureError:
    return ArchitectureError(
        "The process that describes models cannot be started; check that transformers is installed "
        "and that memory is left.",
        details=reason,
    )


def _not_importable(reason: str) -> ArchitectureError:
    """``reason``: class and last line of the error."""
    return ArchitectureError(
        f"transformers cannot be imported: {plain(reason)}. Install versions of torch and "
        "transformers that fit together, or remove the package that is named here.",
        details=reason,
    )


LARGEST_NUMBER: Final = 64
"""Largest number of files in the folder; the oldest are removed first."""

Describe = Callable[[Mapping[str, object] | None, Mapping[str, Shape]], Steps[Architecture]]

_log = logging.getLogger(__name__)
_by_names: dict[str, Architecture] = {}


def remembered(
    config: Mapping[str, object] | None,
    shapes: Mapping[str, Shape],
    folder: Path,
    describe: Describe,
) -> Steps[Architecture]:
    """As ``describe``, but read from ``folder`` if the same was described before.

    A description by names is kept only for this process, because the reason may be lack of time or
    a missing package. ``folder`` need not be writable.
    """
    key = None if config is None else _key(config, shapes)
    if key is None:
        return (yield from describe(config, shapes))
    path = folder / f"{key}.json"
    architecture = _by_names.get(key) or _read(path, shapes)
    if architecture is None:
        architecture = yield from describe(config, shapes)
        if architecture.model_class is not None:
            with contextlib.suppress(OSError):
                _write(path, architecture)
        else:
            _keep(key, architecture)
    return architecture


def _keep(key: str, architecture: Architecture) -> None:
    _by_names[key] = architecture
    while len(_by_names) > LARGEST_NUMBER:
        del _by_names[next(iter(_by_names))]


def _key(config: Mapping[str, object], shapes: Mapping[str, Shape]) -> str | None:
    """The key of a description; None for a config that is nested too deeply for JSON."""
    try:
        text = json.dumps(
            [code_digest("architecture"), version("transformers"), config, list(shapes.items())]
        )
    except RecursionError:
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path, shapes: Mapping[str, Shape]) -> Architecture | None:
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises without permission
        return None
    try:
        if not path.is_file():
            raise OSError("not a regular file")
        digest, _, content = path.read_bytes().partition(b"\n")
        if digest != _digest(path, content):
            raise ValueError("does not match its checksum")
        architecture = _ARCHITECTURE.validate_json(content)
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be used and is made again: %s.", path, error)
        return None
    return architecture if architecture.traits.keys() == shapes.keys() else None


def _write(path: Path, architecture: Architecture) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = _ARCHITECTURE.dump_json(architecture)
    with replacing(path) as fresh:
        fresh.write_bytes(_digest(path, content) + b"\n" + content)
    kept = sorted(path.parent.glob("*.json"), key=lambda old: old.stat().st_mtime_ns)
    for old in kept[:-LARGEST_NUMBER]:
        old.unlink(missing_ok=True)


def _digest(path: Path, content: bytes) -> bytes:
    """Digest of a description and its file's name, so that no file is taken for another."""
    return hashlib.sha256(path.name.encode() + content).hexdigest().encode()
