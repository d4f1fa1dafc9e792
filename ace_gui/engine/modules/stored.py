"""``modules.json`` and ``modules.safetensors`` of a merged folder, checked before use.

::

    schema      1
    kind        how a model uses them (``ModuleKind``)
    method      the merge method, and
    settings      its parameters
    experts     their names, in order
    hashes      SHA-256 of modules.safetensors, and of the weights that they belong to
    base        SHA-256 of the base's tensors that modules change; null if there are none

    EXPERT/TENSOR/mask          uint8, eight elements per byte, the first in the lowest bit
    EXPERT/TENSOR/scale         float64, one number
    EXPERT/TENSOR/u, s, vh      float32, M × K, K, K × N of a matrix that is stored as M × N
    EXPERT/TENSOR/left, right   float32, M × K and K × N
    EXPERT/TENSOR/index, values int32 and float32, ascending: elements of the tensor, flat
    EXPERT/TENSOR/whole         float32, the tensor's shape

W is the merged tensor, W₀ that of the base. By two of the forms, an expert's tensor is
W₀ + scale · mask ⊙ (W − W₀) or W₀ + u diag(s) vh. By the others it is W plus a difference. One of
these is ``left`` · ``right``. Its factor on the input side of the matrix is orthonormal: the rows
of ``right``, or where the matrix is stored as inputs × outputs, the columns of ``left``.
``/trained/…``, float32: trained tensors.

TENSOR may be one of several matrices in a stored tensor. Such a matrix, or a whole tensor, is
called a row, as in the merge's plan, and TENSOR is its name. The metadata give the part of the
stored tensor that it is (``MatrixPart``), and the experts that have tensors for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from math import ceil, prod
from pathlib import Path
from typing import Final

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from ace_gui.checkpoints.header import TensorInfo, read_header
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import file_digest, read_json, refusal
from ace_gui.checkpoints.side_files import own_file
from ace_gui.engine.contract.plan import MatrixPart
from ace_gui.errors import CheckpointError
from ace_gui.formatting import plain
from ace_gui.methods.shared.expert_modules import ModuleKind
from ace_gui.output_files import replacing
from ace_gui.stored_formats import is_float

STEM: Final = "modules"
"""Name of both files without their suffixes."""
MODULES: Final = f"{STEM}.safetensors"
MANIFEST: Final = f"{STEM}.json"
SCHEMA: Final = 1
_LIMIT: Final = 1 << 20
"""Most bytes of ``modules.json``."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, kw_only=True)
class ModulesManifest:
    """The content of ``modules.json``."""

    kind: ModuleKind
    """What the modules do."""
    method: str
    """The method that made them."""
    settings: Mapping[str, float | int | bool | str]
    """The method's parameters."""
    experts: tuple[str, ...]
    """Their names, in order."""
    hashes: Mapping[str, str]
    """SHA-256 of each file."""
    base: str | None = None
    """Digest of the base's tensors; None if the modules need no base."""
    schema: int = SCHEMA
    """Version of this layout."""


_MANIFEST_ADAPTER: Final = TypeAdapter(ModulesManifest)


def has_modules(folder: Path) -> bool:
    """Whether a folder is a merged model with modules.

    A single ``modules.json`` may be that of sentence-transformers.
    """
    return (folder / MODULES).is_file() and (folder / MANIFEST).is_file()


def write_manifest(folder: Path, manifest: ModulesManifest) -> None:
    """Write ``modules.json`` in one step. Raises OSError."""
    text = json.dumps(asdict(manifest), indent=1, ensure_ascii=False)
    with replacing(folder / MANIFEST) as fresh:
        fresh.write_text(text, encoding="utf-8")


def read_manifest(folder: Path) -> ModulesManifest:
    """The checked ``modules.json`` of a merged folder. Raises CheckpointError."""
    for name in (MANIFEST, MODULES):
        leads_out = own_file(folder / name, name) is None  # a link to a file elsewhere
        if (folder / name).exists() and leads_out:
            sentence = "This link leads out of the merged folder. Put the file itself there."
            raise refusal(folder / name, sentence)
    content = read_json(folder / MANIFEST, limit=_LIMIT)
    schema = content.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):  # true is equal to 1
        raise _bad_manifest(folder, f"is of schema {schema!r}, which this program does not know")
    try:
        manifest = _MANIFEST_ADAPTER.validate_json(json.dumps(content), strict=True)
    except (ValidationError, ValueError, RecursionError) as error:
        failure = _bad_manifest(folder, "does not describe the modules")
        failure.details = str(error)
        raise failure from None
    names = manifest.experts
    if not all(names) or len(set(names)) < len(names) or MODULES not in manifest.hashes:
        raise _bad_manifest(folder, "does not name the experts of the modules, or lacks a hash")
    return manifest


