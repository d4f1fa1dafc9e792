"""LoRA adapters (Hu et al. 2021, equation 3) in PEFT's folders: W = W₀ + scale·B·A.

O outputs, I inputs, R rank. A is R × I, B is O × R; of an embedding A is R × rows and B is
columns × R; of a convolution A is R × I × kernel and B is O × R × 1….
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn

from ace_gui.checkpoints.adapters.adapter_config import (
    MERGE_FIRST,
    AdapterSettings,
    read_adapter_config,
)
from ace_gui.checkpoints.folder import (
    ADAPTER_CONFIG,
    INDEX_SUFFIX,
    PICKLED_ADAPTER,
    SUFFIX,
    consent_needed,
)
from ace_gui.checkpoints.header import Header, TensorInfo, read_header
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import FileStamp, open_regular, read_at, refusal, status_of
from ace_gui.checkpoints.quantised import refuse_quantised
from ace_gui.errors import MismatchError
from ace_gui.formatting import listing, plain, short_path
from ace_gui.stored_formats import is_float

ADAPTER_FILE: Final = "adapter_model.safetensors"

_PREFIX: Final = re.compile(r"^base_model\.model\.")
_FACTOR: Final = re.compile(
    r"^(?P<module>.+)\.lora_(?P<embedding>embedding_)?(?P<letter>[AB])"
    r"(?:\.(?P<adapter>(?!(?:weight|bias)$)[^.]+))?(?:\.weight)?$"
)
# PEFT's names of the copy of a module that it trains whole, and of a module that it wraps.
_WRAPPED: Final = re.compile(r"\.(?:modules_to_save(?:\.default)?|base_layer)(?=\.)")
_UNTRAINED: Final = ".original_module."
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class LowRank:
    """The change of one weight: scale·B·A, turned where the weight is stored inputs × outputs.

    ``turned`` is also true of embeddings, whose B·A is columns × rows.
    """

    target: str
    a: TensorInfo
    b: TensorInfo
    scale: float
    turned: bool
    embedding: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the change, as the weight is stored."""
        if self.turned:
            return (self.a.shape[1], self.b.shape[0])
        return (self.b.shape[0], *self.a.shape[1:])


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Rows of a change in a stored tensor: those from ``start`` on, at ``at``, ``rows`` of them."""

    change: LowRank
    at: int
    start: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """An adapter as described by its headers, under the names of its base model.

    ``deltas``: name of a weight → its change. ``full``: tensors that replace the base's
    (``modules_to_save``, trained biases). ``files``: weights and config. ``named_base`` is for
    display only: nothing is looked up by it. ``keeps_ties``: tensors tied in the base stay tied.
    """

    path: Path
    deltas: Mapping[str, LowRank]
    full: Mapping[str, TensorInfo]
    files: tuple[FileStamp, ...]
    named_base: str = ""
    keeps_ties: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every tensor that the adapter changes or brings."""
        return tuple(dict.fromkeys((*self.deltas, *self.full)))

    @property
    def stored(self) -> Checkpoint:
        """The tensors that are in its file: factors, and those that replace the base's."""
        factors = [factor for delta in self.deltas.values() for factor in (delta.a, delta.b)]
        return Checkpoint(
            path=self.path,
            folder=self.path,
            tensors={info.name: info for info in (*factors, *self.full.values())},
            files=self.files,
        )


@dataclass(frozen=True, kw_only=True)
class ExpandedCheckpoint(Checkpoint):
    """A base model with an adapter, which looks like a whole model under the base's names.

    ``deltas`` by the base's names: one change, or several for modules whose rows the base keeps in
    one tensor. Their tensors are float32 (float64 on a float64 base), and are in no file:
    ``reader_of`` computes them one at a time. ``beneath``: tensors of the adapter to which a change
    is added instead of the base's tensor.
    """

    base: Checkpoint
    adapter: Adapter
    deltas: Mapping[str, tuple[Placed, ...]]
    beneath: Mapping[str, TensorInfo]

    @property
    def bytes(self) -> int:
        """Bytes of the adapter's own tensors."""
        return self.adapter.stored.bytes


