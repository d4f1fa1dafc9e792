"""Which parameters of a body reach a model's output through its task heads alone, by running it.

The count shares no rule with the program: a class's own ``forward`` runs on the meta device, or on
the processor where it looks at values, and autograd's graph says what each output was made of. A
parameter feeds the heads alone if every path from it to the output goes through a parameter of a
head, and none leads to the hidden states that the body returns.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx.experimental import _config as symbolic
from torch.overrides import TorchFunctionMode

from ace_gui.architecture import blueprint, transformers_library
from ace_gui.architecture.traits import Role
from tests.architecture.model_classes import LABELS, built, model_classes

_WORDS: Final = 16
_LARGEST: Final = 300_000_000
"""Parameters of a model that is run on the processor."""
_SCALARS: Final[Mapping[str, Callable[[Tensor], object]]] = {
    "item": lambda tensor: 1.0 if tensor.is_floating_point() else 1,
    "__int__": lambda _: 1,
    "__index__": lambda _: 1,
    "__bool__": lambda _: True,
    "__float__": lambda _: 1.0,
    "tolist": lambda tensor: torch.ones(tensor.shape, device="cpu").tolist(),
    "equal": lambda _: True,
    "unique_consecutive": lambda tensor: tensor.reshape(-1)[:1],
}


@dataclass(frozen=True, kw_only=True)
class Fed:
    """``alone``: names of what feeds heads alone; ``unused``: of what reaches no output.

    ``reported``: what the program says feeds them. ``why``: why the class was not counted, or
    empty.
    """

    name: str
    alone: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()
    reported: frozenset[str] = frozenset()
    why: str = ""

    @property
    def wrong(self) -> str:
        """A parameter that feeds heads alone and is not told, or the other way round."""
        missed = self.alone - self.reported
        strange = self.reported - self.alone - self.unused
        return f"{self.name}: missed {sorted(missed)}, too many {sorted(strange)}"

    @property
    def is_wrong(self) -> bool:
        return bool(self.alone - self.reported or self.reported - self.alone - self.unused)


def every_fed(workers: int) -> list[Fed]:
    """All model classes of transformers, in a few processes."""
    names = [model_class.__name__ for model_class in model_classes()]
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(fed, names, chunksize=8))


def fed(name: str) -> Fed:
    """Build a class, run it, and count."""
    try:
        with transformers_library.quiet():
            model = built(getattr(transformers_library.transformers(), name))
    except Exception:
        return Fed(name=name, why="not built")
    tensors = blueprint.read(model)
    if not any(tensor.traits.role is Role.HEAD for tensor in tensors.values()):
        return Fed(name=name, why="no head")
    if not _bodies(model):
        return Fed(name=name, why="no body")
    why = ""
    for attempt in (_as_it_is, _with_two_labels, _with_values):
        try:
            with warnings.catch_warnings(), transformers_library.quiet():
                warnings.simplefilter("ignore")
                return _counted(name, *attempt(model))
        except Exception as error:
            why = why or f"{type(error).__name__}: {str(error)[:90]}"
    return Fed(name=name, why=why)


def _as_it_is(model: Any) -> tuple[Any, str]:
    return model, "meta"


def _with_two_labels(model: Any) -> tuple[Any, str]:
    """Heads that split what they compute into start and end."""
    for config in (model.config, *vars(model.config).values()):
        if getattr(config, "num_labels", None) == LABELS:
            config.num_labels = 2
    with torch.device("meta"):
        return type(model)(model.config), "meta"


def _with_values(model: Any) -> tuple[Any, str]:
    """Every value is nought, except for what the class itself computes."""
    model, _ = _with_two_labels(model)
    if sum(parameter.numel() for parameter in model.parameters()) > _LARGEST:
        raise MemoryError(f"{type(model).__name__} is too large to be run with values")
    with torch.device("cpu"):
        model = type(model)(model.config)
    return model, "cpu"


def _counted(name: str, model: Any, device: str) -> Fed:
    tensors = blueprint.read(model)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    heads = {n for n, tensor in tensors.items() if tensor.traits.role is Role.HEAD}
    words = {n for n, tensor in tensors.items() if tensor.traits.role is Role.VOCABULARY_HEAD}
    body = [n for n in parameters if n not in heads | words]
    for parameter in parameters.values():
        parameter.requires_grad_(parameter.is_floating_point())
    returned: list[Any] = []
    for backbone in _bodies(model):
        backbone.register_forward_hook(lambda _module, _arguments, output: returned.append(output))
    outputs = list(_tensors(_run(model.eval(), device)))
    reached = _behind(outputs)
    hidden = _behind([tensor for output in returned for tensor in _tensors(_first(output))])
    past = _behind(outputs, {id(parameters[n]) for n in heads})
    return Fed(
        name=name,
        alone=frozenset(n for n in body if id(parameters[n]) in reached - hidden - past),
        unused=frozenset(n for n in body if id(parameters[n]) not in reached),
        reported=frozenset(n for n in body if tensors[n].traits.before_head),
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
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)


def _behind(outputs: Collection[Tensor], stop: Collection[int] = ()) -> set[int]:
    """The parameters that these were made of; not looked for beyond those of ``stop``."""
    seen: set[Any] = set()
    variables: set[int] = set()
    todo = [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None]
    while todo:
        step = todo.pop()
        if step in seen:
            continue
        seen.add(step)
        if hasattr(step, "variable"):
            variables.add(id(step.variable))
        elif not _takes(step, stop):
            todo += [before for before, _ in step.next_functions if before is not None]
    return variables


def _takes(step: Any, stop: Collection[int]) -> bool:
    """Whether a step takes one of these parameters, as it is or turned."""
    sources = [before for before, _ in step.next_functions if before is not None]
    turned = [before.next_functions[0][0] for before in sources if len(before.next_functions) == 1]
    return any(id(getattr(node, "variable", None)) in stop for node in (*sources, *turned))


class _Guesses(TorchFunctionMode):
    """Answers for code that looks at values, which the meta device has not."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        first = args[0] if args else None
        if isinstance(first, Tensor) and first.device.type == "meta":
            answer = _SCALARS.get(getattr(function, "__name__", ""))
            if answer is not None:
                return answer(first)
        return function(*args, **(kwargs or {}))


