"""Calls a method and checks what it returns, so that a mistake in it is one sentence, not a result.

T experts.
"""

from __future__ import annotations

import hashlib
import inspect
import marshal
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.errors import Cancelled, MethodError, WorkbenchError, is_out_of_memory, lacks_room
from ace_gui.methods.method import MergeMethod, MethodInput
from ace_gui.methods.shared.experts import Context, Deltas, Diagnostics, Merged, Vote, Weights

_FORMATS: Final = (torch.float32, torch.float64)
_PER_EXPERT: Final = ("energies", "traces")
_SENTENCES: Final = ("notes", "warnings")


def source_of(function: Callable[..., object]) -> str:
    """The file of a function, or its module where there is none."""
    plain = _plain(function)
    code = getattr(plain, "__code__", None)
    return str(code.co_filename if code else getattr(plain, "__module__", "unknown"))


def source_digest(function: Callable[..., object]) -> str:
    """SHA-256 of the file of a function, and of its package where the file is part of one.

    Of a notebook's function the source is taken, or its code where there is no source.
    """
    plain = _plain(function)
    found = marshal.dumps(getattr(plain, "__code__", None))
    with suppress(OSError, TypeError):
        found = inspect.getsource(plain).encode()
    with suppress(OSError):
        path = Path(source_of(function))
        in_package = (path.parent / "__init__.py").is_file()
        files = sorted(path.parent.rglob("*.py")) if in_package else [path]
        found = b"\0".join(file.read_bytes() for file in files)
    return hashlib.sha256(found).hexdigest()


def _plain(function: Callable[..., object]) -> Callable[..., object]:
    plain: Callable[..., object] = inspect.unwrap(getattr(function, "func", function))
    return plain


def require_signature(name: str, function: Callable[..., object]) -> None:
    """Raise MethodError for a function that cannot be called as methods are."""
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
    """What the method makes of task vectors shaped like ``base``.

    Raises MethodError that names the method and its file where it returns something else, and for
    whatever a method from outside this package raises but a lack of memory.
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
    """The same for several tensors at once. ``bases``: one a layer."""
    assert method.merge_batch is not None
    with _calling(method, method.merge_batch):
        merged = method.merge_batch(layers, parameters)
        if len(merged) != len(layers):
            raise _WrongReturnError(f"{len(merged)} results for {len(layers)} tensors")
        pairs = zip(merged, layers, bases, strict=True)
        return [_checked(each, base, len(layer.deltas)) for each, layer, base in pairs]


class _WrongReturnError(Exception):
    """What a method returned, and what it should have."""


@contextmanager
def _calling(method: MergeMethod[Any], function: Callable[..., object]) -> Iterator[None]:
    whose = f"The method `{method.name}` ({source_of(function)})"
    is_ours = str(getattr(_plain(function), "__module__", "")).startswith("ace_gui.")
    try:
        yield
    except (WorkbenchError, Cancelled, KeyboardInterrupt, GeneratorExit):
        raise
    except _WrongReturnError as error:
        raise MethodError(f"{whose} returned {error}.") from None
    except BaseException as error:  # sys.exit, too: a method never ends the program
        if is_ours or is_out_of_memory(error) or lacks_room(error):
            raise
        raise MethodError(
            f"{whose} failed: {type(error).__name__}: {error}",
            details="".join(traceback.format_exception(error)),
        ) from error


def _checked(merged: object, base: Tensor, experts: int) -> Merged:
    if not isinstance(merged, Merged):
        raise _WrongReturnError(f"{type(merged).__name__}, not `Merged(delta=...)`")
    _require_like(merged.delta, base, "a delta")
    if merged.preliminary is not None:
        _require_like(merged.preliminary, base, "a preliminary solution")
    if not isinstance(merged.vote, Vote):
        raise _WrongReturnError(f"a vote of type {type(merged.vote).__name__}, not `Vote`")
    _require_diagnostics(merged.diagnostics, experts)
    return replace(merged, delta=merged.delta.detach()) if merged.delta.requires_grad else merged


def _require_like(found: object, base: Tensor, what: str) -> None:
    if not isinstance(found, Tensor):
        raise _WrongReturnError(f"{what} of type {type(found).__name__}, not a torch tensor")
    if found.layout is not torch.strided:
        raise _WrongReturnError(f"{what} that is {found.layout}, not dense; call `.to_dense()`")
    if found.shape != base.shape:
        shapes = f"{list(found.shape)}, not {list(base.shape)}"
        raise _WrongReturnError(f"{what} of shape {shapes} as the task vectors have")
    if found.dtype not in _FORMATS:
        raise _WrongReturnError(f"{what} in {found.dtype}, not float32 or float64")
    if found.device != base.device:
        raise _WrongReturnError(f"{what} on {found.device}, not on {base.device}")


def _require_diagnostics(found: object, experts: int) -> None:
    """Raise for figures that a report cannot hold: None, numbers, and tuples as declared."""
    if not isinstance(found, Diagnostics):
        raise _WrongReturnError(f"diagnostics of type {type(found).__name__}, not `Diagnostics`")
    for name, value in vars(found).items():
        if name in _PER_EXPERT:
            fits = _is_tuple(value, float) and len(value) in {0, experts}
            wanted = f"a tuple of {experts} finite numbers"
        elif name == "left_out":
            fits = _is_tuple(value, int) and all(0 <= each < experts for each in value)
            wanted = "a tuple of experts' indices"
        elif name in _SENTENCES:
            fits, wanted = _is_tuple(value, str), "a tuple of sentences"
        elif name == "precision":
            fits, wanted = isinstance(value, str), "text"
        else:
            fits, wanted = value is None or isinstance(value, float | int), "a number or None"
        if not fits:
            raise _WrongReturnError(f"diagnostics whose `{name}` is not {wanted}")


def _is_tuple(value: object, kind: type) -> bool:
    if not isinstance(value, tuple):
        return False
    if kind is float:
        return all(isinstance(each, float | int) and math.isfinite(each) for each in value)
    return all(isinstance(each, kind) for each in value)
