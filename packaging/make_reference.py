"""Writes resources/help/reference.md from the commands' help and the library's docstrings.

``--check`` writes nothing and exits with 1 if the page is not what would be written.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from typer.main import get_command

import ace_gui
from ace_gui.cli.commands import app

PAGE = Path(__file__).parents[1] / "resources" / "help" / "reference.md"
BEGINNING = """\
# Reference

Made from the program. [The command line](command-line.md) and [the library](library.md) are
introductions.
"""
FUNCTIONS = """\
## Functions

In the examples `recipe` is a mapping, `sample` the path of the sample's recipe, and `zeros` and
`ones` are tensors.
"""


def page() -> str:
    """The whole text."""
    values = {name: getattr(ace_gui, name) for name in ace_gui.__all__ if name != "__version__"}
    functions = {name: value for name, value in values.items() if inspect.isfunction(value)}
    classes = {name: value for name, value in values.items() if inspect.isclass(value)}
    parts = [BEGINNING, _commands(), FUNCTIONS]
    parts += [_entry(f"ace_gui.{name}", value) for name, value in functions.items()]
    parts.append("## Values\n")
    for name, value in classes.items():
        parts.append(f"### {name}\n\n{_text(value)}")
        if fields := dict(_fields(value)):
            lines = (f"- `{field}`: {meaning}" for field, meaning in fields.items())
            parts.append("\n".join(lines) + "\n")
        parts += [_entry(f"{name}.{own}", each) for own, each in _methods(value)]
    parts.append("## Errors\n\n```text\n" + _tree() + "\n```\n")
    return "\n".join(parts)


def _commands() -> str:
    """Every command with its own options, then the options that several have."""
    commands = {
        name: command
        for name, command in get_command(app).commands.items()  # type: ignore[attr-defined]
        if not command.hidden
    }
    lines = {
        name: [_option(each) for each in command.params if each.param_type_name == "option"]
        for name, command in commands.items()
    }
    uses = Counter(line for found in lines.values() for line in found)
    parts = ["## Commands\n"]
    for name, command in commands.items():
        words = [each.metavar or "[NAME]" for each in command.params if each.opts[0].isidentifier()]
        parts.append(f"### {' '.join(['ace-gui', name, *words])}\n")
        parts.append(f"{inspect.cleandoc(command.help)}\n")
        if own := [line for line in lines[name] if uses[line] == 1]:
            parts.append("\n".join(own) + "\n")
    parts.append("### Options of several commands\n")
    for line in (line for line, count in uses.items() if count > 1):
        having = [f"`{name}`" for name in commands if line in lines[name]]
        parts.append(f"{line} ({'all' if len(having) == len(commands) else ', '.join(having)})")
    return "\n".join([*parts, ""])


def _option(option: Any) -> str:
    return f"- `{' '.join([option.opts[0], option.metavar or '']).strip()}`: {option.help}"


def _methods(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    for name, value in vars(kind).items():
        function = value.__func__ if isinstance(value, classmethod) else value
        if inspect.isfunction(function) and not name.startswith("_") and function.__doc__:
            yield name, function


def _fields(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """The fields of a class and of those it inherits from, with the texts beside them."""
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("ace_gui"):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, following in pairwise(tree.body):
            is_named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if is_named and is_text and not field.target.id.startswith("_"):
                meaning = inspect.cleandoc(following.value.value).replace("``", "`")
                yield field.target.id, " ".join(meaning.split())


def _entry(title: str, function: Any) -> str:
    return f"### {title}\n\n```python\n{title}{_signature(function)}\n```\n\n{_text(function)}"


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [
        own if own.default is own.empty else own.replace(annotation=own.empty)
        for name, own in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    text = str(signature.replace(parameters=parameters))
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    if len(text) < 70:
        return text
    parts = re.split(r", (?![^\[(]*[\])])", text[1 : text.rindex(")")])
    lines = "".join(f"\n    {part}," for part in parts)
    return f"({lines}\n){text[text.rindex(')') + 1 :]}"


def _text(value: Any) -> str:
    """The docstring, its examples as code."""
    text = inspect.getdoc(value) or ""
    text = text.replace("``", "`")
    examples = r"((?:^>>> .*\n?(?:^(?!>>> ).+\n?)*)+)"
    return re.sub(examples, r"```pycon\n\1\n```", text, flags=re.M) + "\n"


def _tree(kind: type[Exception] = ace_gui.errors.WorkbenchError, depth: int = 0) -> str:
    """The errors below one, each with the first line of its docstring."""
    first = (kind.__doc__ or "").partition("\n")[0]
    lines = [f"{'  ' * depth}{kind.__name__}".ljust(26) + first]
    below = [each for each in kind.__subclasses__() if each.__module__ == kind.__module__]
    return "\n".join([*lines, *(_tree(each, depth + 1) for each in below)])


def main() -> int:
    """Write or check the page."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true")
    if arguments.parse_args().check:
        written = PAGE.read_text("utf-8") if PAGE.exists() else ""
        if written != page():
            print("The reference is outdated; run python packaging/make_reference.py.")
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
