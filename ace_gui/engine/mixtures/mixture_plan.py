"""The tensors of a mixture of experts, each from one of the dense models, from headers alone.

Attention, norms and embeddings are the base's. The experts of a block are the MLPs of the dense
experts. Only the routers have values of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from ace_gui.architecture.mixture_layouts import (
    DENSE_TYPES,
    MATRICES,
    MixtureLayout,
    base_places,
    dense_matrix,
    layout_for,
    mixture_config,
    require_expert_places,
)
from ace_gui.architecture.transformers_library import model_and_config
from ace_gui.checkpoints.derived import compose
from ace_gui.checkpoints.folder import MAIN, ModelPart
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.reader import DerivedInfo, ReadChecksums, TensorReader
from ace_gui.engine.contract.events import JobProgress
from ace_gui.errors import ArchitectureError, MismatchError, RecipeError
from ace_gui.formatting import dimensions, listing, plain, quoted_value
from ace_gui.stored_formats import FORMATS, is_float

_MLP: Final = re.compile(r"model\.layers\.(\d+)\.mlp\.")
_HEAD: Final = "lm_head.weight"
_BIASED: Final = ("q_proj", "k_proj", "v_proj")
_LEAST: Final = 2
"""Experts of a mixture; one alone is the dense model."""


@dataclass(frozen=True, kw_only=True)
class DenseModel:
    """A dense model of a mixture, with the name that errors call it by."""

    name: str
    checkpoint: Checkpoint

    @property
    def config(self) -> Mapping[str, Any]:
        """Its config.json. Raises ArchitectureError without one."""
        if self.checkpoint.config is None:
            raise ArchitectureError(
                f"{plain(self.name)} has no config.json, which a mixture of experts needs; open "
                "the folder of the model.",
                path=self.checkpoint.path,
            )
        return self.checkpoint.config

    @property
    def model_type(self) -> str:
        """The type of its class. Raises ArchitectureError for one that no mixture is made of."""
        model_type = self.config.get("model_type")
        if model_type not in DENSE_TYPES:
            raise ArchitectureError(
                f"{plain(self.name)} has the type {quoted_value(model_type)}, of which no mixture "
                f"of experts can be made; choose models of {listing(DENSE_TYPES)}.",
                path=self.checkpoint.path,
            )
        return str(model_type)


class RouterWeights(Protocol):
    """The weights of all routers."""

    def computed(self, file: Path, checksums: ReadChecksums) -> Iterator[JobProgress]:
        """Compute them; yields the blocks done.

        ``file``: what is finished is kept there, and an earlier run's is used. ``checksums``: of
        what is read.
        """
        ...

    def of_block(self, block: int) -> Tensor:
        """The routers' rows of a block: experts, then the shared one; by hidden size, float32."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class RouterInfo(DerivedInfo):
    """The router of a block: rows ``first_row`` on of its router weights."""

    weights: RouterWeights = field(repr=False)
    block: int
    first_row: int = 0

    def read(self, _reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the router, float32."""
        rows = self.weights.of_block(self.block)[self.first_row : self.first_row + self.shape[0]]
        return rows.reshape(-1)[start:stop].contiguous()


@dataclass(frozen=True, kw_only=True, eq=False)
class ZerosInfo(DerivedInfo):
    """A bias that the mixture's class has and the base lacks."""

    def read(self, _reader: TensorReader, start: int, stop: int) -> Tensor:
        """Zeros, float32."""
        return torch.zeros(stop - start)


@dataclass(frozen=True, kw_only=True)
class MixtureModels:
    """The dense models of a mixture; ``shared``: of the expert that sees every token."""

    base: DenseModel
    experts: tuple[DenseModel, ...]
    shared: DenseModel | None = None

    @property
    def sources(self) -> tuple[DenseModel, ...]:
        """The models whose MLPs are taken."""
        if self.shared is None:
            return self.experts
        return (*self.experts, self.shared)


@dataclass(frozen=True, kw_only=True)
class MixturePlan:
    """A mixture whose models fit together."""

    layout: MixtureLayout
    """The class of the mixture."""
    models: MixtureModels
    """The dense models that it is made of."""
    config: Mapping[str, Any]
    """Its config.json."""
    blocks: int
    """Their number."""
    hidden: int
    """The hidden size."""
    placed: frozenset[str]
    """The base's tensors that the mixture has, too."""


def plan_mixture(
    models: MixtureModels, *, experts_per_token: int = 2, architecture: str | None = None
) -> MixturePlan:
    """Check that the models fit together, and decide the class and the config of the mixture.

    ``architecture``: the model type of the mixture; None: the first one that fits. Reads no tensor.
    Raises RecipeError, ArchitectureError or MismatchError.
    """
    _check_counts(models, experts_per_token)
    base = models.base
    shared = models.shared is not None
    layout = layout_for(base.model_type, architecture, shared=shared)
    complete = model_and_config(base.config)[1].to_dict()
    for model in models.sources:
        _require_alike(layout, model, complete)
    placed = base_places(layout, list(base.checkpoint.tensors), base.name)
    config = mixture_config(
        layout,
        base.config,
        complete,
        experts=len(models.experts),
        experts_per_token=experts_per_token,
        head_stored=_HEAD in placed,
    )
    plan = MixturePlan(
        layout=layout,
        models=models,
        config=config,
        blocks=int(config["num_hidden_layers"]),
        hidden=int(config["hidden_size"]),
        placed=frozenset(placed),
    )
    _require_matrices(plan)
    return plan


def _check_counts(models: MixtureModels, experts_per_token: int) -> None:
    if len(models.experts) < _LEAST:
        raise RecipeError(
            f"A mixture of experts needs at least {_LEAST} experts; add some.", key="experts"
        )
    if not 1 <= experts_per_token <= len(models.experts):
        raise RecipeError(
            f"{experts_per_token} experts per token are not possible with {len(models.experts)} "
            f"experts; give a number from 1 to {len(models.experts)}.",
            key="experts_per_token",
        )


def _require_alike(layout: MixtureLayout, model: DenseModel, complete: Mapping[str, Any]) -> None:
    """Raise an error unless the MLPs of a model are such as the mixture has."""
    if model.model_type not in layout.dense:
        raise ArchitectureError(
            f"{plain(model.name)} is of the type {plain(model.model_type)}, but "
            f"{layout.model_class} is made of {listing(layout.dense)}; choose another model.",
            path=model.checkpoint.path,
        )
    activation = model_and_config(model.config)[1].to_dict().get("hidden_act")
    if activation != complete.get("hidden_act"):
        raise MismatchError(
            f"The MLPs of {plain(model.name)} have the activation {quoted_value(activation)}, "
            f"those of the base {quoted_value(complete.get('hidden_act'))}; choose models with "
            "the same.",
            path=model.checkpoint.path,
        )
    require_expert_places(layout, list(model.checkpoint.tensors), model.name)


def _require_matrices(plan: MixturePlan) -> None:
    """Raise MismatchError unless all models have the MLPs that the base's config says."""
    width = int(plan.config["intermediate_size"])
    shapes = dict.fromkeys(MATRICES, (width, plan.hidden)) | {"down_proj": (plan.hidden, width)}
    for model in (plan.models.base, *plan.models.sources):
        tensors = model.checkpoint.tensors
        blocks = {int(match[1]) for name in tensors if (match := _MLP.match(name))}
        if blocks != set(range(plan.blocks)):
            raise MismatchError(
                f"{plain(model.name)} has {len(blocks)} blocks with an MLP, but the base has "
                f"{plan.blocks}; choose models of one size.",
                path=model.checkpoint.path,
            )
        for block in range(plan.blocks):
            for matrix, shape in shapes.items():
                _require_shape(model, dense_matrix(block, matrix), shape)


def _require_shape(model: DenseModel, name: str, shape: tuple[int, ...]) -> None:
    info = model.checkpoint.tensors.get(name)
    if info is None:
        sentence = f"{plain(model.name)} lacks `{plain(name)}`; choose models of one architecture."
    elif info.shape != shape or not is_float(info.dtype):
        sentence = (
            f"`{plain(name)}` of {plain(model.name)} is {dimensions(info.shape)} {info.dtype}, but "
            f"the base has {dimensions(shape)} floating-point numbers there; choose models of one "
            "size."
        )
    else:
        return
    raise MismatchError(sentence, path=model.checkpoint.path, tensor=name)


def mixture_checkpoint(plan: MixturePlan, routers: RouterWeights) -> Checkpoint:
    """The mixture as a model, whose tensors are read from the dense models' files.

    Its config and the changes of config.json are those of the mixture. Tensors of the base have
    their own formats; those of routers and added biases are float32 and written as the base is.
    """
    base = plan.models.base.checkpoint
    sources: dict[str, tuple[Checkpoint, str]] = {}
    derived: dict[str, TensorInfo] = {}
    order: list[str] = []
    begun: set[int] = set()
    for name in base.tensors:
        match = _MLP.match(name)
        if name in plan.placed:
            sources[name] = (base, name)
            order.append(name)
        elif match is not None and int(match[1]) not in begun:
            block = int(match[1])
            begun.add(block)
            matrices = _block_matrices(plan, block)
            values = _block_values(plan, block, routers)
            sources |= matrices
            derived |= values
            order += [*values, *matrices]
    part = ModelPart(stem=base.parts[MAIN].stem, config=plan.config)
    composed = compose(
        base,
        sources,
        config=plan.config,
        parts={MAIN: part},
        changes={"config.json": dict(plan.config)},
        metadata={},
    )
    tensors = {**composed.tensors, **derived}
    return replace(composed, tensors={name: tensors[name] for name in order})


def _block_matrices(plan: MixturePlan, block: int) -> dict[str, tuple[Checkpoint, str]]:
    """The matrices of all experts of a block, by their names in the mixture."""
    layout = plan.layout
    sources = {}
    for number, expert in enumerate(plan.models.experts):
        for matrix in MATRICES:
            name = layout.expert(block, number, matrix)
            sources[name] = (expert.checkpoint, dense_matrix(block, matrix))
    if plan.models.shared is not None:
        for matrix in MATRICES:
            name = layout.shared_expert(block, matrix)
            sources[name] = (plan.models.shared.checkpoint, dense_matrix(block, matrix))
    return sources


def _block_values(plan: MixturePlan, block: int, routers: RouterWeights) -> dict[str, TensorInfo]:
    """The router of a block, the gate of its shared expert, and biases that the base lacks."""
    layout = plan.layout
    count = len(plan.models.experts)
    common: dict[str, Any] = {"weights": routers, "block": block}
    name = layout.router(block)
    infos: dict[str, TensorInfo] = {
        name: RouterInfo(**_fields(plan, name, (count, plan.hidden)), **common)
    }
    if plan.models.shared is not None:
        name = layout.shared_gate(block)
        fields = _fields(plan, name, (1, plan.hidden))
        infos[name] = RouterInfo(**fields, **common, first_row=count)
    if layout.biases:
        tensors = plan.models.base.checkpoint.tensors
        for projection in _BIASED:
            name = f"model.layers.{block}.self_attn.{projection}.bias"
            matrix = tensors.get(f"model.layers.{block}.self_attn.{projection}.weight")
            if name not in tensors and matrix is not None:
                infos[name] = ZerosInfo(**_fields(plan, name, matrix.shape[:1]))
    return infos


def _fields(plan: MixturePlan, name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """The fields of a tensor that is in no file."""
    base = plan.models.base.checkpoint
    file: Path = base.path
    elements = torch.Size(shape).numel()
    return {
        "name": name,
        "dtype": "F32",
        "shape": shape,
        "file": file,
        "start": 0,
        "nbytes": elements * FORMATS["F32"].bits // 8,
        "written": base.dtype or "F32",
    }
