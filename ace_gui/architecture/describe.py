"""The traits of every tensor, from config.json and the shapes in the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ace_gui.architecture import blueprint, names
from ace_gui.architecture.blueprint import ModuleTensor
from ace_gui.architecture.disk_names import (
    Destination,
    DiskNames,
    module_rows,
    stacked_rows,
)
from ace_gui.architecture.traits import Architecture, Fusion, Role, TensorTraits
from ace_gui.errors import ArchitectureError
from ace_gui.formatting import listing, plain

Shape = tuple[int, ...]

_PARTS: Final = 10_000
_PARTS_A_TENSOR: Final = 20
"""The numbers of modules and parameters that a model may have in any case, and for each tensor in
the files. Of published models, a part with the config of the whole has the largest share."""


def describe(config: Mapping[str, object] | None, shapes: Mapping[str, Shape]) -> Architecture:
    """The traits of each tensor of a checkpoint, by its name in the files.

    ``config`` is a plain ``config.json``. Its model is built on the meta device, and the class of
    the module that owns a tensor determines whether it is a matrix and how it is stored. Tensors
    without a counterpart in the model, and checkpoints without a config, are described by their
    names. Never fails on a checkpoint that could be read: ``note`` reports what was guessed, and
    why.
    """
    if config is None:
        return by_names(None, shapes, "There is no config.json.")
    if not names_model(config):
        return by_names(config, shapes, "The config belongs to another library.")
    try:
        model = blueprint.build(config, most=_PARTS + _PARTS_A_TENSOR * len(shapes))
    except ArchitectureError as error:
        return by_names(config, shapes, error.sentence)
    by_name = _traits_by_name(shapes)
    tensors = blueprint.read(model)
    finder = DiskNames(model, tensors)
    destinations = _destinations(finder, tensors, shapes)
    traits = dict(by_name)
    for name, destination in destinations.items():
        tensor = tensors[destination.name]
        traits[name] = _traits(by_name[name], tensor, destination, shapes[name])
    converted = {name for name, destination in destinations.items() if destination.converted}
    as_loaded = {name: trait for name, trait in traits.items() if name not in converted}
    traits |= with_layouts(as_loaded, shapes, model.config)
    model_class = type(model).__name__
    may_tie = _may_tie(config, traits, destinations)
    return Architecture(
        family=_family(config) or model.config.model_type,
        model_class=model_class,
        traits=_with_ties(traits, tensors, may_tie, shapes),
        note=_note(config, model_class, by_name, tensors, destinations, shapes),
        modules=module_rows(finder, destinations, shapes),
        absent=_absent(tensors, destinations),
        stacked=stacked_rows(finder, destinations, shapes),
    )


def names_model(config: Mapping[str, object] | None) -> bool:
    """Whether the config names a model to build; those of other libraries do not."""
    if config is None:
        return False
    return isinstance(config.get("model_type"), str) or bool(config.get("architectures"))


def by_names(
    config: Mapping[str, object] | None, shapes: Mapping[str, Shape], why: str
) -> Architecture:
    """Traits from the tensors' names alone; ``why``: a sentence with the reason."""
    return Architecture(
        family=_family(config),
        model_class=None,
        traits=_traits_by_name(shapes),
        note=f"{why} Tensors are described by their names.",
    )


def _traits_by_name(shapes: Mapping[str, Shape]) -> dict[str, TensorTraits]:
    return with_layouts(names.traits_from_names(shapes), shapes, None)


def _family(config: Mapping[str, object] | None) -> str | None:
    if config is not None:
        family = config.get("model_type")
    else:
        family = None
    return family if isinstance(family, str) and plain(family) == family else None


def _destinations(
    finder: DiskNames, tensors: Mapping[str, ModuleTensor], shapes: Mapping[str, Shape]
) -> dict[str, Destination]:
    """The model's tensor for each tensor of the files, if the shapes agree."""
    destinations = {}
    for name, shape in shapes.items():
        target = finder.find(name)
        if target and (target.converted or _fits(shape, tensors[target.name].shape)):
            destinations[name] = target
    return destinations


def _fits(stored: Shape, built: Shape) -> bool:
    """Whether a tensor with other sizes than in the config still belongs to the module.

    A resized vocabulary changes one size. Another number of axes, or two swapped axes, means that
    the tensor is something else.
    """
    return len(stored) == len(built) and (stored == built or stored != built[::-1])


def _traits(
    by_name: TensorTraits, tensor: ModuleTensor, destination: Destination, shape: Shape
) -> TensorTraits:
    """Traits by the model, in the layout and under the name of the file."""
    stack = tensor.traits.stack and len(shape) == 3
    matrix = tensor.traits.matrix and (len(shape) == 2 or stack)
    return replace(
        tensor.traits,
        # A piece of a fused tensor has a role of its own.
        role=by_name.role if destination.converted else tensor.traits.role,
        matrix=matrix,
        stack=stack,
        transposed=matrix and tensor.traits.transposed != destination.flipped,
        block=by_name.block,
        tied_to=None,
    )


