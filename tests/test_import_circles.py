"""No module of the package needs, at the end of a chain of imports, itself."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
FACADE = "ace_gui"
"""Names everything for people outside; inside, only the version is read from it."""


def modules_of(folder: Path) -> dict[str, Path]:
    """Every module of a package, by its dotted name."""
    found = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    """The known modules that a module imports: at its top, in functions, and for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            deeper = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in deeper]
        else:
            continue
        yield from (name for name in names if name in known)


def circle_in(imports: Mapping[str, frozenset[str]]) -> list[str]:
    """A chain of modules, each importing the next, that ends where it began; else empty."""
    finished: set[str] = set()

    def follow(chain: list[str]) -> list[str]:
        for name in sorted(imports[chain[-1]] - finished):
            if name in chain:
                return [*chain[chain.index(name) :], name]
            if found := follow([*chain, name]):
                return found
        finished.add(chain[-1])
        return []

    return next((found for name in imports if (found := follow([name]))), [])


def test_the_package_has_no_circle_of_imports() -> None:
    known = modules_of(ROOT / "ace_gui")
    del known[FACADE]
    imports = {
        name: frozenset(imports_of(ast.parse(path.read_text(encoding="utf-8")), known))
        for name, path in known.items()
    }
    assert sum(map(len, imports.values())) > 1000
    assert " → ".join(circle_in(imports)) == ""


def test_a_circle_is_found_and_told() -> None:
    known = {name: Path() for name in ("p.a", "p.b", "p.c")}
    sources = {
        "p.a": "from p import b",
        "p.b": "def f():\n    import p.c",
        "p.c": "if TYPE_CHECKING:\n    from p.a import A",
    }
    imports = {
        name: frozenset(imports_of(ast.parse(text), known)) for name, text in sources.items()
    }
    assert circle_in(imports) == ["p.a", "p.b", "p.c", "p.a"]
    assert circle_in({**imports, "p.c": frozenset()}) == []
