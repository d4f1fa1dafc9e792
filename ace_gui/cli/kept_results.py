"""``ace-gui cache``: what is kept to save time, and its removal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ace_gui.caches import CACHES, Cache, caches_named
from ace_gui.cli.console import Outputs, Terminal, safe_text, table
from ace_gui.formatting import human_bytes, path_text

if TYPE_CHECKING:
    from ace_gui.cli.commands import Caches


def cache(command: Caches) -> None:
    """List the caches; with ``--empty`` first remove what some of them hold.

    Raises RecipeError for an unknown name, and OutputError if something cannot be removed.
    """
    outputs = Outputs.of(command, (), "caches")
    terminal = Terminal.of(command)
    if command.empty is not None:
        for chosen in caches_named(command.empty):
            freed = human_bytes(chosen.empty())
            terminal.notes.print(safe_text(f"{chosen.title}: {freed} freed."))
    outputs.write_json(command.json, {"caches": [_record(item) for item in CACHES]})
    lines = table("cache", "size", "holds", "folder", left_aligned=("cache", "holds", "folder"))
    for item in CACHES:
        folder = path_text(item.folder())
        lines.add_row(item.name, human_bytes(item.bytes()), item.title, folder)
    terminal.results.print(lines, soft_wrap=True)


def _record(item: Cache) -> dict[str, Any]:
    """A cache as it is written to JSON."""
    return {
        "name": item.name,
        "title": item.title,
        "folder": str(item.folder()),
        "entries": len(item.entries()),
        "bytes": item.bytes(),
        "key": item.key,
        "verified": item.verified,
        "removed": item.removed,
    }