def is_adapter(path: Path) -> bool:
    """Whether ``path`` is the folder of a PEFT adapter, and not of a whole model besides."""
    folder = Path(path)
    whole = any((folder / name).exists() for name in (f"model{SUFFIX}", f"model{INDEX_SUFFIX}"))
    return not whole and (folder / ADAPTER_CONFIG).is_file()


def open_adapter(folder: Path) -> Adapter:
    """Open a folder with ``adapter_config.json`` and weights; reads headers only.

    Raises PickleConsentError if the weights are a pickle, CheckpointError for everything that
    is not plain LoRA or whose factors do not fit each other.
    """
    folder = Path(folder)
    settings = read_adapter_config(folder / ADAPTER_CONFIG)
    header = _header(folder)
    refuse_quantised({info.name: info for info in header.tensors})
    factors, full = _sorted_tensors(folder, header.tensors)
    deltas = {}
    for (module, embedding), pair in factors.items():
        delta = _low_rank(folder, module, embedding, pair, settings)
        # PEFT may save what its change of an embedding is added to, as that may have been resized.
        beneath = full.get(delta.target)
        replaced = beneath is not None and ".base_layer." not in beneath.name
        if delta.target in deltas or replaced:
            sentence = f"`{plain(delta.target)}` is changed twice. Only one change can be added."
            raise refusal(folder, sentence, tensor=delta.target)
        deltas[delta.target] = delta
    if not deltas:
        raise refusal(folder, "Holds no LoRA factors. Download it again.")
    config = folder / ADAPTER_CONFIG
    return Adapter(
        path=folder,
        deltas=deltas,
        full=full,
        files=(header.stamp, FileStamp.of(config, status_of(config))),
        named_base=settings.named_base,
        keeps_ties=settings.keeps_ties,
        warnings=tuple(
            f"{short_path(folder)}: {warning}" for warning in (*settings.warnings, *_others(folder))
        ),
    )


def _others(folder: Path) -> Iterator[str]:
    """A note about adapters in sub-folders, where PEFT saves all but the default one."""
    found = sorted(path.parent.name for path in folder.glob(f"*/{ADAPTER_CONFIG}"))
    if found:
        yield (
            "The adapter in the folder itself is read, not others in sub-folders: "
            f"{listing(found)}. "
            "Add a sub-folder to merge the adapter in it."
        )


def expand(
    adapter: Adapter,
    base: Checkpoint,
    answers: Mapping[str, str],
    transposed: Collection[str],
    pieces: Mapping[str, Sequence[ModuleRows]] | None = None,
) -> ExpandedCheckpoint:
    """The whole model that ``adapter`` makes of ``base``, without reading a tensor.

    ``answers``: name in the adapter → the base's name of that tensor. ``transposed``: the base's
    tensors that are stored inputs × outputs (Conv1D), known from the module's class; shapes and the
    adapter's ``fan_in_fan_out`` cannot tell. ``pieces``: name in the adapter → the rows of a base
    tensor, for modules without a tensor of their own in the base. Raises MismatchError if a change
    has no tensor in the base, or one of another shape.
    """
    pieces = pieces or {}
    _refuse_unanswered(adapter, {*answers, *pieces}, pieces)
    full = {answers.get(own, own): info for own, info in adapter.full.items()}
    known = {**base.tensors, **full}
    deltas: dict[str, tuple[Placed, ...]] = {}
    for own, delta in adapter.deltas.items():
        for piece in pieces.get(own) or [_whole(known[answers[own]], answers[own])]:
            placed = _placed(adapter, delta, piece, known[piece.tensor], transposed)
            deltas[piece.tensor] = (*deltas.get(piece.tensor, ()), placed)
    made = {name: _described(known[name], name, found) for name, found in deltas.items()}
    return ExpandedCheckpoint(
        path=adapter.path,
        folder=adapter.path,
        tensors={**known, **made},
        files=(*base.files, *adapter.files),
        config=base.config,
        warnings=adapter.warnings,
        base=base,
        adapter=adapter,
        deltas=deltas,
        beneath={name: full[name] for name in deltas if name in full},
    )


