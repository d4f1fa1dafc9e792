"""Standard output and error that accept every text on any terminal or file."""

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
"""Replacements for characters that a terminal's encoding lacks; others become ``\\u1234``."""


class _Lasting(io.FileIO):
    """A stream's file that discards data it cannot write, and keeps the first error."""

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
    return file.problem if isinstance(file, _Lasting) else None


def say(text: str) -> None:
    """Print one line on standard error, without control characters. Write errors are ignored."""
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
