"""A model whose weights are made for each example: the merged ones and the experts' differences.

Twin-Merging mixes all experts by the shares that a router gives them, FREE-Merging takes one. The
router looks at what the merged body makes of the input. H features, T experts.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import torch
from torch import Tensor, nn

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.checkpoints import TensorReader, plain
from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.contract.plan import MatrixPart
from ace_gui.engine.contract.routes import WHOLE
from ace_gui.engine.modules.looking_on import Seen
from ace_gui.engine.modules.manifest import MODULES
from ace_gui.engine.modules.stored import TRAINED, form_of
from ace_gui.engine.modules.task_tensors import StoredModules, elements_of
from ace_gui.errors import ArchitectureError
from ace_gui.methods.shared.expert_modules import ModuleKind

NAME: Final = "ace_modules"
"""What the modules are called in the model that has them."""


def features(model: Any, inputs: Mapping[str, Any]) -> Tensor:
    """The mean of the body's last hidden states over the tokens that count, N × H.

    Of an encoder-decoder, the encoder's. Raises ArchitectureError for a model without such a body.
    """
    whole = bool(getattr(model.config, "is_encoder_decoder", False))
    body = model.get_encoder() if whole else model.base_model
    wanted = inspect.signature(body.forward).parameters
    given = {name: value for name, value in inputs.items() if name in wanted}
    if "use_cache" in wanted and not whole:
        given["use_cache"] = False
    hidden = getattr(body(**given), "last_hidden_state", None)
    if not isinstance(hidden, Tensor) or hidden.ndim < 2 or body is model:
        raise ArchitectureError(
            f"{type(model).__name__} has no body whose hidden states a router could look at; "
            "choose a method without a router."
        )
    if hidden.ndim > 3:  # channels first, of convolutions
        hidden = hidden.flatten(2).mT
    mask = inputs.get("attention_mask")
    if hidden.ndim == 3 and isinstance(mask, Tensor) and mask.shape == hidden.shape[:2]:
        share = mask.to(hidden.dtype)[..., None]
        found: Tensor = (hidden * share).sum(dim=1) / share.sum(dim=1).clamp(min=1)
        return found
    return hidden.mean(dim=1) if hidden.ndim == 3 else hidden


class Router(nn.Module):
    """softmax(A (h − centre) / scale + b): the share of each expert; or 1 for the largest."""

    centre: Tensor
    scale: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(
        self, tensors: Mapping[str, Tensor], *, one: bool, experts: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.place, self.experts = WHOLE, tuple(experts)
        for name in ("centre", "scale", "weight", "bias"):
            self.register_buffer(name, tensors[name], persistent=False)
        self.one = one
        self.seen: Seen | None = None

    def forward(self, feature_H: Tensor) -> Tensor:
        """The T shares."""
        given_H = (feature_H - self.centre) / self.scale
        share_T = torch.softmax(self.weight @ given_H + self.bias, dim=0)
        if self.one:
            share_T = torch.zeros_like(share_T).index_fill_(0, share_T.argmax(), 1.0)
        if self.seen is not None:
            self.seen(share_T)
        return share_T


@dataclass(frozen=True, kw_only=True)
class _Target:
    """Elements of a parameter that the experts change. ``forms``: by expert, its tensors' names."""

    parameter: str
    part: MatrixPart
    forms: Mapping[int, tuple[str, tuple[str, ...]]]