def _absent(
    tensors: Mapping[str, ModuleTensor], destinations: Mapping[str, Destination]
) -> dict[str, str]:
    """The model's tensors that are in no file, and the tensor in a file that each is tied to.

    Of several such tensors in the files, it is the one to which the model ties the others.
    """

    def source(name: str) -> str:
        return tensors[name].traits.tied_to or name

    stored: dict[str, str] = {}
    for file, destination in destinations.items():
        if destination.name == source(destination.name):
            stored[destination.name] = file
    for file, destination in destinations.items():
        stored.setdefault(source(destination.name), file)
    in_files = {destination.name for destination in destinations.values()}
    absent = {}
    for name in tensors:
        if name not in in_files and source(name) in stored:
            absent[name] = stored[source(name)]
    return absent


def _may_tie(
    config: Mapping[str, object],
    traits: Mapping[str, TensorTraits],
    destinations: Mapping[str, Destination],
) -> dict[str, Destination]:
    """The tensors that may share storage.

    Some classes (T5's) declare ties that the files need not have. On loading, transformers compares
    the values and keeps a head that differs. If the config declares the head as untied, it is
    untied.
    """
    own_head = config.get("tie_word_embeddings") is False
    may_tie = {}
    for name, destination in destinations.items():
        is_own_head = own_head and traits[name].role is Role.VOCABULARY_HEAD
        if not destination.converted and not is_own_head:
            may_tie[name] = destination
    return may_tie


def _with_ties(
    traits: Mapping[str, TensorTraits],
    tensors: Mapping[str, ModuleTensor],
    destinations: Mapping[str, Destination],
    shapes: Mapping[str, Shape],
) -> dict[str, TensorTraits]:
    """Ties of the model between tensors that are both in the files, under the files' names.

    If the source itself is absent, the first tensor in the files that is tied to it replaces it.
    """
    sources: dict[tuple[str, Shape], str] = {}
    sharing = {
        name: (tensors[destination.name].traits.tied_to or destination.name, shapes[name])
        for name, destination in destinations.items()
    }
    for name, key in sharing.items():
        if destinations[name].name == key[0]:
            sources[key] = name
    for name, key in sharing.items():
        sources.setdefault(key, name)
    with_ties = dict(traits)
    for name, key in sharing.items():
        if sources[key] != name:
            with_ties[name] = replace(traits[name], tied_to=sources[key])
    return with_ties


def _note(
    config: Mapping[str, object],
    model_class: str,
    by_name: Mapping[str, TensorTraits],
    tensors: Mapping[str, ModuleTensor],
    destinations: Mapping[str, Destination],
    shapes: Mapping[str, Shape],
) -> str:
    """A sentence for each guess; empty where the model's class decided everything."""
    sentences = []
    architectures = config.get("architectures")
    if isinstance(architectures, list) and architectures:
        class_name = architectures[0]
    else:
        class_name = None
    if class_name != model_class:
        if class_name:
            reason = f"transformers has no {plain(str(class_name))} for it"
        else:
            reason = "it names no model class"
        sentences.append(f"The config is described as {model_class}, since {reason}.")
    if "auto_map" in config:
        sentences.append("The config points to code of its own, which is never run.")
    guessed = []
    for name, trait in by_name.items():
        if name not in destinations and trait.role is not Role.BUFFER:
            guessed.append(name)
    if guessed:
        sentences.append(f"Not found in {model_class}, described by name: {listing(guessed)}.")
    resized = []
    for name, destination in destinations.items():
        # A stack may lie the other way round in the files; loading turns it.
        has_sizes = sorted(shapes[name]) == sorted(tensors[destination.name].shape)
        if not destination.converted and not has_sizes:
            resized.append(name)
    if resized:
        sentences.append(f"These tensors have other shapes than in the config: {listing(resized)}.")
    return " ".join(sentences)


# Tensors that hold several matrices: E experts, H inputs of the MLP, F its inner size.
_QKV: Final = (Role.QUERY, Role.KEY, Role.VALUE)

# Query, key and value one after the other, in all models that use the name; `wqkv` is not the same.
_THIRDS: Final = frozenset(("c_attn", "qkv", "Wqkv", "to_qkv", "in_proj"))
# Families that store query, key and value head by head.
_BY_HEAD: Final = frozenset(
    (
        ("query_key_value", "gpt_neox"),
        ("query_key_value", "gpt_neox_japanese"),
        ("query_key_value", "bloom"),
        ("query_key_value", "persimmon"),
        ("qkv_proj", "minimax"),
    )
)
# Families with fewer heads for keys and values, all queries first.
_GROUPED: Final = frozenset(
    (("qkv_proj", "phi3"), ("qkv_proj", "phi4_multimodal"), ("Wqkv", "dbrx"))
)


