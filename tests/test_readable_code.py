"""The package and its tests read at first sight: names, statements, fields and classes."""

import ast
import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "ace_gui"

SAY_NOTHING = frozenset(
    (
        *("each", "own", "found", "known", "given", "other", "others", "one", "both"),
        *("wanted", "asked", "left", "kept", "shown", "usual", "whole", "rest"),
    )
)
"""Pronouns and participles; a noun says what a thing is."""


@cache
def _files(folder: Path = PACKAGE) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
    }


def _nodes() -> Iterator[tuple[str, ast.AST]]:
    for file, text in _files().items():
        for node in ast.walk(ast.parse(text)):
            yield file, node


def test_a_file_has_one_subject() -> None:
    """A reader sees it as one thing: no file has more than 520 lines."""
    lines = {file: text.count("\n") for file, text in _files().items()}
    assert {file: count for file, count in lines.items() if count > 520} == {}


def test_a_function_fits_on_a_screen() -> None:
    """No function has more than 45 lines."""
    long_functions = []
    for file, node in _nodes():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno >= 45:
                long_functions.append(f"{file}:{node.lineno} {node.name}")
    assert long_functions == []


@pytest.mark.parametrize("folder", [PACKAGE, TESTS], ids=["package", "tests"])
def test_names_say_what_a_thing_is(folder: Path) -> None:
    """At most 2 of 1 000 names are words that say nothing; a few are sides, or parts of a whole."""
    names = 0
    files: Counter[str] = Counter()
    for file, text in _files(folder).items():
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                names += 1
                files[file] += token.string.lstrip("_") in SAY_NOTHING
    assert sum(files.values()) <= names / 500, files.most_common(10)


def test_a_line_assigns_one_value() -> None:
    """Except where a value reads what the statement binds."""
    several = [
        f"{file}:{node.lineno}"
        for file, node in _nodes()
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and isinstance(node.targets[0], ast.Tuple)
        and len(node.value.elts) == len(node.targets[0].elts)
        and not {name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)}
        & {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
    ]
    assert several == []


def test_the_meaning_of_a_field_stands_beside_it() -> None:
    """In dataclasses of six or more fields."""
    missing = []
    for file, node in _nodes():
        if not isinstance(node, ast.ClassDef) or not _is_dataclass(node):
            continue
        fields = [n for n, part in enumerate(node.body) if isinstance(part, ast.AnnAssign)]
        if len(fields) >= 6:
            missing += [
                f"{file}: {node.name}: {ast.unparse(node.body[n])}"
                for n in fields
                if not _is_explained(node.body, n)
            ]
    assert missing == []


def test_no_two_classes_have_one_name() -> None:
    files = defaultdict(list)
    for file, node in _nodes():
        if isinstance(node, ast.ClassDef):
            files[node.name.lstrip("_")].append(file)
    assert {name: places for name, places in files.items() if len(places) > 1} == {}


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def _is_explained(body: list[ast.stmt], index: int) -> bool:
    """Whether a text follows the field, or its default has a help."""
    following = body[index + 1 : index + 2]
    if following and isinstance(following[0], ast.Expr):
        return isinstance(following[0].value, ast.Constant)
    return "help" in ast.unparse(body[index])
