"""How a module's own code uses its parameters: read from the source of its class.

The oracle for parameters that are multiplied without a module of their own. ``M``: stored outputs ×
inputs, as ``F.linear(x, w)`` and ``w @ x`` take it; ``MT``: inputs × outputs, as ``x @ w`` does.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache

_FROM_THE_RIGHT = {"matmul": 1, "bmm": 1, "mm": 1, "baddbmm": 2, "addmm": 2}
_TRANSPARENT = {
    "float",
    "to",
    "type",
    "type_as",
    "view",
    "reshape",
    "contiguous",
    "unsqueeze",
    "chunk",
}
_TURNING = {"t", "transpose", "swapaxes"}


@cache
def layouts(owner: type) -> dict[str, str]:
    """``M`` or ``MT`` by the name of each parameter that the class multiplies by."""
    uses: dict[str, str] = {}
    for ancestor in reversed(inspect.getmro(owner)):
        if not ancestor.__module__.startswith("transformers."):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(ancestor)))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                uses |= dict(_uses(function))
    return uses


def _uses(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    aliases: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            aliases[node.targets[0].id] = node.value
    for node in ast.walk(function):
        for operand, turned in _operands(node):
            leaf, flips = _parameter(operand, aliases)
            if leaf is not None:
                yield leaf, "MT" if turned != flips else "M"


def _operands(node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Factors of a product, and whether they stand on its right."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield node.left, False
        yield node.right, True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        arguments = node.args
        if name == "linear":
            named = [keyword.value for keyword in node.keywords if keyword.arg == "weight"]
            yield from ((weight, False) for weight in [*arguments[1:2], *named])
        if name in _FROM_THE_RIGHT:
            index = _FROM_THE_RIGHT[name]
            method = not (isinstance(node.func.value, ast.Name) and node.func.value.id == "torch")
            arguments = [node.func.value, *arguments] if method else arguments
            if len(arguments) > index:
                yield arguments[index], True
                yield arguments[index - 1], False


def _parameter(node: ast.expr, aliases: dict[str, ast.expr]) -> tuple[str | None, bool]:
    """The parameter of the module that an expression is, and whether it is turned."""
    flips = False
    for _ in range(20):
        if isinstance(node, ast.Name) and node.id in aliases:
            node = aliases[node.id]
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in _TRANSPARENT | _TURNING:
                return None, False
            flips ^= node.func.attr in _TURNING
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT", "data"):
            flips ^= node.attr != "data"
            node = node.value
        elif isinstance(node, ast.Attribute):
            mine = isinstance(node.value, ast.Name) and node.value.id == "self"
            return (node.attr if mine else None), flips
        else:
            return None, False
    return None, False
