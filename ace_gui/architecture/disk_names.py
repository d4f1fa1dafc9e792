"""From the name of a tensor in a file to the name of a tensor in the model."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from ace_gui.architecture import names
from ace_gui.architecture.traits import ModuleRows

_ALONG_ROWS: Final = frozenset({"Chunk", "Split", "Concatenate", "PermuteForRope"})
"""Conversions that join, split or reorder whole rows of the files' tensors."""

_STACK: Final = ("MergeModulelist", 0)
_NUMBERED: Final = re.compile(r"\.experts\.(\d+)\.")


@dataclass(frozen=True, kw_only=True)
class Destination:
    """The model's counterpart of a file's tensor.

    ``converted``: the model's tensor is made from it by stacking, joining or splitting.
    ``flipped``: its matrices are transposed in between. ``pattern``: the library's pattern for the
    names with this conversion.
    """

    name: str
    converted: bool = False
    flipped: bool = False
    pattern: str = ""


class DiskNames:
    """Finds each tensor of a file in a model, as transformers does on loading, and some more.

    The order is: the same name; the name after the library's own renaming and conversion for this
    class (which covers a missing or an added base-model prefix); both again without the prefixes of
    DataParallel, torch.compile or PEFT; and the only tensor with the same canonical name.
    """

    def __init__(self, model: Any, module_names: Iterable[str]) -> None:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightConverter

        transforms = get_model_conversion_mapping(model)
        self._converters = [t for t in transforms if isinstance(t, WeightConverter)]
        self._renamings = [t for t in transforms if not isinstance(t, WeightConverter)]
        self.model = model
        self._base_prefix = model.base_model_prefix
        self.known = dict.fromkeys(module_names, True)
        self._canonical: dict[str, list[str]] = defaultdict(list)
        for name in self.known:
            self._canonical[names.canonical(name)].append(name)

    def find(self, name: str) -> Destination | None:
        """The model's counterpart of the file's tensor ``name``; None if the model has none."""
        for candidate in dict.fromkeys((name, names.modern_norm(names.unwrapped(name)))):
            if candidate in self.known:
                return Destination(name=candidate)
            if renamed := self._renamed(candidate):
                return renamed
        certain = self._canonical.get(names.canonical(name), [])
        if len(certain) == 1:
            return Destination(name=certain[0])
        return None

    def _renamed(self, name: str) -> Destination | None:
        from transformers.core_model_loading import rename_source_key

        renamed, pattern = rename_source_key(
            name, self._renamings, self._converters, self._base_prefix, self.known
        )
        if renamed not in self.known:
            return None
        if pattern is None:
            return Destination(name=renamed)
        converter = self.converter(pattern)
        turns = sum(type(operation).__name__ == "Transpose" for operation in converter.operations)
        flipped = turns % 2 == 1
        return Destination(name=renamed, converted=True, flipped=flipped, pattern=pattern)

    def converter(self, pattern: str) -> Any:
        """The library's conversion of the names that match ``pattern``."""
        return next(c for c in self._converters if pattern in c.source_patterns)


def module_rows(
    finder: DiskNames,
    destinations: Mapping[str, Destination],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, tuple[ModuleRows, ...]]:
    """The model's rows that make up each tensor of the files with another name or layout there."""
    rows_of: dict[str, tuple[ModuleRows, ...]] = {}
    by_conversion: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for name, destination in destinations.items():
        if destination.converted:
            key = destination.name, id(finder.converter(destination.pattern))
            by_conversion[key][destination.pattern] = name
        elif destination.name != name:
            if shapes[name]:
                rows = shapes[name][0]
            else:
                rows = 1
            rows_of[name] = (ModuleRows(module=destination.name, start=0, rows=rows),)
    for (target, _), files in by_conversion.items():
        rows_of |= _converted_rows(finder, target, files, shapes)
    return rows_of


def stacked_rows(
    finder: DiskNames,
    destinations: Mapping[str, Destination],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, ModuleRows]:
    """The rows of each matrix in the files that loading puts into a stack of the model.

    Loading takes the matrices of each pattern in the order of their numbers, and joins an expert's
    in the order of the patterns.
    """
    stacks: dict[str, dict[tuple[int, int], str]] = defaultdict(dict)
    for name, destination in destinations.items():
        number = _NUMBERED.search(name)
        if destination.converted and number and len(shapes[name]) == 2:
            converter = finder.converter(destination.pattern)
            if _stacks_rows(converter.operations):
                order = converter.source_patterns.index(destination.pattern)
                stacks[destination.name][int(number[1]), order] = name
    rows_of: dict[str, ModuleRows] = {}
    for module, members in stacks.items():
        start = 0
        for _, name in sorted(members.items()):
            rows = shapes[name][0]
            rows_of[name] = ModuleRows(module=module, start=start, rows=rows)
            start += rows
    return rows_of


def _stacks_rows(operations: Sequence[Any]) -> bool:
    """Whether a conversion stacks matrices, and joins several of an expert by rows."""
    steps = [(type(operation).__name__, getattr(operation, "dim", 0)) for operation in operations]
    return steps in ([_STACK], [_STACK, ("Concatenate", 1)])


def _converted_rows(
    finder: DiskNames, target: str, files: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[ModuleRows, ...]]:
    """The rows by name in the files; empty if the conversion does more than move rows.

    The library's own conversion is run on a column that holds the number of each row.
    """
    import torch

    converter = finder.converter(next(iter(files)))
    if not all(map(_moves_rows, converter.operations)):
        return {}
    columns: dict[str, Any] = {}
    owners: list[tuple[str, int]] = []
    for pattern in (pattern for pattern in converter.source_patterns if pattern in files):
        rows = shapes[files[pattern]][0]
        columns[pattern] = [torch.arange(len(owners), len(owners) + rows)[:, None]]
        owners += [(files[pattern], row) for row in range(rows)]
    origin = _converted(finder, converter, target, columns)
    by_file: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for code, (file, _) in enumerate(owners):
        by_file[file].append(origin.get(code, ("", code)))
    if origin:
        return {file: _runs(rows) for file, rows in by_file.items()}
    return {}


def _converted(
    finder: DiskNames, converter: Any, target: str, columns: Mapping[str, Any]
) -> dict[int, tuple[str, int]]:
    """The module and row to which the library's conversion moves each row; {} if it fails."""
    # Each operation fails in its own way if the files lack some of its inputs.
    try:
        for operation in converter.operations:
            columns = operation.convert(
                columns,
                source_patterns=converter.source_patterns,
                target_patterns=converter.target_patterns,
                full_layer_name=target,
                model=finder.model,
                config=finder.model.config,
            )
    except Exception:
        return {}
    origin: dict[int, tuple[str, int]] = {}
    for pattern, output in columns.items():
        if isinstance(output, list):
            column = output[0]
        else:
            column = output
        module = target.replace(converter.target_patterns[0], pattern)
        if module not in finder.known:
            return {}
        origin |= {int(code): (module, row) for row, code in enumerate(column[:, 0])}
    return origin


def _moves_rows(operation: Any) -> bool:
    return type(operation).__name__ in _ALONG_ROWS and getattr(operation, "dim", 0) == 0


def _runs(rows: list[tuple[str, int]]) -> tuple[ModuleRows, ...]:
    """The ranges of consecutive rows of a module."""
    runs = []
    for _, group in groupby(
        enumerate(rows), key=lambda entry: (entry[1][0], entry[1][1] - entry[0])
    ):
        (_, (module, start)), *following = group
        runs.append(ModuleRows(module=module, start=start, rows=1 + len(following)))
    return tuple(runs)
