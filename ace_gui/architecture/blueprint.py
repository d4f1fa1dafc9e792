"""Build a model without memory, to see what its classes define for each tensor, and its heads.

A head maps to the labels of a task, or to a vocabulary. Each expert may keep its own.

- Tensors that change with the number of labels in the config belong to a head, wherever they are.
- In a class that has such tensors besides its base model, and in classes for classification or with
  a fixed number of labels (the start and end of an answer, the choice among sentences), everything
  besides the base model is a head: it is between the body and the labels. Whole models are an
  exception. Without a base model, the modules that hold such tensors are the head. Tensors tied to
  a head belong to it too.
- The output embedding is a vocabulary head. So are the other tensors of its module (BERT's
  ``cls.predictions``), and everything besides the base model of a masked or causal language model,
  or of a speech recognition model (CTC).
- Pre-training predictions with their own labels (next sentence, replaced token) are heads.

Everything else is the body: poolers and projections of any name, and decoders that predict pixels,
depths or positions, which mean the same in every expert. Every model inside the model is examined
in the same way.

Some modules of the body feed only the task heads: their outputs are not part of the hidden states.
These are a body's pooler, and the modules between encoder and head of a classifier without a base
model of its own.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from ace_gui.architecture import names, transformers_library
from ace_gui.architecture.traits import Role, TensorTraits
from ace_gui.errors import ArchitectureError

# Parameters that transformers' classes multiply by as matrices, without a linear module: the last
# part of the name, and whether they are stored inputs × outputs. With three axes they are stacks.
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
    """The model that a plain ``config.json`` describes, on the meta device, with tied weights.

    Raises ArchitectureError if transformers has no such model or cannot build it, or if it has more
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
        raise _unbuilt(model_class, error) from error
    return model


def skeleton(config: Mapping[str, object]) -> Any:
    """The model without its parameters, which are on the meta device; buffers are in memory.

    In evaluation mode; it keeps no cache of earlier tokens. Raises ArchitectureError as ``build``.
    """
    model_class, config_object = transformers_library.model_and_config(config)
    import torch
    from torch.nn.modules import module

    def without_values(_module: Any, _name: str, parameter: Any) -> Any:
        return torch.nn.Parameter(parameter.to("meta"), requires_grad=False)

    hook = module.register_module_parameter_registration_hook(without_values)
    try:
        with transformers_library.quiet(), torch.random.fork_rng(devices=()):
            model = model_class(config_object)
    except Exception as error:
        raise _unbuilt(model_class, error) from error
    finally:
        hook.remove()
    for part in (model.config, *vars(model.config).values()):
        if hasattr(part, "use_cache"):
            part.use_cache = False
    return model.eval()


def _unbuilt(model_class: type[Any], error: Exception) -> ArchitectureError:
    name = model_class.__name__
    sentence = f"{name} cannot be built from the config; check config.json."
    return ArchitectureError(
        transformers_library.failure(error, name, sentence),
        details=f"{type(error).__name__}: {error}",
    )


@contextmanager
def _at_most(most: int | None) -> Iterator[None]:
    """Raise ArchitectureError while a model with more modules and parameters is built."""
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
    listed = leaf in _OWN_MATRICES and type(module).__module__.startswith("transformers.")
    matrix = len(shape) == 2 and (listed or _is_linear(leaf, module))
    experts = "Experts" in type(module).__name__
    stack = len(shape) == 3 and (listed or experts)
    turned = isinstance(module, Conv1D) or (experts and getattr(module, "is_transposed", False))
    traits = TensorTraits(
        role=names.matrix_role(name) if matrix or stack else _role(name, module, len(shape)),
        matrix=matrix or stack,
        transposed=(matrix or stack) and (_OWN_MATRICES[leaf] if listed else turned),
        stack=stack,
        block=names.block_index(name),
        takes_lora=leaf == "weight" and _takes_lora(module),
        inputs_first=bool(getattr(module, "is_transposed", False)),
    )
    return ModuleTensor(traits=traits, shape=shape)