class Differences(nn.Module):
    """D_t of every expert, as they are stored, on the model's device."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: dict[str, list[_Target]] = defaultdict(list)

    def add(self, target: _Target, tensors: Mapping[str, Tensor]) -> None:
        """Keep what belongs to some elements of a parameter."""
        self.targets[target.parameter].append(target)
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor, persistent=False)

    def mixed(self, parameter: str, plain_weight: Tensor, share_T: list[float]) -> Tensor:
        """W + Σ_t share_t D_t."""
        result = plain_weight.clone()
        flat = result.view(-1)
        for target in self.targets[parameter]:
            mine = elements_of(flat, target.part)
            for t, (form, names) in target.forms.items():
                if share_T[t]:
                    self._add(mine, form, [self.get_buffer(n) for n in names], share_T[t])
        return result

    def _add(self, mine: Tensor, form: str, found: list[Tensor], share: float) -> None:
        if form == "left":
            mine.add_((found[0] @ found[1]).view(mine.shape), alpha=share)
        elif form == "index":
            own = mine.reshape(-1).index_add(0, found[0], found[1], alpha=share)
            mine.copy_(own.view(mine.shape))
        else:
            mine.add_(found[0].view(mine.shape), alpha=share)


def put_whole(model: Any, modules: StoredModules) -> Router:
    """Have a loaded model make its weights for each example that it is called with.

    Examples must come one at a time (``one_by_one``). Raises CheckpointError for modules that do
    not fit, ArchitectureError for a model that holds its tensors otherwise than its files.
    """
    reader = TensorReader(modules.tensors)
    router = _router(modules, reader)
    differences = _differences(model, modules, reader)
    first = next(model.parameters())
    model.add_module(NAME, nn.ModuleList([router, differences]).to(first.device, first.dtype))
    _make_by_example(model, router, differences)
    return router


def _router(modules: StoredModules, reader: TensorReader) -> Router:
    found = {
        name: modules.read(TRAINED + name, reader) for name in ("centre", "scale", "weight", "bias")
    }
    count, width = len(modules.manifest.experts), len(found["centre"])
    shapes = [tuple(found[name].shape) for name in ("centre", "scale", "weight", "bias")]
    fits = shapes == [(width,), (width,), (count, width), (count,)]
    if not fits or not bool((found["scale"] > 0).all()):
        raise refusal(modules.folder, f"{MODULES} has a router of another model; merge again.")
    one = modules.manifest.kind is ModuleKind.CHOICE
    return Router(found, one=one, experts=modules.manifest.experts)


def _differences(model: Any, modules: StoredModules, reader: TensorReader) -> Differences:
    parameters = dict(model.named_parameters(remove_duplicate=False))
    finder, found = DiskNames(model, parameters), Differences()
    experts = {name: t for t, name in enumerate(modules.manifest.experts)}
    for number, (row, part) in enumerate(modules.layout.parts.items()):
        place = finder.find(part.tensor)
        if place is None:
            continue
        if place.converted or parameters[place.name].shape != part.tensor_shape:
            raise ArchitectureError(
                f"{type(model).__name__} holds `{plain(part.tensor)}` otherwise than its files, "
                "so that it cannot be mixed for each example."
            )
        forms, tensors = {}, {}
        for owner in modules.layout.experts[row]:
            prefix, t = f"{owner}/{row}/", experts[owner]
            form = form_of(prefix, modules.tensors)
            names = tuple(f"d{number}_{t}_{what}" for what in form)
            for what, name in zip(form, names, strict=True):
                tensor = modules.read(prefix + what, reader)
                tensors[name] = tensor.long() if what == "index" else tensor
            modules.require_entries(prefix, elements_of_part(part), reader)
            forms[t] = (form[0], names)
        found.add(_Target(parameter=place.name, part=part, forms=forms), tensors)
    if not found.targets:
        raise ArchitectureError(f"{type(model).__name__} has none of the tensors of the modules.")
    return found


def elements_of_part(part: MatrixPart) -> int:
    """How many elements a row has."""
    return (part.stop - part.start) // part.period * (part.last - part.first)


def _make_by_example(model: Any, router: Router, differences: Differences) -> None:
    forward, held = model.forward, list[bool]()
    named = inspect.signature(forward)

    def shares(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[float]:
        given = named.bind(*args, **kwargs).arguments
        inputs = {**given, **given.get("kwargs", {})}
        with torch.no_grad():
            found: list[float] = router(features(model, inputs)[0]).tolist()
        return found

    @wraps(forward)
    def by_example(*args: Any, **kwargs: Any) -> Any:
        if held:
            return forward(*args, **kwargs)
        with _weights_of(model, differences, shares(args, kwargs)):
            return forward(*args, **kwargs)

    model.forward = by_example
    if hasattr(model, "generate"):
        model.generate = _by_prompt(model, differences, shares, held)


def _by_prompt(
    model: Any,
    differences: Differences,
    shares: Callable[[tuple[Any, ...], Mapping[str, Any]], list[float]],
    held: list[bool],
) -> Any:
    """``generate`` with the weights of the prompt from the first word to the last."""
    generate = model.generate

    @wraps(generate)
    def written(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        given = {} if inputs is None else {model.main_input_name: inputs}
        names = (model.main_input_name, "attention_mask", "token_type_ids", "inputs_embeds")
        prompt = given | {n: kwargs[n] for n in names if kwargs.get(n) is not None}
        share_T = shares((), prompt)
        held.append(True)
        try:
            with _weights_of(model, differences, share_T):
                return generate(*args, **given, **kwargs)
        finally:
            held.pop()

    return written


@contextmanager
def _weights_of(model: Any, differences: Differences, share_T: list[float]) -> Iterator[None]:
    """Within it, the model's weights are those of these shares."""
    owners = {name: model.get_parameter(name) for name in differences.targets}
    plain_weights = {name: owner.data for name, owner in owners.items()}
    try:
        with torch.no_grad():
            for name, owner in owners.items():
                owner.data = differences.mixed(name, plain_weights[name], share_T)
        yield
    finally:
        for name, owner in owners.items():
            owner.data = plain_weights[name]