def _run(model: Any, device: str) -> Any:
    """The output for the first inputs that the model takes; raises the first one's error."""
    inputs = _inputs(model, device)
    names = [input_ for input_ in inputs if input_ in inspect.signature(model.forward).parameters]
    failure: Exception | None = None
    for values in product(*(inputs[name] for name in names)):
        arguments = {n: value for n, value in zip(names, values, strict=True) if value is not None}
        try:
            with torch.device(device), _Guesses(), symbolic.patch(_ALL_NONZERO):
                return model(**arguments)
        except Exception as error:
            failure = failure or error
    assert failure is not None
    raise failure


_ALL_NONZERO: Final = {"meta_nonzero_assume_all_nonzero": True}


def _inputs(model: Any, device: str) -> dict[str, list[Tensor | None]]:
    """By the name of an argument, the values that may fit."""
    config = model.config
    inner = (config, getattr(config, "vision_config", config))

    def size(key: str, otherwise: int) -> int:
        return next(
            (v for part in inner if isinstance(v := getattr(part, key, 0), int) and v), otherwise
        )

    def integers(*shape: int) -> Tensor:
        return torch.ones(shape, dtype=torch.long, device=device)

    def real(*shape: int) -> Tensor:
        return torch.zeros(shape, device=device)

    side = size("image_size", 224)
    colours = size("num_channels", 3)
    words = integers(1, _WORDS)
    picture = (colours, side, side)
    video = real(1, size("num_frames", 16), *picture)
    return {
        "input_ids": [words, integers(1, 2, _WORDS)],
        "pixel_values": [real(1, *picture), video],
        "pixel_values_videos": [video],
        "input_values": [real(1, 16000), real(1, 1024, size("num_mel_bins", 128))],
        "input_features": [
            real(1, size("num_mel_bins", 80), 3000),
            real(1, 1024, size("num_mel_bins", 128)),
            real(1, 1024, 2 * size("num_mel_bins", 80)),
        ],
        "past_values": [real(1, size("context_length", 32), size("num_input_channels", 1))],
        "decoder_input_ids": [words],
        "bbox": [integers(1, _WORDS, 4)],
        "attention_mask": [None, words],
        "visual_feats": [real(1, 4, size("visual_feat_dim", 2048))],
        "visual_pos": [real(1, 4, 4)],
        "visual_embeds": [real(1, 4, size("visual_embedding_dim", 512))],
        "visual_attention_mask": [real(1, 4)],
        "region_to_phrase_position": [integers(1, 8)],
        "entity_ids": [integers(1, 2)],
        "entity_position_ids": [integers(1, 2, 8)],
        "entity_start_positions": [integers(1, 2)],
        "entity_end_positions": [integers(1, 2)],
    }