@dataclass(frozen=True, kw_only=True)
class ModuleRows:
    """``rows`` rows of ``tensor``, from ``at`` on, are those of a module from ``start`` on."""

    tensor: str
    at: int
    start: int
    rows: int


def _whole(info: TensorInfo, name: str) -> ModuleRows:
    shape = info.shape
    return ModuleRows(tensor=name, at=0, start=0, rows=shape[0] if shape else 1)


def _placed(
    adapter: Adapter,
    delta: LowRank,
    piece: ModuleRows,
    info: TensorInfo,
    transposed: Collection[str],
) -> Placed:
    turned = delta.embedding or (len(delta.a.shape) == 2 and piece.tensor in transposed)
    change = replace(delta, target=piece.tensor, turned=turned)
    whole = (piece.at, piece.start) == (0, 0) and change.shape == info.shape
    fits = piece.start + piece.rows <= change.shape[0] and change.shape[1:] == info.shape[1:]
    of_rows = fits and not turned and piece.rows < max(change.shape[0], info.shape[0])
    if not (whole or of_rows) or not is_float(info.dtype):
        _refuse_other_shape(adapter, info, change)
    return Placed(change=change, at=piece.at, start=piece.start, rows=piece.rows)


def _header(folder: Path) -> Header:
    file = folder / ADAPTER_FILE
    if not os.path.lexists(file) and os.path.lexists(folder / PICKLED_ADAPTER):
        raise consent_needed(folder, f"Holds a PyTorch pickle (`{PICKLED_ADAPTER}`).")
    return read_header(file)


def _sorted_tensors(
    folder: Path, tensors: Iterable[TensorInfo]
) -> tuple[dict[tuple[str, bool], dict[str, TensorInfo]], dict[str, TensorInfo]]:
    """The factors of each module, by letter, and the tensors that are whole.

    PEFT saves a table that may have been resized under up to three names: as it was before, which
    is left out, as it was trained, and a copy of that.
    """
    factors: dict[tuple[str, bool], dict[str, TensorInfo]] = {}
    full: dict[str, TensorInfo] = {}
    adapters: dict[str, str] = {}
    for info in tensors:
        if _UNTRAINED in info.name:
            continue
        name = _WRAPPED.sub("", _PREFIX.sub("", info.name))
        found = _FACTOR.match(name)
        if found is None and ".lora_" in name:
            sentence = f"`{plain(info.name)}` is no part of plain LoRA. {MERGE_FIRST}"
            raise refusal(folder, sentence, tensor=info.name)
        if found is None:
            full[name] = _one_copy(folder, full.get(name, info), info)
            continue
        adapters.setdefault(found["adapter"] or "", info.name)
        if len(adapters) > 1:
            sentence = f"{listing(adapters.values())} are of several adapters. Save one separately."
            raise refusal(folder, sentence, tensor=info.name)
        group = factors.setdefault((found["module"], found["embedding"] is not None), {})
        group[found["letter"]] = info
    return factors, full


def _one_copy(folder: Path, first: TensorInfo, second: TensorInfo) -> TensorInfo:
    """One of two names of a tensor, the trained module's or the wrapped one's before the other."""
    if not same_bytes(first, second):
        sentence = f"{listing([first.name, second.name])} differ. Save the adapter again."
        raise refusal(folder, sentence, tensor=second.name)
    return second if _WRAPPED.search(second.name) else first


