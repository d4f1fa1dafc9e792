"""Shared by the commands: consoles, files of figures, one progress bar, warnings and checks."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ace_gui.cli.options import CommandOptions, WithOverwrite
from ace_gui.engine.contract.events import (
    CompareProgress,
    EvaluationProgress,
    Exported,
    JobProgress,
    LearningProgress,
    TensorFinished,
)
from ace_gui.engine.contract.plan import RECIPE, Check, CheckVerdict, Plan
from ace_gui.errors import Cancelled
from ace_gui.formatting import human_bytes, printable, value_text
from ace_gui.output_files import check_file, write_file

STANDARD_OUTPUT: Final = Path("-")
WIDE: Final = 240
"""Columns of a table in a file or a pipe, where no line is cut or wrapped."""

Event = TypeVar("Event")
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Terminal:
    """Where a command prints. ``figures_alone``: standard output is for JSON, CSV or a picture."""

    quiet: bool = False
    figures_alone: bool = False

    @classmethod
    def of(cls, command: CommandOptions) -> Terminal:
        """The terminal for the options of a command."""
        files = [getattr(command, name, None) for name in ("json", "csv", "picture")]
        return cls(command.quiet, STANDARD_OUTPUT in files)

    @property
    def results(self) -> Console:
        """The console for results; standard error if standard output has only figures."""
        if self.figures_alone:
            stream = sys.stderr
        else:
            stream = sys.stdout
        if stream.isatty():
            width = None
        else:
            width = WIDE
        quiet = self.quiet and self.figures_alone
        return Console(stderr=self.figures_alone, width=width, quiet=quiet, highlight=False)

    @property
    def notes(self) -> Console:
        """The console for progress, notes and warnings."""
        return Console(stderr=True, quiet=self.quiet, highlight=False)

    def progressed(self, events: Iterable[Event | None]) -> Iterator[Event]:
        """The events, with a progress bar on a terminal. Warnings of learning are printed."""
        columns = (
            TextColumn("{task.fields[count]}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )
        console = self.notes
        hidden = self.quiet or not console.is_terminal  # in a file it would be an empty line
        with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
            bar = progress.add_task("", total=None, count="")
            told: set[str] = set()
            for event in events:
                if isinstance(event, LearningProgress):
                    fresh = [warning for warning in event.warnings if warning not in told]
                    print_warnings(fresh, console)
                    told.update(fresh)
                if isinstance(event, JobProgress):
                    progress.update(
                        bar,
                        total=event.total or None,
                        completed=event.done,
                        count=f"{event.done}/{event.total}" if event.total else "",
                        description=printable(_stage(event)),
                    )
                if event is not None:
                    yield event

    def result(self, events: Iterable[object], result_type: type[Result]) -> Result:
        """The first event of a class, with a progress bar before. Raises Cancelled without one."""
        for event in self.progressed(events):
            if isinstance(event, result_type):
                return event
        raise Cancelled


USUAL: Final = Terminal()


def print_written(done: str, seconds: float, result: Exported, console: Console) -> None:
    """Print what a merge has written. ``done``: begins the message ("Merged 2 experts")."""
    size = f"{human_bytes(result.bytes)} in {result.folder}"
    console.print(safe_text(f"{done} in {seconds:.1f} s; {size}:"))
    for name in result.files:
        console.print(safe_text(f"  {name}"))


def _stage(event: JobProgress) -> str:
    match event:
        case LearningProgress():
            losses = [values[-1] for values in event.losses.values() if values]
            if losses:
                loss = f": mean loss {sum(losses) / len(losses):.4f}"
            else:
                loss = ""
            return f"{event.title}{loss}"
        case TensorFinished():
            return event.report.name
        case EvaluationProgress():
            speed = event.tokens_per_second
            return f"{event.model} on {event.task}" + (f", {speed:.0f} tokens/s" if speed else "")
        case CompareProgress():
            return f"{event.index + 1}/{event.of} {event.title}"
    return event.title


def table(
    *headings: str,
    left_aligned: Collection[str] = (),
    folded: Collection[str] = (),
    title: str = "",
) -> Table:
    """A table without lines.

    Columns are aligned to the right, except ``left_aligned`` and ``folded`` ones,
    and are never wrapped, except ``folded`` ones.
    """
    lines = Table(box=None, pad_edge=False, title=title or None, title_justify="left")
    for heading in headings:
        wraps = heading in folded
        justify: Literal["left", "right"] = "left" if wraps or heading in left_aligned else "right"
        lines.add_column(heading, justify=justify, no_wrap=not wraps, overflow="fold")
    return lines


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The files that a command writes besides its model. They must not replace ``inputs``.

    ``marks``: by path, the first bytes of a file that the same command wrote. It may be replaced.
    ``overwrite``: replace any other file. ``-`` is the standard output; see ``Terminal``.
    """

    inputs: tuple[Path, ...]
    marks: Mapping[Path | None, bytes]
    overwrite: bool

    @classmethod
    def of(
        cls, command: WithOverwrite, inputs: Iterable[Path], key: str = "", **marks: bytes
    ) -> Outputs:
        """The files named by the options ``json`` and those of ``marks``.

        ``key``: the first key of the JSON; its value is a list. Raises OutputError, before any
        work is done, if a file cannot be written.
        """
        if key:
            marks["json"] = b'{\n "%s": [' % key.encode()
        by_path = {getattr(command, option): mark for option, mark in marks.items()}
        outputs = cls(tuple(inputs), by_path, command.overwrite)
        for path, mark in by_path.items():
            if path not in (None, STANDARD_OUTPUT):
                check_file(path, outputs.inputs, mark=mark, overwrite=command.overwrite)
        return outputs

    def write(self, path: Path | None, text: str) -> None:
        """Write a text file atomically, if a path was given. Raises OutputError, ResourceError."""
        if path == STANDARD_OUTPUT:
            sys.stdout.write(text)
        elif path is not None:
            data = text.encode("utf-8", "backslashreplace")
            write_file(path, data, self.inputs, mark=self.marks[path], overwrite=self.overwrite)

    def write_json(self, path: Path | None, content: object) -> None:
        """Write values as JSON, if a path was given."""
        self.write(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def print_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print warnings about a merge as a whole, one per line."""
    for warning in warnings:
        console.print(safe_text(f"Warning: {warning}", style="yellow"), soft_wrap=True)


def print_parameter_notes(plan: Plan, console: Console) -> None:
    """Print the value and the reason for each parameter that the recipe leaves open."""
    for name, note in plan.parameter_notes.items():
        value = value_text(plan.parameters[name])
        console.print(safe_text(f"Note: {name} = {value}. {note}", style="dim"), soft_wrap=True)


def safe_text(text: str, style: str = "") -> Text:
    """Text that may contain names from files, safe for a terminal: no markup, no control
    characters.
    """
    return Text(printable(text), style=style)


def print_checks(
    checks: Sequence[Check],
    console: Console,
    verdicts: Collection[CheckVerdict] = (CheckVerdict.WARNING, CheckVerdict.ERROR),
) -> None:
    """Print the checks with these verdicts, one per line, and notes on reading the recipe."""
    styles = {CheckVerdict.ERROR: "red", CheckVerdict.WARNING: "yellow"}
    for check in checks:
        is_note = check.title == RECIPE and CheckVerdict.WARNING in verdicts
        if check.verdict in verdicts or is_note:
            line = f"{check.verdict.value.title()}: {check.line}"
            console.print(safe_text(line, style=styles.get(check.verdict, "dim")), soft_wrap=True)
