"""Modules in a loaded model: loads a folder with modules.

Twin-Merging and FREE-Merging compute all weights for each example from merged weights and the
experts' differences. The first mixes all experts by the shares that a router gives them; the second
chooses one. The input of the router is the merged body's output. N examples, L tokens, H features,
T experts.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.contract.plan import MatrixPart
from ace_gui.engine.contract.scored import WHOLE
from ace_gui.engine.modules.layers import (
    SUBMODULE,
    Observer,
    mean_over_tokens,
    put_blocks,
    put_correction,
)
from ace_gui.engine.modules.one_by_one import one_by_one
from ace_gui.engine.modules.smile_layers import put_smile
from ace_gui.engine.modules.stored import (
    MODEL_ROUTER,
    MODULES,
    TRAINED,
    has_modules,
    suffixes_of,
)
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
    if hidden.ndim > 3:  # of convolutions: N × H × places, which become N × L × H
        hidden = hidden.flatten(2).mT
    if hidden.ndim < 3:
        return hidden
    mask = inputs.get("attention_mask")
    if not isinstance(mask, Tensor):
        mask = None
    return mean_over_tokens(hidden, mask)


class Router(nn.Module):
    """The share of each expert, softmax(A (h − centre) / scale + b).

    ``weight`` is A, ``bias`` b. If it ``chooses_one``, the expert with the largest share gets 1,
    and the others get 0.
    """

    centre: Tensor
    scale: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(
        self, tensors: Mapping[str, Tensor], *, chooses_one: bool, experts: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.location = WHOLE  # the model as a whole, not one of its layers
        self.experts = tuple(experts)
        for name in MODEL_ROUTER:
            self.register_buffer(name, tensors[name], persistent=False)
        self.chooses_one = chooses_one
        self.observer: Observer | None = None

    def forward(self, feature_H: Tensor) -> Tensor:
        """The T shares."""
        scaled_H = (feature_H - self.centre) / self.scale
        share_T = torch.softmax(self.weight @ scaled_H + self.bias, dim=0)
        if self.chooses_one:
            share_T = torch.zeros_like(share_T).index_fill_(0, share_T.argmax(), 1.0)
        if self.observer is not None:
            self.observer(share_T)
        return share_T


@dataclass(frozen=True, kw_only=True)
class _Target:
    """Elements of a parameter that the experts change, all in one form."""

    parameter: str
    """Its name in the model."""
    part: MatrixPart
    """The elements."""
    form: str
    """How the changes are stored, by the first of the tensors' suffixes: "left" (and "right"),
    "index" (and "values") or "whole".
    """
    owners: tuple[int, ...]
    """Indices of the experts."""
    ranks: tuple[int, ...]
    """The rank of each expert's low-rank factors; empty for other forms."""
    names: tuple[str, ...]
    """Names of the tensors. "left": two, the left and the right factors of all experts. "whole":
    one, the changes of all. "index": two for each expert in turn, the indices and the values.
    """


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

    def mixed(self, parameter: str, plain_weight: Tensor, shares: list[float]) -> Tensor:
        """W + Σ_t share_t D_t. ``shares``: of all experts."""
        result = plain_weight.clone()
        for target in self.targets[parameter]:
            elements = elements_of(result.view(-1), target.part)
            tensors = [self.get_buffer(name) for name in target.names]
            owner_shares = [shares[t] for t in target.owners]
            if target.form == "index":  # one expert after the other, as indices may repeat
                flat = elements.reshape(-1)
                indices = tensors[::2]  # they take turns with the values
                values = tensors[1::2]
                for index, changes, share in zip(indices, values, owner_shares, strict=True):
                    flat = flat.index_add(0, index, changes, alpha=share)
                elements.copy_(flat.view(elements.shape))
                continue
            scales = torch.tensor(owner_shares, dtype=result.dtype, device=result.device)
            if target.form == "left":
                # The columns of ``left`` are those of all experts: ranks[i] of the i-th.
                left, right = tensors
                ranks = torch.tensor(target.ranks, device=result.device)
                change = (left * scales.repeat_interleave(ranks)) @ right
            else:
                (changes_of_owners,) = tensors
                change = scales @ changes_of_owners
            elements.add_(change.view(elements.shape))
        return result