def _takes_lora(module: Any) -> bool:
    """Whether PEFT has a LoRA layer for the module's class; grouped convolutions have another."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return module.groups == 1
    return isinstance(module, nn.Linear | nn.Embedding | Conv1D)


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

    is_table = type(module).__name__.endswith("Embedding")
    if isinstance(module, nn.Embedding) or (is_table and ndim == 2):
        return names.embedding_role(name) or Role.EMBEDDING
    if "Norm" in type(module).__name__:
        return Role.NORM
    if name.endswith(".bias"):
        table = None
    else:
        table = names.embedding_role(name)
    if table is Role.POSITION:  # T5 calls its table a bias
        return table
    if names.is_bias(name):
        return Role.BIAS
    if isinstance(module, nn.modules.conv._ConvNd):
        return Role.CONVOLUTION
    return table or Role.OTHER


def _with_ties(
    tensors: Mapping[str, ModuleTensor], storage: Mapping[str, int], preferred: Mapping[str, str]
) -> dict[str, ModuleTensor]:
    """Set ``tied_to`` of each parameter that shares the storage of another one.

    The other one is that which the model class names, or else the first in the model.
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


_LANGUAGE_MODELS: Final = ("ForMaskedLM", "ForCausalLM", "LMHeadModel", "WithLMHead", "ForCTC")
_FIXED_LABELS: Final = re.compile(
    r"For\w*(?:Classification|QuestionAnswering|MultipleChoice|NextSentencePrediction)"
    r"|DoubleHeadsModel$"
)
# The norm that these classes apply to their pooled output.
_NORM_OF_POOLED: Final = {"ConvNextModel": "layernorm.", "ConvNextV2Model": "layernorm."}
_LABEL_COUNT: Final = re.compile(r"^num_(?:\w+_)?(?:labels|targets|classes)$")


def head_roles(model: Any, tensors: Sequence[str]) -> dict[str, Role]:
    """HEAD or VOCABULARY_HEAD for every name of ``tensors`` that belongs to a head of ``model``."""
    labelled = _labelled(model)
    roles: dict[str, Role] = {}
    for part in _parts(model, tensors):
        roles |= dict.fromkeys(part.task_head(labelled), Role.HEAD)
        roles |= dict.fromkeys(part.vocabulary_head(), Role.VOCABULARY_HEAD)
    roles |= {name: Role.HEAD for name in labelled if roles.get(name) != Role.VOCABULARY_HEAD}
    stored = {name: id(p) for name, p in model.named_parameters(remove_duplicate=False)}
    shared = {stored[name] for name, role in roles.items() if role is Role.HEAD}
    of_tensors = {}
    for name in tensors:
        if name in roles:
            of_tensors[name] = roles[name]
        elif stored[name] in shared:
            of_tensors[name] = Role.HEAD
    return of_tensors


def before_heads(model: Any, tensors: Sequence[str], roles: Mapping[str, Role]) -> frozenset[str]:
    """The names of ``tensors`` whose module feeds only task heads; ``roles``: of the heads."""
    body = [name for name in tensors if name not in roles]
    result = {name for name in body if names.is_pooler(name)}
    outer, *inner = _parts(model, body)
    if outer.base is None and inner and _FIXED_LABELS.search(outer.class_name):
        free = (name for name in body if not name.startswith(outer.bodies))
        result |= {name for name in free if names.embedding_role(name) is None}
    for part in (outer, *inner):
        if part.class_name in _NORM_OF_POOLED:
            start = part.prefix + _NORM_OF_POOLED[part.class_name]
            result |= {name for name in part.tensors if name.startswith(start)}
    return frozenset(result)


