"""``ace-gui methods``: the shelf, every method by family, or one method in detail.

The list needs every method's module, and these need torch, which takes seconds to import. The list
is therefore cached in a file, which is named by a digest of the code that determines it. It is not
cached if packages or the person's folder add methods.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from ace_gui.cli.console import Outputs, Terminal, print_warnings, table
from ace_gui.engine.contract.after_fields import AFTER_FIELDS, CAP_FIELD
from ace_gui.errors import RecipeError, WorkbenchError
from ace_gui.field_info import FieldInfo
from ace_gui.formatting import printable, quoted_value, value_text
from ace_gui.method_names import method_id
from ace_gui.output_files import write_file
from ace_gui.paths import methods_folder, methods_list_folder
from ace_gui.recipe.recommended import SHELF, SHELF_NAMES
from ace_gui.versions import code_digest

if TYPE_CHECKING:
    from ace_gui.cli.commands import Methods

SOURCES: Final = ("methods", "recipe", "engine/capabilities.py", "engine/contract", "field_info.py")
"""The code that determines the list."""

WIDE: Final = 120
"""Columns of a terminal that has room for titles, too."""


def methods(command: Methods) -> None:
    """List the shelf or every method, or show one. Raises RecipeError for an unknown name."""
    if command.folder:
        print(methods_folder())  # noqa: T201
        return
    outputs = Outputs.of(command, (), "methods")
    terminal = Terminal.of(command)
    entries, problems = known_methods()
    if command.name is not None:
        entries = [_named(command.name, entries)]
    if command.all or command.name:
        records = entries
    else:
        records = [entry for entry in entries if entry["shelf"]]
    outputs.write_json(command.json, {"methods": records})
    _print(command, entries, terminal.results)
    print_warnings(problems, terminal.notes)


def known_methods() -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """A record for every method, and sentences about methods that could not be loaded."""
    file = methods_list_folder() / f"{code_digest(*SOURCES)}.json"
    has_additions = _from_elsewhere()
    if not has_additions:
        with contextlib.suppress(OSError, ValueError):
            return json.loads(file.read_text("utf-8")), ()
    from ace_gui.engine.capabilities import method_info
    from ace_gui.methods import METHODS, PROBLEMS

    records = [dataclasses.asdict(method_info(name)) for name in METHODS]
    for record in records:
        method = METHODS[record["name"]]
        record["shelf"] = any(record["name"] == name.partition(":")[0] for name in SHELF_NAMES)
        record["by_base"] = list(method.defaults({})) if method.defaults else []
    if not has_additions:
        with contextlib.suppress(OSError, WorkbenchError):
            file.parent.mkdir(parents=True, exist_ok=True)
            for old in file.parent.glob("*.json"):
                old.unlink()
            write_file(file, json.dumps(records).encode(), ())
    return json.loads(json.dumps(records)), PROBLEMS


def _from_elsewhere() -> bool:
    """Whether a package or the person's folder adds methods."""
    from importlib.metadata import entry_points

    with contextlib.suppress(OSError):
        if any(methods_folder().glob("*.py")):
            return True
    return bool(entry_points(group="ace_gui.methods"))


def _named(name: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    by_name = {entry["name"]: entry for entry in entries}
    for spelling in (name, method_id(name)):
        if spelling in by_name:
            return by_name[spelling]
    near = difflib.get_close_matches(name, by_name, n=1)
    if near:
        hint = f"Did you mean {near[0]!r}?"
    else:
        hint = f"Known: {', '.join(by_name)}."
    raise RecipeError(f"There is no merge method {quoted_value(name)}. {hint}", key="merge_method")


def _print(command: Methods, entries: list[dict[str, Any]], console: Console) -> None:
    if command.name is not None:
        _print_method(entries[0], console)
    elif command.all:
        _print_families(entries, console)
    else:
        _print_lines([(method.name, method.title, method.when) for method in SHELF], console)
        further = len(entries) - sum(entry["shelf"] for entry in entries)
        console.print(
            f"\n{further} more methods: ace-gui methods --all. "
            "One in detail: ace-gui methods NAME.",
            soft_wrap=True,
        )


def _print_families(entries: list[dict[str, Any]], console: Console) -> None:
    """Print one line per method, which a terminal cuts at its right border."""
    families = dict.fromkeys(entry["family"] for entry in entries)
    for family in families:
        console.print(Text(f"{family}:", style="italic"))
        members = [entry for entry in entries if entry["family"] == family]
        columns = ("name", "summary") if console.width < WIDE else ("name", "title", "summary")
        _print_lines([tuple(entry[name] for name in columns) for entry in members], console)


def _print_lines(lines: list[tuple[str, ...]], console: Console) -> None:
    """Print columns of text; a line that is too long for a terminal is cut at its end."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = []
        for cell, width in zip(line, widths, strict=True):
            cells.append(printable(cell).ljust(width))
        text = Text("  ".join(cells).rstrip())
        text.stylize("bold", 0, len(line[0]))
        if console.is_terminal:
            text.truncate(console.width, overflow="ellipsis")
        console.print(text, soft_wrap=True)


def _print_method(info: dict[str, Any], console: Console) -> None:
    """Print formula, parameters and citation."""
    console.print(Text(f"{info['title']} ({info['name']})", style="bold"))
    needs = " ".join(filter(None, (info["needs"], info["leaves"])))
    text = "\n".join(("", info["summary"], needs, "", info["formula"], ""))
    console.print(Text(text), soft_wrap=not console.is_terminal)
    fields = [FieldInfo(**field) for field in info["fields"]]
    headings = ("parameter", "default", "range", "meaning")
    lines = table(*headings, folded=headings)
    for row in _parameter_rows(fields, info["by_base"]):
        lines.add_row(*row)
    console.print(lines)
    differing = [item for item in fields if item.differs]
    if differing:
        console.print(Text("\nDefaults that differ from the sources", style="bold"))
    for item in differing:
        console.print(Text(f"{item.name} = {value_text(item.default)}: {item.differs}"))
    console.print(Text(f"\n{info['citation']}"))


def _parameter_rows(fields: list[FieldInfo], by_base: list[str]) -> Iterator[tuple[str, ...]]:
    for item in fields:
        condition = ""
        if item.applies_when is not None:
            condition_name, *values = item.applies_when
            condition = f"Only with {condition_name}: {' or '.join(values)}. "
        if item.name in by_base:
            default = "by the base model"
        else:
            default = value_text(item.default)
        meaning = item.help.removesuffix(item.differs).rstrip()
        yield item.name, default, value_range(item), condition + meaning
    for item in (*AFTER_FIELDS, CAP_FIELD):
        if item is CAP_FIELD:
            default = "none"
        else:
            default = str(item.default)
        yield item.name, default, value_range(item), item.help


def value_range(item: FieldInfo) -> str:
    """The allowed values of a parameter, in words."""
    if item.choices:
        return ", ".join(item.choices)
    if item.kind == "bool":
        return "true or false"
    if item.low is None:
        low = "-∞"
    else:
        low = f"{item.low:g}"
    if item.high is None:
        high = "∞"
    else:
        high = f"{item.high:g}"
    return f"{'over ' if item.low_open else ''}{low} to {high}"
