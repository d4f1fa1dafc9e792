"""Lets a model process every example of a batch separately.

A routed result must not depend on other examples, to the last bit, but matrix products round
differently in a batch of another size. So each example goes through the model alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.errors import ArchitectureError

_METHODS: Final = ("forward", "get_image_features", "get_text_features")
_CACHES: Final = ("past_key_values", "encoder_outputs")


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
        return _padded(rows, _fill(model.generation_config, kwargs))

    return generate


def _fill(config: Any, kwargs: Mapping[str, Any]) -> int:
    found = kwargs.get("pad_token_id")
    for each in (config.pad_token_id, config.eos_token_id):
        found = each if found is None else found
    return int(found[0] if isinstance(found, list) else found or 0)


def _padded(rows: Sequence[Tensor], fill: int) -> Tensor:
    longest = max(row.shape[1] for row in rows)
    pads = (row.new_full((len(row), longest - row.shape[1]), fill) for row in rows)
    return torch.cat([torch.cat(pair, dim=1) for pair in zip(rows, pads, strict=True)])


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
