"""Calls a method and checks its result, so that a mistake becomes an error in one sentence.

T experts.
"""

from __future__ import annotations

import hashlib
import inspect
import marshal
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from tokenize import TokenError
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.method import MergeMethod, MethodInput
from ace_gui.methods.shared.calls import WrongReturnError, calling, plain_function, source_of
from ace_gui.methods.shared.experts import Context, Deltas, Diagnostics, Merged, Vote, Weights

_FORMATS: Final = (torch.float32, torch.float64)
_PER_EXPERT: Final = ("energies", "traces")
_SENTENCES: Final = ("notes", "warnings")


def source_digest(function: Callable[..., object]) -> str:
    """SHA-256 of a function's file, and of its package if the file belongs to one.

    For a function from a notebook it is that of the source, or of the code if there is no source.
    """
    plain = plain_function(function)
    content = marshal.dumps(getattr(plain, "__code__", None))
    with suppress(OSError, TypeError, SyntaxError, TokenError):  # the file may be no Python
        content = inspect.getsource(plain).encode()
    with suppress(OSError):
        path = Path(source_of(function))
        in_package = (path.parent / "__init__.py").is_file()
        if in_package:
            files = sorted(path.parent.rglob("*.py"))
        else:
            files = [path]
        content = b"\0".join(file.read_bytes() for file in files)
    return hashlib.sha256(content).hexdigest()


def require_signature(name: str, function: Callable[..., object]) -> None:
    """Raise MethodError for a function that cannot be called like a method."""
    try:
        context = {field.name: None for field in fields(Context)}
        inspect.signature(function).bind((), (), None, **context)
    except (TypeError, ValueError) as error:
        raise MethodError(
            f"The method `{name}` ({source_of(function)}) must take `deltas, weights, parameters, "
            f"**context` ({error})."
        ) from error


def merged_by(
    method: MergeMethod[Any],
    deltas: Deltas,
    weights: Weights,
    parameters: Any,
    base: Tensor,
    context: Context,
) -> Merged:
    """The method's merge of task vectors shaped like ``base``.

    Raises MethodError, which names the method and its file, for a wrong result. Any error of a
    method from outside this package becomes a MethodError too, except a lack of memory.
    """
    with _calling(method, method.merge):
        merged: Merged = method.merge(deltas, weights, parameters, **vars(context))
        return _checked(merged, base, len(deltas))


def merged_together(
    method: MergeMethod[Any],
    layers: Sequence[MethodInput],
    bases: Sequence[Tensor],
    parameters: Any,
) -> list[Merged]:
    """``merged_by`` for several tensors at once. ``bases``: one per layer."""
    assert method.merge_batch is not None
    with _calling(method, method.merge_batch):
        merged = method.merge_batch(layers, parameters)
        if len(merged) != len(layers):
            raise WrongReturnError(f"{len(merged)} results for {len(layers)} tensors")
        checked = []
        for result, layer, base in zip(merged, layers, bases, strict=True):
            checked.append(_checked(result, base, len(layer.deltas)))
        return checked


@contextmanager
def _calling(method: MergeMethod[Any], function: Callable[..., object]) -> Iterator[None]:
    with calling(f"The method `{method.name}`", function):
        yield


def _checked(merged: object, base: Tensor, experts: int) -> Merged:
    if not isinstance(merged, Merged):
        raise WrongReturnError(f"{type(merged).__name__}, not `Merged(delta=...)`")
    _require_like(merged.delta, base, "a delta")
    if merged.preliminary is not None:
        _require_like(merged.preliminary, base, "a preliminary solution")
    if not isinstance(merged.vote, Vote):
        raise WrongReturnError(f"a vote of type {type(merged.vote).__name__}, not `Vote`")
    _require_diagnostics(merged.diagnostics, experts)
    if merged.delta.requires_grad:
        return replace(merged, delta=merged.delta.detach())
    return merged


def _require_like(value: object, base: Tensor, what: str) -> None:
    if not isinstance(value, Tensor):
        raise WrongReturnError(f"{what} of type {type(value).__name__}, not a torch tensor")
    if value.layout is not torch.strided:
        raise WrongReturnError(f"{what} that is {value.layout}, not dense; call `.to_dense()`")
    if value.shape != base.shape:
        shapes = f"{list(value.shape)}, not {list(base.shape)}"
        raise WrongReturnError(f"{what} of shape {shapes} as the task vectors have")
    if value.dtype not in _FORMATS:
        raise WrongReturnError(f"{what} in {value.dtype}, not float32 or float64")
    if value.device != base.device:
        raise WrongReturnError(f"{what} on {value.device}, not on {base.device}")


def _require_diagnostics(diagnostics: object, experts: int) -> None:
    """Raise for figures that a report cannot hold; it can hold None, numbers and tuples."""
    if not isinstance(diagnostics, Diagnostics):
        raise WrongReturnError(
            f"diagnostics of type {type(diagnostics).__name__}, not `Diagnostics`"
        )
    for name, value in vars(diagnostics).items():
        if name in _PER_EXPERT:
            fits = _is_tuple(value, float) and len(value) in {0, experts}
            requirement = f"a tuple of {experts} finite numbers"
        elif name == "left_out":
            fits = _is_tuple(value, int) and all(0 <= item < experts for item in value)
            requirement = "a tuple of experts' indices"
        elif name in _SENTENCES:
            fits = _is_tuple(value, str)
            requirement = "a tuple of sentences"
        elif name == "precision":
            fits = isinstance(value, str)
            requirement = "text"
        else:
            fits = value is None or isinstance(value, float | int)
            requirement = "a number or None"
        if not fits:
            raise WrongReturnError(f"diagnostics whose `{name}` is not {requirement}")


def _is_tuple(value: object, kind: type) -> bool:
    if not isinstance(value, tuple):
        return False
    if kind is float:
        return all(isinstance(item, float | int) and math.isfinite(item) for item in value)
    return all(isinstance(item, kind) for item in value)
