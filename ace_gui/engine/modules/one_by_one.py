"""Makes a model process the examples of a batch one after the other.

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
from torch.nn import functional

from ace_gui.errors import ArchitectureError

_METHODS: Final = ("forward", "get_image_features", "get_text_features")
"""Methods of a model that take a batch."""

_CACHES: Final = ("cache", "past_key_values", "encoder_outputs")
"""Arguments that only a single example can have. ``past_key_values`` is ``cache`` from transformers
5.24 on.
"""


def one_by_one(model: Any) -> None:
    """Make a model process batches example by example, ``generate`` included.

    A batch returns no cache for further tokens: ``generate`` keeps one for each example.
    """
    for name in _METHODS:
        if hasattr(model, name):
            setattr(model, name, _for_single_examples(getattr(model, name)))
    if hasattr(model, "generate"):
        model.generate = _generate_for_single_examples(model, model.generate)


def _for_single_examples(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A method that gives ``plain`` the examples of a batch one after the other."""
    can_cache = "use_cache" in inspect.signature(plain).parameters

    @wraps(plain)
    def per_example(*args: Any, **kwargs: Any) -> Any:
        count = _example_count(args, kwargs)
        if count <= 1 or any(kwargs.get(name) is not None for name in _CACHES):
            return plain(*args, **kwargs)
        outputs = []
        for n in range(count):
            positional = [_example(argument, n, count) for argument in args]
            named = {key: _example(value, n, count) for key, value in kwargs.items()}
            if can_cache:
                named["use_cache"] = False
            outputs.append(plain(*positional, **named))
        return _joined(outputs)

    return per_example


def _generate_for_single_examples(model: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    """The same for ``generate``, whose texts may have different lengths."""

    @wraps(plain)
    def generate(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        named = dict(kwargs)
        if inputs is not None:
            named["inputs"] = inputs
        count = _example_count((), named)
        if count <= 1:
            return plain(*args, **named)
        texts = []
        for n in range(count):
            example = {key: _example(value, n, count) for key, value in named.items()}
            texts.append(plain(*args, **example))
        if not all(isinstance(text, Tensor) for text in texts):
            raise ArchitectureError(
                "A model with modules returns more than the text for a single example only; give "
                "it one example at a time."
            )
        padding = _padding_token(model.generation_config, kwargs.get("pad_token_id"))
        longest = max(text.shape[1] for text in texts)
        padded = []
        for text in texts:
            added = longest - text.shape[1]
            padded.append(functional.pad(text, (0, added), value=padding))
        return torch.cat(padded)

    return generate


def _padding_token(config: Any, argument: int | None) -> int:
    """The token after the end of shorter texts: as the caller or the model says."""
    for token in (argument, config.pad_token_id, config.eos_token_id):
        if isinstance(token, list):
            first: int = token[0]
            return first
        if token is not None:
            return int(token)
    return 0


def _example_count(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """The number of examples in a call: the rows of the first tensor."""
    for argument in (*args, *kwargs.values()):
        if isinstance(argument, Tensor) and argument.ndim:
            return len(argument)
    return 1


def _example(value: Any, n: int, count: int) -> Any:
    """Example ``n`` of a tensor of ``count`` examples; other values are the same for all.

    A tensor is one of examples if its first dimension is as long as their number.
    """
    if isinstance(value, Tensor) and value.ndim and len(value) == count:
        return value[n : n + 1]
    return value


def _joined(outputs: Sequence[Any]) -> Any:
    """The outputs of all examples in one.

    Tensors are concatenated by example, and scalars (a loss) averaged. Mappings and tuples are
    joined value by value. Anything else, such as a cache, becomes None.
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        if first.ndim:
            return torch.cat(list(outputs))
        return torch.stack(list(outputs)).mean()
    if isinstance(first, Mapping):
        joined = {}
        for key in first:
            joined[key] = _joined([output[key] for output in outputs])
        return type(first)(**joined)
    if isinstance(first, tuple):
        return tuple(_joined(output) for output in zip(*outputs, strict=True))
    return None
