"""The recipe as values. Imports nothing heavy: the window's process builds these too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ParameterValue = float | int | bool | str


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One expert: where it is, what it is called, how much it counts."""

    model: Path
    name: str | None = None
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that determines a merge.

    ``parameters`` holds only what the person set; the rest are the method's defaults, which for
    ACE's epsilon depend on the model family. ``out_dtype`` None means: as the base.
    ``seed`` matters to methods that draw random numbers.
    """

    base_model: Path
    models: tuple[ModelEntry, ...]
    merge_method: str = "ace"
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    scope: str = "default"
    out_dtype: str | None = None
    seed: int = 0

    @property
    def expert_names(self) -> tuple[str, ...]:
        """A distinct name for each expert: the given one, else the folder's or file's."""
        wanted = [
            entry.name or entry.model.name.removesuffix(".safetensors") or "expert"
            for entry in self.models
        ]
        repeated = {name for name, count in Counter(wanted).items() if count > 1}
        seen: Counter[str] = Counter()
        names = []
        for name in wanted:
            seen[name] += 1
            names.append(f"{name}-{seen[name]}" if name in repeated else name)
        return tuple(names)

    @property
    def weights(self) -> tuple[float, ...]:
        """One weight an expert, in the order of ``models``."""
        return tuple(entry.weight for entry in self.models)
