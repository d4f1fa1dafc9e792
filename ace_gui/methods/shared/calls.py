"""Calls of functions that may come from outside this package."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ace_gui.errors import Cancelled, MethodError, WorkbenchError, is_out_of_memory, lacks_room


class WrongReturnError(Exception):
    """The sentence says what a function returned, and what it should have returned."""


def plain_function(function: Callable[..., object]) -> Callable[..., object]:
    """The function that is written in a file, without decorators and fixed arguments."""
    without_arguments = getattr(function, "func", function)  # ``func`` of a ``partial``
    plain: Callable[..., object] = inspect.unwrap(without_arguments)
    return plain


def source_of(function: Callable[..., object]) -> str:
    """The file of a function, or its module if it has no file."""
    plain = plain_function(function)
    code = getattr(plain, "__code__", None)
    if code:
        return str(code.co_filename)
    return str(getattr(plain, "__module__", "unknown"))


@contextmanager
def calling(what: str, function: Callable[..., object]) -> Iterator[None]:
    """Raise MethodError for any error of a function from outside this package.

    It names the function as ``what`` and its file. A lack of memory stays what it is, and so do the
    errors of this package, but a WrongReturnError always becomes a MethodError.
    """
    name_and_file = f"{what} ({source_of(function)})"
    is_ours = str(getattr(plain_function(function), "__module__", "")).startswith("ace_gui.")
    try:
        yield
    except (WorkbenchError, Cancelled, KeyboardInterrupt, GeneratorExit):
        raise
    except WrongReturnError as error:
        raise MethodError(f"{name_and_file} returned {error}.") from None
    except BaseException as error:  # also sys.exit: a method never ends the program
        if is_ours or is_out_of_memory(error) or lacks_room(error):
            raise
        raise MethodError(
            f"{name_and_file} failed: {type(error).__name__}: {error}",
            details="".join(traceback.format_exception(error)),
        ) from error