def put_model_router(model: Any, modules: StoredModules) -> Router:
    """Make a loaded model compute its weights for each example that it is called with.

    Examples must come one at a time (``one_by_one``). Raises CheckpointError for modules that do
    not fit, ArchitectureError for a model whose tensors differ from those in its files.
    """
    router = _router(modules)
    differences = _differences(model, modules)
    first = next(model.parameters())
    model.add_module(SUBMODULE, nn.ModuleList([router, differences]).to(first.device, first.dtype))
    _make_by_example(model, router, differences)
    return router


def _router(modules: StoredModules) -> Router:
    """The stored router. Raises CheckpointError if it does not fit."""
    tensors = {name: modules.read(TRAINED + name) for name in MODEL_ROUTER}
    count = len(modules.manifest.experts)
    width = len(tensors["centre"])
    shapes = [tuple(tensors[name].shape) for name in MODEL_ROUTER]
    fits = shapes == [(width,), (width,), (count, width), (count,)]
    if not fits or not bool((tensors["scale"] > 0).all()):
        raise refusal(modules.folder, f"{MODULES} has a router of another model; merge again.")
    chooses_one = modules.manifest.kind is ModuleKind.CHOICE
    return Router(tensors, chooses_one=chooses_one, experts=modules.manifest.experts)


def _differences(model: Any, modules: StoredModules) -> ExpertDifferences:
    """The stored differences of the tensors that the model has. Raises ArchitectureError."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    finder = DiskNames(model, parameters)
    differences = ExpertDifferences()
    experts = {name: t for t, name in enumerate(modules.manifest.experts)}
    target_count = 0
    for row, part in modules.layout.parts.items():
        destination = finder.find(part.tensor)
        if destination is None:
            continue
        if destination.converted or parameters[destination.name].shape != part.tensor_shape:
            raise ArchitectureError(
                f"{type(model).__name__} holds `{plain(part.tensor)}` differently from its "
                "files, so it cannot be mixed for each example."
            )
        target, tensors = _target_of(modules, row, destination.name, experts, target_count)
        differences.add(target, tensors)
        target_count += 1
    if not differences.targets:
        raise ArchitectureError(f"{type(model).__name__} has none of the tensors of the modules.")
    return differences


def _target_of(
    modules: StoredModules, row: str, parameter: str, experts: Mapping[str, int], number: int
) -> tuple[_Target, list[Tensor]]:
    """The elements of a row, and its tensors: one or two for all experts, or two for each.

    ``number``: of the rows before it, for the names of the tensors in the model.
    """
    owners = modules.layout.experts[row]
    part = modules.layout.parts[row]
    suffixes_of_owners = {suffixes_of(f"{owner}/{row}/", modules.tensors) for owner in owners}
    if not owners or len(suffixes_of_owners) != 1:
        raise refusal(modules.folder, f"{MODULES} has a row in several forms; merge again.")
    (suffixes,) = suffixes_of_owners
    form = suffixes[0]
    ranks: list[int] = []
    if form == "left":
        lefts = [modules.read(f"{owner}/{row}/left") for owner in owners]
        rights = [modules.read(f"{owner}/{row}/right") for owner in owners]
        ranks = [left.shape[1] for left in lefts]
        tensors = [torch.cat(lefts, dim=1), torch.cat(rights)]
    elif form == "whole":
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
        form=form,
        owners=tuple(experts[owner] for owner in owners),
        ranks=tuple(ranks),
        names=tuple(f"d{number}_{position}" for position in range(len(tensors))),
    )
    return target, tensors


def _make_by_example(model: Any, router: Router, differences: ExpertDifferences) -> None:
    """Replace ``forward`` and ``generate`` by ones that compute the weights first."""
    forward = model.forward
    # The shares of the prompts for which ``generate`` is running. While there are any, the weights
    # are the last prompt's, and ``forward`` leaves them as they are.
    prompts_in_use: list[list[float]] = []
    signature = inspect.signature(forward)

    def shares(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[float]:
        arguments = signature.bind(*args, **kwargs).arguments
        unnamed_arguments = arguments.get("kwargs", {})  # that ``forward`` takes as **kwargs
        with torch.no_grad():
            feature_H = features(model, {**arguments, **unnamed_arguments})[0]
            share_list: list[float] = router(feature_H).tolist()
        return share_list

    @wraps(forward)
    def forward_by_example(*args: Any, **kwargs: Any) -> Any:
        if prompts_in_use:
            return forward(*args, **kwargs)
        with _weights_of(model, differences, shares(args, kwargs)):
            return forward(*args, **kwargs)

    model.forward = forward_by_example
    if hasattr(model, "generate"):
        model.generate = _by_prompt(model, differences, shares, prompts_in_use)


def _by_prompt(
    model: Any,
    differences: ExpertDifferences,
    shares: Callable[[tuple[Any, ...], Mapping[str, Any]], list[float]],
    prompts_in_use: list[list[float]],
) -> Any:
    """``generate`` with the weights of the prompt for the whole text.

    ``prompts_in_use``: has the prompt's shares while it runs.
    """
    generate = model.generate

    @wraps(generate)
    def with_prompt_weights(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        main_input = {}  # by name, as ``generate`` may get it without one
        if inputs is not None:
            main_input[model.main_input_name] = inputs
        prompt = dict(main_input)
        for name in (model.main_input_name, "attention_mask", "token_type_ids", "inputs_embeds"):
            if kwargs.get(name) is not None:
                prompt[name] = kwargs[name]
        prompt_shares = shares((), prompt)
        prompts_in_use.append(prompt_shares)
        try:
            with _weights_of(model, differences, prompt_shares):
                return generate(*args, **main_input, **kwargs)
        finally:
            prompts_in_use.pop()

    return with_prompt_weights


@contextmanager
def _weights_of(model: Any, differences: ExpertDifferences, shares: list[float]) -> Iterator[None]:
    """Context in which the model's weights are those for these shares."""
    parameters = {name: model.get_parameter(name) for name in differences.targets}
    plain_weights = {name: parameter.data for name, parameter in parameters.items()}
    try:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.data = differences.mixed(name, plain_weights[name], shares)
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.data = plain_weights[name]


