"""Modules in a loaded model: loads a folder with modules.

A routed result must not depend on other examples, to the last bit, but matrix products round
differently in a batch of another size. So each example goes through the model alone.

Twin-Merging and FREE-Merging compute all weights for each example from merged weights and the
experts' differences. The first mixes all experts by the weights of a router; the second chooses
one. The input of the router is the merged body's output. H features, T experts.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.contract.plan import MatrixPart
from ace_gui.engine.contract.scored import WHOLE
from ace_gui.engine.modules.layers import (
    NAME,
    Seen,
    mean_over_tokens,
    put_blocks,
    put_correction,
    put_smile,
)
from ace_gui.engine.modules.stored import MODULES, TRAINED, form_of, has_modules
from ace_gui.engine.modules.task_tensors import (
    StoredModules,
    TaskTensors,
    base_of,
    open_modules,
    open_task,
    read_described,
)
from ace_gui.engine.streaming import elements_of
from ace_gui.errors import ArchitectureError
from ace_gui.formatting import plain
from ace_gui.methods.shared.expert_modules import ModuleKind


def features(model: Any, inputs: Mapping[str, Any]) -> Tensor:
    """The mean of the body's last hidden states over unmasked tokens, N × H.

    An encoder-decoder gives those of its encoder. Raises ArchitectureError for a model without such
    a body.
    """
    has_encoder = bool(getattr(model.config, "is_encoder_decoder", False))
    if has_encoder:
        body = model.get_encoder()
    else:
        body = model.base_model
    accepted = inspect.signature(body.forward).parameters
    arguments = {name: value for name, value in inputs.items() if name in accepted}
    if "use_cache" in accepted and not has_encoder:
        arguments["use_cache"] = False
    hidden = getattr(body(**arguments), "last_hidden_state", None)
    if body is model or not isinstance(hidden, Tensor) or hidden.ndim < 2:
        raise ArchitectureError(
            f"{type(model).__name__} has no body whose hidden states a router could use; "
            "choose a method without a router."
        )
    if hidden.ndim > 3:  # channels first, of convolutions
        hidden = hidden.flatten(2).mT
    if hidden.ndim < 3:
        return hidden
    mask = inputs.get("attention_mask")
    if not isinstance(mask, Tensor):
        mask = None
    return mean_over_tokens(hidden, mask)


class Router(nn.Module):
    """The weight of each expert, softmax(A (h − centre) / scale + b); if ``one_only``, 1 or 0."""

    centre: Tensor
    scale: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(
        self, tensors: Mapping[str, Tensor], *, one_only: bool, experts: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.location = WHOLE
        self.experts = tuple(experts)
        for name in ("centre", "scale", "weight", "bias"):
            self.register_buffer(name, tensors[name], persistent=False)
        self.one_only = one_only
        self.seen: Seen | None = None

    def forward(self, feature_H: Tensor) -> Tensor:
        """The T weights."""
        scaled_H = (feature_H - self.centre) / self.scale
        share_T = torch.softmax(self.weight @ scaled_H + self.bias, dim=0)
        if self.one_only:
            share_T = torch.zeros_like(share_T).index_fill_(0, share_T.argmax(), 1.0)
        if self.seen is not None:
            self.seen(share_T)
        return share_T


@dataclass(frozen=True, kw_only=True)
class _Target:
    """Elements of a parameter that the experts change, all in one form."""

    parameter: str
    """Its name in the model."""
    part: MatrixPart
    """The elements."""
    form: str
    """How the changes are stored."""
    owners: tuple[int, ...]
    """Indices of the experts."""
    ranks: tuple[int, ...]
    """Of the experts' low-rank factors; empty for other forms."""
    names: tuple[str, ...]
    """Of the tensors, shared by all experts, or two per expert for chosen elements."""


class ExpertDifferences(nn.Module):
    """D_t of every expert, on the model's device.

    Low-rank factors and whole tensors are concatenated.
    """

    def __init__(self) -> None:
        super().__init__()
        self.targets: dict[str, list[_Target]] = defaultdict(list)

    def add(self, target: _Target, tensors: Sequence[Tensor]) -> None:
        """Store the differences of some elements of a parameter."""
        self.targets[target.parameter].append(target)
        for name, tensor in zip(target.names, tensors, strict=True):
            self.register_buffer(name, tensor, persistent=False)

    def mixed(self, parameter: str, plain_weight: Tensor, share_T: list[float]) -> Tensor:
        """W + Σ_t share_t D_t."""
        result = plain_weight.clone()
        for target in self.targets[parameter]:
            elements = elements_of(result.view(-1), target.part)
            tensors = [self.get_buffer(name) for name in target.names]
            shares = [share_T[t] for t in target.owners]
            if target.form == "index":  # one expert after the other, as indices may repeat
                flat = elements.reshape(-1)
                for position, share in enumerate(shares):
                    index, values = tensors[2 * position : 2 * position + 2]
                    flat = flat.index_add(0, index, values, alpha=share)
                elements.copy_(flat.view(elements.shape))
                continue
            scales = torch.tensor(shares, dtype=result.dtype, device=result.device)
            if target.form == "left":
                # The columns of tensors[0] are those of all experts: ranks[i] of the i-th.
                ranks = torch.tensor(target.ranks, device=result.device)
                change = (tensors[0] * scales.repeat_interleave(ranks)) @ tensors[1]
            else:
                change = scales @ tensors[0]
            elements.add_(change.view(elements.shape))
        return result