def same_bytes(first: TensorInfo, second: TensorInfo) -> bool:
    """Whether two tensors of the files are equal, bit by bit. Raises CheckpointError."""
    if first is second:
        return True
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    with open_regular(first.file) as (one, _), open_regular(second.file) as (other, _):
        for index in range(0, first.nbytes, _BLOCK):
            blocks = [bytearray(min(_BLOCK, first.nbytes - index)) for _ in range(2)]
            read_at(one, memoryview(blocks[0]), first.start + index)
            read_at(other, memoryview(blocks[1]), second.start + index)
            if blocks[0] != blocks[1]:
                return False
    return True


def _low_rank(
    folder: Path,
    module: str,
    embedding: bool,
    pair: Mapping[str, TensorInfo],
    settings: AdapterSettings,
) -> LowRank:
    shown = plain(module)
    if len(pair) < 2:
        (letter,) = pair
        missing = "A" if letter == "B" else "B"
        sentence = f"`{shown}` has {letter} but no {missing}. Download the adapter again."
        raise refusal(folder, sentence, tensor=pair[letter].name)
    a, b = pair["A"], pair["B"]
    sizes = f"`{shown}`: A is {_times(a.shape)}, B is {_times(b.shape)}"
    if min(len(a.shape), len(b.shape)) < 2 or a.shape[0] != b.shape[1]:
        raise refusal(folder, f"{sizes}; ranks differ. Download the adapter again.", tensor=b.name)
    if len(a.shape) != len(b.shape) or set(b.shape[2:]) - {1} or (embedding and len(a.shape) > 2):
        raise refusal(folder, f"{sizes}; they do not fit each other.", tensor=b.name)
    if a.shape[0] != settings.rank_of(module):
        sentence = f"{sizes}; the config gives rank {settings.rank_of(module)}."
        raise refusal(folder, sentence, tensor=a.name)
    if not is_float(a.dtype) or not is_float(b.dtype):
        sentence = f"`{shown}`: A is {a.dtype}, B is {b.dtype}, not floating point. Convert them."
        raise refusal(folder, sentence, tensor=a.name)
    return LowRank(
        target=f"{module}.weight",
        a=a,
        b=b,
        scale=settings.scale_of(module),
        turned=embedding or (settings.fan_in_fan_out and len(a.shape) == 2),
        embedding=embedding,
    )


def _refuse_unanswered(
    adapter: Adapter, known: Collection[str], pieces: Mapping[str, Sequence[ModuleRows]]
) -> None:
    missing = [own for own in adapter.deltas if own not in known]
    if missing:
        raise MismatchError(
            f"{short_path(adapter.path)}: {len(missing)} of the adapter's targets are not in the "
            "base: "
            f"{listing(missing)}. Choose the base that it was trained on; if it is that, its files "
            f"hold them in another layout than the model does. {MERGE_FIRST}",
            path=adapter.path,
            tensor=missing[0],
            details="\n".join(missing),
        )
    partial = [own for own in adapter.full if own in pieces]
    if partial:
        raise MismatchError(
            f"{short_path(adapter.path)}: {listing(partial)} of the adapter is part of a larger "
            "tensor in "
            f"the base's files. {MERGE_FIRST}",
            path=adapter.path,
            tensor=partial[0],
        )


def _refuse_other_shape(adapter: Adapter, info: TensorInfo, delta: LowRank) -> NoReturn:
    raise MismatchError(
        f"{short_path(adapter.path)}: B·A of `{plain(info.name)}` is {_times(delta.shape)}, but "
        "the "
        f"base's is {_times(info.shape)} in {info.dtype}. Choose the base that it was trained on.",
        path=adapter.path,
        tensor=info.name,
        shapes={"base": info.shape, "adapter": delta.shape},
    )


def _described(base: TensorInfo, name: str, deltas: Sequence[Placed]) -> TensorInfo:
    """The tensor that base and changes make together; its bytes are in no file."""
    delta, wide = deltas[0].change, base.dtype == "F64"
    return replace(
        base,
        name=name,
        dtype="F64" if wide else "F32",
        file=delta.b.file,
        start=delta.b.start,
        nbytes=math.prod(base.shape) * (8 if wide else 4),
    )


def _times(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "a scalar"
