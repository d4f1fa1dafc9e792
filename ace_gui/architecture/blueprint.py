"""A model built without memory, and what its classes define for each tensor."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from ace_gui.architecture import names, transformers_library
from ace_gui.architecture.heads import before_heads, head_roles
from ace_gui.architecture.traits import Role, TensorTraits
from ace_gui.errors import ArchitectureError

# Matrices that classes of transformers multiply by without a module of their own, by their last
# name, and whether they are stored inputs × outputs; those with three axes are stacks of such.
_OWN_MATRICES: Final[Mapping[str, bool]] = {
    "dt_proj_weight": False,
    "fn": False,
    "hc_fn": False,
    "index_kpool_compress_gate": False,
    "input_gate_weight": True,
    "mm_input_projection_weight": True,
    "proj": True,
    "prompts_visual_projection": True,
    "recurrent_gate_weight": True,
    "v1": False,
    "w1": False,
    "w2": True,
    "w_g": True,
    "x_proj_weight": False,
}


@dataclass(frozen=True, kw_only=True)
class ModuleTensor:
    """A tensor of the model under its module's name.

    ``traits.tied_to`` is a module's name too.
    """

    traits: TensorTraits
    shape: tuple[int, ...]


def build(config: Mapping[str, object], most: int | None = None) -> Any:
    """The model that a plain ``config.json`` describes, on the meta device, weights tied.

    ArchitectureError where transformers has no such model, cannot build it, or it would have more
    modules and parameters than ``most``.
    """
    model_class, config_object = transformers_library.model_and_config(config)
    import torch

    # Each model class fails on a bad config in its own way, with errors of any type.
    try:
        with transformers_library.quiet(), torch.device("meta"), _at_most(most):
            model = model_class(config_object)
    except ArchitectureError:
        raise
    except Exception as error:
        name = model_class.__name__
        sentence = f"{name} cannot be built from the config; check config.json."
        raise ArchitectureError(
            transformers_library.failure(error, name, sentence),
            details=f"{type(error).__name__}: {error}",
        ) from error
    return model


@contextmanager
def _at_most(most: int | None) -> Iterator[None]:
    """Refuse a model of more modules and parameters while it is built."""
    from torch.nn.modules import module

    built = itertools.count(1)

    def count(*_: object) -> None:
        if most is not None and next(built) > most:
            raise ArchitectureError(
                f"The config asks for a model of more than {most} modules and tensors, far more "
                "than are in the files; check config.json."
            )

    hooks = (
        module.register_module_module_registration_hook(count),
        module.register_module_parameter_registration_hook(count),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def read(model: Any) -> dict[str, ModuleTensor]:
    """Every parameter and buffer of ``model``, tied ones under each of their names."""
    tensors: dict[str, ModuleTensor] = {}
    storage: dict[str, int] = {}
    parameters = list(_parameters(model))
    names_of_all = [name for name, _, _ in parameters]
    heads = head_roles(model, names_of_all)
    before = before_heads(model, names_of_all, heads)
    for name, module, parameter in parameters:
        tensor = _read_parameter(name, module, tuple(parameter.shape))
        role = heads.get(name, tensor.traits.role)
        traits = replace(tensor.traits, role=role, before_head=name in before)
        tensor = replace(tensor, traits=traits)
        tensors[name] = tensor
        storage[name] = id(parameter)
    for name, buffer in model.named_buffers(remove_duplicate=False):
        traits = TensorTraits(role=Role.BUFFER, matrix=False, block=names.block_index(name))
        tensors[name] = ModuleTensor(traits=traits, shape=tuple(buffer.shape))
    return _with_ties(tensors, storage, preferred=getattr(model, "all_tied_weights_keys", {}))


def _parameters(model: Any) -> Iterator[tuple[str, Any, Any]]:
    for prefix, module in model.named_modules(remove_duplicate=False):
        for leaf, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            yield f"{prefix}.{leaf}".lstrip("."), module, parameter


def _read_parameter(name: str, module: Any, shape: tuple[int, ...]) -> ModuleTensor:
    """Traits by the class of the owning module; the name decides the role of the matrix."""
    from transformers.pytorch_utils import Conv1D

    leaf = name.rpartition(".")[2]
    own = leaf in _OWN_MATRICES and type(module).__module__.startswith("transformers.")
    matrix = len(shape) == 2 and (own or _is_linear(leaf, module))
    experts = "Experts" in type(module).__name__
    stack = len(shape) == 3 and (own or experts)
    turned = isinstance(module, Conv1D) or (experts and getattr(module, "is_transposed", False))
    traits = TensorTraits(
        role=names.matrix_role(name) if matrix or stack else _role(name, module, len(shape)),
        matrix=matrix or stack,
        transposed=(matrix or stack) and (_OWN_MATRICES[leaf] if own else turned),
        stack=stack,
        block=names.block_index(name),
    )
    return ModuleTensor(traits=traits, shape=shape)


def _is_linear(leaf: str, module: Any) -> bool:
    """Whether the module multiplies its input by this two-dimensional parameter."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    kind = type(module).__name__
    if isinstance(module, nn.Linear | Conv1D) or "Linear" in kind:
        return leaf == "weight"
    # Recurrent and plain attention layers, and the routers that transformers writes as parameters.
    router = kind.endswith(("Router", "Gate"))
    return "weight" in leaf and (router or isinstance(module, nn.MultiheadAttention | nn.RNNBase))


def _role(name: str, module: Any, ndim: int) -> Role:
    """Role of a parameter that is no matrix."""
    from torch import nn

    if isinstance(module, nn.Embedding) or (_is_table(module) and ndim == 2):
        return names.embedding_role(name) or Role.EMBEDDING
    if "Norm" in type(module).__name__:
        return Role.NORM
    table = None if name.endswith(".bias") else names.embedding_role(name)
    if table is Role.POSITION:  # T5's kind is called a bias
        return table
    if names.is_bias(name):
        return Role.BIAS
    if isinstance(module, nn.modules.conv._ConvNd):
        return Role.CONVOLUTION
    return table or Role.OTHER


def _is_table(module: Any) -> bool:
    return type(module).__name__.endswith("Embedding")


def _with_ties(
    tensors: Mapping[str, ModuleTensor], storage: Mapping[str, int], preferred: Mapping[str, str]
) -> dict[str, ModuleTensor]:
    """Name for each parameter that shares another's storage that other one.

    The source is the one the model class names as such, else the first in the model.
    """
    owner: dict[int, str] = {}
    for name in [*(name for name in preferred.values() if name in storage), *storage]:
        owner.setdefault(storage[name], name)
    tied = dict(tensors)
    for name, key in storage.items():
        if owner[key] != name:
            traits = replace(tensors[name].traits, tied_to=owner[key])
            tied[name] = replace(tensors[name], traits=traits)
    return tied
