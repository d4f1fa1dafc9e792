"""Reads YAML so that a word means what the key that it stands under needs.

YAML 1.1 reads ``no`` as false, ``2025-11-03`` as a date and ``0123`` as 83, whatever the key. Here
only ``true`` and ``false`` are booleans, there are no dates, and a number keeps its text: a key of
text gets ``0123`` as it is written. Keys of booleans take yes, no, on and off, too, as in mergekit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Self

import yaml

from ace_gui.field_info import SWITCHES

MOST_VALUES: Final = 20_000
"""Largest number of values of a file, those of an alias counted wherever it stands."""

DEEPEST: Final = 50
LONGEST_TEXT: Final = 1000
LARGEST_BITS: Final = 1100
"""Largest number of bits of an integer, about that of the largest float."""

_MERGE_KEY: Final = "tag:yaml.org,2002:merge"


class WrittenInt(int):
    """An integer with the text that it was read from."""

    text: str

    def __new__(cls, value: int, text: str) -> Self:
        """The number ``value``, written as ``text``."""
        number = super().__new__(cls, value)
        number.text = text
        return number


class WrittenFloat(float):
    """A fraction with the text that it was read from."""

    text: str

    def __new__(cls, value: float, text: str) -> Self:
        """The number ``value``, written as ``text``."""
        number = super().__new__(cls, value)
        number.text = text
        return number


def plain_number(value: object) -> object:
    """A number that was read from a file, without its text; any other value unchanged."""
    if isinstance(value, WrittenInt):
        return int(value)
    if isinstance(value, WrittenFloat):
        return float(value)
    return value


def text_of(value: object) -> object:
    """The text of a number that was read from a file; any other value unchanged."""
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.text
    return value


def switch_of(value: object) -> object:
    """True for yes and on, False for no and off, in any case; any other value unchanged."""
    if isinstance(value, str):
        return SWITCHES.get(value.lower(), value)
    return value


def read_documents(text: str) -> list[Any]:
    """The documents of a file, divided by ``---``, without empty ones; [None] if all are empty.

    Raises yaml.YAMLError, RecursionError or ValueError.
    """
    loader = _Loader(text)
    documents = []
    while loader.check_data():  # type: ignore[no-untyped-call]
        documents.append(loader.get_data())
    for document in documents:
        _require_size(document)
    return [document for document in documents if document is not None] or [None]


def read_value(text: str) -> Any:
    """The value of a single document. Raises the errors of ``read_documents``."""
    value = yaml.load(text, Loader=_Loader)
    _require_size(value)
    return value


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses repeated keys, and files larger or deeper than any recipe."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - as in the base class
    values = depth = merged_keys = 0

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        if isinstance(node.value, str) and len(node.value) > LONGEST_TEXT:
            raise _refusal(f"a text has more than {LONGEST_TEXT} characters", node)
        return super().construct_scalar(node)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number = super().construct_yaml_int(node)
        if number.bit_length() > LARGEST_BITS:
            raise _refusal("a number is too large", node)
        return WrittenInt(number, node.value)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        return WrittenFloat(super().construct_yaml_float(node), node.value)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        return {
            _key_of(key_node): self.construct_object(value_node, deep=deep)
            for key_node, value_node in node.value
        }

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Replace each ``<<`` by its keys, of which a file has at most ``MOST_VALUES``."""
        for key_node, value_node in node.value:
            if key_node.tag != _MERGE_KEY:
                continue
            if isinstance(value_node, yaml.SequenceNode):
                parts = value_node.value
            else:
                parts = [value_node]
            for part in parts:
                if isinstance(part, yaml.MappingNode):
                    self.flatten_mapping(part)
                    self.merged_keys += len(part.value)
                if self.merged_keys > MOST_VALUES:
                    raise _refusal("larger than a recipe can be", node)
        super().flatten_mapping(node)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key_node, _ in node.value:
            name = _key_of(key_node)
            if name in names:
                raise _refusal(f"the key {name!r} appears twice", key_node)
            names.add(name)
        return node

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self.values += 1
        self.depth += 1
        if self.depth > DEEPEST:
            raise _refusal("too deeply nested", event)
        if self.values > MOST_VALUES:
            raise _refusal("larger than a recipe can be", event)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _key_of(node: yaml.Node) -> str:
    """The text of a key, however it is written. Raises a YAML error for a list or a mapping."""
    if not isinstance(node, yaml.ScalarNode):
        raise _refusal("a key is a list or a mapping, not a name", node)
    text = node.value
    if len(text) > LONGEST_TEXT:
        raise _refusal(f"a text has more than {LONGEST_TEXT} characters", node)
    return str(text)


def _require_size(document: object) -> None:
    """Raise ValueError for more than ``MOST_VALUES`` values, those of aliases counted each time."""
    for count, _ in enumerate(_values_in(document, 0)):
        if count > MOST_VALUES:
            raise ValueError("larger than a recipe can be, with its aliases written out")


def _values_in(value: object, depth: int) -> Iterator[object]:
    if depth > DEEPEST:
        raise ValueError("too deeply nested")
    yield value
    parts: list[object] = []
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, list):
        parts = value
    for part in parts:
        yield from _values_in(part, depth + 1)


def _refusal(problem: str, at: Any) -> yaml.MarkedYAMLError:
    """A YAML error with the position of a node or an event."""
    return yaml.MarkedYAMLError(None, None, problem, at.start_mark)


_INTEGER: Final = r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"
_FRACTION: Final = (
    r"[-+]?((\d[\d_]*)?\.\d[\d_]*|\d[\d_]*\.)([eE][-+]?\d+)?$"
    r"|[-+]?\d[\d_]*[eE][-+]?\d+$"  # YAML 1.1 reads 1e-5 as text because it has no dot
    r"|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"
)

for _tag, _pattern, _beginnings in (
    ("bool", r"(true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"(~|null|Null|NULL|)$", "~nN\0"),
    ("int", _INTEGER, "-+0123456789"),
    ("float", _FRACTION, "-+0123456789."),
    ("merge", r"<<$", "<"),
):
    _first = ["" if letter == "\0" else letter for letter in _beginnings]
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)

_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


def _as_written(dumper: yaml.SafeDumper, number: WrittenInt | WrittenFloat) -> yaml.ScalarNode:
    """A number goes back into a file as it was written."""
    if isinstance(number, WrittenInt):
        kind = "int"
    else:
        kind = "float"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", number.text)


yaml.SafeDumper.add_representer(WrittenInt, _as_written)
yaml.SafeDumper.add_representer(WrittenFloat, _as_written)


def _on_one_line(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A text with a line break of Unicode is written with escapes; plain, it would be folded."""
    if any(character in text for character in "\x85\u2028\u2029"):
        style = '"'
    else:
        style = None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


yaml.SafeDumper.add_representer(str, _on_one_line)
