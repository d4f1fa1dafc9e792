"""ACE workbench: merge fine-tuned experts in closed form, and see what the merge does.

Nothing heavy is imported before it is needed: what stands in ``__all__`` comes on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ace_gui.methods.method import Kind, Merged, parameter
    from ace_gui.methods.registry import register_method
    from ace_gui.recipe import Recipe

__version__ = "0.1.0"

_PLACES: Final = {
    "Kind": "ace_gui.methods.method",
    "Merged": "ace_gui.methods.method",
    "Recipe": "ace_gui.recipe",
    "parameter": "ace_gui.methods.method",
    "register_method": "ace_gui.methods.registry",
}

__all__ = ["Kind", "Merged", "Recipe", "__version__", "parameter", "register_method"]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(place), name)


def __dir__() -> list[str]:
    return sorted(__all__)
