"""Which parameters of a body reach a model's output through its task heads alone, by running it.

The count shares no rule with the program: a class's own ``forward`` runs on the meta device, and
autograd's graph says what each output was made of. A
parameter feeds the heads alone if every path from it to the output goes through a parameter of a
head, and none leads to the hidden states that the body returns.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.architecture import blueprint, transformers_library
from ace_gui.architecture.traits import Role
from tests.architecture.model_classes import built

_WORDS: Final = 16


@dataclass(frozen=True, kw_only=True)
class Fed:
    """``alone``: names of what feeds heads alone; ``unused``: of what reaches no output.

    ``told``: what the program says feeds them.
    """

    name: str
    alone: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()
    told: frozenset[str] = frozenset()

    @property
    def wrong(self) -> str:
        """A parameter that feeds heads alone and is not told, or the other way round."""
        missed, strange = self.alone - self.told, self.told - self.alone - self.unused
        return f"{self.name}: missed {sorted(missed)}, too many {sorted(strange)}"

    @property
    def is_wrong(self) -> bool:
        return bool(self.alone - self.told or self.told - self.alone - self.unused)


def fed(name: str) -> Fed:
    """Build a class, run it, and count."""
    model = built(getattr(transformers_library.transformers(), name))
    with warnings.catch_warnings(), transformers_library.quiet():
        warnings.simplefilter("ignore")
        return _counted(name, model)


def _counted(name: str, model: Any) -> Fed:
    found = blueprint.read(model)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    heads = {n for n, tensor in found.items() if tensor.traits.role is Role.HEAD}
    words = {n for n, tensor in found.items() if tensor.traits.role is Role.VOCABULARY_HEAD}
    body = [n for n in parameters if n not in heads | words]
    for parameter in parameters.values():
        parameter.requires_grad_(parameter.is_floating_point())
    returned: list[Any] = []
    for each in _bodies(model):
        each.register_forward_hook(lambda _module, _given, output: returned.append(output))
    outputs = list(_tensors(_run(model.eval())))
    reached = _behind(outputs)
    hidden = _behind([tensor for output in returned for tensor in _tensors(_first(output))])
    past = _behind(outputs, {id(parameters[n]) for n in heads})
    return Fed(
        name=name,
        alone=frozenset(n for n in body if id(parameters[n]) in reached - hidden - past),
        unused=frozenset(n for n in body if id(parameters[n]) not in reached),
        told=frozenset(n for n in body if found[n].traits.before_head),
    )


def _bodies(model: Any) -> list[Any]:
    """The base model, or every model within one that has none."""
    from transformers import PreTrainedModel

    base = getattr(model, model.base_model_prefix or "", None)
    if isinstance(base, PreTrainedModel) and base is not model:
        return [base]
    return [m for m in model.modules() if isinstance(m, PreTrainedModel) and m is not model]


def _first(output: Any) -> Any:
    """The hidden states in what a body returns."""
    if isinstance(output, Tensor):
        return output
    return output[next(iter(output))] if isinstance(output, Mapping) else output[0]


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _behind(outputs: Collection[Tensor], stop: Collection[int] = ()) -> set[int]:
    """The parameters that these were made of; not looked for beyond those of ``stop``."""
    seen: set[Any] = set()
    found: set[int] = set()
    todo = [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None]
    while todo:
        step = todo.pop()
        if step in seen:
            continue
        seen.add(step)
        if hasattr(step, "variable"):
            found.add(id(step.variable))
        elif not _takes(step, stop):
            todo += [before for before, _ in step.next_functions if before is not None]
    return found


def _takes(step: Any, stop: Collection[int]) -> bool:
    """Whether a step takes one of these parameters, as it is or turned."""
    given = [before for before, _ in step.next_functions if before is not None]
    turned = [before.next_functions[0][0] for before in given if len(before.next_functions) == 1]
    return any(id(getattr(each, "variable", None)) in stop for each in (*given, *turned))


def _run(model: Any) -> Any:
    """The output for inputs of the kinds that the model takes."""
    config = model.config
    side, words = getattr(config, "image_size", 224), torch.ones(1, _WORDS, dtype=torch.long)
    inputs = {
        "input_ids": words,
        "pixel_values": torch.zeros(1, getattr(config, "num_channels", 3), side, side),
        "input_values": torch.zeros(1, 16000),
        "input_features": torch.zeros(1, getattr(config, "num_mel_bins", 80), 3000),
        "visual_feats": torch.zeros(1, 4, getattr(config, "visual_feat_dim", 2048)),
        "visual_pos": torch.zeros(1, 4, 4),
    }
    taken = inspect.signature(model.forward).parameters
    return model(**{name: each.to("meta") for name, each in inputs.items() if name in taken})
