"""How far one model is from another, tensor by tensor: any two models, or two merges."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.architecture.names import match_names
from ace_gui.architecture.sandbox import Describer
from ace_gui.checkpoints.index import Checkpoint, open_checkpoint
from ace_gui.checkpoints.pickle_conversion import with_consent
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.contract.events import JobProgress
from ace_gui.engine.contract.findings import LayerDifference, ModelDiff, TensorChange
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.merge_manifest import InputFile, Manifest
from ace_gui.engine.merging.store import MODEL, read_finished
from ace_gui.engine.planning.models import OpenedModel, open_whole
from ace_gui.engine.streaming import Part, parts_of, read_row
from ace_gui.errors import MismatchError, RecipeError
from ace_gui.linalg.singular import singular_values
from ace_gui.paths import conversions_folder
from ace_gui.recipe.model_paths import ModelPaths
from ace_gui.steps import result_of


def diff_models(
    first: str | os.PathLike[str], second: str | os.PathLike[str], *, convert: bool = False
) -> Iterator[JobProgress | ModelDiff]:
    """Yield progress, then the result; read one part of a tensor at a time.

    ``first``, ``second``: folders, files, or names in the local Hugging Face cache. ``convert``:
    convert PyTorch pickles first. Tensors are matched by name, without wrappers' prefixes; a tensor
    that one model ties to another is compared with that one. Raises RecipeError for a missing
    model, CheckpointError, PickleConsentError and FileChangedError.
    """
    first_model, second_model = (_opened(os.fspath(path), convert) for path in (first, second))
    pairs, missing, extra = _pairs(first_model, second_model)
    changes: list[TensorChange] = []
    other_shapes = []
    with (
        TensorReader(first_model.checkpoint) as reader,
        TensorReader(second_model.checkpoint) as second_reader,
    ):
        for done, (name, name_1, name_2) in enumerate(pairs):
            yield JobProgress(done=done, total=len(pairs), title=name)
            info = first_model.checkpoint.tensors[name_1]
            second_info = second_model.checkpoint.tensors[name_2]
            if info.shape != second_info.shape:
                other_shapes.append((name, info.shape, second_info.shape))
                continue
            readers = (reader, second_reader)
            norm, change = _norms(readers, (name_1, name_2), math.prod(info.shape))
            traits = first_model.architecture.traits[name_1]
            changes.append(
                TensorChange(
                    name=name,
                    role=traits.role.value,
                    block=traits.block,
                    shape=info.shape,
                    dtype=info.dtype,
                    second_dtype=second_info.dtype,
                    second_name=name_2,
                    norm=norm if math.isfinite(norm) else math.nan,
                    change=change if math.isfinite(change) else math.nan,
                )
            )
    yield ModelDiff(
        tensors=tuple(changes), missing=missing, extra=extra, other_shape=tuple(other_shapes)
    )


def _norms(
    readers: tuple[TensorReader, TensorReader], names: tuple[str, str], elements: int
) -> tuple[float, float]:
    """‖W‖_F of a tensor of the first model, and ‖W₂ − W‖_F."""
    squares = torch.zeros(2, dtype=torch.float64)
    for start, stop in parts_of(elements):
        part = readers[0].read_part(names[0], start, stop).double()
        gap = readers[1].read_part(names[1], start, stop).double() - part
        squares += torch.stack((part.dot(part), gap.dot(gap)))
    norm, change = squares.sqrt().tolist()
    return norm, change


def _opened(written: str, convert: bool) -> OpenedModel:
    paths = ModelPaths(folder=Path.cwd())
    path = paths(written)
    if not path.exists():
        sentence = paths.unfound.get(path, f"{path} does not exist; name a model.")
        raise RecipeError(sentence, path=path, key="model")
    with Describer() as describer:
        return with_consent(
            lambda: result_of(open_whole(path, describer)), conversions_folder(), convert=convert
        )


def _pairs(
    first_model: OpenedModel, second_model: OpenedModel
) -> tuple[list[tuple[str, str, str]], tuple[str, ...], tuple[str, ...]]:
    """(shown name, name in each file) of common tensors, and the names in only one file."""
    answers = match_names(first_model.checkpoint.tensors, second_model.checkpoint.tensors)
    second_names = {first: second for second, first in answers.items()}
    second_names |= _stored_tied(first_model, second_names, second_model)
    pairs = []
    missing = []
    for name in first_model.checkpoint.tensors:
        if name in second_names:
            pairs.append((name, name, second_names[name]))
        else:
            missing.append(name)
    untied = _stored_tied(second_model, answers, first_model)
    pairs += [(name, target, name) for name, target in untied.items()]
    in_both = {*answers, *untied}
    extra = tuple(name for name in second_model.checkpoint.tensors if name not in in_both)
    return pairs, tuple(missing), extra


def _stored_tied(
    model: OpenedModel, matched: Collection[str], second: OpenedModel
) -> dict[str, str]:
    """Tensors without a match that the second model ties, each with the one it is tied to."""
    absent = second.architecture.absent
    tied = {}
    for absent_name, name in match_names(model.checkpoint.tensors, absent).items():
        source = absent[absent_name]
        if name not in matched and source in second.checkpoint.tensors:
            tied[name] = source
    return tied


def difference(
    first: Path, second: Path, row: PlanRow | None = None
) -> Iterator[LayerDifference | None]:
    """The differences between two finished merges, for each tensor that either of them changed.

    ``row``: only that tensor, with the singular values of both changes if it is a matrix. Raises
    OutputError or ResumeError if a store is not finished, MismatchError if the two have different
    bases, CheckpointError if a file cannot be read.
    """
    manifests = read_finished(first), read_finished(second)
    base = open_checkpoint(manifests[0].recipe.base_model)
    require_one_base(base, *manifests)
    merges = (open_checkpoint(store / MODEL) for store in (first, second))
    readers = [TensorReader(model) for model in (base, *merges)]
    if row is not None:
        if row.tensor not in base.tensors:
            raise MismatchError(
                f"`{row.name}` is not in the base; choose another.", tensor=row.name
            )
        yield from _of_row(readers, row, with_spectra=len(row.shape) == 2)
        return
    changed = set()
    for manifest in manifests:
        changed |= {combined.tensor for combined in manifest.rows if combined.is_combined}
    for tensor_row in manifests[0].rows:
        if tensor_row.in_base and tensor_row.tensor in changed:
            yield from _of_row(readers, tensor_row, with_spectra=False)


def require_one_base(base: Checkpoint, *manifests: Manifest) -> None:
    """Raise MismatchError unless all merges started from the base in its current state."""
    files = set(map(InputFile.of, base.files))
    for manifest in manifests:
        if not files <= set(manifest.inputs):
            raise MismatchError(
                f"{base.path} is not the base of the merge with {manifest.recipe.base_model}, or "
                "it has changed since; compare merges of one base, made after its last change.",
                path=base.path,
            )


def _changes(
    readers: Sequence[TensorReader], row: PlanRow, part: Part | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """W₁ − W₀, W₂ − W₀ and W₁ − W₂ of a row, or of part of it, flat; float64."""
    base, first, second = (read_row(reader, row, part).double() for reader in readers)
    return first - base, second - base, first - second


def _of_row(
    readers: Sequence[TensorReader], row: PlanRow, *, with_spectra: bool
) -> Iterator[LayerDifference | None]:
    """``readers``: of the base and of two merges of it."""
    squares_3 = np.zeros(3)
    product = 0.0
    for part in parts_of(math.prod(row.shape)):
        changes = _changes(readers, row, part)
        squares_3 += [float(torch.dot(change, change)) for change in changes]
        product += float(torch.dot(changes[0], changes[1]))
        yield None
    norms = np.sqrt(squares_3)
    scale = norms[0] * norms[1]
    spectra: list[NDArray[np.float64] | None] = [None, None]
    if with_spectra:
        row_changes = _changes(readers, row)
        for index in (0, 1):
            spectra[index] = singular_values(row_changes[index]).numpy()
            yield None
    yield LayerDifference(
        name=row.name,
        first_norm=float(norms[0]),
        second_norm=float(norms[1]),
        difference_norm=float(norms[2]),
        cosine=float(np.clip(product / scale, -1, 1)) if scale else math.nan,
        first=spectra[0],
        second=spectra[1],
    )
