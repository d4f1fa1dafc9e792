"""Whether a folder contains these experts: its change by theirs, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from ace_gui.checkpoints.derived import ChangedInfo
from ace_gui.checkpoints.header import torch_dtype
from ace_gui.checkpoints.pickle_conversion import with_consent
from ace_gui.checkpoints.reader import DerivedInfo
from ace_gui.engine.contract.contents import ModelContents, TensorContents
from ace_gui.engine.contract.events import JobProgress
from ace_gui.engine.inspecting.change_products import ChangeProducts, Shares, common_shares
from ace_gui.engine.merging.readers import ModelReader
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.slices import open_recipe
from ace_gui.engine.streaming import PART_ELEMENTS, Part, parts_of
from ace_gui.errors import MismatchError, RecipeError
from ace_gui.formatting import plain
from ace_gui.paths import conversions_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.new_recipes import recipe_for
from ace_gui.steps import result_of
from ace_gui.stored_formats import is_float


def model_contents(
    base: str, experts: Sequence[str], merged: str, *, convert: bool = False
) -> Iterator[JobProgress | ModelContents]:
    """Yield progress, then the result; reads a part of a tensor at a time.

    Models are written as in a recipe; experts and the merged model may be adapters. ``convert``:
    convert PyTorch pickles first. Raises RecipeError without experts or for a missing model, and
    the errors of opening and reading.
    """
    if not experts:
        raise RecipeError("Name at least one expert, too.", key="models")
    recipe = recipe_for(base, [*experts, merged])  # only to open them
    opened_base, opened = _opened(recipe, convert)
    compared = _Compared.of(opened_base, opened)
    tensors: list[ChangeProducts] = []
    for done, name in enumerate(compared.names):
        yield JobProgress(done=done, total=len(compared.names), title=name)
        tensors.append(compared.products(name))
    yield compared.contents(tensors)


def _opened(recipe: Recipe, convert: bool) -> tuple[OpenedModel, tuple[OpenedModel, ...]]:
    def opened() -> tuple[OpenedModel, tuple[OpenedModel, ...]]:
        return result_of(open_recipe(recipe))

    return with_consent(opened, conversions_folder(), convert=convert)


@dataclass(frozen=True, kw_only=True)
class _Compared:
    """The models, and the tensors that are compared."""

    base: ModelReader
    experts: tuple[ModelReader, ...]
    merged: ModelReader
    names: tuple[str, ...]

    @classmethod
    def of(cls, base: OpenedModel, opened: Sequence[OpenedModel]) -> _Compared:
        """Compare what base and merged model have in common. Raises MismatchError for nothing."""
        *experts, merged = opened
        reader = ModelReader(base)
        names = []
        for name, info in base.checkpoint.tensors.items():
            if is_float(info.dtype) and _has(merged, base, name):
                names.append(name)
        if not names:
            sentence = f"{plain(merged.name)} has no tensor of the base's shape; choose its base."
            raise MismatchError(sentence, path=merged.checkpoint.path)
        return cls(
            base=reader,
            experts=tuple(ModelReader(expert, reader) for expert in experts),
            merged=ModelReader(merged, reader),
            names=tuple(names),
        )

    def products(self, name: str) -> ChangeProducts:
        """The inner products of the changes of one tensor."""
        models = (*self.experts, self.merged)
        elements = prod(self.base.model.shape(name))
        gram = np.zeros((len(models) + 1, len(models) + 1))  # the base is the first
        # One buffer for all parts: new ones would leave gaps in the memory.
        stack = torch.empty((len(models) + 1, min(elements, PART_ELEMENTS)), dtype=torch.float64)
        for part in parts_of(elements):
            rows = stack[:, : part[1] - part[0]]
            rows[0] = self.base.read(name, part)
            for model, row in zip(models, rows[1:], strict=True):
                self._put_change(model, name, part, row, rows[0])
            gram += (rows @ rows.T).numpy()
        squares = gram[0, 0] + 2 * gram[0, 1:] + gram.diagonal()[1:]  # ‖W₀ + Δ‖²
        noise = np.array([_noise(model, name) for model in models]) * np.maximum(squares, 0)
        return ChangeProducts(
            gram_TT=gram[1:-1, 1:-1],
            products_T=gram[1:-1, -1],
            energy=float(gram[-1, -1]),
            base_energy=float(gram[0, 0]),
            rounding=float(noise[-1]) * len(models),
            rounding_T=noise[:-1],
        )

    def _put_change(
        self, model: ModelReader, name: str, part: Part, row: Tensor, stored: Tensor
    ) -> None:
        """Set a row to W − W₀ of a part of a tensor; to zeros for a model without it."""
        if not _has(model.model, self.base.model, name):
            row.zero_()
            return
        change = model.change(name, part)
        if change is None:
            row.copy_(model.read(name, part)).sub_(stored)
        else:
            row.copy_(change)

    def _one_rounding(self, total: ChangeProducts, shares_T: Shares) -> float:
        """The energy of the merged model's rounding and of its experts', each once."""
        of_merged = total.rounding / (len(self.experts) + 1)
        return of_merged + float(shares_T**2 @ total.rounding_T)

    def contents(self, tensors: Sequence[ChangeProducts]) -> ModelContents:
        """The result, of the products of all tensors."""
        base = self.base.model
        merged = self.merged.model
        shapes = [base.shape(name) for name in self.names]
        matrices = []
        for products, shape in zip(tensors, shapes, strict=True):
            if len(shape) > 1:
                matrices.append(products)
        counted = matrices or list(tensors)
        total = counted[0]
        for products in counted[1:]:
            total = total + products
        fitted = total.fitted()
        shares = common_shares(counted, total)
        floats = [name for name, info in base.checkpoint.tensors.items() if is_float(info.dtype)]
        absent = []
        other_shape = []
        for name in floats:
            if not merged.has(name):
                absent.append(name)
            elif not _has(merged, base, name):
                other_shape.append(name)
        layers = []
        for name, shape, products in zip(self.names, shapes, tensors, strict=True):
            layers.append(_layer(name, shape, products, shares))
        return ModelContents(
            experts=tuple(expert.model.name for expert in self.experts),
            coefficients=tuple(fitted.tolist()),
            left_over=total.left_over(fitted),
            rounding=_ratio(self._one_rounding(total, fitted), total.energy),
            relative_change=_ratio(total.energy, total.base_energy),
            shares=None if shares is None else tuple(shares.tolist()),
            layers=tuple(layers),
            missing=() if _is_adapter(merged) else tuple(_without_copies(base, absent)),
            extra=tuple(name for name in merged.extra if _is_weight(merged, name)),
            other_shape=tuple(other_shape),
        )


def _layer(
    name: str, shape: tuple[int, ...], products: ChangeProducts, shares: Shares | None
) -> TensorContents:
    fitted = products.fitted()
    return TensorContents(
        name=name,
        shape=shape,
        change=float(np.sqrt(products.energy)),
        coefficients=tuple(fitted.tolist()),
        left_over=products.left_over(fitted),
        differs=shares is not None and not products.agrees(shares),
    )


def _has(model: OpenedModel, base: OpenedModel, name: str) -> bool:
    return model.has(name) and model.shape(name) == base.shape(name)


def _noise(model: ModelReader, name: str) -> float:
    """The share of its number format's rounding in the energy of a model's tensor, at most.

    A rounding error is spread evenly over a step of at most ε|w|. An adapter's change is added to
    nothing that is rounded.
    """
    if not model.model.has(name):
        return 0.0
    info = model.model.checkpoint.tensors[model.model.own_names[name]]
    if isinstance(info, ChangedInfo) and not info.brought:
        return 0.0
    if isinstance(info, DerivedInfo) and (quantised := info.rounding(model.reader)):
        return quantised
    return float(torch.finfo(torch_dtype(info.dtype)).eps) ** 2 / 12


def _without_copies(base: OpenedModel, names: Sequence[str]) -> Iterator[str]:
    """The names without those of tensors that are tied to others."""
    for name in names:
        if base.architecture.traits[name].tied_to is None:
            yield name


def _is_adapter(model: OpenedModel) -> bool:
    return model.checkpoint.adapter is not None


def _is_weight(model: OpenedModel, name: str) -> bool:
    return is_float(model.checkpoint.tensors[name].dtype)


def _ratio(energy: float, total: float) -> float:
    """The ratio of the norms; 0 where the whole is 0."""
    if total:
        return float(np.sqrt(energy / total))
    return 0.0
