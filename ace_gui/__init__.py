"""ACE workbench: merge fine-tuned models in closed form, and inspect the merge.

Heavy modules are imported when they are first used: the names in ``__all__`` are loaded lazily.
torch's threads wait for one another by spinning, which slows down other programs and the threads
they wait for. The spinning time is therefore limited here, before torch is imported.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # turns; libgomp takes 300 000

if TYPE_CHECKING:
    from ace_gui import errors
    from ace_gui.engine.contract.events import (
        Exported,
        JobProgress,
        MergeFinished,
        PlanReady,
        TensorFinished,
    )
    from ace_gui.engine.contract.findings import ModelDiff
    from ace_gui.library import (
        Comparison,
        Evaluation,
        Inspection,
        MergeResult,
        Tuning,
        compare,
        devices,
        diff,
        evaluate,
        extract,
        inspect,
        load_model,
        merge,
        merge_state_dicts,
        methods,
        plan,
        report,
        routes,
        task,
        tune,
    )
    from ace_gui.methods.method import Kind, Merged
    from ace_gui.methods.registry import register_method
    from ace_gui.methods.shared.declaring import parameter
    from ace_gui.recipe import ModelEntry, Override, Recipe
    from ace_gui.recipe.values import Task

__version__ = "0.1.0"
APPLICATION_ID: Final = "io.github.ace_workbench"
"""What desktops call the application: their entry, icons, types of files and windows."""

__all__ = [
    "Comparison",
    "Evaluation",
    "Exported",
    "Inspection",
    "JobProgress",
    "Kind",
    "MergeFinished",
    "MergeResult",
    "Merged",
    "ModelDiff",
    "ModelEntry",
    "Override",
    "PlanReady",
    "Recipe",
    "Task",
    "TensorFinished",
    "Tuning",
    "__version__",
    "compare",
    "devices",
    "diff",
    "errors",
    "evaluate",
    "extract",
    "inspect",
    "load_model",
    "merge",
    "merge_state_dicts",
    "methods",
    "parameter",
    "plan",
    "register_method",
    "report",
    "routes",
    "task",
    "tune",
]

_PLACES: Final = {
    **dict.fromkeys(
        ("Exported", "JobProgress", "MergeFinished", "PlanReady", "TensorFinished"),
        "ace_gui.engine.contract.events",
    ),
    "ModelDiff": "ace_gui.engine.contract.findings",
    "ModelEntry": "ace_gui.recipe",
    "Override": "ace_gui.recipe",
    "Kind": "ace_gui.methods.method",
    "Merged": "ace_gui.methods.method",
    "Recipe": "ace_gui.recipe",
    "Task": "ace_gui.recipe.values",
    "parameter": "ace_gui.methods.shared.declaring",
    "register_method": "ace_gui.methods.registry",
}
"""Where a name comes from that is not of ``ace_gui.library``."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("errors", "methods"):  # the package of the methods can be called
        return import_module(f"ace_gui.{name}")
    return getattr(import_module(_PLACES.get(name, "ace_gui.library")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