def put_whole(model: Any, modules: StoredModules) -> Router:
    """Make a loaded model compute its weights for each example that it is called with.

    Examples must come one at a time (``one_by_one``). Raises CheckpointError for modules that do
    not fit, ArchitectureError for a model whose tensors differ from those in its files.
    """
    router = _router(modules)
    differences = _differences(model, modules)
    first = next(model.parameters())
    model.add_module(NAME, nn.ModuleList([router, differences]).to(first.device, first.dtype))
    _make_by_example(model, router, differences)
    return router


def _router(modules: StoredModules) -> Router:
    names = ("centre", "scale", "weight", "bias")
    tensors = {name: modules.read(TRAINED + name) for name in names}
    count = len(modules.manifest.experts)
    width = len(tensors["centre"])
    shapes = [tuple(tensors[name].shape) for name in names]
    fits = shapes == [(width,), (width,), (count, width), (count,)]
    if not fits or not bool((tensors["scale"] > 0).all()):
        raise refusal(modules.folder, f"{MODULES} has a router of another model; merge again.")
    one_only = modules.manifest.kind is ModuleKind.CHOICE
    return Router(tensors, one_only=one_only, experts=modules.manifest.experts)


def _differences(model: Any, modules: StoredModules) -> ExpertDifferences:
    parameters = dict(model.named_parameters(remove_duplicate=False))
    finder = DiskNames(model, parameters)
    differences = ExpertDifferences()
    experts = {name: t for t, name in enumerate(modules.manifest.experts)}
    for row, part in modules.layout.parts.items():
        destination = finder.find(part.tensor)
        if destination is None:
            continue
        if destination.converted or parameters[destination.name].shape != part.tensor_shape:
            raise ArchitectureError(
                f"{type(model).__name__} holds `{plain(part.tensor)}` differently from its "
                "files, so it cannot be mixed for each example."
            )
        number = sum(map(len, differences.targets.values()))
        differences.add(*_row_of(modules, row, destination.name, experts, number))
    if not differences.targets:
        raise ArchitectureError(f"{type(model).__name__} has none of the tensors of the modules.")
    return differences


def _row_of(
    modules: StoredModules, row: str, parameter: str, experts: Mapping[str, int], number: int
) -> tuple[_Target, list[Tensor]]:
    """The elements of a row, and its tensors: one or two for all experts, or two for each.

    ``number``: of the rows before it, for the names of the tensors in the model.
    """
    owners = modules.layout.experts[row]
    part = modules.layout.parts[row]
    forms = {form_of(f"{owner}/{row}/", modules.tensors) for owner in owners}
    if not owners or len(forms) != 1:
        raise refusal(modules.folder, f"{MODULES} has a row in several forms; merge again.")
    (form,) = forms
    ranks: list[int] = []
    if form[0] == "left":
        lefts = [modules.read(f"{owner}/{row}/left") for owner in owners]
        rights = [modules.read(f"{owner}/{row}/right") for owner in owners]
        ranks = [left.shape[1] for left in lefts]
        tensors = [torch.cat(lefts, dim=1), torch.cat(rights)]
    elif form[0] == "whole":
        differences = [modules.read(f"{owner}/{row}/whole") for owner in owners]
        tensors = [torch.stack([difference.reshape(-1) for difference in differences])]
    else:
        tensors = []
        for owner in owners:
            modules.require_entries(f"{owner}/{row}/", part.elements)
            tensors.append(modules.read(f"{owner}/{row}/index").long())
            tensors.append(modules.read(f"{owner}/{row}/values"))
    target = _Target(
        parameter=parameter,
        part=part,
        form=form[0],
        owners=tuple(experts[owner] for owner in owners),
        ranks=tuple(ranks),
        names=tuple(f"d{number}_{position}" for position in range(len(tensors))),
    )
    return target, tensors