def require_hashes(folder: Path, manifest: ModulesManifest) -> None:
    """Raise CheckpointError if modules or weights differ from those written together."""
    for name, digest in manifest.hashes.items():
        path = folder / name
        is_plain_name = "/" not in name and "\\" not in name
        is_inside = is_plain_name and path.is_file() and own_file(path, name) is not None
        if not is_inside or file_digest(path) != digest:
            raise refusal(
                folder, f"{plain(name)} is not the file that {MANIFEST} belongs to; merge again."
            )


def _bad_manifest(folder: Path, what: str) -> CheckpointError:
    return refusal(folder / MANIFEST, f"{MANIFEST} {what}; merge again.")


Rows = Mapping[str, Mapping[str, MatrixPart]]
"""Stored tensor → its rows, each with its part."""

_PARTS_ADAPTER: Final = TypeAdapter(dict[str, MatrixPart])
_EXPERTS_ADAPTER: Final = TypeAdapter(dict[str, tuple[str, ...]])
_NAMES_ADAPTER: Final = TypeAdapter(tuple[str, ...] | None)

LAYOUT: Final = "layout"
"""Metadata key: JSON, by row its part of the stored tensor."""

EXPERTS: Final = "experts"
"""Metadata key: JSON, by row the experts that have tensors for it."""

NAMES: Final = "names"
"""Metadata key: JSON, all experts in order. Files of earlier versions lack it."""

TRAINED: Final = "/trained/"
"""Prefix of the names of trained tensors, which belong to no tensor of the model."""

MODEL_ROUTER: Final = ("centre", "scale", "weight", "bias")
"""Names of the trained tensors of a router for the whole model."""

BLOCK_ROUTER: Final = ("hidden", "hidden_bias", "out", "out_bias")
"""Names of the trained tensors of a block's router, within the block."""

MERGED_SHARES: Final = "shared"
"""Name of the trained tensor with each expert's share in the merged blocks."""

CORRECTION: Final = ("down", "up")
"""Names of the trained tensors of a task's correction, within the expert's name."""

MASK: Final = ("mask", "scale")
"""The form that selects from the merged change."""

TRIPLETS: Final = ("u", "s", "vh")
"""The form that replaces the merged change."""

_FORMS: Final = (MASK, TRIPLETS, ("left", "right"), ("index", "values"), ("whole",))
"""The last parts of the names of an expert's tensors for a row, by form."""

_BLOCK: Final = re.compile(r"(.*?\.\d+)\.")
"""A tensor's name up to its first number, which is that of the block."""


