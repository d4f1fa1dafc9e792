"""Standard output and error that accept every text, and how a command ends.

Any error ends it with one sentence and an exit status.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO

from ace_gui.cli.interrupts import CANCELLED
from ace_gui.errors import Cancelled, WorkbenchError, is_out_of_memory
from ace_gui.formatting import printable
from ace_gui.paths import logs_folder

_PLAIN: Final = {
    "γ": "gamma",
    "τ": "tau",
    "ε": "epsilon",
    "σ": "sigma",
    "Σ": "Sum",
    "Δ": "d",
    "λ": "lambda",
    "θ": "theta",
    "‖": "||",
    "×": "x",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "∞": "inf",
    "√": "sqrt",
    "–": "-",
    "…": "...",
}
"""Replacements for characters that a terminal's encoding lacks; others become ``\\u1234``."""


class _Lasting(io.FileIO):
    """The file of a stream; it discards what cannot be written, and keeps the first error."""

    problem: OSError | None = None

    def write(self, data: Any) -> int:
        """Write ``data``, or discard it after an error."""
        if self.problem is None:
            try:
                return super().write(data) or 0
            except OSError as error:
                self.problem = error
        return len(data)


def prepare_streams() -> None:
    """Make the streams discard what cannot be written, so that no work stops for it.

    Closed descriptors are opened on the null device. Otherwise the next opened file would become
    standard output.
    """
    codecs.register_error("ace-plain", _replace)
    for descriptor in range(3):
        if _is_closed(descriptor):
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _prepared(sys.stdout, 1)
    sys.stderr = _prepared(sys.stderr, 2)


def _prepared(stream: TextIO | None, descriptor: int) -> TextIO:
    """The stream, wrapped to survive write errors. A Windows console already does."""
    if stream is None:
        file = io.BufferedWriter(_Lasting(descriptor, "w", closefd=False))
        return io.TextIOWrapper(file, encoding="utf-8", errors="ace-plain")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    if sys.platform == "win32":  # γ and τ on an old console
        stream.reconfigure(encoding="utf-8", errors="ace-plain")
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Lasting(descriptor, "w", closefd=False)),
        encoding=stream.encoding,
        errors="ace-plain",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def output_problem() -> OSError | None:
    """The error for which standard output lost text, or None."""
    sys.stdout.flush()
    file = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(file, _Lasting):
        return file.problem
    return None


def say(text: str) -> None:
    """Print one line on standard error, without control characters. Write errors are ignored."""
    line = printable(_BREAK.sub(" ", text.strip()))
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"
    with contextlib.suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)  # noqa: T201


_LONGEST: Final = 2000
_BREAK: Final = re.compile(r"\s*\n\s*")


def _is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    escaped = ""
    for letter in lacking:
        escaped += _PLAIN.get(letter) or letter.encode("ascii", "backslashreplace").decode("ascii")
    return escaped, error.end


FAILED: Final = 1


@contextlib.contextmanager
def reported(verbose: bool, *passed: type[Exception]) -> Iterator[None]:
    """Report errors as one sentence on stderr with status 1, and an interrupt with status 130.

    ``passed``: exceptions that the caller reports itself.
    """
    try:
        yield
    except passed:
        raise
    except (Exception, KeyboardInterrupt) as error:
        raise SystemExit(status_of(error, verbose=verbose)) from None


def status_of(error: BaseException, *, verbose: bool) -> int:
    """Print why a command stopped, and return its exit status."""
    if isinstance(error, KeyboardInterrupt | Cancelled):
        say("Cancelled.")
        return CANCELLED
    try:
        return _told(error, verbose)
    except MemoryError:  # there is none for the report
        with contextlib.suppress(OSError):
            os.write(2, _NO_MEMORY)
        return FAILED


_NO_MEMORY: Final = b"Error: There was not enough memory; close other programs and try again.\n"
"""Made in time."""


def _told(error: BaseException, verbose: bool) -> int:
    if is_out_of_memory(error):
        traceback.clear_frames(error.__traceback__)  # their tensors take the room of the report
    if verbose:
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exception(error)
    say(f"Error: {_sentence(error)}")
    return FAILED


def finished(status: int) -> int:
    """The exit status of a finished command. It is 1 if standard output could not be written.

    It is no error if a reader such as ``head`` closes its pipe early.
    """
    problem = output_problem()
    if problem is None or status or isinstance(problem, BrokenPipeError):
        return status
    reason = problem.strerror or problem
    say(f"Error: Not all results could be printed: {reason}. Redirect the output to another file.")
    return FAILED


def _sentence(error: BaseException) -> str:
    if isinstance(error, WorkbenchError):
        return error.sentence
    log = _logged(error)
    if log:
        where = f"Details are in {log}."
    else:
        where = "Add --verbose for details."
    if is_out_of_memory(error):
        return f"There was not enough memory; close other programs and try again. {where}"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        if isinstance(error.filename, bytes):
            name = os.fsdecode(error.filename)
        else:
            name = error.filename
        return f"{name}: {error.strerror}. {where}"
    return f"Something unexpected went wrong: {type(error).__name__}: {error}. {where}"


def _logged(error: BaseException) -> Path | None:
    """Write the traceback to a new file in the user's log folder, or the temporary folder."""
    text = "".join(traceback.format_exception(error))
    for folder in _log_folders():
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            stamp = time.strftime("%Y-%m-%d-")
            number, name = tempfile.mkstemp(prefix=f"error-{stamp}", suffix=".log", dir=folder)
            with open(number, "w", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123
                file.write(text)
            return Path(name)
    return None


def _log_folders() -> Iterator[Path]:
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no home
        yield logs_folder()
    with contextlib.suppress(OSError):
        yield Path(tempfile.gettempdir())
