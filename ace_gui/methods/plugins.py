"""Methods from outside this package: from installed packages and from the user's own folder.

A package offers methods with an entry point in the group ``ace_gui.methods``. Its value is a
``MergeMethod``, or a module that calls ``register_method``. A user puts a Python file that calls it
into ``methods_folder()``. No other code is run, and never code that comes with a model.
"""

from __future__ import annotations

import ctypes
import importlib.util
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

from ace_gui.methods.method import MergeMethod
from ace_gui.methods.registry import add_method
from ace_gui.paths import methods_folder

GROUP: Final = "ace_gui.methods"

PATIENCE: Final = 60.0
"""Seconds that the import of a file or a package may take."""

_ANYTHING: Final = (Exception, SystemExit)
"""All that foreign code may raise; Ctrl+C still stops the program."""


def load_plugins() -> tuple[str, ...]:
    """Run every plugin once. Returns a sentence for each one that could not be used."""
    problems = []
    for point in entry_points(group=GROUP):
        try:
            with _limited():
                _load_entry_point(point)
        except _ANYTHING as error:
            problems.append(_sentence(f"the package that offers {point.value!r}", error))
    for path in _files():
        try:
            with _limited():
                _run(path)
        except _ANYTHING as error:
            problems.append(_sentence(str(path), error))
    return tuple(problems)


class _StopError(Exception):
    """Raised in a plugin by another thread."""


def _too_slow() -> TimeoutError:
    return TimeoutError(f"it did not end within {PATIENCE:g} seconds")


@contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError in a block that takes too long.

    The system's alarm also interrupts a waiting call. On a system without it, and outside the main
    thread, the error is raised at the next Python instruction.
    """
    alarm = getattr(signal, "SIGALRM", None)
    if alarm is None or threading.current_thread() is not threading.main_thread():
        with _limited_by_thread():
            yield
        return

    def stop(*_: object) -> None:
        raise _too_slow()

    before = signal.signal(alarm, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(alarm, before)


@contextmanager
def _limited_by_thread() -> Iterator[None]:
    thread = threading.get_ident()
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def stop() -> None:
        raise_in(ctypes.c_ulong(thread), ctypes.py_object(_StopError))

    timer = threading.Timer(PATIENCE, stop)
    try:
        timer.start()
        yield
    except _StopError:
        raise _too_slow() from None
    finally:
        timer.cancel()
        timer.join()
        raise_in(ctypes.c_ulong(thread), None)  # an error that came too late


def _load_entry_point(point: EntryPoint) -> None:
    loaded = point.load()
    if isinstance(loaded, MergeMethod):
        add_method(loaded)


def _files() -> list[Path]:
    try:
        return sorted(path for path in methods_folder().glob("*.py") if path.is_file())
    except OSError:
        return []


def _run(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(f"ace_gui_methods_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _sentence(whose: str, error: BaseException) -> str:
    return f"The methods of {whose} cannot be used: {type(error).__name__}: {error}"
