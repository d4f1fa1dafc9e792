"""Writes the reference of the library, resources/help/reference.md, from its docstrings.

``--check`` writes nothing and exits with 1 if the page is not what would be written.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ace_gui
from ace_gui import library

PAGE = Path(__file__).parents[1] / "resources" / "help" / "reference.md"
BEGINNING = """\
# Reference of the library

Made from the docstrings. In the examples `recipe` is a mapping, `sample` the path of the sample's
recipe, and `zeros` and `ones` are tensors. [The library](library.md) is an introduction.
"""


def page() -> str:
    """The whole text."""
    values = {name: getattr(ace_gui, name) for name in ace_gui.__all__ if name != "__version__"}
    values["methods"] = library.methods
    functions = {name: value for name, value in values.items() if inspect.isfunction(value)}
    classes = {name: value for name, value in values.items() if inspect.isclass(value)}
    parts = [BEGINNING, "## Functions\n"]
    parts += [_entry(f"ace_gui.{name}", value) for name, value in functions.items()]
    parts.append("## Values\n")
    for name, value in classes.items():
        parts.append(f"### {name}\n\n{_text(value)}")
        parts += [_entry(f"{name}.{own}", each) for own, each in _methods(value)]
    parts.append("## Errors\n\n```text\n" + _tree() + "\n```\n")
    return "\n".join(parts)


def _methods(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    for name, value in vars(kind).items():
        function = value.__func__ if isinstance(value, classmethod) else value
        if inspect.isfunction(function) and not name.startswith("_") and function.__doc__:
            yield name, function


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
