"""The content of an adapter in PEFT's format: parameters as two factors, and whole ones.

O outputs, I inputs, R rank, E experts. PEFT finds modules by the ends of names. A module is listed
by its full name, and whatever else PEFT would find by this name is listed, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from ace_gui.checkpoints.adapters.lora import declared_order
from ace_gui.checkpoints.writer import OutputTensor
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.errors import RecipeError
from ace_gui.formatting import listing, plain

PREFIX: Final = "base_model.model."


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of the loaded model, and where its values are in the base's files."""

    names: tuple[str, ...]
    """Its name in the model; then those of parameters that are tied to it and in no file."""

    tensors: tuple[str, ...]
    """The tensors of the files whose rows, one after the other, are this parameter."""

    shape: tuple[int, ...]
    """As the model has it."""

    @property
    def tensor(self) -> str:
        """Its first tensor in the files, which no other parameter has."""
        return self.tensors[0]

    @property
    def name(self) -> str:
        """Its name in the model."""
        return self.names[0]

    @property
    def module(self) -> str:
        """The module that has it; empty for the model itself."""
        return owner_of(self.name)


@dataclass(frozen=True, kw_only=True)
class Factored:
    """A parameter whose change is written as B·A."""

    parameter: Parameter

    bare: bool
    """Whether PEFT changes the parameter itself (``target_parameters``), not a layer's weight."""

    turned: bool
    """Whether a matrix is stored inputs × outputs, or is an embedding."""

    embedding: bool

    rank: int
    """Of each matrix."""

    @property
    def tensor(self) -> str:
        """The parameter's first tensor in the files."""
        return self.parameter.tensor

    @property
    def module(self) -> str:
        """The module that has the parameter."""
        return self.parameter.module

    @property
    def target(self) -> str:
        """PEFT's name for what it changes, in its lists and patterns."""
        if self.bare:
            return self.parameter.name
        return self.module

    @property
    def experts(self) -> int:
        """E; 1 for a single matrix."""
        if self._is_stack:
            return self.parameter.shape[0]
        return 1

    @property
    def _is_stack(self) -> bool:
        return self.bare and len(self.parameter.shape) == 3

    @property
    def sides(self) -> tuple[int, int]:
        """O and I of a matrix; the positions of a kernel are inputs."""
        if self._is_stack:
            shape = self.parameter.shape[1:]
        else:
            shape = self.parameter.shape
        rows = shape[0]
        columns = math.prod(shape[1:])
        if self.turned:
            return (columns, rows)
        return (rows, columns)

    def outputs(self, dtype: str, depth: int) -> tuple[OutputTensor, OutputTensor]:
        """A and B in the adapter's file: E·R × I and O × R·E, or R × I × kernel and O × R × 1….

        ``depth``: how many other changed parameters of its module PEFT wraps around this one.
        """
        outputs, inputs = self.sides
        kernel = () if self.bare else self.parameter.shape[2:]
        rank = self.rank * self.experts
        a = (rank, *self.parameter.shape[1:]) if kernel else (rank, inputs)
        b = (outputs, rank, *(1 for _ in kernel))
        if self.embedding:
            form = "lora_embedding_{}"
        else:
            form = "lora_{}.weight"
        name = f"{PREFIX}{self.module}{'.base_layer' * depth}.{form}"
        return (
            OutputTensor(name=name.format("A"), dtype=dtype, shape=a),
            OutputTensor(name=name.format("B"), dtype=dtype, shape=b),
        )


@dataclass(frozen=True, kw_only=True)
class UnfactoredParameter:
    """A parameter that is written whole."""

    parameter: Parameter

    dtype: str

    of_base: bool = False
    """Whether the base's values are written, because PEFT reads all of a listed module."""

    names: tuple[str, ...] = ()
    """Its names in the adapter's file, without the prefix; set once all modules are known."""

    @property
    def tensor(self) -> str:
        """The parameter's first tensor in the files."""
        return self.parameter.tensor


