"""config.json and the shapes in the files → the traits of every tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ace_gui.architecture import blueprint, names
from ace_gui.architecture.blueprint import ModuleTensor
from ace_gui.architecture.disk_names import Destination, DiskNames, module_rows
from ace_gui.architecture.layouts import with_layouts
from ace_gui.architecture.traits import Architecture, Role, TensorTraits
from ace_gui.errors import ArchitectureError
from ace_gui.formatting import listing, plain

Shape = tuple[int, ...]

_PARTS: Final = 10_000
_PARTS_A_TENSOR: Final = 20
"""Modules and parameters that a model may have for each tensor in the files, and beyond; the
largest share of a published model is that of a part alone under the config of the whole."""


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
        return by_names(config, shapes, "The config is of another library.")
    try:
        model = blueprint.build(config, most=_PARTS + _PARTS_A_TENSOR * len(shapes))
    except ArchitectureError as error:
        return by_names(config, shapes, error.sentence)
    by_name = _traits_by_name(shapes)
    tensors = blueprint.read(model)
    finder = DiskNames(model, tensors)
    destinations = _destinations(finder, tensors, shapes)
    traits = {
        name: _traits(by_name[name], tensors[destinations[name].name], destinations[name], shape)
        if name in destinations
        else by_name[name]
        for name, shape in shapes.items()
    }
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
    family = config.get("model_type") if config is not None else None
    return family if isinstance(family, str) and plain(family) == family else None


def _destinations(
    finder: DiskNames, tensors: Mapping[str, ModuleTensor], shapes: Mapping[str, Shape]
) -> dict[str, Destination]:
    """The model's tensor for each tensor of the files, if the shapes agree."""
    found = ((name, finder.find(name)) for name in shapes)
    return {
        name: index
        for name, index in found
        if index and (index.converted or _fits(shapes[name], tensors[index.name].shape))
    }


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
    """The model's tensors that no file has, tied to one that is in a file."""

    def source(name: str) -> str:
        return tensors[name].traits.tied_to or name

    stored = {source(destination.name): file for file, destination in destinations.items()}
    there = {destination.name for destination in destinations.values()}
    return {
        name: stored[source(name)]
        for name in tensors
        if name not in there and source(name) in stored
    }


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
    return {
        name: destination
        for name, destination in destinations.items()
        if not destination.converted
        and not (own_head and traits[name].role is Role.VOCABULARY_HEAD)
    }


def _with_ties(
    traits: Mapping[str, TensorTraits],
    tensors: Mapping[str, ModuleTensor],
    destinations: Mapping[str, Destination],
    shapes: Mapping[str, Shape],
) -> dict[str, TensorTraits]:
    """Ties of the model between tensors that are both in the files, under the files' names.

    Where the source itself is absent, the first tensor tied to it in the files replaces it.
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
    return {
        name: replace(trait, tied_to=sources[sharing[name]])
        if name in sharing and sources[sharing[name]] != name
        else trait
        for name, trait in traits.items()
    }


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
    asked = config.get("architectures")
    wanted = asked[0] if isinstance(asked, list) and asked else None
    if wanted != model_class:
        reason = (
            f"transformers has no {plain(str(wanted))} for it"
            if wanted
            else "it names no model class"
        )
        sentences.append(f"The config is described as {model_class}, since {reason}.")
    if "auto_map" in config:
        sentences.append("The config points to code of its own, which is never run.")
    guessed = [
        name
        for name, trait in by_name.items()
        if name not in destinations and trait.role is not Role.BUFFER
    ]
    if guessed:
        sentences.append(f"Not found in {model_class}, described by name: {listing(guessed)}.")
    resized = [
        name
        for name, destination in destinations.items()
        # A stack may lie the other way round in the files; loading turns it.
        if not destination.converted
        and sorted(shapes[name]) != sorted(tensors[destination.name].shape)
    ]
    if resized:
        sentences.append(f"These tensors have other shapes than in the config: {listing(resized)}.")
    return " ".join(sentences)
