"""Standard output and error that accept every text, whatever terminal or file they write to."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import sys
from typing import Any, Final, TextIO

from ace_gui.formatting import printable

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
"""What is printed where the encoding of a terminal lacks a character; others as ``\\u1234``."""


class _Lasting(io.FileIO):
    """A stream's file that discards what it cannot write, and remembers why."""

    problem: OSError | None = None

    def write(self, data: Any) -> int:
        """Write, or lose."""
        if self.problem is None:
            try:
                return super().write(data) or 0
            except OSError as error:
                self.problem = error
        return len(data)


def prepare_streams() -> None:
    """Make the streams take and lose what cannot be written, so that no work stops for it.

    A closed descriptor is filled: else the next file that is opened would be standard output.
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
    """The stream, made lasting; a Windows console is one already."""
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
    """Why standard output lost something; None if it did not."""
    sys.stdout.flush()
    file = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return file.problem if isinstance(file, _Lasting) else None


def say(text: str) -> None:
    """One line on standard error, without control characters; nothing where that cannot be."""
    shown = printable(_BREAK.sub(" ", text.strip()))
    if len(shown) > _LONGEST:
        shown = f"{shown[: _LONGEST // 2]} … {shown[-_LONGEST // 2 :]}"
    with contextlib.suppress(OSError, ValueError):
        print(shown, file=sys.stderr, flush=True)  # noqa: T201


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
    shown = "".join(
        _PLAIN.get(letter) or letter.encode("ascii", "backslashreplace").decode("ascii")
        for letter in lacking
    )
    return shown, error.end