@dataclass(frozen=True, kw_only=True)
class _ArchitecturePart:
    """A model inside the model, or the model itself.

    Names of its ``tensors`` begin with ``prefix``, those of its base model with ``base`` (None
    without one), and those of the models in it with one of ``bodies``.
    """

    model: Any
    prefix: str
    base: str | None
    bodies: tuple[str, ...]
    tensors: tuple[str, ...]

    @property
    def class_name(self) -> str:
        return type(self.model).__name__

    @property
    def outside(self) -> list[str]:
        """The tensors outside its base model."""
        if self.base is None:
            return []
        return [name for name in self.tensors if not name.startswith(self.base)]

    def task_head(self, labelled: frozenset[str]) -> Iterable[str]:
        if self.base is None:
            return self._children_with(labelled)
        if self._has_labels(labelled):
            return [name for name in self.outside if not name.startswith(self.bodies)]
        heads = []
        for name in self.outside:
            if names.is_pretraining_head(name.removeprefix(self.prefix)):
                heads.append(name)
        return heads

    def _has_labels(self, labelled: frozenset[str]) -> bool:
        """Whether the class is made for labels, not for a loss of pre-training."""
        if self.class_name.endswith("ForPreTraining"):
            return False
        return bool(_FIXED_LABELS.search(self.class_name)) or not labelled.isdisjoint(self.outside)

    def _children_with(self, labelled: frozenset[str]) -> list[str]:
        """The tensors of child modules that have labels and no numbered blocks."""
        children = {_child(name, self.prefix) for name in self.tensors if name in labelled}
        inner = [name for name in self.tensors if _child(name, self.prefix) in children]
        deep = {_child(name, self.prefix) for name in inner if names.block_index(name) is not None}
        return [name for name in inner if _child(name, self.prefix) not in deep]

    def vocabulary_head(self) -> Iterable[str]:
        if self.base is not None and self.class_name.endswith(_LANGUAGE_MODELS):
            return self.outside
        heads = []
        for name in self.tensors if self.base is None else self.outside:
            if names.is_vocabulary_head(name.removeprefix(self.prefix)):
                heads.append(name)
        start = self._output_embedding()
        if start:
            heads += [name for name in self.tensors if name.startswith(start)]
        return heads

    def _output_embedding(self) -> str | None:
        """Start of the names of the output embedding, and of others in the same module."""
        from torch import nn
        from transformers import PreTrainedModel

        try:
            output = self.model.get_output_embeddings()
        except (AttributeError, NotImplementedError):
            return None
        modules = dict(self.model.named_modules())
        name = next((name for name, module in modules.items() if module is output), None)
        if not name or isinstance(output, nn.Embedding):  # no head of its own: the embedding
            return None
        parent = name.rpartition(".")[0]
        start = f"{self.prefix}{parent}."
        inside = self.base is not None and start.startswith(self.base)
        from_parent = parent and not inside and not isinstance(modules[parent], PreTrainedModel)
        if from_parent:
            return start
        return f"{self.prefix}{name}."


def _child(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).partition(".")[0]


def _parts(model: Any, tensors: Sequence[str]) -> Iterator[_ArchitecturePart]:
    """The model and every model in it, outermost first."""
    from transformers import PreTrainedModel

    models = {}
    for name, module in model.named_modules():
        if isinstance(module, PreTrainedModel):
            prefix = f"{name}." if name else ""
            models[prefix] = module
    for prefix, module in models.items():
        base = getattr(module, module.base_model_prefix or "", None)
        yield _ArchitecturePart(
            model=module,
            prefix=prefix,
            base=f"{prefix}{module.base_model_prefix}."
            if isinstance(base, PreTrainedModel)
            else None,
            bodies=tuple(inner for inner in models if inner != prefix),
            tensors=tuple(tensor for tensor in tensors if tensor.startswith(prefix)),
        )


def _labelled(model: Any) -> frozenset[str]:
    """The parameters whose shape changes with a number of labels."""
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters(remove_duplicate=False)}
    config = copy.deepcopy(model.config)
    counts = set(_add_labels(config))
    sizes = set(itertools.chain.from_iterable(shapes.values()))
    one_more = {count + 1 for count in counts}
    if sizes.isdisjoint(counts | one_more):
        return frozenset()
    import torch

    # A class that requires its own number of labels raises an error of any type.
    try:
        with transformers_library.quiet(), torch.device("meta"):
            relabelled = type(model)(config)
    except Exception:
        return frozenset()
    changed = {
        name: tuple(p.shape) for name, p in relabelled.named_parameters(remove_duplicate=False)
    }
    return frozenset(name for name, shape in shapes.items() if changed.get(name) != shape)


def _add_labels(config: Any) -> Iterator[int]:
    """Change every number of labels in the config. Yields the original values."""
    inner = [value for value in vars(config).values() if hasattr(value, "num_labels")]
    for part in (config, *inner):
        yield part.num_labels
        part.num_labels += 7
        for key, value in list(vars(part).items()):
            if key != "num_labels" and _LABEL_COUNT.match(key) and isinstance(value, int):
                yield value
                setattr(part, key, value + 7)
