"""Models in memory, with the head of their task, ready to answer."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch

from ace_gui.architecture.loading import load_pretrained
from ace_gui.architecture.names import match_names
from ace_gui.checkpoints import reader_of
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.evaluating.askers import Asker
from ace_gui.engine.evaluating.kinds.every_kind import asker
from ace_gui.engine.evaluating.subjects import Loading, Own, loading_of
from ace_gui.engine.evaluating.task_data import TaskData
from ace_gui.engine.modules.manifest import has_modules, read_manifest
from ace_gui.engine.planning.expert_files import HEADS
from ace_gui.errors import MismatchError, OutputError
from ace_gui.formatting import listing, path_text, plain
from ace_gui.machine import free_memory

_SHARE: Final = 0.7
"""Fraction of the free memory that a model in float32 may take."""


def load(loading: Loading, device: torch.device) -> Any:
    """The model in evaluation mode: in float32, or in its stored dtype if that is too large.

    Its modules are attached, if it has any. A model in memory is used as it is. Raises
    MismatchError if a tensor is missing, which would be initialised at random, and CheckpointError
    for modules that do not fit.
    """
    if loading.model is not None:
        return _with_padding(loading.model).eval()
    tensors = None if loading.modules is None else loading.modules.tensors()
    model, report = load_pretrained(loading.folder, loading.config, tensors)
    count = sum(parameter.numel() for parameter in model.parameters())
    if 4 * count <= _SHARE * _free(device):
        model = model.float()
    lacking = {*report.missing, *report.mismatched}
    if loading.own is not None:
        lacking -= _put(loading, loading.own, model, lacking)
    if lacking:
        raise MismatchError(
            f"{path_text(loading.folder)} cannot be scored as {type(model).__name__}: it lacks "
            f"{listing(sorted(lacking))}.",
            path=loading.folder,
        )
    if loading.modules is not None:
        loading.modules.put(model)
    return _with_padding(model).to(device).eval()


def _with_padding(model: Any) -> Any:
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = -1  # no padding token: inputs have one length
    return model


@contextmanager
def unchanged(models: Sequence[Any]) -> Iterator[None]:
    """Restore models of the caller afterwards: their mode and their configuration."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    padding = [(model.config, getattr(model.config, "pad_token_id", None)) for model in models]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for config, token in padding:
            config.pad_token_id = token


def _free(device: torch.device) -> int:
    return free_memory() if device.type == "cpu" else torch.cuda.mem_get_info(device)[0]


def _put(loading: Loading, own: Own, model: Any, lacking: set[str]) -> set[str]:
    """Copy an expert's own tensors into a model; returns their names."""
    indices = dict(model.named_parameters(remove_duplicate=False)) | dict(
        model.named_buffers(remove_duplicate=False)
    )
    names = dict(own.names)
    if own.fills:
        names |= {name: name for name in lacking if name in own.checkpoint.tensors}
    answers = match_names(indices, names)
    reader = reader_of(own.checkpoint)
    for name, stored in names.items():
        tensor = reader.read(stored)
        index = indices.get(answers.get(name, name))
        if index is None or index.shape != tensor.shape:
            raise MismatchError(
                f"{path_text(loading.folder)} has no tensor for `{plain(stored)}` of "
                f"{path_text(own.checkpoint.path)}; score the expert's own model instead.",
                path=own.checkpoint.path,
                tensor=stored,
            )
        index.data.copy_(tensor)
    return {answers.get(name, name) for name in names}


class Loaded:
    """Models for scoring, one in memory at a time. A model used twice in a row is loaded once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._loading: Loading | None = None
        self._model: Any = None

    def asker(self, data: TaskData, loading: Loading) -> Asker:
        """The asker for a model on a task's examples."""
        if self._loading != loading:
            if self._model is not None:
                self._model = None
                gc.collect()
            self._model, self._loading = load(loading, self._device), loading
        return asker(data, loading, self._model)


def loaded_model(folder: Path, task: str | None, device: str) -> Any:
    """The model with its modules. Raises the errors of ``ace_gui.load_model``."""
    where = resolve_device(device)
    if task is not None:
        known = _tasks(folder)
        if task not in known:
            there = f"there are {listing(sorted(known))}" if known else "it has none"
            raise OutputError(
                f"{path_text(folder)}: There is no task {plain(task)!r}; {there}.", path=folder
            )
    return load(loading_of(folder, task), where)


def _tasks(folder: Path) -> set[str]:
    """Names of the tasks that have heads or modules of their own in a folder."""
    heads = {path.stem for path in (folder / HEADS).glob("*.safetensors")}
    return heads | (set(read_manifest(folder).experts) if has_modules(folder) else set())
