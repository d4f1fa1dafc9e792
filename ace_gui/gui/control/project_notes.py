"""A person's notes on a project: kept in the program's folder, never beside the person's file."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Final

from ace_gui.gui.text import ENDING
from ace_gui.output_files import replacing
from ace_gui.paths import sessions_folder

_NOTES: Final = ".notes.txt"


def notes_file(project: Path) -> Path:
    """The file with the notes on the project of a recipe's file."""
    folder = sessions_folder()
    if project.is_relative_to(folder):
        return project.with_name(project.name.removesuffix(ENDING) + _NOTES)
    digest = hashlib.sha256(str(project.absolute()).encode()).hexdigest()
    return folder / f"{digest[:32]}{_NOTES}"


def read_notes(project: Path) -> str:
    """The notes; empty if there are none or they cannot be read."""
    with suppress(OSError, UnicodeDecodeError):
        return notes_file(project).read_text(encoding="utf-8")
    return ""


def write_notes(project: Path, text: str) -> None:
    """Keep the notes; no file is left for an empty text. Without a place, they are not kept."""
    file = notes_file(project)
    with suppress(OSError):
        if not text.strip():
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as fresh:
            fresh.write_text(text, encoding="utf-8")


def move_notes(before: Path, after: Path) -> None:
    """Let the notes follow a project's file to its new name."""
    text = read_notes(before)
    if text:
        write_notes(after, text)
        with suppress(OSError):
            notes_file(before).unlink(missing_ok=True)