def block_of(tensor: str) -> str | None:
    """The block of a tensor by its name, "vit.encoder.layer.3"; None outside of blocks."""
    match = _BLOCK.match(tensor)
    if match is None:
        return None
    return match[1]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The metadata of the file."""

    parts: Mapping[str, MatrixPart]
    """By row: its elements of a stored tensor."""
    experts: Mapping[str, Sequence[str]]
    """By row: the experts with tensors for it."""
    listed_experts: tuple[str, ...] | None = None
    """Every expert, in order, also those without tensors; None if the file does not list them."""

    @property
    def experts_with_tensors(self) -> tuple[str, ...]:
        """The names of the experts in ``experts``, in order."""
        return tuple(dict.fromkeys(chain.from_iterable(self.experts.values())))


def read_layout(folder: Path) -> Layout:
    """The rows that the modules of a merged folder belong to. Raises CheckpointError."""
    metadata = read_header(folder / MODULES).metadata
    try:
        parts = _PARTS_ADAPTER.validate_json(metadata[LAYOUT], strict=True)
        experts = _EXPERTS_ADAPTER.validate_json(metadata[EXPERTS], strict=True)
        names = _NAMES_ADAPTER.validate_json(metadata.get(NAMES, "null"), strict=True)
    except (KeyError, ValueError, ValidationError, RecursionError) as error:
        failure = _damaged(folder, "does not name the rows of its tensors")
        failure.details = str(error)
        raise failure from None
    if parts.keys() != experts.keys():
        raise _damaged(folder, "does not name the experts of its tensors")
    return Layout(parts=parts, experts=experts, listed_experts=names)


def checked_rows(
    folder: Path,
    expert: str,
    layout: Layout,
    merged: Checkpoint,
    modules: Checkpoint,
    trained: Collection[str] = (),
) -> Rows:
    """The rows of one expert, after a check of the tensors of all.

    They are complete and fit the merged model. ``trained``: the names of the trained tensors that
    must exist. Raises CheckpointError if anything in the file is missing, unexpected, or of the
    wrong type.
    """
    expected = {TRAINED + name for name in trained}
    for name in expected:
        info = modules.tensors.get(name)
        if info is None or info.dtype != "F32":
            raise _damaged(folder, f"lacks `{plain(name)}`", name)
    for row, part in layout.parts.items():
        _check_part(folder, row, part, merged)
        for name in layout.experts[row]:
            expected.update(_checked_names(folder, f"{name}/{row}/", part, modules))
    for name in modules.tensors:
        if name not in expected:
            raise _damaged(folder, f"has `{plain(name)}`, which belongs to nothing", name)
    rows: dict[str, dict[str, MatrixPart]] = {}
    for row, part in layout.parts.items():
        if expert in layout.experts[row]:
            rows.setdefault(part.tensor, {})[row] = part
    for parts in rows.values():
        ordered_rows = sorted(parts, key=lambda row: (parts[row].start, parts[row].first))
        for row, next_row in pairwise(ordered_rows):
            if _overlap(parts[row], parts[next_row]):
                raise _damaged(folder, f"has `{plain(next_row)}` over another row", next_row)
    return rows


def _overlap(part: MatrixPart, next_part: MatrixPart) -> bool:
    """Whether two parts of a tensor may share an element; the second one does not start earlier.

    Parts over the same range may take turns: in each ``period`` of elements, one has those with the
    indices ``first`` ≤ index < ``last`` (``MatrixPart``).
    """
    if next_part.start >= part.stop:
        return False
    has_same_range = (next_part.start, next_part.stop) == (part.start, part.stop)
    takes_turns = has_same_range and next_part.period == part.period
    return not takes_turns or next_part.first < part.last


def _check_part(folder: Path, row: str, part: MatrixPart, merged: Checkpoint) -> None:
    """Check that the part lies in a tensor of the merged model that can be changed."""
    info = merged.tensors.get(part.tensor)
    size = prod(part.tensor_shape)
    is_of_tensor = info is not None and info.shape == part.tensor_shape and is_float(info.dtype)
    is_range_inside = 0 <= part.start < part.stop <= size
    is_period_inside = 0 <= part.first < part.last <= part.period
    fits = is_of_tensor and is_range_inside and is_period_inside
    if not fits or (part.stop - part.start) % part.period != 0:
        raise _damaged(folder, f"has `{plain(row)}` at a position that is not in the model", row)


def _checked_names(folder: Path, prefix: str, part: MatrixPart, modules: Checkpoint) -> list[str]:
    """The names of one expert's tensors of a row. Raises CheckpointError unless they fit."""
    suffixes = suffixes_of(prefix, modules)
    infos = {}
    for suffix in suffixes:
        name = prefix + suffix
        info = modules.tensors.get(name)
        if info is None:
            raise _damaged(folder, f"lacks `{plain(name)}`", name)
        infos[suffix] = info
    if not _fits(suffixes, infos, part):
        name = prefix + suffixes[0]
        raise _damaged(folder, f"has `{plain(name)}` in another shape or number format", name)
    return [info.name for info in infos.values()]


def suffixes_of(prefix: str, modules: Checkpoint) -> tuple[str, ...]:
    """The last parts of the names of an expert's tensors for a row, which show their form.

    Those of the first form if the expert has no tensor for the row, and then reported missing.
    """
    for suffixes in _FORMS:
        if any(prefix + suffix in modules.tensors for suffix in suffixes):
            return suffixes
    return _FORMS[0]


def _fits(suffixes: tuple[str, ...], infos: Mapping[str, TensorInfo], part: MatrixPart) -> bool:
    """Whether tensors of these formats and shapes can belong to the part."""
    elements = part.elements
    is_whole_tensor = part.elements == prod(part.tensor_shape)
    dtypes = [infos[suffix].dtype for suffix in suffixes]
    shapes = [infos[suffix].shape for suffix in suffixes]
    match suffixes[0]:
        case "mask":
            return dtypes == ["U8", "F64"] and shapes == [(ceil(elements / 8),), (1,)]
        case "index":
            return dtypes == ["I32", "F32"] and shapes[0] == shapes[1] and len(shapes[0]) == 1
        case "whole":
            expected_shape: tuple[int, ...] = (elements,)
            if is_whole_tensor:
                expected_shape = part.tensor_shape
            return dtypes == ["F32"] and shapes[0] == expected_shape
    # Factors of the matrix that the part is: M × K, for ``TRIPLETS`` also K, and K × N.
    left_shape, *singular_value_shapes, right_shape = shapes
    if set(dtypes) != {"F32"} or len(left_shape) != 2 or len(right_shape) != 2:
        return False
    rank = left_shape[1]
    if right_shape[0] != rank or any(shape != (rank,) for shape in singular_value_shapes):
        return False
    matrix_shape = (left_shape[0], right_shape[1])
    if is_whole_tensor and len(part.tensor_shape) == 2 and matrix_shape != part.tensor_shape:
        return False
    return prod(matrix_shape) == elements


def _damaged(folder: Path, what: str, tensor: str | None = None) -> CheckpointError:
    return refusal(folder, f"{MODULES} {what}; merge again.", tensor=tensor)
