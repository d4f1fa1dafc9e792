"""What stores and caches are bound to."""

import ast
import re
import sys
from pathlib import Path

import pytest

from ace_gui import versions


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "methods" / "ace").mkdir(parents=True)
    (tmp_path / "methods" / "ace" / "algorithm.py").write_text("1")
    (tmp_path / "gui").mkdir()
    monkeypatch.setattr(versions, "_PACKAGE", tmp_path)
    versions.code_digest.cache_clear()
    yield tmp_path
    versions.code_digest.cache_clear()


def digest() -> str:
    versions.code_digest.cache_clear()
    return versions.code_digest("methods")


def test_a_change_of_what_computes_is_seen_and_no_other(package: Path) -> None:
    before = digest()
    (package / "gui" / "new.py").write_text("x")
    (package / "methods" / "notes.txt").write_text("x")
    assert digest() == before
    (package / "methods" / "ace" / "algorithm.py").write_text("2")
    changed = digest()
    assert changed != before
    (package / "methods" / "ace" / "algorithm.py").rename(package / "methods" / "algorithm.py")
    assert digest() not in {before, changed}


def test_without_source_the_version_stands_for_it(package: Path, monkeypatch) -> None:
    (package / "methods" / "ace" / "algorithm.py").unlink()
    monkeypatch.setattr(versions, "_version", lambda _: "1")
    first = digest()
    monkeypatch.setattr(versions, "_version", lambda _: "2")
    assert digest() != first


HELPING = {
    "application",
    "crash_log",
    "errors",
    "figures",
    "formatting",
    "machine",
    "output_files",
    "paths",
    "processes",
    "steps",
    "versions",
}
"""Files and rooms beside those that no number depends on."""


def test_all_that_computes_is_bound() -> None:
    """The rooms, and every file at the top of the package that they import."""
    beside = {name.removesuffix(".py") for name in versions.COMPUTING if name.endswith(".py")}
    used = set()
    for name in versions.COMPUTING:
        sources = list(versions._sources(versions._PACKAGE / name))
        assert sources
        for source in sources:
            used |= set(re.findall(r"(?:from|import) ace_gui\.(\w+)", source.read_text()))
    assert used - set(versions.COMPUTING) - HELPING == beside


READING_NO_NUMBERS = {"filelock", "pydantic", "pydantic_core", "threadpoolctl"}
"""Libraries of these rooms that no weight passes through."""


def imported(source: Path) -> set[str]:
    """The packages that a file imports, wherever it does."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def test_the_libraries_that_read_and_compute_are_bound() -> None:
    used = set()
    for room in ("checkpoints", "linalg", "methods"):
        for source in versions._sources(versions._PACKAGE / room):
            used |= imported(source)
    third_party = used - sys.stdlib_module_names - {"ace_gui", "__future__"}
    assert third_party - READING_NO_NUMBERS <= set(versions.library_versions())
