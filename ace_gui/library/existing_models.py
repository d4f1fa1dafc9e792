"""Functions that read models which are there: differences, contents, other forms of a merge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ace_gui.engine.contract.contents import ModelContents
from ace_gui.engine.contract.events import GgufWritten
from ace_gui.engine.contract.findings import ModelDiff
from ace_gui.engine.contract.jobs import GgufJob
from ace_gui.engine.evaluating.loaded_models import loaded_model
from ace_gui.engine.inspecting.model_contents import model_contents
from ace_gui.engine.inspecting.model_diff import diff_models
from ace_gui.engine.output.models_of_experts import write_task_model
from ace_gui.engine.service import run
from ace_gui.library.arguments import path_or_none
from ace_gui.library.progress import Progress, last_of


def diff(
    a: Path | str, b: Path | str, *, convert: bool = False, progress: Progress | None = None
) -> ModelDiff:
    """How far ``b`` is from ``a``, by tensor, block and role; reads a part of a tensor at a time.

    ``a``, ``b``: folders, files, or names in the local Hugging Face cache. ``convert``: convert
    PyTorch pickles first. Raises RecipeError for a missing model, CheckpointError, and
    PickleConsentError for a pickle without ``convert``.

    >>> change = ace_gui.diff("base", "expert-a")
    >>> [(each.name, each.relative > 1) for each in change.by_role]
    [('norm', True), ('query', True)]
    >>> ace_gui.diff("base", "base").total.change
    0.0
    """
    return last_of(diff_models(a, b, convert=convert), ModelDiff, progress)


def verify(
    base: Path | str,
    experts: Sequence[Path | str],
    merged: Path | str,
    *,
    convert: bool = False,
    progress: Progress | None = None,
) -> ModelContents:
    """Whether ``merged`` contains the experts: its change from the base as a sum of theirs.

    In each tensor, and over all matrices, the least squares of its change in the experts' changes,
    and what is left over beyond the rounding of the files. Arguments as for ``diff``; experts and
    ``merged`` may be adapters. Raises RecipeError, MismatchError, and the errors of reading.

    >>> kept = ace_gui.merge({**recipe, "merge_method": "linear"}, "plain-mean")
    >>> ace_gui.verify("base", ["expert-a", "expert-b"], "plain-mean").sentences[0]
    'It is the mean of `expert-a` and `expert-b`.'
    """
    events = model_contents(str(base), list(map(str, experts)), str(merged), convert=convert)
    return last_of(events, ModelContents, progress)


def to_gguf(
    folder: Path | str,
    out: Path | str | None = None,
    *,
    kind: str = "auto",
    llama_cpp: Path | str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> GgufWritten:
    """Make a GGUF file from a folder by the person's own llama.cpp; ``out`` None: beside it.

    ``kind``: auto, f32, f16, bf16, q8_0, or one of llama-quantize, such as q4_k_m. ``llama_cpp``:
    its source folder, which is remembered. Raises OutputError if it is missing, for a folder that
    llama.cpp does not read, and for a file that is there without ``overwrite``.

    >>> ace_gui.to_gguf("merged", kind="q8_0", llama_cpp="llama.cpp").files  # doctest: +SKIP
    (PosixPath('merged-q8_0.gguf'), PosixPath('merged-q8_0.Modelfile'))
    """
    job = GgufJob(
        folder=Path(folder),
        file=path_or_none(out),
        kind=kind,
        llama_cpp=path_or_none(llama_cpp),
        overwrite=overwrite,
    )
    return last_of(run(job), GgufWritten, progress)


def task(
    model: Path | str, expert: str, out: Path | str, *, base: Path | str | None = None
) -> Path:
    """Rebuild one expert's model from a merged model with modules; returns the new folder.

    ``base``: the base model; None: the recipe's. Raises OutputError for an unknown expert or a
    folder that cannot be written, and CheckpointError.

    >>> kept = ace_gui.merge({**recipe, "merge_method": "tall_masks"}, "with-modules")
    >>> ace_gui.task("with-modules", "expert-a", "expert-a-again").name
    'expert-a-again'
    """
    return write_task_model(Path(model), expert, Path(out), base=path_or_none(base))


def load_model(folder: Path | str, *, task: str | None = None, device: str = "cpu") -> Any:
    """A merged model as a transformers model in evaluation mode, with its modules.

    ``task``: the expert whose task the model does. If the folder has that expert's head, it is
    loaded. Modules for a known task then give the expert's model. Routed modules process every
    example of a batch separately, so that no output depends on the rest of the batch. Float32 if
    memory allows. No code of the folder is run. Raises CheckpointError for an unusable folder or
    modules, ArchitectureError, OutputError for an unknown task, and MismatchError.

    >>> type(ace_gui.load_model(sample.parent / "experts" / "digits")).__name__
    'ViTForImageClassification'
    """
    return loaded_model(Path(folder), task, device)
