"""ACE workbench: merge fine-tuned models in closed form, and inspect the merge.

The names in ``__all__`` are loaded when they are first used, because their modules are heavy.
torch's threads spin while they wait for one another. That slows down other programs and the threads
they wait for, so the spinning time is limited here, before torch is imported.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ace_gui.application import APPLICATION_ID as APPLICATION_ID
from ace_gui.application import __version__ as __version__

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # turns; the default of libgomp is 300 000

if TYPE_CHECKING:
    from ace_gui import errors as errors
    from ace_gui.engine.contract.contents import ModelContents as ModelContents
    from ace_gui.engine.contract.events import Exported as Exported
    from ace_gui.engine.contract.events import FigureMade as FigureMade
    from ace_gui.engine.contract.events import GgufWritten as GgufWritten
    from ace_gui.engine.contract.events import JobProgress as JobProgress
    from ace_gui.engine.contract.events import MergeFinished as MergeFinished
    from ace_gui.engine.contract.events import PlanReady as PlanReady
    from ace_gui.engine.contract.events import TensorFinished as TensorFinished
    from ace_gui.engine.contract.findings import ModelDiff as ModelDiff
    from ace_gui.figures.sheet import Sheet as Sheet
    from ace_gui.library.catalogue import devices as devices
    from ace_gui.library.catalogue import list_methods as list_methods
    from ace_gui.library.existing_models import diff as diff
    from ace_gui.library.existing_models import load_model as load_model
    from ace_gui.library.existing_models import task as task
    from ace_gui.library.existing_models import to_gguf as to_gguf
    from ace_gui.library.existing_models import verify as verify
    from ace_gui.library.merges import extract as extract
    from ace_gui.library.merges import merge as merge
    from ace_gui.library.merges import plan as plan
    from ace_gui.library.reporting import figure as figure
    from ace_gui.library.reporting import inspect as inspect
    from ace_gui.library.reporting import report as report
    from ace_gui.library.scores_and_routes import compare as compare
    from ace_gui.library.scores_and_routes import evaluate as evaluate
    from ace_gui.library.scores_and_routes import routes as routes
    from ace_gui.library.scores_and_routes import tune as tune
    from ace_gui.library.state_dicts import merge_state_dicts as merge_state_dicts
    from ace_gui.library_results import Comparison as Comparison
    from ace_gui.library_results import Evaluation as Evaluation
    from ace_gui.library_results import Inspection as Inspection
    from ace_gui.library_results import MergeResult as MergeResult
    from ace_gui.library_results import Tuning as Tuning
    from ace_gui.methods.method import Kind as Kind
    from ace_gui.methods.registry import register_method as register_method
    from ace_gui.methods.shared.experts import Merged as Merged
    from ace_gui.methods.shared.kit import parameter as parameter
    from ace_gui.recipe import ModelEntry as ModelEntry
    from ace_gui.recipe import Override as Override
    from ace_gui.recipe import Recipe as Recipe
    from ace_gui.recipe.values import Task as Task

_NAMES: Final = {
    "ace_gui.engine.contract.contents": "ModelContents",
    "ace_gui.engine.contract.events": (
        "Exported FigureMade GgufWritten JobProgress MergeFinished PlanReady TensorFinished"
    ),
    "ace_gui.engine.contract.findings": "ModelDiff",
    "ace_gui.figures.sheet": "Sheet",
    "ace_gui.library.catalogue": "devices list_methods",
    "ace_gui.library.state_dicts": "merge_state_dicts",
    "ace_gui.library.merges": "extract merge plan",
    "ace_gui.library.existing_models": "diff load_model task to_gguf verify",
    "ace_gui.library.reporting": "figure inspect report",
    "ace_gui.library.scores_and_routes": "compare evaluate routes tune",
    "ace_gui.methods.method": "Kind",
    "ace_gui.methods.registry": "register_method",
    "ace_gui.methods.shared.experts": "Merged",
    "ace_gui.methods.shared.kit": "parameter",
    "ace_gui.recipe": "ModelEntry Override Recipe",
    "ace_gui.recipe.values": "Task",
    "ace_gui.library_results": "Comparison Evaluation Inspection MergeResult Tuning",
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(["__version__", "errors", *_MODULES])


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "errors":
        return import_module("ace_gui.errors")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