def _make_by_example(model: Any, router: Router, differences: ExpertDifferences) -> None:
    forward = model.forward
    generating = list[bool]()  # not empty while the weights are those of a prompt
    signature = inspect.signature(forward)

    def shares(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[float]:
        arguments = signature.bind(*args, **kwargs).arguments
        inputs = {**arguments, **arguments.get("kwargs", {})}
        with torch.no_grad():
            share_T: list[float] = router(features(model, inputs)[0]).tolist()
        return share_T

    @wraps(forward)
    def by_example(*args: Any, **kwargs: Any) -> Any:
        if generating:
            return forward(*args, **kwargs)
        with _weights_of(model, differences, shares(args, kwargs)):
            return forward(*args, **kwargs)

    model.forward = by_example
    if hasattr(model, "generate"):
        model.generate = _by_prompt(model, differences, shares, generating)


def _by_prompt(
    model: Any,
    differences: ExpertDifferences,
    shares: Callable[[tuple[Any, ...], Mapping[str, Any]], list[float]],
    generating: list[bool],
) -> Any:
    """``generate`` with the weights of the prompt for the whole text."""
    generate = model.generate

    @wraps(generate)
    def with_prompt_weights(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        if inputs is None:
            named = {}
        else:
            named = {model.main_input_name: inputs}
        prompt = dict(named)
        for name in (model.main_input_name, "attention_mask", "token_type_ids", "inputs_embeds"):
            if kwargs.get(name) is not None:
                prompt[name] = kwargs[name]
        share_T = shares((), prompt)
        generating.append(True)
        try:
            with _weights_of(model, differences, share_T):
                return generate(*args, **named, **kwargs)
        finally:
            generating.pop()

    return with_prompt_weights


@contextmanager
def _weights_of(model: Any, differences: ExpertDifferences, share_T: list[float]) -> Iterator[None]:
    """Context in which the model's weights are those for these shares."""
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


_METHODS: Final = ("forward", "get_image_features", "get_text_features")
_CACHES: Final = ("cache", "past_key_values", "encoder_outputs")
"""Arguments that only a single example can have; transformers 5.24 renamed the second the first."""


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

    ``base``: folder of the base, instead of the one in the recipe. Raises CheckpointError, and
    RecipeError if the modules need a base that is unknown.
    """
    if not has_modules(folder):
        return None
    manifest, _ = read_described(folder)
    if expert not in manifest.experts:
        expert = None
    if base is None and manifest.base is not None:
        base = base_of(folder)
    return ModulesOf(folder=folder, kind=manifest.kind, expert=expert, base=base)


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
        outputs = []
        for n in range(count):
            positional = [_row(argument, n, count) for argument in args]
            named = {key: _row(value, n, count) for key, value in kwargs.items()}
            if can_cache:
                named["use_cache"] = False
            outputs.append(plain(*positional, **named))
        return _joined(outputs)

    return per_example


def _generating(model: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def generate(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        named = dict(kwargs)
        if inputs is not None:
            named["inputs"] = inputs
        count = _examples((), named)
        if count <= 1:
            return plain(*args, **named)
        rows = []
        for n in range(count):
            of_example = {key: _row(value, n, count) for key, value in named.items()}
            rows.append(plain(*args, **of_example))
        if not all(isinstance(row, Tensor) for row in rows):
            raise ArchitectureError(
                "A model with modules returns more than the text for a single example only; give "
                "it one example at a time."
            )
        config = model.generation_config
        longest = max(row.shape[1] for row in rows)
        pads = (kwargs.get("pad_token_id"), config.pad_token_id, config.eos_token_id)
        fill = next((pad for pad in pads if pad is not None), 0)
        if isinstance(fill, list):
            fill = fill[0]
        return torch.cat([functional.pad(r, (0, longest - r.shape[1]), value=fill) for r in rows])

    return generate


def _examples(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """The number of examples in a call: the rows of the first tensor."""
    tensors = (
        argument
        for argument in (*args, *kwargs.values())
        if isinstance(argument, Tensor) and argument.ndim
    )
    first = next(tensors, None)
    if first is None:
        return 1
    return len(first)


def _row(value: Any, n: int, count: int) -> Any:
    """Example ``n`` of a tensor of ``count`` examples; other values are the same for all."""
    if isinstance(value, Tensor) and value.ndim and len(value) == count:
        return value[n : n + 1]
    return value


def _joined(outputs: Sequence[Any]) -> Any:
    """Join the outputs: tensors by example, numbers averaged, caches dropped."""
    first = outputs[0]
    if isinstance(first, Tensor):
        if first.ndim:
            return torch.cat(list(outputs))
        return torch.stack(list(outputs)).mean()
    if isinstance(first, Mapping):
        joined = {key: _joined([output[key] for output in outputs]) for key in first}
        return type(first)(**joined)
    if isinstance(first, tuple):
        return tuple(_joined(output) for output in zip(*outputs, strict=True))
    return None
