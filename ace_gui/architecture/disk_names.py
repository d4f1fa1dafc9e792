"""From the name of a tensor in a file to the name of a tensor in the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ace_gui.architecture import names


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where a tensor of a file goes.

    ``converted``: the model's tensor is made from it by stacking, joining or splitting.
    ``flipped``: its matrices are transposed on the way.
    """

    name: str
    converted: bool = False
    flipped: bool = False


class DiskNames:
    """Finds each tensor of a file in a model, as transformers does on loading, and beyond.

    In this order: the same name; the name after the library's own renaming and conversion for this
    class (which covers a missing or an added base-model prefix); both again without what
    DataParallel, torch.compile or PEFT put before it; and the one tensor of the same canonical
    name.
    """

    def __init__(self, model: Any, module_names: Iterable[str]) -> None:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightConverter

        transforms = get_model_conversion_mapping(model)
        self._converters = [t for t in transforms if isinstance(t, WeightConverter)]
        self._renamings = [t for t in transforms if not isinstance(t, WeightConverter)]
        self._base_prefix = model.base_model_prefix
        self._known = dict.fromkeys(module_names, True)
        self._canonical: dict[str, list[str]] = defaultdict(list)
        for name in self._known:
            self._canonical[names.canonical(name)].append(name)

    def find(self, name: str) -> Destination | None:
        """Where the file's tensor ``name`` goes; None where the model has no place for it."""
        for candidate in dict.fromkeys((name, names.modern_norm(names.unwrapped(name)))):
            if candidate in self._known:
                return Destination(name=candidate)
            if found := self._renamed(candidate):
                return found
        certain = self._canonical.get(names.canonical(name), [])
        return Destination(name=certain[0]) if len(certain) == 1 else None

    def _renamed(self, name: str) -> Destination | None:
        from transformers.core_model_loading import rename_source_key

        renamed, pattern = rename_source_key(
            name, self._renamings, self._converters, self._base_prefix, self._known
        )
        if renamed not in self._known:
            return None
        if pattern is None:
            return Destination(name=renamed)
        converter = next(c for c in self._converters if pattern in c.source_patterns)
        turns = sum(type(operation).__name__ == "Transpose" for operation in converter.operations)
        return Destination(name=renamed, converted=True, flipped=turns % 2 == 1)
