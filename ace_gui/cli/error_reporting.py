"""The end of a command: one sentence for any error, and an exit status."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ace_gui.cli.interrupts import CANCELLED
from ace_gui.cli.streams import output_problem, say
from ace_gui.errors import Cancelled, WorkbenchError, is_out_of_memory
from ace_gui.paths import logs_folder

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
    if verbose:
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exception(error)
    say(f"Error: {_sentence(error)}")
    return FAILED


def finished(status: int) -> int:
    """The exit status of a finished command. It is 1 if standard output could not be written.

    A reader that closes its pipe, such as ``head``, has all that it wants: that is no error.
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
    where = f"Details are in {log}." if log else "Add --verbose for details."
    if is_out_of_memory(error):
        return f"There was not enough memory; close other programs and try again. {where}"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
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
