"""Installs what ``requirements.lock`` says, for the application and its development, into the
environment of the Python that runs this.

Every file must have a hash of the lock. Where this machine's registry has another file of a package
(a build of torch without CUDA, say), that package is left to the ranges of pyproject.toml, and its
name is printed. ``--check`` only prints how the installed versions differ from the lock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from lock_file import (
    PROJECT,
    Locked,
    needed_by,
    needed_only_by,
    plain_name,
    read_lock,
    requirement_name,
    wanted_directly,
)

LOCAL_BUILDS = ("torch",)
"""Packages of which registries hold builds of their own (2.13.0+cpu)."""


def main() -> None:
    """Install, or only compare."""
    locked = read_lock()
    needed = needed_by(wanted_directly("dev"), locked)
    locked = [package for package in locked if package.name in needed]
    if "--check" not in sys.argv:
        install(locked)
    differing = differences(locked, installed())
    print(f"As in the lock: all but {len(differing)} packages." if differing else "As in the lock.")
    for line in differing:
        print(f"  {line}")


def install(locked: Sequence[Locked]) -> None:
    """Install from the lock; packages whose files are others here come from the ranges later."""
    builds = [build for name in LOCAL_BUILDS if (build := local_build(name, locked))]
    left_out: set[str] = set()
    for build in builds:
        left_out |= needed_only_by(build.name, locked) - needed_by(build.needs, locked)
    wanted = [package for package in locked if package.name not in left_out]
    if pip_install(wanted):
        wanted = [package for package in wanted if not pip_install([package], "--dry-run")]
        pip_install(wanted, must=True)
    if builds:
        files = [f"{build.name}=={build.version}" for build in builds]
        subprocess.run([*_PIP, "--no-deps", *files], check=True)


_PIP = (sys.executable, "-m", "pip", "install", "--quiet")


def pip_install(wanted: Sequence[Locked], *options: str, must: bool = False) -> int:
    """pip's exit status for these entries of the lock, with their hashes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "requirements.txt")
        file.write_text("".join(package.lines for package in wanted), encoding="utf-8")
        command = [*_PIP, "--no-deps", "--require-hashes", *options, "-r", str(file)]
        return subprocess.run(
            command, check=must, stderr=None if must else subprocess.PIPE
        ).returncode


@dataclass(frozen=True)
class LocalBuild:
    """A build of a package that only this machine's registry has, and the packages it needs."""

    name: str
    version: str
    needs: frozenset[str]


def local_build(name: str, locked: Sequence[Locked]) -> LocalBuild | None:
    """What pip would take here in place of the lock's version, if it is a local build."""
    version = next(package.version for package in locked if package.name == name)
    command = [*_PIP, "--dry-run", "--no-deps", "--ignore-installed", "--report", "-"]
    done = subprocess.run([*command, f"{name}=={version}"], capture_output=True, check=False)
    if done.returncode:
        return None
    chosen = json.loads(done.stdout)["install"][0]["metadata"]
    needs = [text for text in chosen.get("requires_dist", []) if "extra ==" not in text]
    names = frozenset(requirement_name(text) for text in needs)
    return LocalBuild(name, chosen["version"], names) if "+" in chosen["version"] else None


def installed() -> dict[str, str]:
    """Versions by name, of everything in this environment."""
    return {plain_name(found.metadata["Name"]): found.version for found in distributions()}


def differences(locked: Sequence[Locked], versions: dict[str, str]) -> list[str]:
    """What is installed in another version than the lock's, or is not in the lock at all."""
    known: dict[str, list[str]] = {}
    for package in locked:
        known.setdefault(package.name, []).append(package.version)
    return [
        f"{name} {version} (lock: {' or '.join(known.get(name, ['none']))})"
        for name, version in sorted(versions.items())
        if version not in known.get(name, []) and name not in {PROJECT, "pip", "setuptools"}
    ]


if __name__ == "__main__":
    main()
