"""Reads ``requirements.lock``: one entry a package, with hashes and what needs it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
PROJECT = "ace-workbench"

_PACKAGE = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)\s*(;(?P<marker>[^\\]*))?"
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, kw_only=True)
class Locked:
    """One version of a package. ``marker``: where it is installed; ``via``: packages that need it.

    ``lines``: as they stand in the file.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    via: frozenset[str]
    lines: str


def read_lock(file: Path = LOCK) -> list[Locked]:
    """Every entry of the lock, in its order. Raises ValueError for a line that is none."""
    blocks: list[list[str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            blocks.append([line])
        elif line.strip() and blocks:
            blocks[-1].append(line)
    return [_locked(block) for block in blocks]


def _locked(block: list[str]) -> Locked:
    found = _PACKAGE.match(block[0])
    if found is None:
        raise ValueError(f"{block[0]!r} is no package with a version")
    notes = [line.strip().lstrip("# ") for line in block if line.strip().startswith("#")]
    needing = (note.removeprefix("via").strip().split(" ")[0] for note in notes)
    return Locked(
        name=plain_name(found["name"]),
        version=found["version"],
        marker=(found["marker"] or "").strip(),
        hashes=tuple(_HASH.findall("\n".join(block))),
        via=frozenset(plain_name(name) for name in needing if name),
        lines="\n".join(block) + "\n",
    )


def plain_name(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name.split("[")[0]).lower()


def requirements(*extras: str) -> list[str]:
    """The lines of pyproject.toml, with those of extras and of the extras that these name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = list(project["dependencies"])
    left = list(extras)
    while left:
        for text in project["optional-dependencies"][left.pop()]:
            inside = re.match(rf"{PROJECT}\[([^]]+)\]$", text)
            left += [extra.strip() for extra in inside[1].split(",")] if inside else []
            listed += [] if inside else [text]
    return listed


def wanted_directly(*extras: str) -> frozenset[str]:
    """The packages that pyproject.toml names, with those of some extras."""
    return frozenset(map(requirement_name, requirements(*extras)))


def requirement_name(text: str) -> str:
    """The package that a requirement is about."""
    found = re.match(r"[A-Za-z0-9._-]+", text)
    return plain_name(found[0]) if found else ""


def needed_by(names: Iterable[str], locked: Collection[Locked]) -> frozenset[str]:
    """The names, and whatever they need in turn."""
    found = frozenset(names)
    before = frozenset[str]()
    while found != before:
        before = found
        found |= {package.name for package in locked if package.via & found}
    return found


def needed_only_by(name: str, locked: Collection[Locked]) -> frozenset[str]:
    """The package, and what nothing but it needs, directly or not."""
    found = frozenset({name})
    before = frozenset[str]()
    while found != before:
        before = found
        found |= {package.name for package in locked if package.via and package.via <= found}
    return found