def with_layouts(
    traits: Mapping[str, TensorTraits], shapes: Mapping[str, Shape], config: Any | None
) -> dict[str, TensorTraits]:
    """The traits, with the orientation of stacks and the fusion of matrices.

    ``config`` is the model's config object. Without it, only layouts that follow from a name are
    recognised.
    """
    laid_out = dict(traits)
    for name, trait in traits.items():
        if trait.matrix:
            laid_out[name] = _with_layout(name, trait, shapes, config)
    return laid_out


def _with_layout(
    name: str, traits: TensorTraits, shapes: Mapping[str, Shape], config: Any | None
) -> TensorTraits:
    if traits.stack:
        stored = _stored_inputs_first(name, shapes)
        if stored is not None:
            traits = replace(traits, transposed=stored)
    shape = shapes[name][-2:]
    outputs, inputs = reversed(shape) if traits.transposed else shape
    if traits.role is Role.QKV:
        return replace(traits, fusion=_attention(name, outputs, inputs, config))
    if traits.role is Role.MLP_GATE_UP:
        return replace(traits, fusion=_gate_up(traits, outputs, config))
    return traits


def _stored_inputs_first(name: str, shapes: Mapping[str, Shape]) -> bool | None:
    """Whether a stack is E × inputs × outputs, from the shapes of the two sides of the MLP.

    Gate and up together are 2F × H if down is H × F, and H × 2F if it is F × H. No sizes fit both
    cases. None if one side is missing.
    """
    module, _, leaf = name.rpartition(".")
    if leaf not in ("gate_up_proj", "down_proj"):
        return None
    stored_shapes = [shapes.get(f"{module}.{side}", ()) for side in ("gate_up_proj", "down_proj")]
    if [len(shape) for shape in stored_shapes] != [3, 3]:
        return None
    (_, *gate_up), (_, *down) = stored_shapes
    if gate_up == [2 * down[1], down[0]]:
        return False
    return True if gate_up == [down[1], 2 * down[0]] else None


def _attention(name: str, outputs: int, inputs: int, config: Any | None) -> Fusion | None:
    """The row ranges of query, key and value; None if they are unknown."""
    leaf = names.module_of(name).rpartition(".")[2]
    text: Any = None if config is None else config.get_text_config()
    if text is None:
        family = None
    else:
        family = text.model_type
    if (leaf, family) in _BY_HEAD:
        return _by_head(text, outputs)
    if (leaf, family) in _GROUPED:
        return _in_order(_heads(text), text.num_key_value_heads, _head_size(text), outputs)
    if (leaf, family) == ("query_key_value", "falcon"):
        return _falcon(text, outputs)
    if (leaf, family) == ("c_attn", "gpt_bigcode"):
        if not text.multi_query:
            return _by_head(text, outputs)
        return _in_order(_heads(text), 1, _head_size(text), outputs)
    if leaf in _THIRDS and outputs == 3 * inputs:
        return Fusion(shares=tuple((role, inputs) for role in _QKV))
    if leaf == "c_attn" and outputs == 2 * inputs:  # cross-attention of a decoder
        return Fusion(shares=((Role.KEY, inputs), (Role.VALUE, inputs)))
    return None


def _falcon(config: Any, outputs: int) -> Fusion | None:
    """Falcon's three layouts: groups of queries with key and value, one key, or head by head."""
    heads = _heads(config)
    size = _head_size(config)
    if config.new_decoder_architecture:
        queries = heads // config.num_kv_heads
        shares = ((Role.QUERY, queries * size), (Role.KEY, size), (Role.VALUE, size))
        return _checked(Fusion(shares=shares), config.num_kv_heads, outputs)
    if config.multi_query:
        return _in_order(heads, 1, size, outputs)
    return _by_head(config, outputs)


def _by_head(config: Any, outputs: int) -> Fusion | None:
    size = _head_size(config)
    return _checked(Fusion(shares=tuple((role, size) for role in _QKV)), _heads(config), outputs)


def _in_order(heads: int, key_heads: int, size: int, outputs: int) -> Fusion | None:
    counts = (heads, key_heads, key_heads)
    shares = tuple((role, count * size) for role, count in zip(_QKV, counts, strict=True))
    return _checked(Fusion(shares=shares), 1, outputs)


def _checked(fusion: Fusion, times: int, outputs: int) -> Fusion | None:
    """The fusion; None if the tensor has other sizes than in its config."""
    return fusion if fusion.period * times == outputs else None


def _heads(config: Any) -> int:
    return int(config.num_attention_heads)


def _head_size(config: Any) -> int:
    size = getattr(config, "head_dim", None)
    return int(size) if size else config.hidden_size // _heads(config)


def _gate_up(traits: TensorTraits, outputs: int, config: Any | None) -> Fusion | None:
    """Gate and up are two halves; in gpt-oss they alternate output by output."""
    if config is not None and config.get_text_config().model_type == "gpt_oss":
        return Fusion(shares=((Role.MLP_GATE, 1), (Role.MLP_UP, 1)))
    if outputs % 2 or (config is None and traits.transposed):
        return None
    return Fusion(shares=((Role.MLP_GATE, outputs // 2), (Role.MLP_UP, outputs // 2)))