@dataclass(frozen=True, kw_only=True)
class AdapterPlan:
    """The parameters of an adapter, in plan order."""

    factored: tuple[Factored, ...]
    """Parameters whose change is written as two factors."""

    unfactored: tuple[UnfactoredParameter, ...]
    """Those that the merge changes; after ``completed`` also the others of their modules."""

    rows: Mapping[str, tuple[PlanRow, ...]]
    """The rows of the merge that change the adapter's parameters, by tensor."""

    dtypes: Mapping[str, str]
    """The format of each tensor of the files, if it is written whole."""

    parameters: tuple[Parameter, ...]
    """Every parameter of the model whose values are in the files."""

    whole_modules: tuple[str, ...] = ()
    """The modules that PEFT reads whole, without modules inside other ones."""

    notes: tuple[str, ...] = ()
    """Parts of the merge that the adapter does not hold."""

    @property
    def rank(self) -> int:
        """The largest rank."""
        return max((item.rank for item in self.factored), default=1)

    def with_ranks(self, ranks: Mapping[str, int]) -> AdapterPlan:
        """The plan with these ranks by tensor, without parameters that have rank 0."""
        factored = (
            replace(item, rank=ranks[item.tensor]) for item in self.factored if ranks[item.tensor]
        )
        unfactored = (item for item in self.unfactored if item.of_base or ranks[item.tensor])
        return replace(self, factored=tuple(factored), unfactored=tuple(unfactored))

    def depth_of(self, item: Factored) -> int:
        """How many parameters of its module PEFT wraps after this one, in declared order."""
        if not item.bare:
            return 0
        beside = (factor for factor in self.factored if factor.module == item.module)
        order = declared_order({leaf_of(item.parameter.name) for item in beside})
        return len(order) - 1 - order.index(leaf_of(item.parameter.name))

    def outputs(self, dtype: str) -> list[OutputTensor]:
        """Every tensor of the adapter's file; ``dtype``: of the factors."""
        outputs: list[OutputTensor] = []
        for factored in self.factored:
            outputs += factored.outputs(dtype, self.depth_of(factored))
        for item in self.unfactored:
            shape = item.parameter.shape
            outputs += [OutputTensor(name=n, dtype=item.dtype, shape=shape) for n in item.names]
        return outputs

    def completed(self) -> AdapterPlan:
        """The plan with every parameter of each module that is read whole.

        A parameter inside one of them is no longer factored. A layer's bias is saved beside the
        layer's factors.
        """
        changed = {item.tensor: item for item in self.unfactored if not item.of_base}
        factored = {item.target: item for item in self.factored}
        modules = _modules(self.parameters)
        owners = _owners(changed.values(), factored, modules)
        while inside := [i for i in factored.values() if is_inside(i.parameter.name, owners)]:
            for item in inside:
                del factored[item.target]
                changed[item.tensor] = self._unfactored(item.parameter)
            owners = _owners(changed.values(), factored, modules)
        _refuse_inside_wrapped(owners, factored.values())
        unfactored = []
        for parameter in self.parameters:
            names = [name for name in parameter.names if is_inside(name, owners)]
            written = changed.get(parameter.tensor)
            if written is not None and _is_beside(parameter, factored):
                names.append(f"{parameter.module}.base_layer.{leaf_of(parameter.name)}")
            if names:
                written = written or replace(self._unfactored(parameter), of_base=True)
                unfactored.append(replace(written, names=tuple(PREFIX + name for name in names)))
        return replace(
            self,
            factored=tuple(item for item in self.factored if item.target in factored),
            unfactored=tuple(unfactored),
            whole_modules=owners,
        )

    def _unfactored(self, parameter: Parameter) -> UnfactoredParameter:
        return UnfactoredParameter(parameter=parameter, dtype=self.dtypes[parameter.tensor])


def _owners(
    changed: Iterable[UnfactoredParameter],
    factored: Mapping[str, Factored],
    modules: Collection[str],
) -> tuple[str, ...]:
    """The modules that are read whole because of changed parameters, and what PEFT adds.

    Raises RecipeError if PEFT would add a list of modules, which it does not load.
    """
    listed = []
    for item in changed:
        if not _is_beside(item.parameter, factored):
            listed.append(item.parameter)
    written_names = chain.from_iterable(parameter.names for parameter in listed)
    names = tuple({owner_of(name) for name in written_names})
    matched = {module for module in modules if names and module.endswith(names)}
    lists = [module for module in matched.difference(names) if _is_list(module, modules)]
    _refuse_lists_of_parameters(listed)
    if lists:
        raise RecipeError(
            f"PEFT cannot load an adapter with {listing(sorted(names))}: by this name it would "
            f"also take `{plain(lists[0])}`, a list of modules. Write a whole model instead.",
            key="output",
        )
    owners = tuple(sorted(name for name in matched if not is_inside(name, matched)))
    _refuse_nested(owners, matched)
    return owners


