"""Scores of the built-in sample's models and methods, known in advance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ace_gui.paths import resource_path

PICTURES: Final[Path] = resource_path("sample/pictures.png")
"""One held-out image per task, in a row."""


@dataclass(frozen=True, kw_only=True)
class SampleFigures:
    """Mean accuracies on the held-out images. ``methods``: by name, each with its defaults."""

    tasks: tuple[str, ...]
    base: float
    experts: float
    methods: Mapping[str, float]


@cache
def sample_figures() -> SampleFigures:
    """The figures that the package contains."""
    known = json.loads(resource_path("sample/figures.json").read_text(encoding="utf-8"))
    return SampleFigures(
        tasks=tuple(known["tasks"]),
        base=known["base"],
        experts=known["experts"],
        methods=known["methods"],
    )
