"""Modules in a loaded model: loads a folder with modules.

A routed result must not depend on other examples, to the last bit, but matrix products round
differently in a batch of another size. So each example goes through the model alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from ace_gui.engine.modules.layers import put_correction
from ace_gui.engine.modules.mlp_blocks import put_blocks
from ace_gui.engine.modules.smile_layers import put_smile
from ace_gui.engine.modules.stored import has_modules
from ace_gui.engine.modules.task_tensors import (
    TaskTensors,
    base_of,
    open_modules,
    open_task,
    read_described,
)
from ace_gui.engine.modules.whole_model import put_whole
from ace_gui.errors import ArchitectureError
from ace_gui.methods.shared.expert_modules import ModuleKind

_METHODS: Final = ("forward", "get_image_features", "get_text_features")
_CACHES: Final = ("past_key_values", "encoder_outputs")


@dataclass(frozen=True, kw_only=True)
class ModulesOf:
    """The modules of a folder, for one model.

    ``kind``: how the model uses them. ``expert``: the expert of the task; None if unknown.
    ``base``: the base model's folder if known, required by modules that change base weights.
    """

    folder: Path
    kind: ModuleKind
    expert: str | None
    base: Path | None = None

    def tensors(self) -> dict[str, Tensor] | None:
        """All tensors of the expert's model, if that is an ordinary model; None otherwise.

        Raises the errors of ``open_task``.
        """
        if self.kind is not ModuleKind.TASK or self.expert is None:
            return None
        task: TaskTensors = open_task(self.folder, self.expert, self.base)
        return dict(task.tensors())

    def put(self, model: Any) -> None:
        """Attach the modules that are not changes of weights to the loaded model.

        Raises CheckpointError and ArchitectureError.
        """
        if self.kind is ModuleKind.TASK:
            return
        modules = open_modules(self.folder)
        if self.kind is ModuleKind.SURGERY:
            if self.expert is not None:
                put_correction(model, modules, self.expert)
            return
        if self.kind is ModuleKind.SMILE:
            put_smile(model, modules)
        elif self.kind is ModuleKind.BLOCKS:
            put_blocks(model, modules)
        else:
            put_whole(model, modules)
        one_by_one(model)


def modules_of(folder: Path, expert: str | None, base: Path | None) -> ModulesOf | None:
    """The modules of a merged folder for a task of ``expert``; None if it has none.

    ``base``: its folder, instead of the one in the folder's recipe. Raises CheckpointError, and
    RecipeError if the modules need a base and it is unknown.
    """
    if not has_modules(folder):
        return None
    manifest, _ = read_described(folder)
    known = expert if expert in manifest.experts else None
    if base is None and manifest.base is not None:
        base = base_of(folder)
    return ModulesOf(folder=folder, kind=manifest.kind, expert=known, base=base)


def one_by_one(model: Any) -> None:
    """Make a model process batches example by example, ``generate`` included.

    A batch returns no cache for further tokens: ``generate`` keeps one for each example.
    """
    for name in _METHODS:
        if hasattr(model, name):
            setattr(model, name, _one_at_a_time(getattr(model, name)))
    if hasattr(model, "generate"):
        model.generate = _generating(model, model.generate)


def _one_at_a_time(plain: Callable[..., Any]) -> Callable[..., Any]:
    can_cache = "use_cache" in inspect.signature(plain).parameters

    @wraps(plain)
    def per_example(*args: Any, **kwargs: Any) -> Any:
        count = _examples(args, kwargs)
        if count <= 1 or any(kwargs.get(name) is not None for name in _CACHES):
            return plain(*args, **kwargs)
        without = {"use_cache": False} if can_cache else {}
        outputs = [
            plain(
                *(_row(each, n, count) for each in args),
                **{key: _row(value, n, count) for key, value in kwargs.items()} | without,
            )
            for n in range(count)
        ]
        return _joined(outputs)

    return per_example


def _generating(model: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def generate(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        given = {} if inputs is None else {"inputs": inputs}
        count = _examples((), {**given, **kwargs})
        if count <= 1:
            return plain(*args, **given, **kwargs)
        rows = [
            plain(*args, **{key: _row(v, n, count) for key, v in {**given, **kwargs}.items()})
            for n in range(count)
        ]
        if not all(isinstance(row, Tensor) for row in rows):
            raise ArchitectureError(
                "A model with modules writes to one example at a time where more than the words "
                "are asked for; give it one."
            )
        config, longest = model.generation_config, max(row.shape[1] for row in rows)
        pads = (kwargs.get("pad_token_id"), config.pad_token_id, config.eos_token_id)
        fill = next((each for each in pads if each is not None), 0)
        fill = fill[0] if isinstance(fill, list) else fill
        return torch.cat([functional.pad(r, (0, longest - r.shape[1]), value=fill) for r in rows])

    return generate


def _examples(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """The number of examples in a call: the rows of the first tensor."""
    given = (each for each in (*args, *kwargs.values()) if isinstance(each, Tensor) and each.ndim)
    first = next(given, None)
    return 1 if first is None else len(first)


def _row(value: Any, n: int, count: int) -> Any:
    same = isinstance(value, Tensor) and value.ndim and len(value) == count
    return value[n : n + 1] if same else value


def _joined(outputs: Sequence[Any]) -> Any:
    """Join the outputs: tensors by example, numbers averaged, caches dropped."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return torch.cat(list(outputs)) if first.ndim else torch.stack(list(outputs)).mean()
    if isinstance(first, Mapping):
        kept = {key: _joined([each[key] for each in outputs]) for key in first}
        return type(first)(**kept)
    if isinstance(first, tuple):
        return tuple(_joined(each) for each in zip(*outputs, strict=True))
    return None