def _refuse_inside_wrapped(owners: Iterable[str], factored: Iterable[Factored]) -> None:
    """Raise RecipeError for a saved module inside one whose parameters themselves have factors.

    PEFT wraps the outer module, and then takes nothing inside it.
    """
    wrapped = [item.parameter.module for item in factored if item.bare]
    for owner in owners:
        if is_inside(owner, wrapped):
            raise RecipeError(
                f"PEFT cannot load an adapter with `{plain(owner)}`: it is inside a module whose "
                "own parameters have factors. Write a whole model instead.",
                key="output",
            )


def _refuse_lists_of_parameters(parameters: Iterable[Parameter]) -> None:
    """Raise RecipeError for a parameter of a list, whose names are numbers: PEFT saves no list."""
    for parameter in parameters:
        for name in parameter.names:
            if leaf_of(name).isdigit():
                raise RecipeError(
                    f"PEFT cannot load an adapter with `{plain(name)}`, a parameter of a list. "
                    "Write a whole model instead.",
                    key="output",
                )


def _refuse_nested(owners: Sequence[str], matched: Iterable[str]) -> None:
    """Raise RecipeError if PEFT would take a module, and another one inside it by its ending.

    It reads a child of the module itself rightly, and nothing that is deeper.
    """
    for module in sorted(matched):
        is_deep = is_inside(module, owners) and owner_of(module) not in owners
        if is_deep and module.endswith(tuple(owners)):
            outer = next(owner for owner in owners if is_inside(module, [owner]))
            ending = next(owner for owner in owners if module.endswith(owner))
            raise RecipeError(
                f"PEFT cannot load an adapter with `{plain(ending)}` and `{plain(outer)}`: by its "
                f"ending, the first would also name `{plain(module)}`, which is inside the second. "
                "Write a whole model instead.",
                key="output",
            )


def _is_list(module: str, modules: Iterable[str]) -> bool:
    """Whether a module's children have numbers, as those of a list."""
    children = [leaf_of(name) for name in modules if owner_of(name) == module]
    return bool(children) and all(child.isdigit() for child in children)


def owner_of(name: str) -> str:
    """The module of a parameter or module; empty for the model itself."""
    return name.rpartition(".")[0]


def leaf_of(name: str) -> str:
    """The last part of a name."""
    return name.rpartition(".")[2]


def is_inside(name: str, owners: Collection[str]) -> bool:
    """Whether a parameter or module is inside one of these modules."""
    return name.startswith(tuple(f"{owner}." for owner in owners))


def _is_beside(parameter: Parameter, factored: Mapping[str, Factored]) -> bool:
    """Whether a parameter is the bias of a layer with factors."""
    item = factored.get(parameter.module)
    return item is not None and not item.bare and leaf_of(parameter.name) == "bias"


def _modules(parameters: Iterable[Parameter]) -> tuple[str, ...]:
    """Every module of the model that has parameters in it."""
    modules: dict[str, None] = {}
    for parameter in parameters:
        for name in parameter.names:
            while name := owner_of(name):
                modules[name] = None
    return tuple(modules)


def patterns(items: Iterable[Factored], rank: int) -> dict[str, int]:
    """PEFT's ``rank_pattern``: the longest names first, as the first that matches counts.

    A target with the usual ``rank`` is named if another one's name is its end.
    """
    ranks = {item.target: item.rank for item in items}
    unlike = [target for target in ranks if ranks[target] != rank]
    ends = tuple(f".{target}" for target in unlike)
    named = [target for target in ranks if target in unlike or target.endswith(ends)]
    return {target: ranks[target] for target in sorted(named, key=lambda n: -n.count("."))}