@dataclass(frozen=True, kw_only=True)
class ModulesInModel:
    """The modules of a folder, for one model that is loaded from it."""

    folder: Path
    """The merged folder."""
    kind: ModuleKind
    """How the model uses them."""
    expert: str | None
    """The expert of the task; None if the modules have none for it."""
    base: Path | None = None
    """The base model's folder if known, required by modules that change base weights."""

    def tensors(self) -> dict[str, Tensor] | None:
        """All tensors of the expert's model, if that is an ordinary model; None otherwise.

        Raises the errors of ``open_task``.
        """
        if self.kind is not ModuleKind.TASK or self.expert is None:
            return None
        task: TaskTensors = open_task(self.folder, self.expert, self.base)
        return dict(task.tensors())

    def put(self, model: Any) -> None:
        """Attach the modules that work while the loaded model runs: routers and corrections.

        The model of one task needs none, as its weights already are the expert's. Raises
        CheckpointError and ArchitectureError.
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
            put_model_router(model, modules)
        one_by_one(model)


def modules_of(folder: Path, expert: str | None, base: Path | None) -> ModulesInModel | None:
    """The modules of a merged folder for a task of ``expert``; None if it has none.

    ``base``: folder of the base, instead of the one in the recipe. Raises CheckpointError, and
    RecipeError if the modules need a base that is unknown.
    """
    if not has_modules(folder):
        return None
    manifest, _ = read_described(folder)
    expert_of_task = expert
    if expert not in manifest.experts:
        expert_of_task = None
    base_folder = base
    if base is None and manifest.base is not None:
        base_folder = base_of(folder)
    return ModulesInModel(
        folder=folder, kind=manifest.kind, expert=expert_of_task, base=base_folder
    )
