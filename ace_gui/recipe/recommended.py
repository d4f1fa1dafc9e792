"""The recommended merge, and the methods to try first, as values without heavy imports.

``init`` writes the recommended merge, a merge without a recipe and a method does it, and the window
starts with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from ace_gui.ace_variants import AUTOMATIC, PUBLISHED
from ace_gui.method_names import method_label
from ace_gui.recipe.overrides import After, Cap, ParameterValue
from ace_gui.recipe.values import Choices, Poolers, Recipe

NAME: Final = "recommended"
"""Its name in lists of methods."""
_ACE: Final = "ACE-Merging"
TITLE: Final = method_label(_ACE, NAME)
"""What the recommended merge is called."""
METHOD: Final = "ace"
PARAMETERS: Final[Mapping[str, ParameterValue]] = MappingProxyType({"variant": AUTOMATIC})
CHOICES: Final[Mapping[str, Any]] = MappingProxyType(
    {"after": After(spectrum=0.5, scale=1.3, cap=Cap(one_head=0.0)), "poolers": Poolers.KEEP}
)
"""Fields of ``Choices`` in which the recommended merge differs from the defaults."""
USUAL: Final[Mapping[str, Any]] = MappingProxyType(
    {name: getattr(Choices(), name) for name in CHOICES}
)
"""The defaults of the same fields."""
FORMULA: Final = (
    "merged matrix: W = W₀ + min(1.3, L / ‖W_pre‖) ΔW_even\n"
    "even spectrum: W_pre = U S Vᵀ,  ΔW_even = c U √S Vᵀ,  ‖ΔW_even‖ = ‖W_pre‖\n"
    "solution: W_pre = (Σₜ W̃ₜ Σ̂ₜ,reg) (Σₜ Σ̂ₜ,reg + 1cᵀ)⁻¹\n"
    "covariances: W̃ₜ = ΔWₜ − 1μₜᵀ,  Σ̂ₜ = W̃ₜᵀW̃ₜ,  Σ̂ₜ,reg = Σ̂ₜ / Tr Σ̂ₜ + (α / d) I\n"
    "cap: L = max(r, min(√T r, δ ‖W₀‖)),  r² = mean(Tr Σ̂ₜ)"
)
"""The formula as plain text, for a scaling of 1. d is the number of inputs; δ is 0 for experts that
answer through one head."""


@dataclass(frozen=True)
class ShelfEntry:
    """A merge to try first. ``name``: as for ``compare --methods``; ``when``: its use."""

    name: str
    title: str
    when: str


SHELF: Final = (
    ShelfEntry(NAME, TITLE, "no data at hand: the merge to start with"),
    ShelfEntry("ace:automatic", method_label(_ACE, AUTOMATIC), "ACE without a threshold to choose"),
    ShelfEntry("ace", method_label(_ACE, PUBLISHED), "the paper's procedure and parameters"),
    ShelfEntry("linear", "Weight averaging", "the baseline, also for experts of one task"),
    ShelfEntry("task_arithmetic", "Task arithmetic", "a sum of changes, with a factor to tune"),
    ShelfEntry("ties", "TIES-Merging", "changes of opposite signs in the same entries"),
    ShelfEntry("dare_ties", "DARE with TIES", "as TIES, for many small changes"),
    ShelfEntry("slerp", "SLERP", "exactly two experts of one base"),
    ShelfEntry("tsv_m", "TSV-Merging", "another merge of singular directions, without data"),
    ShelfEntry("regmean", "RegMean", "some inputs of every task at hand, no labels"),
)

SHELF_TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {entry.name: entry.title for entry in SHELF}
)
"""By name."""

SHELF_NAMES: Final = tuple(entry.name for entry in SHELF)


def with_recommended(recipe: Recipe) -> Recipe:
    """The recipe with the settings of the recommended merge; the rest stays."""
    return replace(recipe, merge_method=METHOD, parameters=dict(PARAMETERS), **CHOICES)


def is_recommended(recipe: Recipe) -> bool:
    """Whether the recipe has exactly the settings of the recommended merge."""
    return recipe == with_recommended(recipe)


def merge_label(recipe: Recipe, title: str, variant: object = None) -> str:
    """What the merge of a recipe is called, by its method's ``title`` and ``variant``."""
    if is_recommended(recipe):
        return TITLE
    return method_label(title, variant)
