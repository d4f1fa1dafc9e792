"""The boundaries between the rooms hold, as written in pyproject.toml and as they run."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from ace_gui.engine.evaluating.kinds import KINDS
from ace_gui.methods import METHODS
from ace_gui.recipe.task_kinds import TaskKind
from ace_gui.recipe.values import Task

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ace_gui"

METHODS_BY_NAME = {"recipe/recommended.py", "engine/inspecting/compare_covariances.py"}
"""The methods to try first, and whose covariances are measured, are choices and no rules."""


@cache
def _tree(path: Path) -> ast.Module:
    """A file of the package, which several tests read."""
    return ast.parse(path.read_text(encoding="utf-8"))


def test_import_contracts_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its settings of logging would silence the loggers of all later tests.
    monkeypatch.setattr("importlinter.cli.logging_config.dictConfig", lambda _: None)
    configuration = ROOT / "pyproject.toml"
    assert len(read_configuration(str(configuration))["contracts_options"]) == 6
    status = lint_imports(config_filename=str(configuration), no_cache=True)
    assert status == EXIT_STATUS_SUCCESS


def test_no_module_imports_itself_in_the_end() -> None:
    """Imports in functions, for types alone and by name count, too.

    The package names everything for people outside; inside, only its version is read.
    """
    graph = grimp.build_graph("ace_gui", cache_dir=None)
    assert graph.direct_import_exists(
        importer="ace_gui.recipe", imported="ace_gui.recipe.recipe_file"
    ), "in functions"
    for module in graph.find_modules_that_directly_import("ace_gui"):
        graph.remove_import(importer=module, imported="ace_gui")
    for importer, name in _named_modules():
        if name in graph.modules and importer != "ace_gui":
            graph.add_import(importer=importer, imported=name)
    imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_the_window_and_its_values_load_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; import ace_gui.gui.app, ace_gui.gui.shell.main_window, ace_gui.cli.commands; "
        "heavy = {'torch', 'transformers', 'safetensors', 'pydantic', 'yaml'} & set(sys.modules); "
        "print(*sorted(heavy))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


def test_no_two_files_of_one_name_mean_different_things() -> None:
    by_name = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        if path.name not in {"__init__.py", "__main__.py"}:
            by_name[path.name].append(path.relative_to(PACKAGE).as_posix())
    assert {name: places for name, places in by_name.items() if len(places) > 1} == {}


def test_the_engine_asks_for_no_method_by_name() -> None:
    """A method declares what it needs, so that a person's own gets it, too."""
    files = {
        path.relative_to(PACKAGE).as_posix()
        for path in (PACKAGE / "engine").rglob("*.py")
        for text in _texts(_tree(path))
        if text.partition(":")[0] in METHODS
    }
    assert files <= METHODS_BY_NAME


KINDS_BY_NAME = {
    "engine/evaluating/kinds.py",
    "engine/evaluating/generated_text.py",
    "engine/evaluating/language_kinds.py",
}
"""Where kinds of tasks are run."""


def test_no_room_asks_for_a_kind_of_task_by_name() -> None:
    """A kind says what it needs, so that a new one is declared and run, and all else follows."""
    files = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(_tree(path)):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            if node.value.id == "TaskKind":
                files.add(path.relative_to(PACKAGE).as_posix())
    assert files <= KINDS_BY_NAME


def test_every_kind_of_task_can_be_run_and_filled_in() -> None:
    settings = {field.name for field in fields(Task)}
    assert set(KINDS) == set(TaskKind)
    for kind, evaluator in KINDS.items():
        assert evaluator.kind is kind
        assert kind.traits.metrics
        assert {*kind.traits.form_fields, *kind.traits.unused} <= settings


def test_the_engine_imports_methods_through_the_registry() -> None:
    modules = {f"ace_gui.methods.{path.stem}" for path in (PACKAGE / "methods").glob("*.py")}
    modules -= {"ace_gui.methods.method", "ace_gui.methods.registry", "ace_gui.methods.plugins"}
    modules -= {"ace_gui.methods.calling"}
    modules -= {"ace_gui.methods.linear"}  # the average of what no method merges
    imports = {
        (path.name, node.module)
        for path in (PACKAGE / "engine").rglob("*.py")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.ImportFrom)
        and node.module is not None
        and (node.module in modules or node.module.startswith("ace_gui.methods.ace"))
    }
    assert not imports


def _texts(tree: ast.AST) -> Iterator[str]:
    """Every string of the code but docstrings, and those that stand alone as one does."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


LIMITS_STATED_ONCE = {
    r'"automatic"$|= "automatic"': "ace_variants.py",
    r'= "measured"$': "ace_variants.py",
    r"LABEL_\\d|LABEL_\{": "recipe/values.py",
    r">= 100(\.0)? \*|_DECADES: Final": "",
    r"^(GRID|TRIALS|GRID, PROPOSED)\b": "",
}
"""Names and limits that several rooms use, as patterns of a line, and the one file with them."""


def test_names_and_limits_of_several_rooms_are_stated_once() -> None:
    for pattern, place in LIMITS_STATED_ONCE.items():
        files = {
            str(path.relative_to(PACKAGE))
            for path in PACKAGE.rglob("*.py")
            if re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
        }
        assert files == ({place} if place else set()), pattern


ROOMS = (
    ("ace_gui", "ace_gui.__main__", "ace_gui.bundle_parts"),
    ("ace_gui.cli", "ace_gui.gui", "ace_gui.library"),
    ("ace_gui.library_results",),
    ("ace_gui.engine",),
    ("ace_gui.architecture", "ace_gui.checkpoints", "ace_gui.methods", "ace_gui.recipe"),
    ("ace_gui.linalg",),
)
"""From the top; every other module of the package is below all of them."""

BY_NAME = re.compile(r"(ace_gui(?:\.\w+)+):\w+")
"""A function, as texts of the code name it that is imported later."""


def _height(module: str) -> int:
    """The position of a module's room, from the bottom."""
    for above, rooms in enumerate(ROOMS):
        inside = [room for room in rooms if room != "ace_gui" and module.startswith(f"{room}.")]
        if module in rooms or inside:
            return len(ROOMS) - above
    return 0


def _called(call: ast.Call) -> str:
    """The last name of what is called."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


@cache
def _named_modules() -> frozenset[tuple[str, str]]:
    """Every module of the package that another one imports by its name in a text."""
    pairs = set()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        importer = ".".join(parts).removesuffix(".__init__")
        tree = _tree(path)
        names = {match[1] for text in _texts(tree) if (match := BY_NAME.fullmatch(text))}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _called(node) == "import_module":
                names |= {text for text in _texts(node.args[0]) if text.startswith("ace_gui.")}
        pairs |= {(importer, name) for name in names}
    return frozenset(pairs)


def test_imports_by_name_only_look_down() -> None:
    pairs = _named_modules()
    assert ("ace_gui.bundle_parts", "ace_gui.gui.picture") in pairs
    assert [pair for pair in pairs if _height(pair[0]) < _height(pair[1])] == []
